"""The ε-constraint driver (step S5): from a problem or a model to its front."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from mopt.errors import Fault, InfeasibleError, InputError, SolverError
from mopt.front import Certificate, ParetoFront
from mopt.highs import Highs
from mopt.lattice import lattice_step
from mopt.linear_model import Form
from mopt.point import Point, Proof
from mopt.problem import Problem
from mopt.session import Exact, Scale, Session, StoppedError
from mopt.sweep import LARGEST_WEIGHTED, Contradiction, Found, Grid, lexicographic, nondominated, sweep
from mopt.task import Task, task_of

# A step finer than this share of the range is finer than the solver's tolerances.
FINEST = Fraction(1, 10**6)
RESTARTS = 3


def solve_epsilon_front(
    target: Any,
    objectives: tuple[Any, Any] | None = None,
    *,
    resolution: float | tuple[float, float] | None = None,
    time_limit: float | None = None,
    max_points: int | None = None,
    progress: bool = False,
    callback: Callable[[Point], object] | None = None,
) -> ParetoFront:
    """The exact Pareto front of a problem, of its model, or of any bi-objective Pyomo MILP.

    Parameters
    ----------
    target : Problem or pyomo ConcreteModel
        A model made by `build_model` may carry further constraints.
    objectives : two of pyo.Objective and Ratio, optional
        For other models.
    resolution : float or two floats, optional
        Step in each objective, in its own unit, at which the front is exact. Default: the lattice step of the
        coefficients if it is coarser than 1e-6 of the range, else 1e-6 of the range (elapsed billing: 1e-4).
    time_limit : float, optional
        Seconds; a front cut short has `complete` False and says what is still open.
    max_points : int, optional
        Likewise.
    progress : bool
        Show a progress bar on stderr.
    callback : callable, optional
        Called with each `Point` once it is proven.

    Raises
    ------
    InputError
        If the input can't be used; all faults at once.
    InfeasibleError
        If there is no plan; says which limit makes it so, and by how much.
    SolverError
        If the solver contradicts what is known with all settings.
    """
    task = task_of(target, objectives)
    return _Run(task, _Limits(resolution, time_limit, max_points), progress, callback).front()


@dataclass(frozen=True)
class _Limits:
    resolution: float | tuple[float, float] | None
    time_limit: float | None
    max_points: int | None

    def __post_init__(self) -> None:
        faults = []
        for name in ("time_limit", "max_points"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and value > 0):
                faults.append(Fault("", "solve_epsilon_front", name, value, "must be a number greater than 0"))
        pair = self.resolution if isinstance(self.resolution, tuple) else (self.resolution,)
        if self.resolution is not None and not all(isinstance(v, int | float) and 0 < v < math.inf for v in pair):
            faults.append(Fault("", "solve_epsilon_front", "resolution", self.resolution,
                                "must be one or two numbers greater than 0"))
        if faults:
            raise InputError(faults)


@dataclass
class _Run:
    task: Task
    limits: _Limits
    progress: bool
    callback: Callable[[Point], object] | None
    found: list[Found] = field(default_factory=list)

    def front(self) -> ParetoFront:
        started = time.perf_counter()
        task = self.task
        steps = tuple(lattice_step(form, task.model) for form in task.forms)
        rough = tuple(_rough_unit(form) for form in task.forms)
        first = _grid_of_ends(steps, rough)
        session = Session(lambda rows: Highs(task.model, rows), task.forms, task.check, first[1])
        if self.limits.time_limit is not None:
            session.deadline = started + self.limits.time_limit
        complete, why = False, ""
        ends: tuple[Found, Found] | None = None
        grid = first[0]
        method, reason = "sweep", ""
        try:
            for _ in range(RESTARTS):
                try:
                    ends = self._ends(session, grid)
                    grid, scale, method, reason = self._grid(steps, ends)
                    if scale != session.scale:
                        session.rescale(scale)
                        if grid.weight is None and scale.steps != first[1].steps:
                            ends = self._ends(session, grid)
                    self.found = []
                    complete, why = self._sweep(session, grid, ends)
                    break
                except Contradiction:
                    session.statistics.retried.append("a point called nondominated was dominated by a later one")
            else:
                raise SolverError(f"the solver keeps calling dominated points optimal: {session.statistics.retried[-1]}")
        except StoppedError:
            why = f"time limit of {self.limits.time_limit:g} s"
        except KeyboardInterrupt:
            why = "interrupted"
        return self._assemble(session, grid, ends, complete, why, method, reason, time.perf_counter() - started)

    def _ends(self, session: Session, grid: Grid) -> tuple[Found, Found]:
        start = lexicographic(session, grid, (0, 1))
        if start is None:
            raise InfeasibleError(*self.task.why_infeasible())
        end = lexicographic(session, grid, (1, 0))
        if end is None:
            raise SolverError("the solver finds no solution where it has just given one")
        return start, end

    def _grid(self, steps: tuple[Fraction | None, ...], ends: tuple[Found, Found]) -> tuple[Grid, Scale, str, str]:
        """How finely to look, from what the coefficients allow and how wide the front is."""
        start, end = ends
        ranges = (max(end.values[0] - start.values[0], Fraction(0)), max(start.values[1] - end.values[1], Fraction(0)))
        own = self.limits.resolution
        wanted = own if isinstance(own, tuple) else (own, own)
        chosen: list[Fraction] = []
        lattice: list[bool] = []
        for k in (0, 1):
            step, span = steps[k], ranges[k] or Fraction(1)
            finest = self.task.finest or FINEST
            if wanted[k] is not None:
                chosen.append(self.task.internal_step(k, Fraction(wanted[k]), (start.values, end.values)))
                lattice.append(step is not None and chosen[-1] < step)
                if lattice[-1]:
                    chosen[-1] = step or chosen[-1]
            elif step is not None and step >= span * FINEST:
                chosen.append(step)
                lattice.append(True)
            else:
                own_range = abs(self.task.own(k, end.values[k]) - self.task.own(k, start.values[k])) or 1.0
                chosen.append(self.task.internal_step(k, Fraction(own_range) * finest, (start.values, end.values)))
                lattice.append(False)
        skip = tuple(step / 2 if on else step for step, on in zip(chosen, lattice, strict=True))
        slack = tuple(step / 2 if on else step / 100 for step, on in zip(chosen, lattice, strict=True))
        units = tuple(
            step if on and span <= 10**4 * step else max(span, step) / (10**4 if on else 10**3)
            for step, on, span in zip(chosen, lattice, ranges, strict=True)
        )
        weight = None
        if all(lattice):
            candidate = int(ranges[1] / chosen[1]) + 1
            largest = max(abs(start.values[0]), abs(end.values[0])) / chosen[0]
            if candidate * largest <= LARGEST_WEIGHTED:
                weight = float(candidate)
        if all(lattice):
            reason = f"the objectives' values are multiples of {float(chosen[0]):.6g} and {float(chosen[1]):.6g}"
            reason += ", and one weighted solve tells neighbours apart" if weight else ", too fine for one weighted solve"
        else:
            reason = "the objectives' coefficients share no step that a solver can tell apart" if wanted == (None, None) \
                else "the resolution was given"
        method = "weighted sweep" if weight else "two-stage sweep"
        grid = Grid((chosen[0], chosen[1]), (skip[0], skip[1]), (slack[0], slack[1]), weight)
        return grid, Scale((units[0], units[1]), grid.steps if weight or all(lattice) else grid.slack), method, reason

    def _sweep(self, session: Session, grid: Grid, ends: tuple[Found, Found]) -> tuple[bool, str]:
        start, end = ends
        self._report(start)
        if start.values[1] - end.values[1] < grid.skip[1]:
            return True, ""
        for point in sweep(session, grid, start, end):
            if self.limits.max_points is not None and len(self.found) >= self.limits.max_points:
                return False, f"point limit of {self.limits.max_points}"
            self._report(point)
        if self.limits.max_points is not None and len(self.found) >= self.limits.max_points:
            return False, f"point limit of {self.limits.max_points}"
        self._report(end)
        return True, ""

    def _report(self, found: Found) -> None:
        self.found.append(found)
        if self.callback is not None:
            self.callback(self._point(found))

    def _point(self, found: Found) -> Point:
        values = found.values
        own = (self.task.own(0, values[0]), self.task.own(1, values[1]))
        how = "one weighted solve" if found.weighted else "two solves (lexicographic)"
        proof = Proof(
            how,
            found.answer.bound,
            found.answer.gap,
            dict(found.answer.settings),
            f"no plan has f2 at most this point's and f1 below it; the solver's bound is within {found.answer.gap:.3g} steps",
        )
        return self.task.point(found.candidate, own, proof)

    def _assemble(
        self, session: Session, grid: Grid, ends: tuple[Found, Found] | None, complete: bool, why: str,
        method: str, reason: str, seconds: float,
    ) -> ParetoFront:
        found = nondominated(self.found)
        unexplored: tuple[tuple[float, float], ...] = ()
        if not complete and ends is not None:
            last = found[-1].values[1] if found else ends[0].values[1]
            bounds = sorted((self.task.own(1, last), self.task.own(1, ends[1].values[1])))
            unexplored = ((bounds[0], bounds[1]),)
        statistics = {
            "points": len(found),
            "solves": session.statistics.solves,
            "seconds": seconds,
            "solver_seconds": session.statistics.solver_seconds,
            "retried": list(session.statistics.retried),
            **self.task.statistics,
        }
        resolution = (0.0, 0.0)
        if ends is not None:
            resolution = tuple(  # type: ignore[assignment]
                self.task.own_step(k, grid.steps[k], (ends[0].values, ends[1].values)) for k in (0, 1)
            )
        return ParetoFront(
            points=tuple(self._point(point) for point in found),
            names=self.task.names,
            senses=self.task.senses,
            complete=complete,
            certificate=Certificate(
                method=method, reason=reason, exactness="", solves=session.statistics.solves, resolution=resolution
            ),
            statistics=statistics,
            unexplored=unexplored,
            why_incomplete=why,
            assumptions=self.task.assumptions,
            time_limit=self.task.period,
        )


def _rough_unit(form: Form) -> Fraction:
    """A unit in which a form's largest coefficient is 1000, for want of knowing its range."""
    largest = float(np.max(np.abs(form.coefficients), initial=0.0))
    return Fraction(largest) / 1000 if largest else Fraction(1)


def _grid_of_ends(steps: tuple[Fraction | None, ...], rough: tuple[Fraction, ...]) -> tuple[Grid, Scale]:
    """Grid and scale for the ends, before the range is known: the lattice where it is coarse, else the rough units."""
    chosen, slack, units = [], [], []
    for step, unit in zip(steps, rough, strict=True):
        on = step is not None and step * 1000 >= unit
        chosen.append(step if on and step is not None else unit / 1000)
        slack.append(chosen[-1] / 2 if on else chosen[-1] / 100)
        units.append(chosen[-1] if on else unit)
    grid = Grid((chosen[0], chosen[1]), (slack[0], slack[1]), (slack[0], slack[1]), None)
    return grid, Scale((units[0], units[1]), grid.steps)
