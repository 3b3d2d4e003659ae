"""Which method traces a front, chosen from the data, and the pieces of the front it yields."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from mopt.enumerated import Enumeration, ListingMethod
from mopt.errors import Fault, InfeasibleError, InputError, SolverError
from mopt.fractional import Quotient, RatioSweep, ratio_sweep
from mopt.highs import Highs, Settings
from mopt.lattice import lattice_step
from mopt.linear_model import Form, LinearModel, Vector
from mopt.mixed import GenericCheck
from mopt.outline import Method, Outline, Pair, Piece, Wanted
from mopt.parallel import parallel_sweep
from mopt.point import Proof
from mopt.segments import Place, Search
from mopt.session import Answer, Backend, Candidate, Scale, Session, Statistics, UnboundedError
from mopt.sweep import LARGEST_WEIGHTED, Found, Grid, lexicographic, sweep
from mopt.task import Task
from mopt.whole import whole_view

# A step finer than this share of the range is finer than the solver's tolerances.
FINEST = Fraction(1, 10**6)
# Share of a value below which a difference is rounding.
PRECISION = Fraction(1, 10**9)
# Where a ratio varies continuously along the front, it is sampled this finely.
CURVED = Fraction(1, 10**3)

TIGHT: Settings = {"mip_feasibility_tolerance": 1e-9, "primal_feasibility_tolerance": 1e-9}

Choice = Literal["auto", "solver"]
MakeSolver = Callable[[LinearModel, Sequence[Vector]], Backend]


def choose(
    task: Task,
    wanted: Wanted,
    solver: MakeSolver = Highs,
    workers: int | Any = 1,
    options: Settings | None = None,
    *,
    method: Choice = "auto",
    deadline: float = math.inf,
    statistics: Statistics | None = None,
) -> tuple[Session | None, Method]:
    """The method for a task.

    Parameters
    ----------
    solver : callable
        Makes the solver of a model with extra rows.
    workers : int or object with a `map`
        Threads that share the work, where the method can.
    options : mapping, optional
        Solver options of the user's.
    method : "auto" or "solver"
        Whether what can be listed without the solver is.
    deadline : float
        When to stop, as `time.perf_counter` tells it.
    statistics : Statistics, optional
        Where to count the work.
    """
    statistics = statistics or Statistics()
    if method == "auto" and not options:
        if task.enumerate is not None:
            return None, Enumeration(task, wanted, deadline, statistics, workers)
        # A verification brings its own solver: it is to prove the front another way.
        view = whole_view(task.model, task.forms) if solver is Highs and wanted == (None, None) else None
        if view is not None:
            session, other = choose(
                task, wanted, solver, workers, method="solver", deadline=deadline, statistics=statistics
            )
            return session, ListingMethod(task, view, deadline, other, statistics, workers)
    steps = tuple(lattice_step(form, task.model, with_constant=task.fractional) for form in task.forms)
    if task.fractional:
        session = _session(task, _scale_of(task.forms, steps), solver, options, deadline, statistics)
        return session, RatioMethod(task, session, steps, wanted)
    grid, scale = _grid_of_ends(task.forms, steps)
    session = _session(task, scale, solver, options, deadline, statistics)
    continuous = [bool(np.any(form.coefficients[~task.model.integer])) for form in task.forms]
    if all(continuous) and not task.finite:
        assert isinstance(task.check, GenericCheck)
        return session, SegmentMethod(task, session, grid, wanted)
    return session, SweepMethod(task, session, grid, (steps[0], steps[1]), wanted, workers)


def _session(
    task: Task, scale: Scale, solver: MakeSolver, options: Settings | None, deadline: float, statistics: Statistics
) -> Session:
    # Continuous values are found anew once the integers are whole: a MIP solution that leans on tolerances breaks then.
    settings = TIGHT if isinstance(task.check, GenericCheck) and not task.model.integer.all() else {}
    session = Session(
        lambda rows: solver(task.model, rows), task.forms, task.check, scale, {**settings, **(options or {})}
    )
    session.deadline, session.statistics = deadline, statistics
    return session


# -- Points ----------------------------------------------------------------------------------------------------------


class SweepMethod:
    """Finite fronts: both ends, then point by point."""

    def __init__(
        self,
        task: Task,
        session: Session,
        grid: Grid,
        steps: tuple[Fraction | None, Fraction | None],
        wanted: Wanted,
        workers: int | Any,
    ) -> None:
        self._task, self._session, self._grid, self._steps, self._wanted = task, session, grid, steps, wanted
        self._workers = workers
        self._ends: tuple[Found, Found] | None = None

    def outline(self) -> Outline:
        """Find the ends; then, as their range is known, decide how finely to look."""
        self._ends = _ends(self._task, self._session, self._grid)
        first = self._session.scale
        grid, scale, lattice = _grid(self._task, self._steps, self._ends, self._wanted)
        self._grid = grid
        if scale != first:
            self._session.rescale(scale)
            if not all(lattice):
                self._ends = _ends(self._task, self._session, grid)
        given = "" if self._wanted == (None, None) else "; the resolution was given"
        if all(lattice):
            reason = f"the objectives are whole multiples of {float(grid.steps[0]):.6g} and {float(grid.steps[1]):.6g}"
            reason += (
                ", and one weighted solve tells neighbours apart"
                if grid.weight
                else ", too fine for one weighted solve a point"
            )
            exactness = "exact: no nondominated point is missing"
        else:
            reason = "the objectives' coefficients share no step that is coarse enough to tell neighbours apart"
            exactness = (
                "exact at the resolution: every nondominated point has a returned one no worse by more than a step"
            )
        return Outline(
            "weighted sweep" if grid.weight else "two-stage sweep",
            reason + given,
            exactness,
            (grid.steps[0], grid.steps[1]),
            (self._ends[0].candidate, self._ends[1].candidate),
            all(lattice),
        )

    def pieces(self, last: Candidate | None, place: Place | None) -> Iterator[Piece]:
        """The start, all points between the ends, the end."""
        assert self._ends is not None
        start, end = self._ends
        if last is None:
            yield self._piece(start)
        else:
            start = Found(last, start.answer, start.weighted)
        if start.values[1] - end.values[1] < self._grid.skip[1]:
            return
        if self._workers == 1:
            between = sweep(self._session, self._grid, start, end)
        else:
            between = parallel_sweep(self._session, self._grid, start, end, self._workers)
        for found in between:
            yield self._piece(found)
        yield self._piece(end)

    def _piece(self, found: Found) -> Piece:
        how = "one weighted solve" if found.weighted else "two solves, one after the other"
        statement = "nothing is better in the first objective with the second at least as good; and the other way round"
        return Piece(found.candidate, None, _proof(how, found.answer, statement))


# -- Points and segments ---------------------------------------------------------------------------------------------


class SegmentMethod:
    """Fronts along which continuous variables move: points and segments."""

    def __init__(self, task: Task, session: Session, grid: Grid, wanted: Wanted) -> None:
        self._task, self._session, self._grid, self._wanted = task, session, grid, wanted
        self._search: Search | None = None
        self._start: Place | None = None

    def outline(self) -> Outline:
        """Find the ends, roughly for their range and then at the resolution."""
        rough = _ends(self._task, self._session, self._grid)
        grid, scale, _ = _grid(self._task, (None, None), rough, self._wanted)
        self._session.rescale(scale)
        start, end = _ends(self._task, self._session, grid)
        assert isinstance(self._task.check, GenericCheck)
        self._search = Search(self._session, self._task.check, grid, end.candidate)
        first = self._search.lexicographic_slice(start.candidate, (0, 1)) or start.candidate
        self._start = Place(first, True, start.answer)
        return Outline(
            "one-direction search",
            "continuous variables appear in both objectives, so the front has segments",
            "exact at the resolution: segments and points, no choice of integers gets below them by more than a step",
            (grid.steps[0], grid.steps[1]),
            (first, end.candidate),
            False,
        )

    def pieces(self, last: Candidate | None, place: Place | None) -> Iterator[Piece]:
        """Edges and single points, in order."""
        assert self._search is not None
        assert self._start is not None
        for edge, following in self._search.run(place or self._start):
            if edge is None:
                continue
            statement = "no choice of integers has a point below the line through its ends, between them"
            if edge.end is None:
                statement = "no choice of integers has a point that dominates it"
            yield Piece(None, edge, _proof("one weighted solve", edge.answer, statement), following)


# -- Ratios ----------------------------------------------------------------------------------------------------------


class RatioMethod:
    """Fronts with a ratio of two forms."""

    def __init__(self, task: Task, session: Session, steps: tuple[Fraction | None, ...], wanted: Wanted) -> None:
        self._task, self._session, self._steps, self._wanted = task, session, steps, wanted
        self._sweep: RatioSweep | None = None
        self._quotients: tuple[Quotient, Quotient] | None = None
        self._ends: tuple[tuple[Candidate, Answer], tuple[Candidate, Answer]] | None = None

    def outline(self) -> Outline:
        """Find the ends, roughly for their range and then as finely as the sweep looks."""
        tiny = Fraction(1, 10**7)
        rough = self._find_ends(tuple(Quotient(2 * k, 2 * k + 1, self._exact(k), tiny, tiny) for k in (0, 1)))
        values = [[self._task.values(candidate)[k] for candidate, _ in rough] for k in (0, 1)]
        curved = self._curved()
        steps = []
        for k in (0, 1):
            own_range = abs(values[k][1] - values[k][0]) or Fraction(1)
            step = self._wanted[k] or own_range * (CURVED if curved else self._task.finest)
            steps.append(max(step, max(map(abs, values[k])) * PRECISION))
        quotients = tuple(Quotient(2 * k, 2 * k + 1, self._exact(k), steps[k], steps[k] / 100) for k in (0, 1))
        self._ends = self._find_ends(quotients)
        exact = self._exact(1) is not None
        return Outline(
            "ratio sweep" if exact else "stepped ratio sweep",
            "both parts of the second objective are whole multiples of fixed steps: the next better value "
            "is cut off exactly"
            if exact
            else "the second objective's parts share no steps: the sweep goes on a step δ below",
            "exact: no nondominated point is missing"
            if exact and self._exact(0) is not None
            else "exact at the resolution: every nondominated point has a returned one no worse by more than a step",
            (Fraction(0) if self._exact(0) is not None else steps[0], Fraction(0) if exact else steps[1]),
            (self._ends[0][0], self._ends[1][0]),
            exact and self._exact(0) is not None,
        )

    def _find_ends(self, quotients: tuple[Quotient, ...]) -> tuple[tuple[Candidate, Answer], tuple[Candidate, Answer]]:
        self._quotients = (quotients[0], quotients[1])
        self._sweep = RatioSweep(self._session, self._quotients)
        try:
            start = self._sweep.lexicographic((0, 1))
            end = None if start is None else self._sweep.lexicographic((1, 0))
        except UnboundedError:
            raise _unbounded(self._task) from None
        if start is None or end is None:
            raise InfeasibleError(*self._task.why_infeasible())
        for candidate, _ in (start, end):
            for k in (0, 1):
                if candidate.values[2 * k + 1] <= 0:
                    raise InputError(
                        [
                            Fault(
                                "",
                                "solve_epsilon_front",
                                self._task.axes[k].name,
                                float(candidate.values[2 * k + 1]),
                                "its denominator must be positive",
                            )
                        ]
                    )
        self._session.bounded = True
        return start, end

    def _exact(self, k: int) -> Pair | None:
        """The steps of both parts, if both have one and are not too large for the cut's digits."""
        parts = (2 * k, 2 * k + 1)
        first, second = self._steps[parts[0]], self._steps[parts[1]]
        if first is None or second is None:
            return None
        size = 1.0
        for part in parts:
            form, step = self._task.forms[part], float(self._steps[part] or 1)
            largest = np.where(np.isfinite(self._task.model.upper), abs(self._task.model.upper), np.inf)
            used = form.coefficients != 0
            size *= float(np.sum(abs(form.coefficients[used]) * largest[used])) / step + abs(form.constant) / step + 1
        return (first, second) if size <= LARGEST_WEIGHTED else None

    def _curved(self) -> bool:
        continuous = ~self._task.model.integer
        return all(
            any(np.any(self._task.forms[part].coefficients[continuous]) for part in (2 * k, 2 * k + 1)) for k in (0, 1)
        )

    def pieces(self, last: Candidate | None, place: Place | None) -> Iterator[Piece]:
        """The start, all points between the ends, the end."""
        assert self._ends is not None
        assert self._sweep is not None
        assert self._quotients is not None
        (start, answer), (end, end_answer) = self._ends
        statement = "nothing is better in the first objective with the second at least as good; and the other way round"
        if last is None:
            yield Piece(start, None, _proof("Dinkelbach's iteration", answer, statement))
        else:
            start = last
        if self._quotients[1].value(start) <= self._quotients[1].value(end):
            return
        for candidate, found in ratio_sweep(self._sweep, start, end, self._quotients[1]):
            yield Piece(candidate, None, _proof("Dinkelbach's iteration", found, statement))
        yield Piece(end, None, _proof("Dinkelbach's iteration", end_answer, statement))


