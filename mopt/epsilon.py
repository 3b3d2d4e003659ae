"""The ε-constraint driver (step S5): from a problem or a model to its front."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from os import PathLike
from typing import Any, get_args

import numpy as np

from mopt.errors import Fault, InputError, SolverError
from mopt.front import Certificate, ParetoFront
from mopt.front_io import load_front
from mopt.helpers import helpers
from mopt.highs import Highs, known_options
from mopt.listing import TooManyError
from mopt.methods import Choice, MakeSolver, choose
from mopt.outline import Method, Outline, Piece
from mopt.point import Point, Segment
from mopt.problem import Problem
from mopt.progress import Progress
from mopt.segments import Place
from mopt.session import Answer, Candidate, CrashedError, Session, Statistics, StoppedError
from mopt.sweep import Contradiction
from mopt.task import Task, task_of

RESTARTS = 3


def solve_epsilon_front(
    target: Any,
    objectives: tuple[Any, Any] | None = None,
    *,
    resolution: float | tuple[float, float] | None = None,
    time_limit: float | None = None,
    max_points: int | None = None,
    workers: int | Any = 1,
    progress: bool = False,
    callback: Callable[[Point], object] | None = None,
    start: ParetoFront | None = None,
    checkpoint: str | PathLike[str] | None = None,
    resume: str | PathLike[str] | None = None,
    solver_options: Mapping[str, float | int | str | bool] | None = None,
    method: Choice = "auto",
) -> ParetoFront:
    """The exact Pareto front of a problem, of its model, or of any bi-objective Pyomo MILP.

    Parameters
    ----------
    target : Problem or pyomo ConcreteModel
        A model made by `build_model` may carry further constraints. It is left as it was.
    objectives : two of pyo.Objective and Ratio, optional
        For other models; each may be active or not, and its sense counts.
    resolution : float or two floats, optional
        Step in each objective, in its own unit, at which the front is exact. Default: the lattice step of the
        coefficients if it is coarser than 1e-6 of the range, else 1e-6 of the range (elapsed billing: 1e-4).
    time_limit : float, optional
        Seconds. A front cut short has `complete` False and says what is still open.
    max_points : int, optional
        Points (of segments: pieces) after which to stop, likewise.
    workers : int or object with a `map`
        The same front, sooner. Threads share the sweep of a finite front, processes what is listed (see `method`); they
        stay for a minute, for the next front. An object with a map is for threads alone: it must run functions in this
        process. Segments and ratios use one thread.
    progress : bool
        Show a progress bar on stderr.
    callback : callable, optional
        Called with each `Point` once it is proven. If it raises, the run stops and returns what it has.
    start : ParetoFront, optional
        An incomplete front of the same target, to go on from.
    checkpoint : path, optional
        File that the front so far is saved to, every second and at the end, whatever ends the run.
    resume : path, optional
        Such a file, to go on from.
    solver_options : mapping, optional
        HiGHS options by name, on top of mopt's own.
    method : "auto" or "solver"
        Where all choices can be listed within bounds (`reserved`; `elapsed` with one demand; models in whole numbers
        with few rows) "auto" lists them, unless solver options or (but for `elapsed`) a resolution are given.
        "solver": HiGHS.

    Raises
    ------
    InputError
        If the input can't be used; all faults at once.
    InfeasibleError
        If there is no plan; says which limit makes it so, and by how much.
    SolverError
        If the solver contradicts what is known with all settings; its `front` holds what was found before.
    """
    wanted = check_options(resolution, time_limit, max_points, workers, solver_options, method)
    if start is not None and resume is not None:
        raise InputError([Fault("", "solve_epsilon_front", "resume", str(resume), "not together with start")])
    if resume is not None:
        start = load_front(resume)
    if start is not None and start.complete:
        return start
    if method == "auto" and not solver_options:
        elapsed = isinstance(target, Problem) and target.billing == "elapsed"
        helpers(workers, "mopt.sifting" if elapsed else "mopt.team")  # which start while the model is made
    task = task_of(target, objectives)
    run = _Run(task, wanted, time_limit, max_points, callback, start, checkpoint, workers, method, solver_options)
    with Progress(progress) as bar:
        front = run.front(bar)
    object.__setattr__(front, "_source", (target, objectives))
    return front


def check_options(
    resolution: float | tuple[float, float] | None,
    time_limit: float | None,
    max_points: int | None,
    workers: int | Any,
    solver_options: Mapping[str, Any] | None,
    method: str = "auto",
) -> tuple[Fraction | None, Fraction | None]:
    """The resolution of each objective; InputError for options that make no sense."""
    if method not in get_args(Choice):
        allowed = " or ".join(map(repr, get_args(Choice)))
        raise InputError([Fault("", "solve_epsilon_front", "method", method, f"must be {allowed}")])
    _check_workers(workers, solver_options)
    return _wanted(resolution, time_limit, max_points)


def _check_workers(workers: Any, options: Mapping[str, Any] | None) -> None:
    faults = []
    whole = isinstance(workers, int) and not isinstance(workers, bool)
    if (workers < 1) if whole else not hasattr(workers, "map"):
        faults.append(
            Fault("", "solve_epsilon_front", "workers", workers, "must be at least 1, or an object with a map")
        )
    if options is None or isinstance(options, Mapping):
        known = known_options(options or {})
        faults += [
            Fault("", "solve_epsilon_front", f"solver_options[{name}]", value, "HiGHS has no such option or value")
            for name, value in (options or {}).items()
            if not known[name]
        ]
    else:
        faults.append(Fault("", "solve_epsilon_front", "solver_options", options, "must map names to values"))
    if faults:
        raise InputError(faults)


def trace_again(
    task: Task, wanted: tuple[Fraction | None, Fraction | None], solver: MakeSolver, time_limit: float | None
) -> ParetoFront:
    """The front of a task by another solver: what a verification compares with."""
    run = _Run(task, wanted, time_limit, None, None, None, None, solver=solver)
    with Progress(False) as bar:
        return run.front(bar)


def _wanted(
    resolution: float | tuple[float, float] | None, time_limit: float | None, max_points: int | None
) -> tuple[Fraction | None, Fraction | None]:
    """The resolution of each objective; InputError for values that make no sense."""

    def positive(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf

    faults = [
        Fault("", "solve_epsilon_front", name, value, "must be a number greater than 0")
        for name, value in (("time_limit", time_limit), ("max_points", max_points))
        if value is not None and not positive(value)
    ]
    pair = tuple(resolution) if isinstance(resolution, tuple | list) else (resolution, resolution)
    if resolution is not None and not (len(pair) == 2 and all(map(positive, pair))):
        faults.append(
            Fault("", "solve_epsilon_front", "resolution", resolution, "must be one or two numbers greater than 0")
        )
    if faults:
        raise InputError(faults)
    first, second = (None if value is None else Fraction(value) for value in pair)
    return first, second


@dataclass
class _Run:
    """One run: what it has found, and how it ends."""

    task: Task
    wanted: tuple[Fraction | None, Fraction | None]
    time_limit: float | None
    max_points: int | None
    callback: Callable[[Point], object] | None
    start: ParetoFront | None
    checkpoint: str | PathLike[str] | None
    workers: int | Any = 1
    method: Choice = "auto"
    options: Mapping[str, float | int | str | bool] | None = None
    points: list[Point] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    place: Place | None = None
    last: Candidate | None = None
    outline: Outline | None = None
    session: Session | None = None
    statistics: Statistics = field(default_factory=Statistics)
    solver: MakeSolver = Highs
    began: float = field(default_factory=time.perf_counter)
    saved: float = field(default_factory=time.perf_counter)

    def front(self, bar: Progress) -> ParetoFront:
        why = ""
        try:
            try:
                why = self._trace(self._chosen(self.method), bar)
            except TooManyError:  # there is too much to list even for the ends
                why = self._trace(self._chosen("solver"), bar)
        except StoppedError:
            why = f"time limit of {self.time_limit:g} s"
        except KeyboardInterrupt:
            why = "interrupted"
        except CrashedError as error:
            if self.outline is None:
                raise SolverError(str(error)) from error
            why = str(error)
        except SolverError as error:
            error.front = self._assemble(False, str(error))
            raise
        finally:
            if self.checkpoint is not None and why:
                self._assemble(False, why).save(self.checkpoint)
        front = self._assemble(not why, why)
        if self.checkpoint is not None:
            front.save(self.checkpoint)
        return front

    def _chosen(self, method: Choice) -> Method:
        deadline = math.inf if self.time_limit is None else self.began + self.time_limit
        self.session, chosen = choose(
            self.task,
            self.wanted,
            self.solver,
            self.workers,
            self.options,
            method=method,
            deadline=deadline,
            statistics=self.statistics,
        )
        return chosen

    def _trace(self, method: Method, bar: Progress) -> str:
        """Go through the pieces; returns why it stopped early, empty if it is through."""
        for _ in range(RESTARTS):
            try:
                self.outline = method.outline()
                self._recall()
                for piece in method.pieces(self.last, self.place):
                    if self.max_points is not None and self._count() >= self.max_points:
                        return f"point limit of {self.max_points:g}"
                    if stopped := self._record(piece):
                        return stopped
                    bar.show(self._count(), self._share, time.perf_counter() - self.began)
                    if self.checkpoint is not None and time.perf_counter() - self.saved > 1.0:
                        self._assemble(False, "still running").save(self.checkpoint)
                        self.saved = time.perf_counter()
                return ""
            except Contradiction:
                self.statistics.retried.append("a point called nondominated was dominated by a later one")
                self.points, self.segments, self.place, self.last, self.start = [], [], None, None, None
        raise SolverError("the solver keeps calling dominated points optimal, even when better ones are known")

    def _recall(self) -> None:
        """Take over what an earlier run found."""
        if self.start is None or self.outline is None:
            return
        if self.start.points and self.start.points[0].objectives != self.task.own(self.outline.ends[0]):
            raise InputError(
                [
                    Fault(
                        "",
                        "start",
                        "points[0]",
                        self.start.points[0].objectives,
                        f"the first point of this front is {self.task.own(self.outline.ends[0])}",
                    )
                ]
            )
        self.points, self.segments = list(self.start.points), list(self.start.segments)
        if self.points:
            self.last = self.task.candidate(self.points[-1])
            if self.session is not None:
                self.session.known += [self.task.candidate(point) for point in self.points]
        state = self.start.state
        if state:
            self.place = _place_from(state, self.task)

    def _count(self) -> int:
        return len(self.segments) + len(self.points) if self.place is None else len(self.segments) + self._isolated()

    def _isolated(self) -> int:
        ends = {end.objectives for segment in self.segments for end in (segment.start, segment.end)}
        return sum(point.objectives not in ends for point in self.points)

    def _record(self, piece: Piece) -> str:
        """Add a piece; returns why the run must stop, if the callback raised."""
        new: list[Point] = []
        assert piece.proof is not None
        if piece.candidate is not None:
            point = self.task.point(piece.candidate, piece.proof)
            while self.points and self.points[-1].exact and point.exact and self.points[-1].exact[0] >= point.exact[0]:
                self.points.pop()  # equal to the solver, but dominated in exact arithmetic
            if not (
                self.points and self.points[-1].exact and point.exact and self.points[-1].exact[1] <= point.exact[1]
            ):
                self.points.append(point)
                new.append(point)
            self.last = piece.candidate
        if piece.edge is not None:
            new += self._record_edge(piece)
        self.place = piece.place
        self.outline = piece.outline or self.outline
        if self.callback is not None:
            for point in new:
                try:
                    self.callback(point)
                except Exception as error:  # the user's code may raise anything; what was found is kept
                    return f"callback raised {error!r}"
        return ""

    def _record_edge(self, piece: Piece) -> list[Point]:
        assert piece.edge is not None
        assert piece.proof is not None
        edge = piece.edge
        begin = self.task.point(edge.start, piece.proof)
        if edge.end is None:
            return self._append(begin)
        if self.points and edge.start_closed and _touches(self.points[-1], begin):
            begin = self.points[-1] if self.points[-1].plan is None else _as(self.points[-1], begin)
        finish = self.task.point(edge.end, piece.proof)
        new = self._append(begin) if edge.start_closed else []
        if edge.end_closed:
            new += self._append(finish)
        self.segments.append(Segment(begin, finish, edge.start_closed, edge.end_closed, piece.proof))
        return new

    def _append(self, point: Point) -> list[Point]:
        if self.points and self.points[-1].objectives == point.objectives:
            return []
        self.points.append(point)
        return [point]

    def _share(self) -> float:
        """Share of the second objective's range that is done."""
        if self.outline is None or not self.points:
            return 0.0
        first, last = (self.task.own(candidate)[1] for candidate in self.outline.ends)
        here = self.points[-1].objectives[1]
        return 1.0 if first == last else (here - first) / (last - first)

    def _assemble(self, complete: bool, why: str) -> ParetoFront:
        unexplored: tuple[tuple[float, float], ...] = ()
        resolution = (0.0, 0.0)
        if self.outline is not None:
            ends = [self.task.values(candidate) for candidate in self.outline.ends]
            first, second = (
                axis.own_step(step, [values[k] for values in ends]) if step else 0.0
                for k, (axis, step) in enumerate(zip(self.task.axes, self.outline.steps, strict=True))
            )
            resolution = (first, second)
            if not complete:
                here = self.points[-1].objectives[1] if self.points else self.task.own(self.outline.ends[0])[1]
                low, high = sorted((here, self.task.own(self.outline.ends[1])[1]))
                unexplored = ((low, high),)
        statistics, outline = self.statistics, self.outline
        return ParetoFront(
            points=tuple(self.points),
            segments=tuple(self.segments),
            names=(self.task.axes[0].name, self.task.axes[1].name),
            senses=(self.task.axes[0].sense, self.task.axes[1].sense),
            complete=complete,
            certificate=Certificate(
                method="none" if outline is None else outline.method,
                reason="stopped before the ends were known" if outline is None else outline.reason,
                exactness="nothing is proven" if outline is None else outline.exactness,
                solves=statistics.solves,
                resolution=resolution,
                exact=outline is not None and outline.exact,
            ),
            statistics={
                "points": len(self.points),
                "segments": len(self.segments),
                "solves": statistics.solves,
                "seconds": time.perf_counter() - self.began,
                "solver_seconds": statistics.solver_seconds,
                "listing_seconds": statistics.listing_seconds,
                "retried": list(statistics.retried),
                **self.task.statistics,
            },
            unexplored=unexplored,
            why_incomplete=why,
            assumptions=self.task.assumptions,
            time_limit=self.task.period,
            state={} if complete or self.place is None else _state_of(self.place, self.task),
        )


def _touches(point: Point, other: Point) -> bool:
    return point.objectives == other.objectives


def _as(known: Point, fresh: Point) -> Point:
    return fresh if known.objectives == fresh.objectives else known


def _state_of(place: Place, task: Task) -> dict[str, object]:
    """Where a search stands, in terms that a file can hold."""
    return {
        "x": dict(zip(task.model.names, place.at.x.tolist(), strict=True)),
        "closed": place.closed,
        "bound": place.answer.bound,
        "gap": place.answer.gap,
    }


def _place_from(state: Mapping[str, Any], task: Task) -> Place:
    x = np.array([state["x"][name] for name in task.model.names])
    candidate = task.check.again(x)
    if candidate is None:
        raise InputError([Fault("", "start", "state", "x", "breaks constraints of this model")])
    return Place(candidate, bool(state["closed"]), Answer(candidate, float(state["bound"]), float(state["gap"]), {}))
