"""Robust fronts: scenarios worked out again without the library, and what must not change the result."""

import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mopt
from mopt import Demand, InfeasibleError, InputError, Layer, Problem, Resource, Workload, robust_front
from mopt.calibration import RATIO_LEVELS, Calibration, Entry
from mopt.perturbation import Perturbation

# Compute-bound whatever the factor: 0.01 s a sample on X, 0.004 s on Y, at speed 1.
NET = Workload("net", "fp16", (Layer("fc", 1e9, 1.0, 1.0),), family="f")
X = Resource("x", 1e11, 1e13, 1e10, 1.0, max_units=4, accelerator="X")
Y = Resource("y", 2.5e11, 1e13, 1e10, 2.4, max_units=3, accelerator="Y")
Z = Resource("z", 2.5e11, 1e13, 1e10, 4.5, max_units=2)
SAMPLES = 120


def problem(**values):
    plain = {"resources": [X, Y, Z], "billing": "reserved", "workload": NET, "samples": SAMPLES, "time_limit": 1.0}
    return Problem(**(plain | values))


def by_hand(robust, scenario):
    """Costs and utilizations of all choices of units in a scenario: units, cost, utilization."""
    speed = {name: robust.speeds.iloc[scenario].get(f"{key}|net", 1.0) for name, key in zip("xyz", "XYz", strict=True)}
    price = {name: robust.prices.iloc[scenario].get(name, plain) for name, plain in zip("xyz", (1, 2.4, 4.5), strict=True)}
    for units in itertools.product(range(5), range(4), range(3)):
        samples = 0
        for name, n, rate in zip("xyz", units, (100, 250, 250), strict=True):
            samples += n * int(rate * min(1.0, speed[name]) * (1 + 1e-9))  # the true peak is the most there is
        if samples >= SAMPLES:
            cost = sum(n * price[name] for name, n in zip("xyz", units, strict=True)) / 3600
            peak = units[0] * 1e11 + (units[1] + units[2]) * 2.5e11
            yield units, cost, SAMPLES * 1e9 / peak


def test_every_scenario_is_what_its_choices_one_by_one_say():
    robust = robust_front(problem(), price=(0.5, 2.0), efficiency=(0.4, 1.3), scenarios=40, seed=3)
    assert robust.costs.shape == (len(robust.nominal), 40) == robust.regrets.shape
    assert 0 < robust.nondominated.mean() < 1
    assert 0 < robust.feasible.mean() < 1
    for k in range(40):
        choices = {units: (cost, use) for units, cost, use in by_hand(robust, k)}
        for plan, point in enumerate(robust.nominal):
            units = tuple(point.units.get(name, 0) for name in "xyz")
            assert robust.feasible[plan, k] == (units in choices)
            if units not in choices:
                assert not robust.nondominated[plan, k]
                assert np.isnan(robust.regrets[plan, k])
                continue
            cost, use = choices[units]
            assert robust.costs[plan, k] == pytest.approx(cost)
            assert robust.utilizations[plan, k] == pytest.approx(use)
            cheapest = min(c for c, u in choices.values() if u >= use * (1 - 1e-9))
            assert robust.regrets[plan, k] == pytest.approx(cost / cheapest - 1, abs=1e-9)
            beaten = any(
                c <= cost * (1 + 1e-9) and u >= use * (1 - 1e-9) and (c < cost * (1 - 1e-9) or u > use * (1 + 1e-9))
                for c, u in choices.values()
            )
            assert robust.nondominated[plan, k] == (not beaten)


def test_the_frame_sums_the_scenarios_up():
    robust = robust_front(problem(), price=(0.5, 2.0), efficiency=(0.4, 1.3), scenarios=30, seed=1)
    frame = robust.to_frame()
    assert list(frame.cost) == [point.objectives[0] for point in robust.nominal]
    for k, row in frame.iterrows():
        costs = robust.costs[k][robust.feasible[k]]
        assert row.feasible == len(costs) / 30
        assert row.nondominated == robust.nondominated[k].sum() / 30
        assert (row.cost_low, row.cost_high) == (costs.min(), costs.max())
        assert row.cost_median == pytest.approx(np.median(costs))
        assert row.regret == np.nanmax(robust.regrets[k])
        assert row["units[x]"] == robust.nominal[k].units.get("x", 0)
    assert (robust.prices >= 0.5 * np.array([1, 2.4, 4.5])).all(axis=None)
    assert (robust.prices <= 2.0 * np.array([1, 2.4, 4.5])).all(axis=None)
    assert (robust.speeds.min() >= 0.4).all()
    assert (robust.speeds.max() <= 1.3).all()


