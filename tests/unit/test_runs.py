"""Runs that end early lose nothing, and go on to the same front."""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyomo.environ as pyo
import pytest

import mopt
from mopt.highs import Highs

Target = tuple[Any, Any]


def lattice() -> Target:
    m = pyo.ConcreteModel()
    kinds = [(3, 17, 5), (5, 13, 7), (8, 11, 10), (13, 7, 14)]
    m.n = pyo.Var(range(len(kinds)), domain=pyo.NonNegativeIntegers, bounds=(0, 6))
    m.f1 = pyo.Objective(expr=sum(a * m.n[k] for k, (a, _, _) in enumerate(kinds)))
    m.f2 = pyo.Objective(expr=sum(b * m.n[k] for k, (_, b, _) in enumerate(kinds)))
    m.enough = pyo.Constraint(expr=sum(c * m.n[k] for k, (_, _, c) in enumerate(kinds)) >= 41)
    return m, (m.f1, m.f2)


def ratio() -> Target:
    m, (f1, _) = lattice()
    done = 2 * m.n[0] + 5 * m.n[1] + 9 * m.n[2] + m.n[3] + 1
    better = mopt.Ratio(done, 3 * m.n[0] + 2 * m.n[1] + 8 * m.n[2] + m.n[3] + 2)
    return m, (f1, better)


def segments() -> Target:
    m = pyo.ConcreteModel()
    m.y = pyo.Var(range(3), domain=pyo.Binary)
    m.x = pyo.Var(range(3), bounds=(0, 4))
    m.made = pyo.Constraint(expr=sum(m.x[k] for k in range(3)) >= 6)
    m.on = pyo.Constraint(range(3), rule=lambda m, k: m.x[k] <= 4 * m.y[k])
    m.cost = pyo.Objective(expr=m.x[0] + 2 * m.x[1] + 5 * m.x[2] + 2 * m.y[1] + 3 * m.y[2])
    m.dirt = pyo.Objective(expr=7 * m.x[0] + 4 * m.x[1] + m.x[2] + 2 * m.y[0])
    return m, (m.cost, m.dirt)


def enumerated() -> Target:
    kinds = [("small", 3e12, 1.0, 0.4), ("middle", 4e12, 2.1, 0.6), ("large", 6e12, 5.0, 0.9)]
    resources = [
        mopt.Resource(name, flops, 4e11, 16e9, price, max_units=4, compute_efficiency=reached)
        for name, flops, price, reached in kinds
    ]
    workload = mopt.Workload("w", "fp16", [mopt.Layer("a", 1e9, 1e6, 1e6)], 1e9, 1e8)
    return mopt.Problem(resources, workload, samples=3000, time_limit=1.0, billing="elapsed"), None


def per_use() -> Target:
    problem, _ = enumerated()
    resources = [
        dataclasses.replace(r, unit_overhead=0.1) for r in problem.resources
    ]
    workload = problem.workload
    return mopt.Problem(resources, workload, samples=5000, time_limit=1.0, billing="per_use"), None


KINDS = [lattice, ratio, segments, enumerated, per_use]


def by_solver(make: Callable[[], Target]) -> Callable[..., mopt.ParetoFront]:
    """`lattice` by HiGHS, though its front could be listed."""
    return partial(mopt.solve_epsilon_front, method="solver") if make is lattice else mopt.solve_epsilon_front


def same(front: mopt.ParetoFront, other: mopt.ParetoFront) -> bool:
    return front.points == other.points and front.segments == other.segments and front.complete == other.complete


@pytest.mark.parametrize("solve_of", [by_solver, lambda make: mopt.solve_epsilon_front], ids=["solver", "auto"])
@pytest.mark.parametrize("make", KINDS)
def test_stopped_after_any_point_a_run_goes_on_to_the_same_front(
    make: Callable[[], Target], solve_of: Any, tmp_path: Path
) -> None:
    target, objectives = make()
    solve = solve_of(make)
    whole = solve(target, objectives)
    assert whole.complete
    assert len(whole) > 2
    for count in range(1, len(whole.segments) + len(whole)):
        part = solve(target, objectives, max_points=count)
        if part.complete:
            break
        assert part.why_incomplete == f"point limit of {count}"
        assert part.unexplored
        assert all(point in whole.points for point in part.points)
        assert same(solve(target, objectives, start=part), whole)
        part.save(tmp_path / "part.json")
        assert same(solve(target, objectives, resume=tmp_path / "part.json"), whole)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError("enough")])
