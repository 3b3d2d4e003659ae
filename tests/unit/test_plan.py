"""Plans do what they say: worked out again from the problem's data."""

import dataclasses
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

import mopt
from mopt import Demand, Layer, MemoryPiece, Problem, Resource, Workload
from mopt.plan import Choice, Evaluator, decimal, spread
from mopt.service import even

NET = Workload(
    "net", "fp16", [Layer("a", 1e10, 2e9, 1e8), Layer("b", 3e10, 0, 5e8)], memory_fixed=1e9, memory_per_sample=0.3e9,
    memory_pieces=[MemoryPiece(2e9, 0.1e9)],
)
OTHER = Workload("other", "fp16", [Layer("all", 2e10, 1e8, 1e9)], memory_per_sample=0.5e9)
SLOW = Resource("slow", peak_flops=2e12, memory_bandwidth=3e10, memory=6e9, price_per_hour=1.0, max_units=12)
FAST = Resource(
    "fast", peak_flops=6e12, memory_bandwidth=6e11, memory=40e9, price_per_hour=8.0, max_units=3, accelerator_count=4,
    unit_overhead=0.05, launch_floor=0.02,
)
RESOURCES = {"slow": SLOW, "fast": FAST}
PERIOD = 0.8


def problem(**changes):
    values = {"resources": [SLOW, FAST], "demands": [Demand(NET, 97), Demand(OTHER, 41, latency_limit=0.3)]}
    return Problem(**(values | {"time_limit": PERIOD} | changes))