SLOWER = replace(NET, name="slower", layers=(Layer("fc", 2e9, 1.0, 1.0),))
TWO = {"demands": [Demand(NET, 60), Demand(SLOWER, 40)], "workload": None, "samples": None}


@pytest.mark.parametrize("more", [{}, {"startup": 0.2, "minimum_billing": 0.45}, TWO], ids=["plain", "paid", "two"])
@pytest.mark.parametrize("billing", ["reserved", "elapsed", "per_use"])
def test_where_nothing_varies_every_plan_stays(billing, more):
    p = problem(billing=billing, resources=[X, replace(Y, unit_overhead=0.05), replace(Z, launch_floor=0.3)], **more)
    robust = robust_front(p, price=(1.0, 1.0), efficiency=(1.0, 1.0), scenarios=3)
    frame = robust.to_frame()
    assert (frame.nondominated == 1).all()
    assert (frame.feasible == 1).all()
    assert frame.regret.to_numpy() == pytest.approx(0, abs=1e-6)
    for column in ("cost_low", "cost_median", "cost_high"):
        assert frame[column].to_numpy() == pytest.approx(frame.cost.to_numpy(), rel=1e-6)
    assert robust.utilizations == pytest.approx(np.tile(robust.nominal.values[:, 1:], 3), rel=1e-6)


@pytest.mark.parametrize(("billing", "share"), [("reserved", 0.0), ("elapsed", 1.0), ("per_use", 1.0)])
def test_twice_the_speed_of_all_halves_what_is_paid_by_time(billing, share):
    slow = [replace(r, compute_efficiency=0.4) for r in (X, Y)]
    robust = robust_front(problem(billing=billing, resources=slow), efficiency=(2.0, 2.0), scenarios=2)
    assert robust.costs == pytest.approx(np.tile(robust.nominal.values[:, :1], 2) / (1 + share), rel=1e-4)
    assert robust.utilizations == pytest.approx(np.tile(robust.nominal.values[:, 1:], 2) * (1 + share), rel=1e-4)