def test_a_callback_that_raises_stops_the_run_with_nothing_lost(make: Callable[[], Target], error: Any) -> None:
    target, objectives = make()
    whole = mopt.solve_epsilon_front(target, objectives)
    seen: list[mopt.Point] = []

    def callback(point: mopt.Point) -> None:
        seen.append(point)
        if len(seen) == 2:
            raise error

    part = mopt.solve_epsilon_front(target, objectives, callback=callback)
    assert not part.complete
    assert ("interrupted" if error is KeyboardInterrupt else "enough") in part.why_incomplete
    assert list(part.points) == seen
    assert same(mopt.solve_epsilon_front(target, objectives, start=part), whole)


def test_the_callback_sees_each_point_once_in_order() -> None:
    target, objectives = lattice()
    seen: list[mopt.Point] = []
    front = mopt.solve_epsilon_front(target, objectives, callback=seen.append)
    assert tuple(seen) == front.points


@pytest.mark.parametrize("method", ["auto", "solver"])
def test_a_time_limit_returns_what_there_is_and_says_what_is_open(method: Any) -> None:
    target, objectives = lattice()
    part = mopt.solve_epsilon_front(target, objectives, time_limit=1e-9, method=method)
    assert not part.complete
    assert "time limit" in part.why_incomplete
    assert same(
        mopt.solve_epsilon_front(target, objectives, start=part), mopt.solve_epsilon_front(target, objectives)
    )


@pytest.mark.parametrize("make", KINDS)
def test_a_checkpoint_holds_the_front_whatever_ends_the_run(make: Callable[[], Target], tmp_path: Path) -> None:
    target, objectives = make()
    path = tmp_path / "front.json"
    part = mopt.solve_epsilon_front(target, objectives, max_points=2, checkpoint=path)
    assert mopt.load_front(path).points == part.points
    whole = mopt.solve_epsilon_front(target, objectives, resume=path, checkpoint=path)
    assert same(mopt.load_front(path), whole)


def test_a_solver_that_crashes_leaves_the_front_so_far(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target, objectives = lattice()
    whole = mopt.solve_epsilon_front(target, objectives, method="solver")
    solve, calls = Highs.solve, [0]

    def crash(*args: Any, **kwargs: Any) -> object:
        calls[0] += 1
        if calls[0] > 7:
            raise RuntimeError("out of memory")
        return solve(*args, **kwargs)

    monkeypatch.setattr(Highs, "solve", crash)
    part = mopt.solve_epsilon_front(target, objectives, method="solver", checkpoint=tmp_path / "front.json")
    monkeypatch.undo()
    assert not part.complete
    assert "out of memory" in part.why_incomplete
    assert len(part) > 1
    assert same(mopt.solve_epsilon_front(target, objectives, method="solver", resume=tmp_path / "front.json"), whole)


def test_a_complete_front_is_returned_as_it_is() -> None:
    target, objectives = lattice()
    whole = mopt.solve_epsilon_front(target, objectives)
    assert mopt.solve_epsilon_front(target, objectives, start=whole) is whole


def test_a_front_of_another_model_is_refused() -> None:
    part = mopt.solve_epsilon_front(*lattice(), max_points=2)
    with pytest.raises(mopt.InputError, match="start"):
        mopt.solve_epsilon_front(*segments(), start=part)
    with pytest.raises(mopt.InputError, match="resume"):
        mopt.solve_epsilon_front(*lattice(), start=part, resume="front.json")


def test_prices_of_many_digits_leave_a_front_of_one_point():
    # Their common step is far below what a solver can tell apart; the two ends coincide.
    net = mopt.Workload("net", "fp16", (mopt.Layer("fc", 1e9, 1.0, 1.0),))
    offers = [
        mopt.Resource("x", 1e11, 1e13, 1e10, 0.9284710293847561, max_units=4),
        mopt.Resource("y", 2.5e11, 1e13, 1e10, 2.4123456789123, max_units=3),
    ]
    found = mopt.solve_epsilon_front(mopt.Problem(offers, net, 120, time_limit=1.0))
    assert [point.units for point in found] == [{"x": 2}]
    assert found.complete
    assert found[0].objectives == pytest.approx((2 * 0.9284710293847561 / 3600, 0.6))
