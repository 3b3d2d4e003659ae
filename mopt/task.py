"""What a sweep is asked to do: a compiled model, how a solver's answer is checked, and how a point is read from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from mopt.compile import compile_model
from mopt.errors import Fault, InputError
from mopt.formulation import build_covering, build_model, peak_of
from mopt.linear_model import Form, LinearModel, Objective
from mopt.plan import Choice, Evaluator, decimal
from mopt.point import Plan, Point, Proof
from mopt.problem import Problem
from mopt.reduction import reduced
from mopt.session import Candidate, Exact
from mopt.shortfall import why_infeasible


@dataclass(frozen=True)
class Task:
    """What the driver needs to know."""

    model: LinearModel
    forms: tuple[Form, Form]
    check: Callable[[np.ndarray], Candidate | None]
    plan: Callable[[Candidate, float], Plan] | None
    constants: tuple[float | None, float | None]  # numerator of a ratio whose denominator is minimised; None: linear
    why_infeasible: Callable[[], tuple[str, str]]
    finest: Fraction | None = None
    names: tuple[str, str] = ("cost", "utilization")
    senses: tuple[int, int] = (1, -1)
    assumptions: tuple[str, ...] = ()
    period: float | None = None
    statistics: Mapping[str, object] = field(default_factory=dict)

    def own(self, k: int, value: Fraction) -> float:
        """An objective's own value from its internal one."""
        constant = self.constants[k]
        return self.senses[k] * float(value) if constant is None else float(Fraction(constant) / value)

    def internal_step(self, k: int, step: Fraction, ends: tuple[Exact, Exact]) -> Fraction:
        """A step of the internal value that changes the own value by at most `step` anywhere between the ends."""
        constant = self.constants[k]
        if constant is None:
            return step
        least = min(abs(ends[0][k]), abs(ends[1][k]))
        # numerator/D falls by at most `step` as D grows by this, and fastest at the smallest D.
        return step * least * least / (abs(Fraction(constant)) + step * least)

    def own_step(self, k: int, step: Fraction, ends: tuple[Exact, Exact]) -> float:
        """The largest change of the own value by a step of the internal one."""
        constant = self.constants[k]
        if constant is None:
            return float(step)
        least = min(abs(ends[0][k]), abs(ends[1][k]))
        return float(abs(Fraction(constant)) * step / (least * (least + step)))

    def point(self, candidate: Candidate, own: tuple[float, float], proof: Proof) -> Point:
        """A point of the front."""
        names = self.model.names
        denominators = tuple(
            1.0 if constant is None else float(value)
            for constant, value in zip(self.constants, candidate.values, strict=True)
        )
        return Point(
            objectives=own,
            variables={**self.model.fixed, **{name: float(v) for name, v in zip(names, candidate.x, strict=True)}},
            exact=candidate.values,
            proof=proof,
            plan=None if self.plan is None else self.plan(candidate, own[1]),
            denominators=(denominators[0], denominators[1]),
        )


def task_of(target: Any, objectives: tuple[Any, Any] | None) -> Task:
    """The task for a problem, a problem's model, or any model with two objectives."""
    if isinstance(target, Problem):
        if objectives is not None:
            raise InputError([Fault("", "solve_epsilon_front", "objectives", objectives, "none: a Problem has its own")])
        return _of_problem(target)
    if not hasattr(target, "component_data_objects"):
        raise InputError([Fault("", "solve_epsilon_front", "target", target, "a mopt.Problem or a Pyomo model")])
    return _of_model(target, objectives)


def _of_problem(problem: Problem) -> Task:
    smaller, dropped = reduced(problem)
    model = build_covering(smaller) if problem.billing == "reserved" else build_model(smaller)
    peaks = {i: peak_of(smaller, i) for i in smaller.unit_limits}
    linear, column = compile_model(model, (model.cost, model.utilization))
    evaluator = Evaluator(smaller, peaks)
    dedicated = {pair: column[id(model.dedicated[pair])] for pair in model.PAIRS if id(model.dedicated[pair]) in column}
    chosen = {}
    if problem.billing == "elapsed":
        chosen = {choice: column[id(model._chosen[choice])] for choice in model._CHOICES}
    work = sum(decimal(d.workload.flops_per_sample) * decimal(d.samples) for d in problem.demand_by_name.values())

    def choice_of(x: np.ndarray) -> Choice:
        whole = np.rint(x).astype(int)
        counts = {(i, r): c for (i, r, c, _), k in chosen.items() if whole[k]}
        return Choice({pair: int(whole[k]) for pair, k in dedicated.items()}, counts)

    def check(x: np.ndarray) -> Candidate | None:
        worth = evaluator.worth(choice_of(x))
        return None if worth is None else Candidate(x, (worth.cost, worth.rented / work))

    def plan(candidate: Candidate, utilization: float) -> Plan:
        choice = choice_of(candidate.x)
        worth = evaluator.worth(choice)
        assert worth is not None
        return evaluator.plan(choice, worth, utilization)

    cost, utilization = linear.objectives
    assert utilization.denominator is not None
    return Task(
        model=linear,
        forms=(cost.numerator, utilization.denominator),
        check=check,
        plan=plan,
        constants=(None, utilization.numerator.constant),
        why_infeasible=lambda: why_infeasible(problem, _has_plan),
        finest=Fraction(1, 10**4) if problem.billing == "elapsed" else None,
        assumptions=problem.assumptions,
        period=problem.time_limit,
        statistics={"resources": len(smaller.unit_limits), "replaced": len(dropped), "rejected": len(problem.rejected)},
    )


def _of_model(model: Any, objectives: tuple[Any, Any] | None) -> Task:
    raise InputError("later")


def _has_plan(problem: Problem) -> bool:
    raise InputError("later")
