"""Methods that need no solver: enumeration of all choices of units, and of whole programs within bounds."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator
from fractions import Fraction

from mopt.errors import InfeasibleError, SolverError
from mopt.listing import Boxes, Listed, Search, TooManyError
from mopt.outline import Method, Outline, Pair, Piece, Wanted
from mopt.point import Proof
from mopt.segments import Place
from mopt.session import Candidate, Statistics, StoppedError
from mopt.task import Task
from mopt.whole import WholeView


class Enumeration:
    """Every choice of units, each with its best times: exact without the solver."""

    def __init__(self, task: Task, wanted: Wanted, deadline: float, statistics: Statistics) -> None:
        self._task, self._wanted, self._deadline, self._statistics = task, wanted, deadline, statistics
        self._points: list[Candidate] = []
        self._count = 0

    def outline(self) -> Outline:
        """Look at all choices."""
        assert self._task.enumerate is not None
        with self._statistics.listing():
            found, self._count = self._task.enumerate(lambda: _check_time(self._deadline))
        if not found:
            raise InfeasibleError(*self._task.why_infeasible())
        points: list[Candidate] = []
        for candidate in sorted(found, key=lambda candidate: candidate.values):
            if not points or candidate.values[1] < points[-1].values[1]:
                points.append(candidate)
        steps = (Fraction(0), Fraction(0))
        if self._wanted != (None, None):
            steps = _wanted_steps(self._task, self._wanted, points)
            points = _thinned(points, steps)
        self._points = points
        return Outline(
            "enumeration",
            f"there are only {self._count:,} choices of units",
            "exact: every choice of units was evaluated, each with its shortest elapsed time",
            steps,
            (points[0], points[-1]),
            self._wanted == (None, None),
        )

    def pieces(self, last: Candidate | None, place: Place | None) -> Iterator[Piece]:
        """All nondominated choices."""
        proof = Proof("enumeration", None, 0.0, {}, f"none of the {self._count:,} choices of units dominates it")
        for candidate in self._points:
            if last is None or candidate.values[1] < last.values[1]:
                yield Piece(candidate, None, proof)


class ListingMethod:
    """Whole programs with few rows: boxes between neighbours, each listed within bounds; exact without the solver.

    Points beyond which there is too much to list are found by another method, the sweep, one at a time.
    """

    def __init__(
        self, task: Task, view: WholeView, deadline: float, other: Method, statistics: Statistics
    ) -> None:
        self._task, self._view, self._statistics = task, view, statistics
        self._other, self._swept = other, False
        self._boxes = Boxes(view.program, lambda: _check_time(deadline))
        self._ends: tuple[Candidate, Candidate] | None = None

    def outline(self) -> Outline:
        """Find both ends.

        Raises
        ------
        TooManyError
            If there is too much to list even for that.
        """
        if not self._view.program.feasible:
            raise InfeasibleError(*self._task.why_infeasible())
        with self._statistics.listing():
            ends = self._boxes.ends
        start, end = (self._candidate(listed) for listed in ends)
        self._ends = start, end
        return Outline(
            "enumeration by reduced costs",
            "whole variables and few rows",
            "exact: between neighbours, every choice within the bounds was listed",
            (Fraction(0), Fraction(0)),
            (start, end),
            True,
        )

    def pieces(self, last: Candidate | None, place: Place | None) -> Iterator[Piece]:
        """All nondominated choices."""
        assert self._ends is not None
        proof = Proof("enumeration", None, 0.0, {}, "no choice that costs less is as good")
        if last is None:
            last = self._ends[0]
            yield Piece(last, None, proof)
        search = Search(self._boxes, self._costs(last), self._costs(self._ends[1]))
        patience = 1
        while not search.over:
            try:
                with self._statistics.listing():
                    found = search.step()
            except TooManyError:
                for piece in itertools.islice(self._solved(last), patience):
                    assert piece.candidate is not None
                    last = piece.candidate
                    search.move(self._costs(last))
                    yield piece
                patience *= 2  # where listing fails again and again, it is tried less often
                continue
            patience = 1 if found else patience
            for listed in found:
                last = self._candidate(listed)
                yield Piece(last, None, proof)

    def _solved(self, last: Candidate) -> Iterator[Piece]:
        """The next points, found by the other method."""
        changed = None
        if not self._swept:
            swept, self._swept = self._other.outline(), True
            changed = dataclasses.replace(
                swept,
                method=f"enumeration by reduced costs, {swept.method}",
                reason=f"whole variables and few rows, where choices are few; {swept.reason}",
            )
        for piece in self._other.pieces(last, None):
            yield dataclasses.replace(piece, outline=changed)

    def _costs(self, candidate: Candidate) -> tuple[float, float]:
        first, second = (form.at(candidate.x) for form in self._task.forms)
        return self._view.costs((first, second))

    def _candidate(self, listed: Listed) -> Candidate:
        candidate = self._task.check.again(self._view.solution(listed.counts))
        if candidate is None:
            raise SolverError("a choice that was listed breaks a constraint of the model")
        return candidate


def _check_time(deadline: float) -> None:
    if time.perf_counter() > deadline:
        raise StoppedError


def _thinned(points: list[Candidate], steps: Pair) -> list[Candidate]:
    """What a sweep with these steps returns: after each point, the next that is a step better, and both ends."""
    kept = [points[0]]
    for candidate in points[1:-1]:
        if (
            candidate.values[1] <= kept[-1].values[1] - steps[1]
            and candidate.values[0] >= kept[-1].values[0] + steps[0]
        ):
            kept.append(candidate)
    return kept if len(points) == 1 else [*kept, points[-1]]


def _wanted_steps(task: Task, wanted: Wanted, points: list[Candidate]) -> Pair:
    found = []
    for k in (0, 1):
        step, values = wanted[k], [points[0].values[k], points[-1].values[k]]
        found.append(Fraction(0) if step is None else task.axes[k].internal_step(step, values))
    return found[0], found[1]
