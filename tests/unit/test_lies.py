"""A solver that lies is asked again, or the run ends in an error: a lie never reaches a front."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest

import mopt
from mopt.epsilon import trace_again
from mopt.highs import Highs, Outcome, Status
from mopt.task import task_of

Lie = Callable[[Outcome], Outcome]


def model(scale: int = 1) -> pyo.ConcreteModel:
    m = pyo.ConcreteModel()
    kinds = [(3, 17, 5), (5, 13, 7), (8, 11, 10), (13, 7, 14), (21, 5, 20)]
    m.n = pyo.Var(range(len(kinds)), domain=pyo.NonNegativeIntegers, bounds=(0, 6))
    m.f1 = pyo.Objective(expr=sum(scale * a * m.n[k] for k, (a, _, _) in enumerate(kinds)))
    m.f2 = pyo.Objective(expr=sum(scale * b * m.n[k] for k, (_, b, _) in enumerate(kinds)))
    m.enough = pyo.Constraint(expr=sum(c * m.n[k] for k, (_, _, c) in enumerate(kinds)) >= 61)
    return m


def false_infeasible(outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, status=Status.INFEASIBLE, x=None)


def unbounded(outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, status=Status.UNBOUNDED, x=None)


def failed(outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, status=Status.FAILED, x=None)


def worse_called_optimal(outcome: Outcome) -> Outcome:
    """All units: feasible, far from the best, and with a bound that agrees."""
    assert outcome.x is not None
    return dataclasses.replace(outcome, x=np.full_like(outcome.x, 6.0), bound=np.inf)


def worse_with_an_honest_bound(outcome: Outcome) -> Outcome:
    assert outcome.x is not None
    return dataclasses.replace(outcome, x=np.full_like(outcome.x, 6.0))


def breaks_a_row(outcome: Outcome) -> Outcome:
    assert outcome.x is not None
    return dataclasses.replace(outcome, x=np.zeros_like(outcome.x))


def not_whole(outcome: Outcome) -> Outcome:
    """Half units: rounding them breaks the row."""
    assert outcome.x is not None
    return dataclasses.replace(outcome, x=outcome.x - 0.6)


LIES = [
    false_infeasible, unbounded, failed, worse_called_optimal, worse_with_an_honest_bound, breaks_a_row, not_whole,
]


def liar(lie: Lie, when: Callable[[int], bool], honest_on_retry: bool) -> Any:
    """A maker of solvers that lie at the calls that `when` picks, the first time or every time they are asked."""
    calls = [0]

    class Liar:
        def __init__(self, linear: Any, rows: Sequence[Any]) -> None:
            self._highs = Highs(linear, rows)

        def solve(self, cost: Any, upper: Any, settings: Any, **options: Any) -> Outcome:
            outcome = self._highs.solve(cost, upper, settings, **options)
            retry = bool(settings)
            calls[0] += not retry
            lying = when(calls[0]) and outcome.status is Status.OPTIMAL and not (retry and honest_on_retry)
            return lie(outcome) if lying else outcome

    return Liar


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    m = model()
    return mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2)).values


# Nothing is known yet that the first answer for either end (calls 1 and 3) could contradict, if its bound lies too.
TOLD_ONCE = [
    (lie, call) for lie in LIES for call in range(1, 12) if not (lie is worse_called_optimal and call in (1, 3))
]


@pytest.mark.parametrize(("lie", "call"), TOLD_ONCE)
def test_a_lie_told_once_is_found_out_and_reported(lie: Lie, call: int, truth: np.ndarray) -> None:
    m = model()
    task = task_of(m, (m.f1, m.f2))
    front = trace_again(task, (None, None), liar(lie, lambda k: k == call, honest_on_retry=True), None)
    assert front.values.tolist() == truth.tolist()
    assert front.complete
    assert front.statistics["retried"]


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_told_always_is_an_error_and_no_front(lie: Lie) -> None:
    m = model()
    task = task_of(m, (m.f1, m.f2))
    with pytest.raises(mopt.SolverError) as caught:
        trace_again(task, (None, None), liar(lie, lambda k: k >= 6, honest_on_retry=False), None)
    assert not caught.value.front.complete
    assert len(caught.value.front) >= 1


def test_integers_off_by_a_millionth_are_rounded_before_values_are_reported() -> None:
    scale = 10**6
    m = model(scale)
    task = task_of(m, (m.f1, m.f2))

    def a_little_off(outcome: Outcome) -> Outcome:
        assert outcome.x is not None
        return dataclasses.replace(outcome, x=outcome.x + 1e-6)

    front = trace_again(task, (None, None), liar(a_little_off, lambda k: True, honest_on_retry=False), None)
    again = mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2))
    assert front.values.tolist() == again.values.tolist()
    assert (front.values % scale == 0).all()
