"""Methods that need no solver: enumeration of all choices of units, and of whole programs within bounds."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from mopt.errors import InfeasibleError, SolverError
from mopt.listing import Boxes, Listed
from mopt.outline import Method, Outline, Pair, Piece, Wanted
from mopt.parts import Part
from mopt.point import Proof
from mopt.segments import Place
from mopt.session import Candidate, Statistics, check_time
from mopt.sifting import sifting
from mopt.task import Task
from mopt.team import Team
from mopt.whole import WholeView


class Enumeration:
    """Every choice of units, each with its best times: exact without the solver."""

    def __init__(
        self, task: Task, wanted: Wanted, deadline: float, statistics: Statistics, workers: int | Any = 1
    ) -> None:
        self._task, self._wanted, self._statistics = task, wanted, statistics
        self._sift = sifting(workers, deadline, statistics)
        self._points: list[Candidate] = []
        self._count = 0

    def outline(self) -> Outline:
        """Look at all choices."""
        assert self._task.enumerate is not None
        with self._statistics.listing():
            found, self._count = self._task.enumerate(self._sift)
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
        self,
        task: Task,
        view: WholeView,
        deadline: float,
        other: Method,
        statistics: Statistics,
        workers: int | Any = 1,
    ) -> None:
        self._task, self._view, self._deadline, self._statistics = task, view, deadline, statistics
        self._other, self._swept, self._patience = other, False, 1
        self._workers = workers
        self._proof = Proof("enumeration", None, 0.0, {}, "no choice that costs less is as good")
        self._ends: tuple[Listed, Listed] | None = None
        self._last: Candidate | None = None

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
            self._ends = Boxes(self._view.program, lambda: check_time(self._deadline)).ends
        start, end = map(self._candidate, self._ends)
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
        start, end = self._ends
        if last is None:
            yield self._piece(start)
        else:
            self._last = last
        part = Part.of_front(start.costs if last is None else self._costs(last), end)
        with Team(self._view.program, self._workers, self._deadline, self._statistics) as team:
            team.offer([part])
            yield from self._pieces(part, team)

    def _pieces(self, part: Part, team: Team) -> Iterator[Piece]:
        """All nondominated choices of a part, and of what it is split into."""
        for listed in team.work(part):
            self._patience = 1
            yield self._piece(listed)
        while part.failed:
            yield from self._solved(part)
            for listed in team.work_here(part):
                self._patience = 1
                yield self._piece(listed)
        for smaller in part.parts:
            yield from self._pieces(smaller, team)

    def _solved(self, part: Part) -> Iterator[Piece]:
        """The next points of a part, found by the other method."""
        changed = None
        if not self._swept:
            swept, self._swept = self._other.outline(), True
            changed = dataclasses.replace(
                swept,
                method=f"enumeration by reduced costs, {swept.method}",
                reason=f"whole variables and few rows, where choices are few; {swept.reason}",
            )
        for piece in itertools.islice(self._other.pieces(self._last, None), self._patience):
            assert piece.candidate is not None
            part.search.move(self._costs(piece.candidate))
            if part.search.last[0] > part.end.costs[0]:  # at a resolution, it may go past the end
                part.search.move(part.end.costs)
                yield dataclasses.replace(self._piece(part.end), outline=changed)
                break
            self._last = piece.candidate
            yield dataclasses.replace(piece, outline=changed)
        self._patience *= 2  # where listing fails again and again, it is tried less often

    def _piece(self, listed: Listed) -> Piece:
        self._last = self._candidate(listed)
        return Piece(self._last, None, self._proof)

    def _costs(self, candidate: Candidate) -> tuple[float, float]:
        first, second = (form.at(candidate.x) for form in self._task.forms)
        return self._view.costs((first, second))

    def _candidate(self, listed: Listed) -> Candidate:
        candidate = self._task.check.again(self._view.solution(listed.counts))
        if candidate is None:
            raise SolverError("a choice that was listed breaks a constraint of the model")
        return candidate


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
