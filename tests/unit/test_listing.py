"""Fronts of whole programs, listed within bounds, against all choices, the solver, and each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings, strategies as st
from limits import limit

import mopt
from mopt import dominance, listing
from mopt.listing import Boxes, Listed, TooManyError
from mopt.search import Search
from mopt.whole import WholeProgram

ITEM = st.tuples(st.integers(1, 30), st.integers(0, 40), st.integers(0, 40), st.integers(0, 5)).filter(
    lambda item: item[1] + item[2] > 0
)


def problem(items: list[tuple[int, int, int, int]], demand: int) -> WholeProgram:
    weights, first, second, limits = map(np.array, zip(*items, strict=True))
    return WholeProgram(weights[None, :], np.column_stack([first, second]).astype(float), limits, np.array([demand]))


def points(made: WholeProgram, check_time: Callable[[], None] = lambda: None) -> list[Listed]:
    """The whole front."""
    boxes = Boxes(made, check_time)
    found = [boxes.ends[0]]
    search = Search(found[0].costs, boxes.ends[1].costs)
    while not search.over:
        found += search.step(boxes)
    return found


def by_hand(items: list[tuple[int, int, int, int]], demand: int) -> list[tuple[int, int]]:
    """Every nondominated pair of costs, from all choices."""
    values = {
        tuple(sum(n * i[k] for n, i in zip(counts, items, strict=True)) for k in (1, 2))
        for counts in itertools.product(*(range(i[3] + 1) for i in items))
        if sum(n * i[0] for n, i in zip(counts, items, strict=True)) >= demand
    }
    return sorted(v for v in values if not any(w != v and w[0] <= v[0] and w[1] <= v[1] for w in values))


@settings(deadline=None, max_examples=300)
@given(st.lists(ITEM, min_size=1, max_size=5), st.floats(0.05, 1.0))
def test_all_nondominated_covers_are_listed(items: list[tuple[int, int, int, int]], share: float) -> None:
    total = sum(i[0] * i[3] for i in items)
    demand = max(1, round(share * total))
    made = problem(items, demand)
    assert made.feasible == (total >= demand)
    if not made.feasible:
        return
    found = points(made)
    assert [cover.costs for cover in found] == by_hand(items, demand)
    assert [cover.costs for cover in points(made.tightened()[0])] == by_hand(items, demand)
    for cover in found:
        assert made.weights[0] @ cover.counts >= demand
        assert tuple(cover.counts @ made.costs) == cover.costs
        assert (cover.counts >= 0).all()
        assert (cover.counts <= made.limits).all()


@settings(deadline=None, max_examples=100)
@given(st.lists(ITEM, min_size=3, max_size=5), st.floats(0.3, 0.9), st.integers(1, 8))
def test_small_lists_and_beams_find_the_same(
    items: list[tuple[int, int, int, int]], share: float, beam: int
) -> None:
    demand = max(1, round(share * sum(i[0] * i[3] for i in items)))
    made = problem(items, demand)
    if not made.feasible:
        return
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, beam)
        patch.setattr(listing, "_COMPARED", 3)
        patch.setattr(listing, "_ROUGHLY", 0)
        found = [cover.costs for cover in points(problem(items, demand))]
    assert found == by_hand(items, demand)


@settings(deadline=None, max_examples=100)
@given(st.lists(ITEM, min_size=3, max_size=5), st.floats(0.3, 0.9), st.integers(0, 2**32 - 1))
def test_targets_that_are_dominated_do_no_harm(
    items: list[tuple[int, int, int, int]], share: float, seed: int
) -> None:
    demand = max(1, round(share * sum(i[0] * i[3] for i in items)))
    made = problem(items, demand)
    if not made.feasible:
        return
    some = np.random.default_rng(seed).integers(0, made.limits + 1, (40, len(made.limits)))
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, 2)
        boxes = Boxes(made)
        (start, _), (end, _) = boxes.ends
        known = [(c, d) for c, d in (some[some @ made.weights[0] >= demand] @ made.costs).tolist()]
        search = Search(start, end, [c for c in known if start[0] < c[0] <= end[0] and end[1] <= c[1] < start[1]])
        found = [start]
        while not search.over:
            found += [cover.costs for cover in search.step(boxes)]
    assert found == by_hand(items, demand)


def test_a_time_limit_ends_a_long_list() -> None:
    class Over(Exception):
        pass

    def check_time() -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise Over

    calls = 0
    rng = np.random.default_rng(1)
    items = np.column_stack([rng.integers(50, 99, (9, 3)), np.full(9, 5)]).tolist()
    with pytest.raises(Over):
        points(problem(items, 900), check_time)


def model(seed: int, sense: Any) -> pyo.ConcreteModel:
    """A knapsack (maximise) or its complement, covering (minimise), of 12 items."""
    rng = np.random.default_rng(seed)
    weights, first, second = rng.integers(5, 60, (3, 12)).tolist()
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(12), domain=pyo.Integers, bounds=(-1, 2))
    m.f1 = pyo.Objective(expr=sum(first[k] * m.x[k] for k in range(12)) + 3, sense=sense)
    m.f2 = pyo.Objective(expr=sum(second[k] * m.x[k] for k in range(12)), sense=sense)
    total = sum(weights[k] * m.x[k] for k in range(12))
    m.row = pyo.Constraint(expr=total <= 200 if sense == pyo.maximize else total >= 100)
    return m


@pytest.mark.parametrize("sense", [pyo.minimize, pyo.maximize])
@pytest.mark.parametrize("seed", range(4))
def test_listing_and_the_solver_agree(seed: int, sense: Any) -> None:
    m = model(seed, sense)
    listed = mopt.solve_epsilon_front(m, (m.f1, m.f2))
    solved = mopt.solve_epsilon_front(m, (m.f1, m.f2), method="solver")
    assert listed.certificate.method == "enumeration by reduced costs"
    assert "sweep" in solved.certificate.method
    assert listed.complete
    assert listed.values.tolist() == solved.values.tolist()
    assert listed.verify()


def test_too_much_to_list_goes_to_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    m = model(1, pyo.minimize)
    whole = mopt.solve_epsilon_front(m, (m.f1, m.f2), method="solver")
    methods = set()
    for beam, end in ((1, 3), (1, 1000), (2, 1000), (4, 1000), (20, 1000)):
        limit(monkeypatch, beam, beam, end)
        front = mopt.solve_epsilon_front(m, (m.f1, m.f2))
        assert front.complete
        assert front.values.tolist() == whole.values.tolist()
        methods.add(front.certificate.method)
    sweep = whole.certificate.method
    assert methods == {sweep, f"enumeration by reduced costs, {sweep}", "enumeration by reduced costs"}
    limit(monkeypatch, 1, 1, 1)
    with pytest.raises(TooManyError):
        points(problem([(3, 5, 9, 9), (4, 9, 5, 9), (5, 7, 7, 9)], 60))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.x[0].setub(None),
        lambda m: m.row.set_value(m.row.body + 2**0.5 * m.x[0] >= 100),
        lambda m: m.f1.set_value(m.f1.expr - 200 * m.x[0]),
        lambda m: setattr(m.x[0], "domain", pyo.Reals),
    ],
)
def test_other_models_are_solved(change: Any) -> None:
    m = model(2, pyo.minimize)
    change(m)
    front = mopt.solve_epsilon_front(m, (m.f1, m.f2), max_points=2)
    assert "enumeration" not in front.certificate.method


def test_a_demand_that_all_items_together_miss_is_infeasible() -> None:
    m = model(3, pyo.minimize)
    m.row.set_value(m.row.body >= 10_000)
    with pytest.raises(mopt.InfeasibleError):
        mopt.solve_epsilon_front(m, (m.f1, m.f2))


def test_an_unknown_method_is_refused() -> None:
    m = model(3, pyo.minimize)
    with pytest.raises(mopt.InputError, match="method"):
        mopt.solve_epsilon_front(m, (m.f1, m.f2), method="guess")


@pytest.mark.parametrize("sense", [pyo.minimize, pyo.maximize])
@pytest.mark.parametrize("seed", range(6))
def test_several_rows(seed: int, sense: Any) -> None:
    """Rows of either sign, in decimals, and an equation: listed, solved, and the front the same."""
    rng = np.random.default_rng(100 + seed)
    m = model(seed, sense)
    a, b = rng.integers(5, 60, (2, 12)).tolist()
    total = sum(a[k] * m.x[k] for k in range(12))
    m.second = pyo.Constraint(expr=total <= 250 if sense == pyo.maximize else total >= 90)
    m.budget = pyo.Constraint(expr=sum(0.25 * b[k] * m.x[k] for k in range(12)) <= 45)
    m.quota = pyo.Constraint(expr=(-1, sum(m.x[k] for k in range(4)), 3))
    if seed % 2:
        m.equal = pyo.Constraint(expr=m.x[4] + m.x[5] - m.x[6] == 1)
    listed = mopt.solve_epsilon_front(m, (m.f1, m.f2))
    solved = mopt.solve_epsilon_front(m, (m.f1, m.f2), method="solver")
    assert listed.certificate.method.startswith("enumeration by reduced costs")
    assert listed.complete
    assert len(listed) > 1
    assert listed.values.tolist() == solved.values.tolist()


def test_reserved_with_a_quota_and_a_budget() -> None:
    catalog = mopt.load_catalog().where(provider="AWS", region="us-east-1")
    workload = mopt.load_workload("resnet50-train")
    free = mopt.Problem(catalog, workload, samples=4096, time_limit=1.0)
    dearest = float(mopt.solve_epsilon_front(free).values[:, 0].max())
    limits = {"budget": 0.9 * dearest, "quotas": [mopt.Quota(max_units=2, accelerator="T4")]}
    limited = mopt.Problem(catalog, workload, samples=4096, time_limit=1.0, **limits)
    listed = mopt.solve_epsilon_front(limited)
    assert listed.certificate.method.startswith("enumeration by reduced costs")
    solved = mopt.solve_epsilon_front(limited, method="solver")
    np.testing.assert_allclose(listed.values, solved.values, rtol=1e-12)  # other plans may have the same worth


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("compared", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_rows_of_either_sign_against_all_choices(seed: int, compared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also rows that nothing can keep, such as 0 ≥ 1 once the variables that may move are few."""
    if compared:  # partial solutions with each other, after each item
        for name, value in {"_ROUGHLY": 0, "_COMPARED": 0, "_GROWN": 0.5}.items():
            monkeypatch.setattr(listing, name, value)
        monkeypatch.setattr(dominance, "_SHARED", 1)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    low = rng.integers(-2, 1, n)
    high = low + rng.integers(0, 4, n)
    costs = rng.integers(0, 20, (2, n)) * rng.choice([-1, 1], n)
    weights, least = rng.integers(-9, 12, (3, n)), rng.integers(-15, 15, 3)
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(n), domain=pyo.Integers, bounds=lambda m, i: (int(low[i]), int(high[i])))
    m.f1, m.f2 = (pyo.Objective(expr=sum(int(c[i]) * m.x[i] for i in range(n)) + 0) for c in costs)
    m.row = pyo.Constraint(
        range(3), rule=lambda m, r: 0.25 * sum(int(weights[r, i]) * m.x[i] for i in range(n)) >= 0.25 * int(least[r])
    )
    choices = itertools.product(*(range(a, b + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True)))
    values = {tuple((costs @ x).tolist()) for x in map(np.array, choices) if (weights @ x >= least).all()}
    expected = sorted(v for v in values if not any(w != v and w[0] <= v[0] and w[1] <= v[1] for w in values))
    if not expected:
        with pytest.raises(mopt.InfeasibleError):
            mopt.solve_epsilon_front(m, (m.f1, m.f2))
        return
    front = mopt.solve_epsilon_front(m, (m.f1, m.f2))
    assert front.complete
    assert [tuple(value) for value in front.values.tolist()] == expected


