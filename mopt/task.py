"""What a driver is asked to do: a compiled model, how a solver's answer is checked, and how a point is read from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from mopt.collector import collector_paused
from mopt.compile import compile_model
from mopt.enumeration import MOST_CHOICES, Sieve, Sift, choices, nondominated_choices
from mopt.errors import Fault, InfeasibleError, InputError, SolverError
from mopt.exchange import exchanged
from mopt.formulation import build_covering, formulated
from mopt.highs import Highs, Status
from mopt.linear_model import Form, LinearModel, Objective, Vector
from mopt.mixed import GenericCheck
from mopt.plan import Choice, Evaluator, Worth, decimal
from mopt.point import Plan, Point, Proof
from mopt.problem import Problem
from mopt.reading import ModelReader
from mopt.reduction import reduced
from mopt.session import Candidate, Check
from mopt.shortfall import why_infeasible

ONE = Fraction(1)


@dataclass(frozen=True)
class Axis:
    """An objective as the driver sees it.

    Attributes
    ----------
    sense : int
        1 for minimise, -1 for maximise.
    constant : Fraction or None
        The numerator of a ratio whose numerator is a number: its internal value is then ±the denominator. None for a
        linear objective and for a ratio of two forms.
    """

    name: str
    sense: int
    constant: Fraction | None = None

    def own(self, value: Fraction) -> float:
        """The objective's own value from its internal one, which is minimised."""
        return self.sense * float(value) if self.constant is None else float(self.constant / (self.flip * value))

    @property
    def flip(self) -> int:
        """constant/D falls with D if the constant is positive: to maximise is to minimise D."""
        assert self.constant is not None
        return -self.sense if self.constant > 0 else self.sense

    def internal_step(self, step: Fraction, values: Sequence[Fraction]) -> Fraction:
        """A step of the internal value that changes the own value by at most `step` anywhere between two values."""
        if self.constant is None:
            return step
        least = min(abs(value) for value in values)
        # constant/D changes fastest at the smallest D.
        return step * least * least / (abs(self.constant) + step * least)

    def own_step(self, step: Fraction, values: Sequence[Fraction]) -> float:
        """The largest change of the own value by a step of the internal one between two values."""
        if self.constant is None:
            return float(step)
        least = min(abs(value) for value in values)
        return float(abs(self.constant) * step / (least * (least + step)))


@dataclass(frozen=True)
class Task:
    """What the driver needs to know.

    Attributes
    ----------
    forms : tuple of Form
        Two, the objectives, minimised; or four where an objective is a ratio of two forms: numerators (minimised) and
        denominators in turn, the denominator of a linear objective being 1.
    enumerate : callable, optional
        All nondominated candidates, where there are few enough choices to look at them all; it is given what looks at
        all choices of some types, which may raise to stop.
    plan : callable, optional
        The plan of a candidate with these objectives, or what works it out when it is wanted.
    finite : bool
        Whether the front is finite although continuous variables appear in the objectives.
    finest : Fraction
        Default resolution, as a share of the range.
    """

    model: LinearModel
    axes: tuple[Axis, Axis]
    forms: tuple[Form, ...]
    check: Check
    why_infeasible: Callable[[], tuple[str, str]]
    plan: Callable[[Candidate, tuple[float, float]], Plan | Callable[[], Plan]] | None = None
    enumerate: Callable[[Sift], tuple[list[Candidate], int]] | None = None
    finite: bool = False
    finest: Fraction = Fraction(1, 10**6)
    assumptions: tuple[str, ...] = ()
    period: float | None = None
    statistics: Mapping[str, object] = field(default_factory=dict)

    @property
    def fractional(self) -> bool:
        """Whether an objective is a ratio of two forms."""
        return len(self.forms) == 4

    def values(self, candidate: Candidate) -> tuple[Fraction, Fraction]:
        """Both objectives' internal values: what is minimised."""
        if not self.fractional:
            return candidate.values[0], candidate.values[1]
        n1, d1, n2, d2 = candidate.values
        return n1 / d1, n2 / d2

    def own(self, candidate: Candidate) -> tuple[float, float]:
        """Both objectives' own values."""
        first, second = self.values(candidate)
        return self.axes[0].own(first), self.axes[1].own(second)

    def point(self, candidate: Candidate, proof: Proof) -> Point:
        """A point of the front."""
        own = self.own(candidate)
        if self.fractional:
            denominators = (float(candidate.values[1]), float(candidate.values[3]))
        else:
            first, second = (
                1.0 if axis.constant is None else float(axis.flip * value)
                for axis, value in zip(self.axes, candidate.values, strict=True)
            )
            denominators = (first, second)
        variables = dict(self.model.fixed)
        variables.update(zip(self.model.names, candidate.x.tolist(), strict=True))
        plan: Any = None if self.plan is None else self.plan(candidate, own)
        return Point(
            objectives=own,
            variables=variables,
            exact=self.values(candidate),
            proof=proof,
            plan=plan,
            denominators=denominators,
        )

    def candidate(self, point: Point) -> Candidate:
        """The solution behind a point; InputError if it is none of this model."""
        missing = [name for name in self.model.names if name not in point.variables]
        if missing:
            raise InputError([Fault("", "start", "variables", missing[0], "the front is of another model")])
        x = np.array([point.variables[name] for name in self.model.names])
        candidate = self.check.again(x)
        if candidate is None:
            raise InputError([Fault("", "start", "point", point.objectives, "breaks constraints of this model")])
        return candidate


