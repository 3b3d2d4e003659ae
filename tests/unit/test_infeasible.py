"""Problems without a plan: which limit makes it so and how far off it is; what the message asks for is just enough."""

import dataclasses
import re

import pyomo.environ as pyo
import pytest

import mopt
from mopt import Demand, InfeasibleError, Layer, Problem, Quota, Resource, Workload, solve_epsilon_front
from mopt.exchange import exchange_limits

# A launch of b samples takes b/100 s, so that a unit does 100 samples in 1 s; its hour costs 3.60 $, its second 0.001 $.
GPU = Resource(
    "gpu", peak_flops=1e12, memory_bandwidth=1e11, memory=8e9, price_per_hour=3.6, provider="A", region="east"
)
TPU = dataclasses.replace(GPU, name="tpu", provider="B", price_per_hour=7.2)
NET = Workload("net", "fp16", [Layer("all", 1e10, 1e8, 1e8)])
OTHER = dataclasses.replace(NET, name="other")
BILLINGS = ("reserved", "per_use", "elapsed")


def problem(**changes):
    return Problem(**({"resources": [GPU], "workload": NET, "samples": 150, "time_limit": 1.0} | changes))


def limited(resource, units):
    return dataclasses.replace(resource, max_units=units)


def refusal(limit, *facts, **changes):
    """The error, which names the limit and says these facts."""
    with pytest.raises(InfeasibleError) as caught:
        solve_epsilon_front(problem(**changes))
    assert caught.value.limit == limit
    for fact in facts:
        assert fact in str(caught.value)
    return str(caught.value)


def number_after(text, message):
    return float(re.search(re.escape(text) + r" (\S+?)[;,]?( |$)", message).group(1))


def is_just_enough(field, value, **changes):
    """The value makes the problem feasible, and a thousandth less does not."""
    assert len(solve_epsilon_front(problem(**(changes | {field: value}))).points)
    with pytest.raises(InfeasibleError):
        solve_epsilon_front(problem(**(changes | {field: value * 0.999})))


@pytest.mark.parametrize("billing", ["reserved", "elapsed"])
def test_time(billing):
    message = refusal("time", "by reason: time 1", "gpu", "time_limit is 0.005 s", billing=billing, time_limit=0.005)
    need = number_after("needs at least", message)
    assert need == 0.01
    refusal("time", "needs at least 0.42 s for a launch of 1 and the overhead of 0.41 s", billing=billing,
            time_limit=0.4, resources=[dataclasses.replace(GPU, unit_overhead=0.41)])
    limits = {"samples": 1, "billing": billing}
    is_just_enough("time_limit", need, **limits)


def test_time_of_fractional_launches():
    refusal("time", "needs more than its overhead of 0.5 s, time_limit is 0.4 s", billing="per_use", time_limit=0.4,
            resources=[dataclasses.replace(GPU, unit_overhead=0.5)])


@pytest.mark.parametrize("billing", BILLINGS)
def test_latency(billing):
    message = refusal("latency", "by reason: latency 1", billing=billing, latency_limit=0.005)
    assert number_after("needs at least", message) == 0.01
    is_just_enough("latency_limit", 0.01, billing=billing, samples=50)


@pytest.mark.parametrize("billing", BILLINGS)
def test_memory(billing):
    large = dataclasses.replace(NET, memory_fixed=8.5e9)
    eight = dataclasses.replace(TPU, memory=16e9, accelerator_count=8)
    refusal("memory", "by reason: memory 2",
            "gpu, which needs 8.5 GB for a batch of 1 on each accelerator, has 8 GB: 500,000,000 B are missing",
            billing=billing, workload=large, resources=[eight, GPU])


@pytest.mark.parametrize("billing", ["reserved", "elapsed"])
def test_samples(billing):
    eight = dataclasses.replace(GPU, accelerator_count=8)
    refusal("samples", "takes at least 8 samples a launch (one per accelerator), the period has 5", billing=billing,
            resources=[eight], samples=5)


@pytest.mark.parametrize("billing", BILLINGS)
def test_precision_and_training(billing):
    old = dataclasses.replace(GPU, peak_flops={"fp32": 1e12})
    refusal("precision", "has no fp16 peak (has fp32)", billing=billing, resources=[old])
    chip = dataclasses.replace(GPU, trains=False)
    refusal("training", "does inference only", billing=billing, resources=[chip],
            workload=dataclasses.replace(NET, mode="training"))


def test_the_closest_of_several_reasons_is_told():
    late = dataclasses.replace(GPU, name="late", unit_overhead=2.0)
    later = dataclasses.replace(GPU, name="later", unit_overhead=3.0)
    small = dataclasses.replace(GPU, name="small", memory=1e8)
    heavy = dataclasses.replace(NET, memory_fixed=1e9)
    refusal("time", "time 2, memory 1", "the closest is late", "needs at least 2.01 s",
            resources=[later, small, late], workload=heavy)


@pytest.mark.parametrize("billing", BILLINGS)
def test_units(billing):
    message = refusal("units", "all units there are serve 200 of 500 samples of net in 1 s", billing=billing,
                      resources=[limited(GPU, 2)], samples=500)
    assert number_after("time_limit needs to be at least", message) == 2.5
    assert number_after("max_units need to be", message) == 2.5
    is_just_enough("time_limit", 2.5, billing=billing, resources=[limited(GPU, 2)], samples=500)
    refusal("units", "has max_units = 0", billing=billing, resources=[limited(GPU, 0)])


