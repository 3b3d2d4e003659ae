"""Fronts of `reserved` and `elapsed` problems equal a plain enumeration of all units (and launches per unit).

The enumeration shares no code with the library: roofline sums, batch limits, unit capacities, limits and objectives are
written out here from their definitions, and every choice of integers is looked at.
"""

import dataclasses
import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import mopt
from mopt import Demand, Layer, MemoryPiece, Problem, Quota, Resource, Workload
from mopt.reduction import reduced

FITS = 1 + 1e-9


def checked(examples):
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )


# -- The definitions -------------------------------------------------------------------------------------------------


def launch_seconds(resource, workload, batch):
    """τ of a unit's batch: each accelerator reads all weights and does its share of the samples."""
    peak = resource.compute_efficiency * resource.peak_flops
    bandwidth = resource.bandwidth_efficiency * resource.memory_bandwidth
    g = resource.accelerator_count
    total = sum(
        np.maximum(layer.flops * batch / peak, (g * layer.bytes_fixed + layer.bytes_per_sample * batch) / bandwidth)
        for layer in workload.layers
    )
    return np.maximum(resource.launch_overhead + total, resource.launch_floor)


def footprint(workload, accelerator_batch):
    pieces = [(workload.memory_fixed, workload.memory_per_sample)]
    pieces += [(piece.fixed, piece.per_sample) for piece in workload.memory_pieces]
    return max(fixed + per_sample * accelerator_batch for fixed, per_sample in pieces)


def largest_batch(resource, demand, period):
    """b̄, or 0."""
    g = resource.accelerator_count
    best = 0
    for b in range(g, int(demand.samples) + 1, g):
        seconds = launch_seconds(resource, demand.workload, b)
        if (
            footprint(demand.workload, b / g) <= resource.memory / g * FITS
            and seconds <= (demand.latency_limit or math.inf) * FITS
            and resource.unit_overhead < period
            and seconds <= (period - resource.unit_overhead) * FITS
        ):
            best = b
    return best


def unit_capacity(resource, demand, period, most_launches):
    """W, up to the first value that covers the demand, by the shortest time for every total and number of launches."""
    g, limit = resource.accelerator_count, largest_batch(resource, demand, period)
    if not limit:
        return 0
    available = (period - resource.unit_overhead) * FITS
    totals = range(0, int(demand.samples) + g, g)
    shortest = {0: 0.0}
    reachable = {0}
    launches = most_launches or len(totals)
    for _ in range(launches):
        longer = dict(shortest)
        for done, seconds in shortest.items():
            for b in range(g, limit + 1, g):
                if done + b <= totals[-1]:
                    time = seconds + launch_seconds(resource, demand.workload, b)
                    longer[done + b] = min(longer.get(done + b, math.inf), time)
        if longer == shortest:
            break
        shortest = longer
        reachable |= {total for total, seconds in shortest.items() if seconds <= available}
    return max(reachable)


def within_limits(problem, units):
    """Which of many choices (rows: units of each resource) keep all limits but the budget."""
    good = np.ones(len(units), dtype=bool)
    for k, resource in enumerate(problem.resources):
        most = math.inf if resource.max_units is None else resource.max_units
        good &= (problem.min_units.get(resource.name, 0) <= units[:, k]) & (units[:, k] <= most)
    if problem.max_types is not None:
        good &= (units > 0).sum(axis=1) <= problem.max_types
    for quota in problem.quotas:
        group = [quota.provider in (None, r.provider) and quota.accelerator in (None, r.accelerator)
                 for r in problem.resources]
        good &= units[:, group].sum(axis=1) <= quota.max_units
    return good


def demands_of(problem):
    return problem.demands or (Demand(problem.workload, problem.samples, problem.latency_limit),)


def nondominated(problem, units, seconds):
    """The nondominated (cost in $, rented FLOP) of choices of units that are paid for so long, within the budget."""
    rates = [[r.price_per_hour / 3600 for r in problem.resources], [r.peak_flops for r in problem.resources]]
    values = (units @ np.array(rates).T) * np.reshape(seconds, (-1, 1))
    if problem.budget is not None:
        values = values[values[:, 0] <= problem.budget * FITS]
    kept = []
    for first, second in values[np.lexsort((values[:, 1], values[:, 0]))]:
        if not kept or second < kept[-1][1] * (1 - 1e-12):
            while kept and first <= kept[-1][0] * (1 + 1e-12):  # equal but for rounding, and worse
                kept.pop()
            kept.append((first, second))
    return kept