def task_of(target: Any, objectives: tuple[Any, Any] | None) -> Task:
    """The task for a problem, a problem's model, or any model with two objectives."""
    if isinstance(target, Problem):
        if objectives is not None:
            raise InputError([Fault("", "solve_epsilon_front", "objectives", objectives, "a Problem has its own")])
        return _of_problem(target)
    if not hasattr(target, "component_data_objects"):
        raise InputError([Fault("", "solve_epsilon_front", "target", target, "a mopt.Problem or a Pyomo model")])
    return _of_model(target, objectives)


@dataclass(frozen=True, eq=False)
class _Judged(Candidate):
    """A candidate of a problem's own model, with what it was worked out from."""

    choice: Choice
    worth: Worth


class _ProblemCheck:
    """Candidates of a problem's own model, worked out from the problem's data alone."""

    def __init__(self, evaluator: Evaluator, choice_of: Callable[[Vector], Choice], work: Fraction) -> None:
        self._evaluator, self._choice_of, self._work = evaluator, choice_of, work

    def rescale(self, rows: tuple[Vector, ...]) -> None:
        """Units don't matter here."""

    def __call__(
        self, x: Vector, cost: Vector, upper: Sequence[float], lines: Sequence[tuple[Vector, float]]
    ) -> Candidate | None:
        return self.again(x)

    def fork(self) -> _ProblemCheck:
        """Itself: it keeps nothing."""
        return self

    def again(self, x: Vector) -> Candidate | None:
        """The candidate of a solution, without asking the solver."""
        choice = self._choice_of(x)
        worth = self._evaluator.worth(choice)
        return None if worth is None else _Judged(x, (worth.cost, worth.rented / self._work), choice, worth)


@collector_paused()
def _of_problem(problem: Problem) -> Task:
    smaller, _ = reduced(problem)
    most = None
    if problem.billing == "reserved" and problem.utilization == "compute":
        smaller, most = exchanged(smaller)
    statistics = {
        "resources": len(smaller.unit_limits),
        "replaced": len(problem.unit_limits) - len(smaller.unit_limits),
        "rejected": len(problem.rejected),
    }
    if problem.billing == "per_use" or problem.utilization != "compute":
        model = formulated(smaller)
        return _model_task(model, (model.cost, model.utilization), smaller, original=problem, statistics=statistics)
    model = build_covering(smaller, most) if problem.billing == "reserved" else formulated(smaller)
    peaks = smaller.peaks
    linear, column = compile_model(model, (model.cost, model.utilization))
    evaluator = Evaluator(smaller, peaks)
    dedicated = {pair: column[id(model.dedicated[pair])] for pair in model.PAIRS if id(model.dedicated[pair]) in column}
    pair_of = {k: pair for pair, k in dedicated.items()}
    chosen = {}
    if problem.billing == "elapsed":
        chosen = {launches: column[id(model._chosen[launches])] for launches in model._LAUNCHES}
    launches_at = {k: launches for launches, k in chosen.items()}
    work = sum(
        (decimal(d.workload.flops_per_sample) * decimal(d.samples) for d in problem.demand_by_name.values()),
        Fraction(0),
    )

    def choice_of(x: Vector) -> Choice:
        units, counts = {}, {}
        used = np.flatnonzero(abs(x) > 0.5)
        for k, value in zip(used.tolist(), x[used].tolist(), strict=True):
            if k in pair_of:
                units[pair_of[k]] = round(value)
            elif k in launches_at:
                i, r, c = launches_at[k]
                counts[i, r] = c
        return Choice(units, counts)

    def plan(candidate: Candidate, own: tuple[float, float]) -> Callable[[], Plan]:
        assert isinstance(candidate, _Judged)
        return partial(evaluator.plan, candidate.choice, candidate.worth, own[1])

    check = _ProblemCheck(evaluator, choice_of, work)
    count = choices(smaller)

    def enumerated(sift: Sift) -> tuple[list[Candidate], int]:
        found = []
        for choice in nondominated_choices(smaller, peaks, sift):
            x = np.zeros(len(linear.lower))
            for pair, n in choice.dedicated.items():
                x[dedicated[pair]] = n
                x[chosen[(*pair, choice.counts[pair])]] = 1
            found.append(check.again(x))
        return [candidate for candidate in found if candidate is not None], count or 0

    cost, utilization = linear.objectives
    return Task(
        model=linear,
        axes=(Axis("cost", 1), Axis("utilization", -1, ONE)),
        forms=(cost.numerator, utilization.denominator or cost.numerator),
        check=check,
        plan=plan,
        enumerate=enumerated if count is not None and count <= MOST_CHOICES else None,
        finite=True,
        finest=Fraction(1, 10**4 if problem.billing == "elapsed" else 10**6),
        why_infeasible=lambda: why_infeasible(problem, has_plan, least_cost),
        assumptions=problem.assumptions,
        period=problem.time_limit,
        statistics=statistics,
    )


