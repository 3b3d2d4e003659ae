"""Fronts with continuous variables: points and segments, by a one-direction search.

The search walks from the best first objective to the best second one. From a nondominated point with integers x_I it
goes to the next vertex of the slice (the model with x_I fixed, a linear program whose own front is convex), and asks by
one MIP whether any choice of integers gets below that edge. If none does, the edge is a segment of the front; if some
does, the edge is cut where that choice first dominates it, and asked again. Exact up to the resolution for every
bi-objective mixed-integer linear program. Source: Fattahi and Türkay, European Journal of Operational Research 266
(2018).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from mopt.errors import SolverError
from mopt.mixed import GenericCheck
from mopt.session import Answer, Bound, Candidate, Line, Session, Weights
from mopt.sweep import Grid, lexicographic

# Slices tried at one place before the search gives up: each is steeper than the last, so it never gets there.
_MOST_SWITCHES = 200
# Differences in weighted worth, in units of the grid's slack, that the solver can't be trusted with.
_GAIN = 1.0


@dataclass(frozen=True)
class Edge:
    """A straight piece of the front, or a single point (`end` None); ends closed or open."""

    start: Candidate
    end: Candidate | None
    start_closed: bool
    end_closed: bool
    answer: Answer


@dataclass(frozen=True)
class Place:
    """Where the search stands: a solution, and whether it belongs to the front itself or is only approached."""

    at: Candidate
    closed: bool
    answer: Answer


class Search:
    """The one-direction search between two lexicographic ends.

    Parameters
    ----------
    session : Session
    check : GenericCheck
        Holds the slice's linear programs.
    grid : Grid
        `steps` is the resolution.
    end : Candidate
        The best second objective.
    """

    def __init__(self, session: Session, check: GenericCheck, grid: Grid, end: Candidate) -> None:
        self._session, self._check, self._grid, self._end = session, check, grid, end
        # What counts as equal, and how far bounds give way: below the resolution, above the solver's own tolerances.
        self._close = (grid.slack[0] * 2, grid.slack[1] * 2)
        self._hair = (grid.slack[0] / 10, grid.slack[1] / 10)
        # A vertex of a slice gives way by no more than the linear programs' own rounding, if they allow that.
        self._rounding = (grid.slack[0] / 1000, grid.slack[1] / 1000)

    def run(self, place: Place) -> Iterator[tuple[Edge | None, Place | None]]:
        """Pieces of the front from `place` on, each with the place to go on from (None at the end)."""
        switches = 0
        while True:
            piece, following = self._advance(place)
            if piece is None:
                switches += 1
                if switches > _MOST_SWITCHES:
                    raise SolverError("no progress along the front: the slices at one point keep replacing each other")
            else:
                switches = 0
            if piece is not None or following is None:
                yield piece, following
            if following is None:
                return
            place = following

    # -- One step ----------------------------------------------------------------------------------------------------

    def _advance(self, place: Place) -> tuple[Edge | None, Place | None]:
        p = place.at
        if self._same(p.values[1], self._end.values[1], 1):
            return self._single(place), None
        e = self._next_vertex(p)
        if e is None:
            return self._jump(place)
        return self._along(place, e)

    def _along(self, place: Place, e: Candidate) -> tuple[Edge | None, Place | None]:
        """The edge from the place to e as far as it is on the front, and where the front goes on."""
        p, target = place.at, e
        weights = self._normal(p, e)
        # Where the place itself is dominated, what dominates it lies just above the edge.
        top = p.values[1] + self._hair[1] if place.closed else p.values[1] - self._close[1]
        limit = e.values[0] + self._hair[0]
        other: Candidate | None = None
        for _ in range(_MOST_SWITCHES):
            below, answer = self._below(weights, p, (limit, top))
            if below is None:
                break
            other = self._first_below(weights, p, below, top)
            if self._same(other.values[0], p.values[0], 0):
                return self._take_over(place, other)
            target = self._on_edge(p, e, other.values[0])
            limit = target.values[0] - self._close[0]  # the other choice itself lies just right of it
        else:
            raise SolverError("an edge of the front is cut without end")
        if other is None:
            return Edge(p, e, place.closed, True, answer), Place(e, True, answer)
        if self._same(other.values[1], target.values[1], 1):  # the two slices cross
            return Edge(p, target, place.closed, True, answer), Place(other, False, answer)
        landing = self._lowest_at(target.values[0])
        return Edge(p, target, place.closed, False, answer), Place(landing.candidate, True, landing)

    def _take_over(self, place: Place, other: Candidate) -> tuple[Edge | None, Place | None]:
        """Another choice is lower from this place on."""
        if self._same(other.values[1], place.at.values[1], 1):
            return None, Place(other, place.closed, place.answer)
        landing = self._lowest_at(max(other.values[0], place.at.values[0]))
        return None, Place(landing.candidate, True, landing)

    def _jump(self, place: Place) -> tuple[Edge | None, Place | None]:
        """The slice ends here: the best choice below, and where its slice begins."""
        p = place.at
        found = lexicographic(self._session, self._grid, (0, 1), p.values[1] - self._grid.steps[1])
        if found is None:
            raise SolverError("the solver finds no solution within the range of the ends")
        # The bound lies a step below p; the slice found there may reach up to p's height.
        start = self.lexicographic_slice(found.candidate, (0, 1), (None, p.values[1])) or found.candidate
        closed = not self._same(start.values[1], p.values[1], 1)
        return self._single(place), Place(start, closed, found.answer)

    def _single(self, place: Place) -> Edge | None:
        return Edge(place.at, None, True, True, place.answer) if place.closed else None

    # -- Questions to the solver -------------------------------------------------------------------------------------

    def _next_vertex(self, p: Candidate) -> Candidate | None:
        """The next vertex of p's slice with a smaller second objective; None at the slice's end.

        The slice's front is convex: the line from p to a later vertex is an edge, or has a vertex below it.
        """
        e = self.lexicographic_slice(p, (1, 0))
        if e is None or self._same(e.values[1], p.values[1], 1):
            return None
        while True:
            weights = self._normal(p, e)
            lower = self._slice(p, weights)
            if lower is None or self._gain(weights, e, lower) <= _GAIN:
                return e
            if not (p.values[1] > lower.values[1] > e.values[1]) or self._same(lower.values[1], p.values[1], 1):
                return e
            e = lower

    def _below(
        self, weights: Weights, p: Candidate, upper: tuple[Fraction, Fraction]
    ) -> tuple[Candidate | None, Answer]:
        """A solution below the line through p, in a box; None if the answer proves that there is none."""
        answer = self._session.minimize(weights, upper, tolerance=_GAIN)
        if answer is None:
            raise SolverError("the solver finds no solution where one is known")
        below = self._gain(weights, p, answer.candidate) > 2 * _GAIN
        return (answer.candidate if below else None), answer

    def _first_below(self, weights: Weights, p: Candidate, below: Candidate, top: Fraction) -> Candidate:
        """The first point, by the first objective, at which the slice of `below` is on or under the line through p."""
        line = (weights, self._session.worth(weights, p))
        first = self._slice(below, (1.0, 0.0), (None, top), line) or below
        for room in (self._rounding[0], self._hair[0]):
            lowest = self._slice(below, (0.0, 1.0), (max(first.values[0], p.values[0]) + room, None))
            if lowest is not None:
                return lowest
        return first

    def _lowest_at(self, first: Fraction) -> Answer:
        """The best second objective of all choices with the first objective at most a value, then the best first."""
        answer = self._session.minimize((0.0, 1.0), (first + self._hair[0], None))
        if answer is None:
            raise SolverError("the solver finds no solution where one is known")
        refined = self.lexicographic_slice(answer.candidate, (0, 1))
        if refined is None or refined.values[0] < first - self._close[0]:  # the slice begins further left
            height = answer.candidate.values[1] + self._hair[1]
            refined = self.lexicographic_slice(answer.candidate, (0, 1), (None, height))
        return answer if refined is None else replace(answer, candidate=refined)

    def lexicographic_slice(
        self, x: Candidate, order: tuple[int, int], upper: tuple[Bound, Bound] = (None, None)
    ) -> Candidate | None:
        """The slice's best in objective order[0], then in order[1]."""
        first = (1.0, 0.0) if order[0] == 0 else (0.0, 1.0)
        best = self._slice(x, first, upper)
        if best is None:
            return None
        for room in (self._rounding, self._hair):
            limits = list(upper)
            limits[order[0]] = best.values[order[0]] + room[order[0]]
            if found := self._slice(x, (first[1], first[0]), (limits[0], limits[1])):
                return found
        return best

    def _slice(
        self,
        x: Candidate,
        weights: Weights,
        upper: tuple[Bound, Bound] = (None, None),
        line: Line | None = None,
    ) -> Candidate | None:
        """The best point of a solution's slice under bounds and, if given, below a line; None if there is none."""
        assert self._check.slice is not None
        cost, limits = self._session.in_units(weights, upper)
        extra = [] if line is None else [self._session.line_in_units(line)]
        outcome = self._check.slice.solve(x.x, cost, limits, extra)
        return self._check.slice_candidate(x.x, outcome)

    # -- Geometry, in steps ------------------------------------------------------------------------------------------

    def _same(self, first: Fraction, second: Fraction, k: int) -> bool:
        return abs(first - second) <= self._close[k]

    def _gain(self, weights: Weights, above: Candidate, below: Candidate) -> float:
        return float(self._session.worth(weights, above) - self._session.worth(weights, below))

    def _normal(self, p: Candidate, e: Candidate) -> Weights:
        """Weights for which p and e are worth the same, the larger one 1."""
        s1, s2 = self._session.scale.steps
        right, down = float((e.values[0] - p.values[0]) / s1), float((p.values[1] - e.values[1]) / s2)
        largest = max(right, down)
        return max(down, 0.0) / largest, max(right, 0.0) / largest

    def _on_edge(self, p: Candidate, e: Candidate, first: Fraction) -> Candidate:
        """The point of the edge with a given first objective."""
        share = float((first - p.values[0]) / (e.values[0] - p.values[0]))
        share = min(max(share, 0.0), 1.0)
        return self._check.candidate(p.x + share * (e.x - p.x))