# -- How finely ------------------------------------------------------------------------------------------------------


def _proof(how: str, answer: Answer, statement: str) -> Proof:
    return Proof(how, answer.bound, answer.gap, dict(answer.settings), statement)


def _ends(task: Task, session: Session, grid: Grid) -> tuple[Found, Found]:
    try:
        start = lexicographic(session, grid, (0, 1))
        if start is None:
            raise InfeasibleError(*task.why_infeasible())
        end = lexicographic(session, grid, (1, 0))
    except UnboundedError:
        raise _unbounded(task) from None
    if end is None:
        raise SolverError("the solver finds no solution where it has just given one")
    session.bounded = True
    return start, end


def _unbounded(task: Task) -> InputError | InfeasibleError:
    highs = Highs(task.model, ())
    if highs.solve(np.zeros(len(task.model.lower)), (), {}).x is None:
        return InfeasibleError(*task.why_infeasible())
    faults = []
    for k, axis in enumerate(task.axes):
        form = task.forms[2 * k if task.fractional else k]
        if highs.solve(form.coefficients, (), {}).x is None:
            faults.append(
                Fault(
                    "",
                    "solve_epsilon_front",
                    axis.name,
                    "unbounded",
                    "an objective needs a best value: give bounds to the variables in it",
                )
            )
    return InputError(faults or "an objective is unbounded")


