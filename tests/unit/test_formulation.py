"""The Pyomo model: public names in their units, scaling, and constraints that a user adds."""

import dataclasses

import numpy as np
import pyomo.environ as pyo
import pytest
from scipy import sparse

import mopt
from mopt import Demand, Layer, Problem, Quota, Resource, Workload, build_model, load_catalog, load_workload
from mopt.compile import compile_model
from mopt.formulation import build_covering
from mopt.highs import scaling

BILLINGS = ("reserved", "per_use", "elapsed")
NET = Workload("net", "fp16", [Layer("all", 1e10, 1e8, 1e8)], memory_fixed=1e9, memory_per_sample=0.5e9)
OTHER = dataclasses.replace(NET, name="other", layers=(Layer("all", 2e10, 1e8, 1e8),))
SLOW = Resource(
    "slow", peak_flops=1e12, memory_bandwidth=1e11, memory=8e9, price_per_hour=3.6, max_units=3, provider="A",
    unit_overhead=0.05,
)
FAST = Resource(
    "fast", peak_flops=3e12, memory_bandwidth=2e11, memory=16e9, price_per_hour=14.4, max_units=2, provider="B",
    unit_overhead=0.02,
)
RESOURCES = {resource.name: resource for resource in (SLOW, FAST)}
PERIOD = 1.5


def problem(**changes):
    values = {"resources": list(RESOURCES.values()), "demands": [Demand(NET, 120), Demand(OTHER, 30)]}
    return Problem(**(values | {"time_limit": PERIOD} | changes))


def single(**changes):
    return problem(demands=[Demand(NET, 120)], **changes)