def _of_model(model: Any, objectives: tuple[Any, Any] | None) -> Task:
    problem = getattr(model, "_mopt_problem", None)
    if objectives is None:
        if problem is None:
            raise InputError(
                [
                    Fault(
                        "",
                        "solve_epsilon_front",
                        "objectives",
                        None,
                        "two of pyo.Objective and mopt.Ratio, as this model is not a Problem's",
                    )
                ]
            )
        return _model_task(model, (model.cost, model.utilization), problem)
    if not isinstance(objectives, tuple | list) or len(objectives) != 2:
        raise InputError([Fault("", "solve_epsilon_front", "objectives", objectives, "a pair of objectives")])
    return _model_task(model, (objectives[0], objectives[1]), None)


def _model_task(
    model: Any,
    objectives: tuple[Any, Any],
    problem: Problem | None,
    original: Problem | None = None,
    statistics: Mapping[str, object] | None = None,
) -> Task:
    linear, column = compile_model(model, objectives)
    fractional = any(_is_fractional(objective) for objective in linear.objectives)
    axes, forms = [], []
    for objective in linear.objectives:
        axis, numerator, denominator = _axis(objective, fractional)
        axes.append(axis)
        forms += [numerator, denominator] if fractional else [numerator]
    if problem is not None:
        axes = [Axis("cost", 1), Axis("utilization", -1, axes[1].constant)]
    check = GenericCheck(linear, tuple(forms))
    reader = None if problem is None else ModelReader(problem, model, column, own_units=original is not None)
    told = original or problem
    return Task(
        model=linear,
        axes=(axes[0], axes[1]),
        forms=tuple(forms),
        check=check,
        plan=None if reader is None else reader.plan,
        finite=problem is not None and problem.billing == "elapsed",
        finest=Fraction(1, 10**4) if problem is not None and problem.billing == "elapsed" else Fraction(1, 10**6),
        why_infeasible=lambda: (
            ("no solution satisfies the model's constraints", "model")
            if original is None
            else why_infeasible(original, has_plan, least_cost)
        ),
        assumptions=() if told is None else told.assumptions,
        period=None if problem is None else problem.time_limit,
        statistics=statistics or {},
    )


def _is_fractional(objective: Objective) -> bool:
    return objective.denominator is not None and not (objective.numerator.is_constant and objective.numerator.constant)


def _axis(objective: Objective, fractional: bool) -> tuple[Axis, Form, Form]:
    """An objective's axis, and the forms of its internal value (denominator 1 unless both are forms)."""
    one = Form(np.zeros_like(objective.numerator.coefficients), 1.0)
    if objective.denominator is None:
        return Axis(objective.name, objective.sense), objective.numerator.scaled(objective.sense), one
    if fractional:
        return Axis(objective.name, objective.sense), objective.numerator.scaled(objective.sense), objective.denominator
    axis = Axis(objective.name, objective.sense, Fraction(objective.numerator.constant))
    return axis, objective.denominator.scaled(axis.flip), one


def has_plan(problem: Problem) -> bool:
    """Whether a problem has any plan, whatever its budget."""
    try:
        smaller, _ = reduced(replace(problem, budget=None))
        # Given the whole period, elapsed billing can do what reserved can.
        model = build_covering(smaller) if problem.billing != "per_use" else formulated(smaller)
        linear, _ = compile_model(model, (model.cost, model.cost))
    except InfeasibleError:
        return False
    return Highs(linear, ()).solve(np.zeros(len(linear.lower)), (), {}).status is Status.OPTIMAL


def least_cost(problem: Problem) -> float:
    """The cost of the cheapest plan in $ per period, to four digits, whatever the budget, of a problem with plans."""
    task = _of_problem(replace(problem, budget=None))
    if task.enumerate is not None:
        return float(min(task.values(candidate)[0] for candidate in task.enumerate(Sieve.sift)[0]))
    outcome = Highs(task.model, ()).solve(task.forms[0].coefficients, (), {"mip_rel_gap": 1e-5})
    if outcome.x is None:
        raise SolverError(f"the solver finds no cheapest plan: {outcome.message}")
    return task.forms[0].at(outcome.x)