def test_costs_of_very_different_sizes_are_not_summed_up_wrongly() -> None:
    """What is taken away from a sum in which it is 1e-11 of the whole leaves nothing right."""
    rng = np.random.default_rng(1)
    listed = 0
    for _ in range(200):
        n = int(rng.integers(2, 6))
        weights, limits = rng.integers(1, 20, (1, n)), rng.integers(1, 5, n)
        made = WholeProgram(weights, 10.0 ** rng.integers(-6, 7, (n, 2)), limits, weights @ limits * 7 // 10)
        try:
            found = points(made)
        except TooManyError:  # the solver's
            continue
        listed += 1
        for one in found:
            np.testing.assert_allclose(one.costs, one.counts @ made.costs, rtol=1e-14)
    assert listed > 190


@settings(deadline=None, max_examples=300)
@given(st.lists(ITEM, min_size=3, max_size=5), st.floats(0.3, 0.9), st.integers(1, 50))
def test_first_costs_that_are_the_same_but_for_rounding_are_one(
    items: list[tuple[int, int, int, int]], share: float, beam: int
) -> None:
    """Costs in tenths, whose sums differ in the last bit by the order of their terms."""
    demand = max(1, round(share * sum(i[0] * i[3] for i in items)))
    made = problem(items, demand)
    tenths = WholeProgram(made.weights, made.costs * 0.1, made.limits, made.demands)
    if not made.feasible:
        return
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, beam)
        found = points(tenths)
    np.testing.assert_allclose([one.costs for one in found], 0.1 * np.array(by_hand(items, demand)), rtol=1e-12)


def test_of_two_such_the_one_that_beats_the_other_is_left() -> None:
    costs = np.array([[1.3, 0.4], [0.8, 1.9], [1.0, 0.1], [1.3, 1.9], [0.8, 1.7]])
    made = WholeProgram(np.array([[1, 7, 6, 1, 8]]), costs, np.array([1, 1, 4, 2, 3]), np.array([25]))
    expected = [(3.2, 7.0), (3.4, 5.2), (3.6, 3.6), (3.8, 2.0), (5.3, 0.8)]  # not (3.5999999999999996, 3.8)
    np.testing.assert_allclose([one.costs for one in points(made)], expected)