@pytest.fixture(scope="module", params=BILLINGS)
def solved(request):
    """A problem's model with the values of a point in the middle of its front, and that point."""
    p = problem(billing=request.param)
    model = build_model(p)
    front = mopt.solve_epsilon_front(model)
    point = front[len(front) // 2]
    point.load_into(model)
    return p, model, point


def values(component):
    return {key: pyo.value(component[key]) for key in component}


PAIRS = [(i, r) for i in RESOURCES for r in ("net", "other")]


def test_public_names_are_always_there(solved):
    _, m, _ = solved
    for name in ("dedicated", "launches", "samples", "busy"):
        assert sorted(values(getattr(m, name))) == sorted(PAIRS)
    for name in ("units", "billed"):
        assert sorted(values(getattr(m, name))) == sorted(RESOURCES)
    assert list(m.RESOURCES) == list(RESOURCES)
    assert list(m.DEMANDS) == ["net", "other"]


def test_units_are_whole_and_sum_over_demands(solved):
    _, m, _ = solved
    dedicated, units = values(m.dedicated), values(m.units)
    for i, resource in RESOURCES.items():
        assert units[i] == sum(dedicated[i, r] for r in ("net", "other"))
        assert units[i] == round(units[i])
        assert 0 <= units[i] <= resource.max_units


def test_samples_are_samples(solved):
    p, m, _ = solved
    samples, dedicated = values(m.samples), values(m.dedicated)
    for r, demand in p.demand_by_name.items():
        assert sum(samples[i, r] for i in RESOURCES) == pytest.approx(demand.samples)
        for i in RESOURCES:
            assert samples[i, r] <= p.services[i, r].capacity * dedicated[i, r] + 1e-6


def test_launches_hold_the_samples(solved):
    p, m, _ = solved
    launches, samples = values(m.launches), values(m.samples)
    for pair in PAIRS:
        assert samples[pair] <= p.services[pair].batch_limit * launches[pair] + 1e-6


def test_busy_is_unit_seconds_of_computing(solved):
    p, m, _ = solved
    busy, launches, samples, dedicated = (values(getattr(m, n)) for n in ("busy", "launches", "samples", "dedicated"))
    for i, r in PAIRS:
        if dedicated[i, r]:
            for slope, intercept in p.services[i, r].tau.pieces:
                assert busy[i, r] >= intercept * launches[i, r] + slope * samples[i, r] - 1e-6
            assert busy[i, r] <= (PERIOD - RESOURCES[i].unit_overhead) * dedicated[i, r] + 1e-6


def test_billed_is_unit_seconds_paid(solved):
    p, m, _ = solved
    billed, busy, units = values(m.billed), values(m.busy), values(m.units)
    for i, resource in RESOURCES.items():
        paid = {
            "reserved": PERIOD * units[i],
            "per_use": sum(busy[i, r] for r in ("net", "other")) + resource.unit_overhead * units[i],
            "elapsed": units[i] * pyo.value(m.elapsed) if p.billing == "elapsed" else None,
        }
        assert billed[i] == pytest.approx(paid[p.billing], abs=1e-6)


def test_cost_is_dollars_and_utilization_a_fraction(solved):
    _p, m, point = solved
    billed = values(m.billed)
    cost = sum(r.price_per_hour / 3600 * billed[i] for i, r in RESOURCES.items())
    work = 120 * 1e10 + 30 * 2e10
    assert pyo.value(m.cost) == pytest.approx(cost)
    assert m.utilization() == pytest.approx(work / sum(r.peak_flops * billed[i] for i, r in RESOURCES.items()))
    assert point.objectives == pytest.approx((pyo.value(m.cost), m.utilization()), rel=1e-6)
    assert 0 < m.utilization() <= 1


@pytest.mark.parametrize("kind", ["bandwidth", "memory"])
@pytest.mark.parametrize("billing", BILLINGS)
def test_other_utilizations_are_fractions_of_what_is_rented(kind, billing):
    p = problem(billing=billing, utilization=kind)
    model = build_model(p)
    front = mopt.solve_epsilon_front(model, max_points=1)
    front[0].load_into(model)
    billed, samples = values(model.billed), values(model.samples)
    used = 0.0
    for (i, r), amount in samples.items():
        s, w = p.services[i, r], p.demand_by_name[r].workload
        if kind == "bandwidth":
            used += amount * w.traffic(s.batch_limit) / s.batch_limit
        else:
            used += amount * w.footprint(s.batch_limit) * s.tau(s.batch_limit) / s.batch_limit
    rented = sum(billed[i] * (r.memory_bandwidth if kind == "bandwidth" else r.memory) for i, r in RESOURCES.items())
    assert model.utilization() == pytest.approx(used / rented, rel=1e-6)
    assert model.utilization() <= 1


# -- What users add --------------------------------------------------------------------------------------------------


def fronts(change, **changes):
    """The model's front with a constraint, and without."""
    model = build_model(single(**changes))
    plain = mopt.solve_epsilon_front(model)
    change(model)
    return mopt.solve_epsilon_front(model), plain


@pytest.mark.parametrize("billing", BILLINGS)
def test_units_that_a_user_wants(billing):
    def at_least_two_fast(m):
        m.mine = pyo.Constraint(expr=m.units["fast"] >= 2)

    front, plain = fronts(at_least_two_fast, billing=billing)
    assert any(point.units.get("fast", 0) < 2 for point in plain)
    assert all(point.units["fast"] >= 2 for point in front)
    assert front[0].objectives[0] > plain[0].objectives[0]


@pytest.mark.parametrize("billing", BILLINGS)
def test_samples_that_a_user_places(billing):
    def a_third_on_slow(m):
        m.mine = pyo.Constraint(expr=m.samples["slow", "net"] == 40)

    front, _ = fronts(a_third_on_slow, billing=billing)
    for point in front:
        assert point.samples["slow"] == pytest.approx(40, abs=1e-6)
        assert sum(point.samples.values()) == pytest.approx(120)


@pytest.mark.parametrize("billing", BILLINGS)
def test_a_cap_on_cost_is_in_dollars(billing):
    model = build_model(single(billing=billing))
    plain = mopt.solve_epsilon_front(model)
    middle = (plain[0].objectives[0] + plain[-1].objectives[0]) / 2
    model.mine = pyo.Constraint(expr=model.cost <= middle)
    front = mopt.solve_epsilon_front(model)
    costs = front.values[:, 0]
    assert costs.max() <= middle * (1 + 1e-6)
    assert front[0].objectives == pytest.approx(plain[0].objectives, rel=1e-6)


def test_a_cap_on_the_elapsed_time_is_in_seconds():
    def soon(m):
        m.mine = pyo.Constraint(expr=m.elapsed <= 0.4)

    front, plain = fronts(soon, billing="elapsed")
    assert max(point.plan.elapsed for point in plain) > 0.4
    assert all(point.plan.elapsed <= 0.4 * (1 + 1e-6) for point in front)


def test_a_cap_on_computing_time_is_in_unit_seconds():
    def little(m):
        m.mine = pyo.Constraint(expr=m.busy["slow", "net"] <= 0.5)

    front, plain = fronts(little, billing="per_use")
    assert max(point.busy.get(("slow", "net"), 0) for point in plain) > 0.5
    assert all(point.busy.get(("slow", "net"), 0) <= 0.5 + 1e-6 for point in front)


def test_the_users_model_is_left_as_it_was():
    model = build_model(single())
    model.f = pyo.Objective(expr=model.units["slow"])
    before = {component.name for component in model.component_objects()}
    mopt.solve_epsilon_front(model)
    assert {component.name for component in model.component_objects()} == before
    assert model.f.active


# -- Limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("billing", BILLINGS)
def test_limits_of_the_problem_are_rows(billing):
    limits = {"max_types": 1, "budget": 1.0, "min_units": {"slow": 1}, "quotas": [Quota(3, provider="A")]}
    m = build_model(problem(billing=billing, **limits))
    assert pyo.value(m.max_types.upper) == 1
    assert pyo.value(m.budget.upper) == 1
    assert pyo.value(m.min_units["slow"].lower) == 1
    assert len(m.quota) == 1
    assert m.component("max_types") is not None
    free = build_model(problem(billing=billing))
    assert free.component("max_types") is None
    assert free.component("budget") is None


def test_padded_batches_do_not_keep_a_model_from_its_plan():
    """10 samples on a unit of 8 accelerators: two launches of 8, although there are just 10."""
    eight = Resource("eight", peak_flops=8e12, memory_bandwidth=8e11, memory=16e9, price_per_hour=1.0, accelerator_count=8)
    p = Problem([eight], NET, 10, time_limit=PERIOD)
    assert p.services["eight", "net"].batch_limit == 8
    front = mopt.solve_epsilon_front(build_model(p))
    assert [point.units for point in front] == [{"eight": 1}]
    assert front[0].launches == {("eight", "net"): 2}


# -- Scaling ---------------------------------------------------------------------------------------------------------


def coefficients(model):
    """Sizes of the coefficients as the solver sees them."""
    linear, _ = compile_model(model, (model.cost, model.utilization))
    rows, columns = scaling(linear)
    matrix = sparse.diags_array(rows) @ linear.matrix @ sparse.diags_array(columns)
    return np.abs(matrix.data[matrix.data != 0])


def shipped(billing, workload="resnet50-train", region=None):
    offers = load_catalog() if region is None else load_catalog().where(provider="AWS", region=region)
    return Problem(offers, load_workload(workload), 2048, time_limit=1.0, billing=billing)


@pytest.mark.parametrize(
    ("billing", "region"), [("reserved", None), ("per_use", None), ("elapsed", "us-east-1")]
)
def test_coefficients_of_the_shipped_catalog_are_of_order_one(billing, region):
    found = coefficients(build_model(shipped(billing, region=region)))
    assert 1e-3 <= found.min() <= found.max() <= 1e4


@pytest.mark.parametrize("workload", ["llama3-8b-prefill", "llama3-8b-decode", "gpt2-infer", "vit-b16-train"])
@pytest.mark.parametrize("billing", BILLINGS)
def test_coefficients_of_other_workloads_are_of_order_one(billing, workload):
    found = coefficients(build_model(shipped(billing, workload, region="us-east-1")))
    assert 1e-3 <= found.min() <= found.max() <= 1e4


def test_coefficients_of_the_covering_model_are_of_order_one():
    found = coefficients(build_covering(shipped("reserved")))
    assert 1e-3 <= found.min() <= found.max() <= 1e4