def totals(problem, pairs, counts):
    """Units of each resource from units of each pair, row by row."""
    return np.column_stack([
        counts[:, [pair[0] == resource.name for pair in pairs]].sum(axis=1) for resource in problem.resources
    ])


def unit_ranges(problem):
    """W of each pair that can serve, and the numbers of units to look at."""
    capacity = {}
    ranges = []
    for resource, demand in itertools.product(problem.resources, demands_of(problem)):
        samples = unit_capacity(resource, demand, problem.time_limit, problem.max_launches)
        if samples:
            capacity[resource.name, demand.name] = samples
            enough = max(math.ceil(demand.samples / samples), problem.min_units.get(resource.name, 0))
            ranges.append(range((enough if resource.max_units is None else min(enough, resource.max_units)) + 1))
    return capacity, ranges


def reserved_front(problem):
    """All nondominated (cost in $, rented FLOP)."""
    capacity, ranges = unit_ranges(problem)
    if not ranges:
        return []
    counts = np.array(list(itertools.product(*ranges)))
    good = np.ones(len(counts), dtype=bool)
    for demand in demands_of(problem):
        rates = [samples * (name == demand.name) for (_, name), samples in capacity.items()]
        good &= counts @ np.array(rates) >= demand.samples
    units = totals(problem, list(capacity), counts)
    good &= within_limits(problem, units)
    return nondominated(problem, units[good], problem.time_limit)


def roofs(resource, workload):
    """Lines (seconds per launch, seconds per sample) whose largest is τ: every layer under either of its two roofs."""
    peak = resource.compute_efficiency * resource.peak_flops
    bandwidth = resource.bandwidth_efficiency * resource.memory_bandwidth
    g = resource.accelerator_count
    of_layers = [
        ((0.0, layer.flops / peak), (g * layer.bytes_fixed / bandwidth, layer.bytes_per_sample / bandwidth))
        for layer in workload.layers
    ]
    lines = [np.sum([(resource.launch_overhead, 0.0), *chosen], axis=0) for chosen in itertools.product(*of_layers)]
    return [(resource.launch_floor, 0.0), *lines]


def samples_by(resource, workload, launches, seconds, most):
    """The samples b ≤ most of one unit that `launches` even launches do by `seconds` (an array)."""
    computing = seconds - resource.unit_overhead
    done = np.full_like(seconds, most)
    for per_launch, per_sample in roofs(resource, workload):
        if per_sample:
            done = np.minimum(done, (computing - launches * per_launch) / per_sample)
    return done