def test_units_that_time_cannot_replace():
    """At most 2 launches of 5 samples, on 16 units."""
    message = refusal(
        "units", "serve 160 of 200 samples of net in 1 s, in at most 2 launches each", "max_units need to be 1.25 times",
        billing="elapsed", latency_limit=0.05, max_launches=2, samples=200,
    )
    assert "time_limit" not in message


@pytest.mark.parametrize("billing", BILLINGS)
def test_units_that_demands_share(billing):
    demands = {"workload": None, "samples": None, "demands": [Demand(NET, 90), Demand(OTHER, 250)]}
    refusal("units", "max_units are too low: they need to be 2 times as many", billing=billing,
            resources=[limited(GPU, 3)], **demands)


@pytest.mark.parametrize(("billing", "need"), [("reserved", 0.002), ("per_use", 0.0015), ("elapsed", 0.0015)])
def test_budget(billing, need):
    """Two units for 1 s; 1.5 s of computing; two units for 0.75 s."""
    message = refusal("budget", "budget = 1e-06 $ per period is too low", billing=billing, budget=1e-6)
    assert number_after("needs to be at least", message) == pytest.approx(need)
    is_just_enough("budget", number_after("needs to be at least", message), billing=billing)


def test_elapsed_plans_within_a_budget_that_a_whole_period_exceeds():
    front = solve_epsilon_front(problem(billing="elapsed", samples=10, budget=1.2e-4))
    assert front.values.tolist() == [[pytest.approx(1e-4), 1.0]]
    two = [Demand(NET, 10), Demand(OTHER, 10)]
    front = solve_epsilon_front(
        problem(billing="elapsed", workload=None, samples=None, demands=two, budget=2.4e-4, resources=[limited(GPU, 3)])
    )
    assert front.values[0][0] == pytest.approx(2e-4, rel=1e-3)
    message = refusal("budget", billing="elapsed", workload=None, samples=None, demands=two, budget=1e-4,
                      resources=[limited(GPU, 3)])
    assert number_after("needs to be at least", message) == pytest.approx(2e-4, rel=1e-3)


@pytest.mark.parametrize("billing", BILLINGS)
def test_types(billing):
    resources = [limited(GPU, 1), limited(TPU, 1), limited(dataclasses.replace(GPU, name="third"), 1)]
    refusal("types", "max_types = 1 is too low: it needs to be at least 3", billing=billing, resources=resources,
            samples=250, max_types=1)
    refusal("types", "max_types = 1 is too low: it needs to be at least 2", billing=billing, resources=[GPU, TPU],
            min_units={"gpu": 1, "tpu": 1}, max_types=1)


@pytest.mark.parametrize("billing", BILLINGS)
def test_quotas(billing):
    refusal("units", "a quota is too low: at most 1 units of A, it needs to be at least 2", billing=billing,
            quotas=[Quota(1, provider="A")])
    # Of two quotas, the one at fault.
    refusal("units", "at most 3 units of east, it needs to be at least 4", billing=billing, samples=350,
            resources=[GPU, TPU], quotas=[Quota(3, provider="A"), Quota(3, region="east")])
    # Each alone is too low.
    refusal("units", "quotas make it so: without them there is a plan", billing=billing,
            resources=[GPU, TPU], quotas=[Quota(1, region="east"), Quota(0, provider="B"), Quota(1, provider="A")])


@pytest.mark.parametrize("billing", BILLINGS)
def test_minimum_units(billing):
    old = dataclasses.replace(GPU, name="old", peak_flops={"fp32": 1e12})
    refusal("units", "min_units asks for 1 units of old, which has no fp16 peak", billing=billing, resources=[GPU, old],
            min_units={"old": 1})
    refusal("units", "at most 2 units of A, it needs to be at least 3", billing=billing, min_units={"gpu": 3},
            quotas=[Quota(2, provider="A")])
    assert len(solve_epsilon_front(problem(billing=billing, resources=[GPU, old], min_units={"old": 0})).points)


def test_a_model_says_so_when_it_is_built():
    with pytest.raises(InfeasibleError) as caught:
        mopt.build_model(problem(latency_limit=0.005))
    assert caught.value.limit == "latency"


def test_users_constraints_may_leave_no_plan():
    model = mopt.build_model(problem())
    model.mine = pyo.Constraint(expr=model.units["gpu"] >= 5)
    with pytest.raises(InfeasibleError) as caught:
        solve_epsilon_front(model)
    assert caught.value.limit == "model"


def test_a_demand_that_nothing_can_serve_has_no_exchanges():
    huge = dataclasses.replace(NET, name="huge", memory_fixed=1e12)
    alone = Problem([GPU, TPU], huge, samples=100, time_limit=1.0)
    assert exchange_limits(alone) == {}
    both = Problem([GPU, TPU], demands=[Demand(NET, 100), Demand(huge, 100)], time_limit=1.0)
    assert set(exchange_limits(both)) == {("gpu", "net"), ("tpu", "net")}