def same(one, other):
    for field in ("costs", "utilizations", "nondominated", "regrets"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    pd.testing.assert_frame_equal(one.prices, other.prices)
    pd.testing.assert_frame_equal(one.speeds, other.speeds)
    assert one.notes == other.notes


@pytest.mark.parametrize("billing", ["reserved", "per_use"])
def test_the_executor_doesnt_matter(billing):
    options = {"price": (0.5, 2.0), "efficiency": (0.5, 1.0), "scenarios": 12, "seed": 7}
    alone = robust_front(problem(billing=billing), **options)
    with ThreadPoolExecutor(2) as executor:
        same(alone, robust_front(problem(billing=billing), executor=executor, in_flight=5, **options))


def test_scenarios_travel_to_other_processes():
    scenario, _, speeds = Perturbation(problem(), (0.5, 2.0), (0.5, 0.9)).scenario(3, 1)
    back = pickle.loads(pickle.dumps(scenario))
    assert back == scenario != problem()
    for name, key in zip("xyz", ("X", "Y", "z"), strict=True):
        tau = back.services[name, "net"].tau
        assert tau.at(50) == scenario.services[name, "net"].tau.at(50)
        assert tau.at(50) == pytest.approx(problem().services[name, "net"].tau.at(50) / speeds[key, "net"])


def test_the_seed_decides_all_and_the_order_of_resources_nothing():
    options = {"price": (0.5, 2.0), "efficiency": (0.5, 1.0), "scenarios": 6}
    one, again, other = (robust_front(problem(), seed=seed, **options) for seed in (1, 1, 2))
    same(one, again)
    assert (one.prices.to_numpy() != other.prices.to_numpy()).all()
    turned = robust_front(problem(resources=[Z, Y, X]), seed=1, **options)
    pd.testing.assert_frame_equal(one.prices, turned.prices)
    pd.testing.assert_frame_equal(one.speeds, turned.speeds)
    more = robust_front(problem(), seed=1, **(options | {"scenarios": 9}))
    np.testing.assert_array_equal(more.costs[:, :6], one.costs)


def test_scenarios_without_any_plan_count():
    robust = robust_front(problem(), efficiency=(0.05, 0.05), scenarios=4)
    assert not robust.feasible.any()
    frame = robust.to_frame()
    assert (frame.nondominated == 0).all()
    assert frame[["cost_low", "cost_median", "cost_high", "regret"]].isna().all(axis=None)
    robust.plot()


def test_a_budget_is_kept_in_every_scenario():
    limit = robust_front(problem(), scenarios=1).nominal[-1].objectives[0]
    robust = robust_front(problem(budget=limit * 1.01), price=(0.9, 1.5), scenarios=30)
    assert (robust.costs[robust.feasible] <= limit * 1.01 * (1 + 1e-9)).all()
    assert not robust.feasible.all()


def test_units_beyond_enough_are_no_fault():
    # Twice as fast, one unit would be enough where the plan has two.
    slow = replace(X, compute_efficiency=0.7, max_units=None)
    robust = robust_front(problem(resources=[slow]), efficiency=(1.4, 1.4), scenarios=2)
    assert robust.nominal[0].units == {"x": 2}
    assert robust.feasible.all()
    assert robust_front(problem(resources=[replace(slow, compute_efficiency=0.9)]), efficiency=(0.4, 0.4)).costs.shape


# -- Where draws come from -------------------------------------------------------------------------------------------


def test_ranges_may_be_of_some_resources_only():
    robust = robust_front(problem(), price={"y": (0.5, 0.6)}, efficiency={"z": (0.5, 0.5), "X": (0.7, 0.8)}, scenarios=5)
    assert list(robust.prices.columns) == ["y"]
    assert robust.prices.y.between(2.4 * 0.5, 2.4 * 0.6).all()
    assert sorted(robust.speeds.columns) == ["X|net", "z|net"]
    assert (robust.speeds["z|net"] == 0.5).all()
    assert any("of 1 resources" in note for note in robust.notes)


def test_a_price_history_is_drawn_moment_by_moment():
    history = pd.DataFrame(
        [
            ("x", "2026-01-01", 9.0),  # before y has a price: never drawn
            ("x", "2026-01-02", 1.0),
            ("y", "2026-01-02", 4.0),
            ("x", "2026-01-06", 2.0),
            ("y", "2026-01-06", 3.0),
            ("y", "2026-01-07", 3.0),
            ("elsewhere", "2026-01-06", 1.0),
        ],
        columns=["resource", "time", "price_per_hour"],
    )
    robust = robust_front(problem(), price=history.sample(frac=1, random_state=0), scenarios=200)
    drawn = robust.prices.value_counts(normalize=True)
    assert set(drawn.index) == {(1.0, 4.0), (2.0, 3.0)}
    assert drawn[1.0, 4.0] == pytest.approx(4 / 5, abs=0.1)
    assert "prices: of 2 resources, those of one moment, uniform between 2026-01-02 00:00 and 2026-01-07 00:00" in robust.notes


def test_residuals_are_drawn_from_what_the_calibration_keeps():
    seen, unseen = (tuple(np.linspace(low, high, len(RATIO_LEVELS))) for low, high in ((0.9, 1.2), (0.8, 2.0)))
    default = Entry("f", "inference", "fp16", 0.5, 0.5, seen_ratios=seen, unseen_ratios=unseen)
    calibration = Calibration((default, Entry("f", "inference", "fp16", 0.5, 0.5, resource="X")))
    p = problem(calibration=calibration, resources=[X, Y, replace(Z, compute_efficiency=0.9)])
    robust = robust_front(p, efficiency="residuals", scenarios=300)
    assert sorted(robust.speeds.columns) == ["X|net", "Y|net"]  # z has times of its own
    for column, (low, high) in (("X|net", (0.9, 1.2)), ("Y|net", (0.8, 2.0))):
        ratios = 1 / robust.speeds[column]
        assert low * (1 - 1e-9) <= ratios.min() < ratios.max() <= high * (1 + 1e-9)
        assert ratios.median() == pytest.approx((low + high) / 2, rel=0.1)
    assert any("1 pairs without any keep theirs" in note for note in robust.notes)


def test_the_shipped_calibration_knows_its_errors():
    offers = mopt.load_catalog().where(provider="AWS", accelerator=["A10G", "T4"])
    p = Problem(offers, mopt.load_workload("resnet50-train"), 2048, time_limit=1.0, calibration="auto")
    robust = robust_front(p, efficiency="residuals", scenarios=5)
    assert robust.speeds.shape == (5, 2)
    assert robust.speeds.to_numpy().std() > 0


# -- Faults ----------------------------------------------------------------------------------------------------------


def test_all_faults_come_at_once():
    with pytest.raises(InputError) as raised:
        robust_front(problem(), price=(2.0, 1.0), efficiency={"x": (0.5, 1.0), "Y": 3})
    assert [(fault.field, fault.value) for fault in raised.value.faults] == [
        ("price", (2.0, 1.0)), ("name", "x"), ("efficiency['Y']", 3),
    ]  # fmt: skip
    with pytest.raises(InputError) as raised:
        robust_front(problem(), scenarios=0, seed=-1)
    assert [fault.field for fault in raised.value.faults] == ["scenarios", "seed"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"price": (0.0, 1.0)}, r"price = \(0.0, 1.0\): must be \(low, high\), two factors with 0 < low <= high"),
        ({"price": {}}, r"price = {}: must map the name of a resource to a range"),
        ({"price": {"w": (1, 2)}}, "name = 'w': must be the name of a resource: x, y, z"),
        ({"efficiency": "spread"}, "efficiency = 'spread': must be 'residuals'"),
        ({"efficiency": "residuals"}, "needs a calibration that knows its errors"),
        ({"scenarios": 2.5}, "scenarios = 2.5: must be a whole number of at least 1"),
        ({"price": pd.DataFrame({"resource": ["x"], "price": [1.0]})}, "needs the columns resource, time, price_per_hour"),
        ({"resolution": -1.0}, "resolution"),
        ({"in_flight": 0}, "in_flight"),
    ],
)
def test_each_fault_is_told(options, message):
    with pytest.raises(InputError, match=message):
        robust_front(problem(), **options)