def _rough_unit(form: Form) -> Fraction:
    """A unit in which a form's largest coefficient is 1000, for want of knowing its range."""
    largest = float(np.max(np.abs(form.coefficients), initial=0.0))
    return Fraction(largest) / 1000 if largest else Fraction(1)


def _grid_of_ends(forms: tuple[Form, ...], steps: tuple[Fraction | None, ...]) -> tuple[Grid, Scale]:
    """Grid and scale for the ends, before the range is known: the lattice where it is coarse, else rough units."""
    chosen, slack, units = [], [], []
    for form, step in zip(forms, steps, strict=True):
        unit = _rough_unit(form)
        on = step is not None and step * 1000 >= unit
        chosen.append(step if on and step is not None else unit / 1000)
        slack.append(chosen[-1] / 2 if on else chosen[-1] / 100)
        units.append(chosen[-1] if on else unit)
    grid = Grid((chosen[0], chosen[1]), (slack[0], slack[1]), (slack[0], slack[1]), None)
    return grid, Scale(tuple(units), tuple(chosen))


def _scale_of(forms: tuple[Form, ...], steps: tuple[Fraction | None, ...]) -> Scale:
    """Lattice units where there are any, else rough ones."""
    units, differences = [], []
    for form, step in zip(forms, steps, strict=True):
        rough = _rough_unit(form)
        units.append(step if step is not None and step * 1000 >= rough else rough)
        differences.append(step if step is not None else rough / 1000)
    return Scale(tuple(units), tuple(differences))