def elapsed_front(problem):
    """All nondominated (cost in $, rented FLOP): every (n, c) of every pair, S by bisection over continuous samples."""
    demands = demands_of(problem)
    period = problem.time_limit
    most_launches = problem.max_launches or 4
    options, kinds = [], []
    for resource, demand in itertools.product(problem.resources, demands):
        capacity = unit_capacity(resource, demand, period, most_launches)
        if capacity:
            options.append((resource, demand.name, largest_batch(resource, demand, period), capacity))
            many = itertools.product(range(1, resource.max_units + 1), range(1, most_launches + 1))
            kinds.append([(0, 0), *many])
    if not kinds:
        return []
    table = np.array(list(itertools.product(*kinds)))  # (choices, pairs, 2): units, launches
    units = totals(problem, [(resource.name, name) for resource, name, *_ in options], table[:, :, 0])
    good = within_limits(problem, units)
    table, units = table[good], units[good]
    low, high = np.zeros(len(table)), np.full(len(table), period * FITS)

    def done(seconds):
        """Whether all demands are done, and all units can be, by then."""
        good = np.ones(len(seconds), dtype=bool)
        for demand in demands:
            total = np.zeros(len(seconds))
            for k, (resource, name, limit, capacity) in enumerate(options):
                n, c = table[:, k, 0], table[:, k, 1]
                for launches in range(1, most_launches + 1):
                    mine = c == launches
                    if name != demand.name or not mine.any():
                        continue
                    most = min(capacity, launches * limit)
                    samples = samples_by(resource, demand.workload, launches, seconds[mine], most)
                    least = resource.unit_overhead + launches * launch_seconds(resource, demand.workload, 0.0)
                    total[mine] += n[mine] * samples
                    good[mine] &= seconds[mine] >= least
            good &= total >= demand.samples * (1 - 1e-12)
        return good

    possible = done(high)
    for _ in range(50):
        middle = (low + high) / 2
        enough = done(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return nondominated(problem, units[possible], high[possible])


# -- Random problems -------------------------------------------------------------------------------------------------


@st.composite
def resources(draw, count, most_units):
    made = []
    for k in range(count):
        quarters = draw(st.integers(3, 40))
        made.append(
            Resource(
                name=f"r{k}",
                # Dear ones waste less: fronts of several points.
                peak_flops=(draw(st.integers(2, 8)) + (40 - quarters) // 3) * 1e12,
                memory_bandwidth=draw(st.integers(2, 12)) * 1e10,
                memory=draw(st.sampled_from([8e9, 20e9, 40e9])),
                price_per_hour=quarters / 4,
                max_units=draw(most_units),
                compute_efficiency=draw(st.sampled_from([1.0, 1.0, 0.5])),
                bandwidth_efficiency=draw(st.sampled_from([1.0, 1.0, 0.8])),
                launch_floor=draw(st.sampled_from([0.0, 0.0, 0.1])),
                launch_overhead=draw(st.sampled_from([0.0, 0.0, 0.02])),
                unit_overhead=draw(st.sampled_from([0.0, 0.0, 0.05, 0.2])),
                provider=draw(st.sampled_from(["A", "B"])),
                accelerator=draw(st.sampled_from(["x", "y"])),
                accelerator_count=draw(st.sampled_from([1, 1, 1, 2, 4])),
            )
        )
    return made


@st.composite
def workloads(draw, name):
    layers = [
        Layer(
            f"l{k}",
            flops=draw(st.sampled_from([0.0, 1e11, 5e11, 1e12])),
            bytes_fixed=draw(st.sampled_from([0.0, 1e8, 1e9])),
            bytes_per_sample=draw(st.sampled_from([0.0, 1e9, 3e9])),
        )
        for k in range(draw(st.integers(1, 2)))
    ]
    layers.append(Layer("last", flops=3e11, bytes_fixed=1e8, bytes_per_sample=5e8))
    pieces = [MemoryPiece(draw(st.sampled_from([0.0, 2e9])), 1e9)] if draw(st.booleans()) else []
    return Workload(
        name=name,
        precision="fp16",
        layers=layers,
        memory_fixed=draw(st.sampled_from([0.0, 1e9])),
        memory_per_sample=draw(st.sampled_from([2e8, 1e9, 2e9])),
        memory_pieces=pieces,
    )


@st.composite
def problems(draw, billing, most_resources, most_samples, most_units):
    found = draw(resources(draw(st.integers(2, most_resources)), most_units))
    several = draw(st.booleans())
    latency = st.sampled_from([None, None, 0.3])
    samples = st.integers(1, most_samples // (2 if several else 1)).map(float)
    demands = [Demand(draw(workloads(f"w{k}")), draw(samples), draw(latency)) for k in range(1 + several)]
    min_units = {}
    if draw(st.sampled_from([False, False, True])):
        chosen = draw(st.sampled_from(found))
        min_units = {chosen.name: draw(st.integers(0, 1 if chosen.max_units is None else min(1, chosen.max_units)))}
    quotas = []
    if draw(st.sampled_from([False, False, True])):
        chosen = draw(st.sampled_from(found))
        group = draw(st.sampled_from(["provider", "accelerator"]))
        quotas = [Quota(max_units=draw(st.integers(1, 4)), **{group: getattr(chosen, group)})]
    return Problem(
        found,
        demands=demands,
        time_limit=draw(st.sampled_from([0.7, 1.0, 1.3])),
        billing=billing,
        max_launches=draw(st.sampled_from([None, 1, 2, 3] if billing == "reserved" else [1, 2])),
        max_types=draw(st.sampled_from([None, None, 2, 1])),
        budget=draw(st.sampled_from([None, None, 0.005, 0.01])),
        min_units=min_units,
        quotas=quotas,
    )


def small(problem):
    """Whether there are few enough choices to look at them all."""
    if problem.billing == "elapsed":
        kinds = (problem.max_launches or 4) * np.array([r.max_units for r in problem.resources]) + 1
        return np.prod(kinds ** len(problem.demands)) <= 8000
    return np.prod([len(counts) for counts in unit_ranges(problem)[1]]) <= 8000


reserved_problems = problems("reserved", 4, 24, st.sampled_from([None, None, 1, 2, 4])).filter(small)
elapsed_problems = problems("elapsed", 3, 24, st.sampled_from([1, 2, 2, 3, 0])).filter(small)
elapsed_problems_of_many_units = problems("elapsed", 2, 60, st.sampled_from([4, 5, 6, 9])).filter(small)


# -- Properties ------------------------------------------------------------------------------------------------------


def work(problem):
    return sum(layer.flops * d.samples for d in demands_of(problem) for layer in d.workload.layers)


def solved(problem, target=None, **options):
    """(cost in $, rented FLOP) of the front; empty if there is no plan."""
    try:
        front = mopt.solve_epsilon_front(problem if target is None else target, **options)
    except mopt.InfeasibleError:
        return []
    assert front.complete
    return [(cost, work(problem) / utilization) for cost, utilization in front.values]


def covers(these, those, steps):
    """Each of those has one of these that is no worse by more than a step."""
    return all(any(p[0] <= q[0] + steps[0] and p[1] <= q[1] + steps[1] for p in these) for q in those)


def assert_same(found, expected, share=1e-8):
    """Equal up to a share of the values' size; where that is coarser than differences, up to points within it."""
    assert bool(found) == bool(expected)
    if expected:
        steps = [float(max(point[k] for point in expected)) * share for k in (0, 1)]
        assert covers(found, expected, steps), "a point is missing"
        assert covers(expected, found, steps), "a point is better than any plan"


@checked(120)
@given(reserved_problems)
def test_reserved_front_equals_enumeration(problem):
    found, expected = solved(problem), reserved_front(problem)
    assert len(found) == len(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@checked(60)
@given(elapsed_problems)
def test_elapsed_front_equals_enumeration(problem):
    share = 1e-8 if len(problem.demands) == 1 else 1.01e-4  # the resolution of the sweep, which serves several demands
    assert_same(solved(problem), elapsed_front(problem), share)


@checked(25)
@given(elapsed_problems_of_many_units)
def test_units_of_several_digits_are_all_reached_by_the_solver(problem):
    assert_same(solved(problem, method="solver"), elapsed_front(problem), 1.01e-4)


@checked(15)
@given(st.one_of(reserved_problems, elapsed_problems))
def test_the_model_has_the_problems_front(problem):
    try:
        model = mopt.build_model(problem)
    except mopt.InfeasibleError:
        assert not solved(problem)
        return
    share = 1e-8 if problem.billing == "reserved" else 1.01e-4
    assert_same(solved(problem, model), solved(problem), share)


CATALOG = [resource for resource in mopt.load_catalog() if resource.accelerator]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("billing", ["reserved", "elapsed"])
def test_dropping_replaced_offers_keeps_the_front(billing, seed, monkeypatch):
    chance = random.Random(seed)
    offers = chance.sample(CATALOG, 40 if billing == "reserved" else 90)
    if seed % 2 or billing == "elapsed":
        most = [1, 2, 3] if billing == "elapsed" else [1, 2, 40]
        offers = [dataclasses.replace(offer, max_units=chance.choice(most)) for offer in offers]
    few = seed % 3 > 0
    problem = Problem(
        offers,
        mopt.load_workload("bert-large-train" if few else "resnet50-train"),
        256 if few else 2048,
        time_limit=2.0,
        billing=billing,
        max_types=2 if billing == "elapsed" else chance.choice([None, 3]),
        quotas=[Quota(max_units=4, provider=offers[0].provider)] if seed % 4 == 1 else [],
    )
    smaller, dropped = reduced(problem)
    assert dropped
    assert len(smaller.resources) + len(dropped) + len(problem.rejected) == len(offers)
    front = mopt.solve_epsilon_front(problem)
    monkeypatch.setattr("mopt.task.reduced", lambda problem: (problem, {}))
    whole = mopt.solve_epsilon_front(problem)
    np.testing.assert_allclose(front.values, whole.values, rtol=1e-9)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("billing", "utilization"), [("per_use", "compute"), ("reserved", "bandwidth"), ("reserved", "memory")]
)
def test_dropping_replaced_offers_keeps_other_fronts(billing, utilization, seed, monkeypatch):
    offers = random.Random(seed).sample(CATALOG, 25)
    problem = Problem(
        offers, mopt.load_workload("resnet50-train"), 256, time_limit=1.0, billing=billing, utilization=utilization
    )
    assert reduced(problem)[1]
    front = mopt.solve_epsilon_front(problem)
    monkeypatch.setattr("mopt.task.reduced", lambda problem: (problem, {}))
    whole = mopt.solve_epsilon_front(problem)
    assert front.hypervolume((10.0, 0.0)) == pytest.approx(whole.hypervolume((10.0, 0.0)), rel=1e-7)
    for end in (0, -1):
        np.testing.assert_allclose(front.values[end], whole.values[end], rtol=1e-6)