def test_faults_of_a_history_name_their_rows():
    rows = [("x", "yesterday", 1.0), ("x", "2026-01-01", 0.0), ("x", "2026-01-02", 1.0)]
    with pytest.raises(InputError) as raised:
        robust_front(problem(), price=pd.DataFrame(rows, columns=["resource", "time", "price_per_hour"]))
    assert {fault.field for fault in raised.value.faults} == {"time, row 0", "price_per_hour, row 1"}
    with pytest.raises(InputError, match="none is the name of a resource"):
        robust_front(problem(), price=pd.DataFrame([("w", 1, 1.0)], columns=["resource", "time", "price_per_hour"]))


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(InputError, match="utilization = 'bandwidth': must be compute"):
        robust_front(problem(utilization="bandwidth"), price=(1, 2))
    with pytest.raises(InfeasibleError):
        robust_front(problem(resources=[replace(X, max_units=1)]), price=(1, 2))


def test_the_picture_shows_every_plan_and_its_costs():
    robust = robust_front(problem(), price=(0.5, 2.0), scenarios=8)
    ax = robust.plot()
    (plans,) = (c for c in ax.collections if c.get_label() == "nominal plan")
    assert plans.get_offsets().data == pytest.approx(robust.nominal.values)
    (bars,) = (c for c in ax.collections if c.get_label() == "cost in 8 scenarios")
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    assert ends == pytest.approx(robust.to_frame()[["cost_low", "cost_high"]].to_numpy())
    assert ax.get_xlabel().endswith("per period of 1 s)")
    assert "8 scenarios, seed 0" in repr(robust)