def loads(total, units):
    """Samples of each unit, shared evenly."""
    return [total // units + (k < total % units) for k in range(units)]


def launches_of(load, most, step):
    """The fewest whole launches of even size, in multiples of the accelerators."""
    accelerator_samples = math.ceil(load / step)
    count = math.ceil(accelerator_samples * step / most)
    return [step * b for b in loads(accelerator_samples, count)] if count else []


def check(problem, point, several=True):
    """Everything that a plan of whole launches says."""
    plan = point.plan
    samples = {tuple(name.split("|")): n for name, n in plan.samples.items()} if several else {
        (name, "net"): n for name, n in plan.samples.items()
    }
    for r, demand in problem.demand_by_name.items():
        assert sum(n for pair, n in samples.items() if pair[1] == r) == demand.samples
    assert plan.units == {i: n for i in RESOURCES if (n := sum(d for p, d in plan.dedicated.items() if p[0] == i))}
    period = plan.elapsed or problem.time_limit
    for (i, r), n in samples.items():
        assert n == int(n)
        resource, demand, service = RESOURCES[i], problem.demand_by_name[r], problem.services[i, r]
        units = plan.dedicated[i, r]
        runs = [launches_of(load, service.batch_limit, service.step) for load in loads(int(n), units)]
        assert plan.launches[i, r] == sum(map(len, runs))
        assert plan.batch[i, r] == pytest.approx(n / plan.launches[i, r])
        assert plan.busy[i, r] == pytest.approx(sum(service.tau(b) for batches in runs for b in batches))
        largest = max(max(batches) for batches in runs if batches)
        accelerator_batch = largest / resource.accelerator_count
        assert accelerator_batch == int(accelerator_batch)
        assert plan.memory[i, r] == demand.workload.footprint(accelerator_batch) <= resource.memory / resource.accelerator_count
        slowest = max(resource.unit_overhead + sum(map(service.tau, batches)) for batches in runs)
        assert slowest <= problem.time_limit * (1 + 1e-9)
        assert slowest <= period * (1 + 1e-9) or any("whole samples take" in note for note in plan.notes)
        if demand.latency_limit:
            assert max(service.tau(b) for batches in runs for b in batches) <= demand.latency_limit * (1 + 1e-9)
        if problem.launches_per_unit:
            assert max(map(len, runs)) <= problem.launches_per_unit
    assert plan.billed == {i: pytest.approx(n * period) for i, n in plan.units.items()}
    dollars = sum(RESOURCES[i].price_per_hour * n for i, n in plan.units.items())
    assert plan.cost_per_hour == pytest.approx(dollars)
    assert plan.cost == point.objectives[0] == pytest.approx(dollars / 3600 * period)
    work = sum(d.workload.flops_per_sample * d.samples for d in problem.demand_by_name.values())
    rented = sum(RESOURCES[i].peak_flops * n * period for i, n in plan.units.items())
    assert plan.utilization == point.objectives[1] == pytest.approx(work / rented)
    assert plan.time_limit == problem.time_limit


@pytest.mark.parametrize("max_launches", [None, 2, 3])
def test_reserved_plans(max_launches):
    p = problem(max_launches=max_launches)
    front = mopt.solve_epsilon_front(p)
    assert len(front.points) > 1
    for point in front:
        check(p, point)


@pytest.mark.parametrize("max_launches", [2, None])
def test_elapsed_plans_by_enumeration(max_launches):
    p = problem(demands=[Demand(NET, 97)], billing="elapsed", max_launches=max_launches)
    front = mopt.solve_epsilon_front(p)
    assert front.certificate.method == "enumeration"
    assert len(front.points) > 1
    for point in front:
        check(p, point, several=False)


def test_elapsed_plans_of_two_demands():
    p = problem(billing="elapsed", max_launches=2, resources=[dataclasses.replace(SLOW, max_units=4), FAST])
    for point in mopt.solve_epsilon_front(p):
        check(p, point)


@pytest.mark.parametrize("billing", ["reserved", "elapsed"])
def test_plans_of_a_users_model(billing):
    p = problem(demands=[Demand(NET, 97)], billing=billing)
    for point in mopt.solve_epsilon_front(mopt.build_model(p), max_points=3):
        check(p, point, several=False)


def test_reserved_plans_of_fractional_launches():
    p = problem(launches="rate", demands=[Demand(NET, 97.5), Demand(OTHER, 0.25)])
    front = mopt.solve_epsilon_front(p)
    for point in front:
        plan = point.plan
        for r, total in (("net", 97.5), ("other", 0.25)):
            assert sum(n for name, n in plan.samples.items() if name.endswith(f"|{r}")) == pytest.approx(total, rel=1e-9)
        for pair, launches in plan.launches.items():
            service = p.services[pair]
            samples = plan.samples["|".join(pair)]
            assert plan.batch[pair] == pytest.approx(service.batch_limit)
            assert launches == pytest.approx(samples / service.batch_limit)
            assert plan.busy[pair] == pytest.approx(launches * service.tau(service.batch_limit))
            assert plan.busy[pair] <= plan.dedicated[pair] * service.available * (1 + 1e-9)
            assert plan.memory[pair] <= RESOURCES[pair[0]].memory / service.step


# -- The evaluator ---------------------------------------------------------------------------------------------------


def evaluator(p):
    return Evaluator(p, {name: resource.peak_flops for name, resource in RESOURCES.items()})


def test_worth_is_exact():
    p = problem(demands=[Demand(NET, 97)])
    worth = evaluator(p).worth(Choice({("slow", "net"): 7, ("fast", "net"): 3}, {}))
    assert worth.cost == Fraction(7 * 1 + 3 * 8, 3600) * Fraction(8, 10)
    assert worth.rented == (7 * 2 + 3 * 6) * 10**12 * Fraction(8, 10)
    assert worth.span is None


@pytest.mark.parametrize(
    ("changes", "units"),
    [
        ({}, (13, 0)),  # more than max_units
        ({}, (1, 0)),  # too little capacity
        ({}, (-1, 3)),
        ({"min_units": {"slow": 1}}, (0, 3)),
        ({"max_types": 1}, (1, 3)),
        ({"budget": 0.005}, (0, 3)),
        ({"quotas": [mopt.Quota(2, accelerator="")]}, (0, 3)),
    ],
)
def test_what_breaks_a_limit_is_worth_nothing(changes, units):
    choice = Choice({("slow", "net"): units[0], ("fast", "net"): units[1]}, {})
    assert evaluator(problem(demands=[Demand(NET, 97)], **changes)).worth(choice) is None
    assert evaluator(problem(demands=[Demand(NET, 30)])).worth(Choice({("fast", "net"): 3}, {})) is not None


def test_the_shortest_elapsed_time():
    """Two units of 0.2 + 0.1·b s for b ≤ 3, one launch each, and 4 samples: both take 0.4 s."""
    net = Workload("net", "fp16", [Layer("all", 1, 2e9, 1e9)], memory_per_sample=0.3e9)
    r = Resource("r", peak_flops=1e12, memory_bandwidth=1e10, memory=1e9, price_per_hour=1.0, max_units=3)
    p = Problem([r], net, 4, time_limit=1.0, billing="elapsed")
    e = Evaluator(p, {"r": 1e12})
    assert float(e.worth(Choice({("r", "net"): 2}, {("r", "net"): 1})).span) == pytest.approx(0.4)
    assert float(e.worth(Choice({("r", "net"): 2}, {("r", "net"): 2})).span) == pytest.approx(0.6)
    assert float(e.worth(Choice({("r", "net"): 1}, {("r", "net"): 2})).span) == pytest.approx(0.8)
    assert e.worth(Choice({("r", "net"): 1}, {("r", "net"): 1})) is None
    late = dataclasses.replace(p, resources=(dataclasses.replace(r, unit_overhead=0.5),))
    assert Evaluator(late, {"r": 1e12}).worth(Choice({("r", "net"): 1}, {("r", "net"): 1})) is None


def test_whole_samples_that_take_longer_are_noted():
    net = Workload("net", "fp16", [Layer("all", 1e11)])
    r = Resource("r", peak_flops=1e12, memory_bandwidth=1e10, memory=1e9, price_per_hour=1.0, max_units=2)
    front = mopt.solve_epsilon_front(Problem([r], net, 5, time_limit=1.0, billing="elapsed", min_units={"r": 2}))
    (note,) = [note for note in front[0].plan.notes if "whole" in note]
    assert front[0].plan.elapsed == pytest.approx(0.25)
    assert note == "whole samples take 0.3 s, 20.00% over the elapsed time of even shares"


def test_of_plans_of_equal_worth_the_one_that_is_done_first_is_returned():
    """Twice the units for half the time cost the same."""
    net = Workload("net", "fp16", [Layer("all", 1e11)])
    r = Resource("r", peak_flops=1e12, memory_bandwidth=1e10, memory=1e9, price_per_hour=1.0, max_units=3)
    front = mopt.solve_epsilon_front(Problem([r], net, 6, time_limit=1.0, billing="elapsed"))
    assert [point.units for point in front] == [{"r": 3}]
    assert front[0].plan.elapsed == pytest.approx(0.2)


def test_decimals_are_what_was_typed():
    assert decimal(0.1) == Fraction(1, 10)
    assert decimal(3.06) == Fraction(306, 100)
    assert decimal(312e12) == 312 * 10**12


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 50), st.integers(1, 12))
def test_even_parts(total, parts):
    found = even(total, parts)
    assert sum(size * times for size, times in found) == total
    assert sum(times for _, times in found) == (parts if total >= parts else total)
    sizes = [size for size, _ in found]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert all(size > 0 for size in sizes)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_spread_shares_everything_and_fills_none_beyond(data):
    most = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=5))
    total = data.draw(st.integers(1, sum(most)))
    room = [data.draw(st.floats(0, m)) for m in most]
    if sum(room) < total:  # as capacities do, rooms hold the total
        room = [float(m) for m in most]
    pairs = [(f"r{k}", "net") for k in range(len(most))]
    shares = spread(total, dict(zip(pairs, room, strict=True)), dict(zip(pairs, most, strict=True)))
    assert sum(shares.values()) == total
    for pair, value, limit in zip(pairs, room, most, strict=True):
        assert 0 <= shares[pair] <= limit
        even_share = total * value / sum(room)
        assert shares[pair] >= math.floor(min(even_share, limit))