def _grid(
    task: Task, steps: tuple[Fraction | None, Fraction | None], ends: tuple[Found, Found], wanted: Wanted
) -> tuple[Grid, Scale, tuple[bool, bool]]:
    """How finely to look, from what the coefficients allow, what was asked for, and how wide the front is."""
    start, end = ends
    chosen: list[Fraction] = []
    lattice: list[bool] = []
    ranges: list[Fraction] = []
    sizes: list[Fraction] = []
    for k, axis in enumerate(task.axes):
        step, own = steps[k], wanted[k]
        values = (start.values[k], end.values[k])
        span, largest = abs(values[1] - values[0]), max(map(abs, values))
        ranges.append(span)
        sizes.append(largest)
        # Where the ends coincide, any step is coarse against the range, but not one below what is rounding.
        coarse = step is not None and step >= max(span * FINEST, largest * PRECISION)
        if own is None and step is not None and coarse:
            choice = step
        else:
            if own is None:
                low, high = (Fraction(axis.own(value)) for value in values)
                own = task.finest * (abs(high - low) or abs(low) or 1)
            choice = max(axis.internal_step(own, values), largest * PRECISION)
        on = step is not None and choice <= step and coarse
        chosen.append(step if on and step is not None else choice)
        lattice.append(on)
    skip = tuple(step / 2 if on else step for step, on in zip(chosen, lattice, strict=True))
    slack = tuple(
        step / 2 if on else max(step / 100, size * PRECISION)
        for step, on, size in zip(chosen, lattice, sizes, strict=True)
    )
    units = tuple(
        (step if span <= 10**4 * step else max(span / 10**4, step / 100))
        if on
        else max(span / 10**3, step, size / 10**5)
        for step, on, span, size in zip(chosen, lattice, ranges, sizes, strict=True)
    )
    weight = None
    if all(lattice):
        candidate = int(ranges[1] / chosen[1]) + 1
        if candidate * sizes[0] / chosen[0] + sizes[1] / chosen[1] <= LARGEST_WEIGHTED:
            weight = float(candidate)
    differences = tuple(step if on else give for step, give, on in zip(chosen, slack, lattice, strict=True))
    grid = Grid((chosen[0], chosen[1]), (skip[0], skip[1]), (slack[0], slack[1]), weight)
    return grid, Scale(units, differences), (lattice[0], lattice[1])
