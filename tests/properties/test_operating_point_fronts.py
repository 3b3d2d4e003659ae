"""Operating points: the same front as layers where these are convex, and as a plain enumeration where they are not."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import mopt
from mopt import Demand, Layer, Problem, Resource, Workload
from mopt.launch_table import LaunchTable
from mopt.operating_points import OperatingPoint

FITS = 1 + 1e-9


def checked(examples):
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )


def solved(problem):
    """(cost in $, utilization) of the front; empty if there is no plan."""
    try:
        front = mopt.solve_epsilon_front(problem)
    except mopt.InfeasibleError:
        return np.empty((0, 2))
    assert front.complete
    return front.values


# -- The quickest launches -------------------------------------------------------------------------------------------

tables = st.lists(
    st.tuples(st.integers(1, 12), st.integers(5, 60).map(lambda n: n / 100), st.just(0.0)), min_size=1, max_size=5
).map(LaunchTable.of)


@checked(150)
@given(tables)
def test_the_quickest_launches_are_those_of_the_recursion(table):
    """T(s) = min_p τ_p + T(s − b_p), far beyond where the table's own arrays end."""
    least = [0.0]
    for s in range(1, 400):
        least.append(min(t + least[max(s - b, 0)] for b, t in zip(table.batches, table.times, strict=True)))
        runs = table.quickest(s)
        assert sum(b * times for b, times in runs) >= s
        assert table.seconds(runs) == pytest.approx(least[s], rel=1e-12)


@checked(150)
@given(tables, st.integers(1, 4))
def test_limited_launches_are_the_best_of_all_multisets(table, most):
    found = {}
    for k in range(1, most + 1):
        for chosen in itertools.combinations_with_replacement(zip(table.batches, table.times, strict=True), k):
            total = sum(b for b, _ in chosen)
            found[total] = min(found.get(total, math.inf), math.fsum(t for _, t in chosen))
    for s in range(1, max(found) + 1):
        runs = table.quickest(s, most)
        assert sum(times for _, times in runs) <= most
        assert sum(b * times for b, times in runs) >= s
        assert table.seconds(runs) == pytest.approx(min(t for total, t in found.items() if total >= s), rel=1e-12)
    assert table.quickest(max(found) + 1, most) is None
    worth = [s for s in sorted(found) if all(t > found[s] * (1 + 1e-11) for total, t in found.items() if total > s)]
    assert table.totals(most) == worth


# -- The same front as layers ----------------------------------------------------------------------------------------


def tabulated(workload, resources, largest, batches=None):
    """The workload with the launch times of its layers as a table of each resource."""
    points = []
    for r in resources:
        tau, g = mopt.launch_time(r, workload), r.accelerator_count
        chosen = batches(tau, r) if batches else range(1, largest + 1)
        points += [
            OperatingPoint(b, time=tau(g * b), memory=workload.footprint(b), resource=r.name,
                           flops=workload.flops(b), bytes=workload.traffic(b))
            for b in chosen
        ]  # fmt: skip
    return dataclasses.replace(workload, layers=(), points=tuple(points))


def corners(tau, resource):
    """One sample, the kinks, and the largest batch that fits the memory (1 GB and 0.5 GB a sample)."""
    kinks = [(a[1] - b[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(tau.pieces)]
    largest = int((resource.memory / resource.accelerator_count - 1e9) / 0.5e9)
    return sorted({1, *(round(k) for k in kinks if 1 < k < largest), largest})


@st.composite
def plain_resources(draw, name, kinks):
    g = 1 if kinks else draw(st.sampled_from([1, 1, 2]))
    return Resource(
        name,
        peak_flops=draw(st.sampled_from([1e12, 2e12, 4e12])),
        memory_bandwidth=1e11,
        memory=draw(st.sampled_from([4e9, 8e9])) * g,
        price_per_hour=draw(st.integers(2, 20)) / 2,
        max_units=draw(st.integers(1, 3)),
        launch_floor=0.0 if kinks else draw(st.sampled_from([0.0, 0.06])),
        unit_overhead=draw(st.sampled_from([0.0, 0.1])),
        accelerator_count=g,
    )


@st.composite
def layered(draw, kinks=False):
    """A problem of layers. With `kinks`, all roofs meet at whole batches."""
    made = [draw(plain_resources(f"r{k}", kinks)) for k in range(draw(st.integers(2, 3)))]
    # 0.04 + 0.01·b against 0.05·b, 0.025·b or 0.0125·b
    layers = [Layer("a", 5e10, 4e9, 1e9)] if kinks else [Layer("a", 4e10, 3e9, 1e9), Layer("b", 1e10, 1e8, 5e8)]
    net = Workload("net", "fp16", layers, memory_fixed=1e9, memory_per_sample=0.5e9)
    other = dataclasses.replace(net, name="other")
    samples = st.integers(4, 30).map(float)
    several = draw(st.booleans())
    latency = draw(st.sampled_from([None, 0.2]))
    demands = [Demand(net, draw(samples), latency)] + ([Demand(other, draw(samples), latency)] if several else [])
    return Problem(made, demands=demands, time_limit=1.0)


def as_table(problem, **settings):
    demands = [
        dataclasses.replace(d, workload=tabulated(d.workload, problem.resources, 14, **settings))
        for d in problem.demands
    ]
    return dataclasses.replace(problem, demands=demands)


@checked(25)
@given(layered(), st.sampled_from(["compute", "memory", "bandwidth"]))
def test_reserved_has_the_same_front_from_layers_and_from_all_batches(problem, utilization):
    problem = dataclasses.replace(problem, utilization=utilization)
    a, b = solved(problem), solved(as_table(problem))
    if utilization == "compute":
        np.testing.assert_allclose(a, b, rtol=1e-9)
    else:  # what a sample uses is counted at the largest batch, which samples don't limit where launches are padded
        np.testing.assert_allclose(a[:, 0][:1], b[:, 0][:1], rtol=1e-9)


@checked(25)
@given(layered(kinks=True).filter(lambda p: all(d.latency_limit is None for d in p.demands)))
def test_per_use_has_the_same_front_from_layers_and_from_their_corners(problem):
    """The two encodings of the launch time: outer by pieces, inner by operating points at the breakpoints."""
    problem = dataclasses.replace(problem, billing="per_use")
    table = as_table(problem, batches=corners)
    try:
        a = mopt.solve_epsilon_front(problem)
    except mopt.InfeasibleError:
        assert not len(solved(table))
        return
    b = mopt.solve_epsilon_front(table)
    np.testing.assert_allclose(a.values[[0, -1]], b.values[[0, -1]], rtol=1e-6)
    corner = (2 * a.values[:, 0].max(), 0.0)
    assert a.hypervolume(corner) == pytest.approx(b.hypervolume(corner), rel=1e-6)


@checked(20)
@given(layered())
def test_per_use_has_the_same_front_from_layers_and_from_all_batches(problem):
    problem = dataclasses.replace(problem, billing="per_use")
    a, b = solved(problem), solved(as_table(problem))
    assert len(a) == len(b) == 0 or np.allclose(a[[0, -1]], b[[0, -1]], rtol=1e-6)


@checked(25)
@given(layered(), st.sampled_from(["reserved", "per_use"]))
def test_a_table_on_one_resource_and_layers_on_the_others(problem, billing):
    problem = dataclasses.replace(problem, billing=billing)
    demands = [
        dataclasses.replace(d, workload=dataclasses.replace(d.workload, points=points))
        for d in problem.demands
        for points in [tabulated(d.workload, problem.resources[:1], 14).points]
    ]
    mixed = dataclasses.replace(problem, demands=demands)
    assert all(s.tabulated == (i == "r0") for (i, _), s in mixed.services.items())
    a, b = solved(problem), solved(mixed)
    assert len(a) == len(b) == 0 or np.allclose(a[[0, -1]], b[[0, -1]], rtol=1e-6)


# -- Tables that are not convex --------------------------------------------------------------------------------------


@st.composite
def uneven(draw, billing):
    """Two resources with tables of any shape, and one demand."""
    made, points = [], []
    for k in range(2):
        r = Resource(f"r{k}", peak_flops=draw(st.integers(1, 6)) * 1e12, memory_bandwidth=1e11, memory=8e9,
                     price_per_hour=draw(st.integers(2, 20)) / 2, max_units=draw(st.integers(1, 3)),
                     unit_overhead=draw(st.sampled_from([0.0, 0.1])))  # fmt: skip
        made.append(r)
        batches = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True))
        points += [
            OperatingPoint(b, flops=1e10 * b, memory=draw(st.sampled_from([2e9, 2e9, 9e9])), resource=r.name,
                           time=draw(st.integers(3, 30)) / 100)
            for b in batches
        ]  # fmt: skip
    net = Workload("net", "fp16", points=points)
    return Problem(made, net, draw(st.integers(3, 25)), time_limit=1.0, billing=billing,
                   latency_limit=draw(st.sampled_from([None, 0.2])))  # fmt: skip


def usable(problem, resource):
    return [
        (p.batch, p.time)
        for p in problem.workload.points
        if p.resource == resource.name
        and p.memory <= resource.memory
        and p.time <= (problem.latency_limit or math.inf) * FITS
    ]


def multisets(problem, resource, most):
    """(samples, seconds) of all choices of at most so many launches of one unit."""
    found = []
    for k in range(1, most + 1):
        for chosen in itertools.combinations_with_replacement(usable(problem, resource), k):
            seconds = math.fsum(t for _, t in chosen) + resource.unit_overhead
            if seconds <= problem.time_limit * FITS:
                found.append((sum(b for b, _ in chosen), seconds))
    return found


def nondominated(values):
    kept = []
    for cost, peak in sorted(values):
        if not kept or peak < kept[-1][1] * (1 - 1e-12):
            while kept and cost <= kept[-1][0] * (1 + 1e-12):
                kept.pop()
            kept.append((cost, peak))
    return kept


def assert_front(problem, values):
    work = 1e10 * problem.samples
    expected = nondominated(values)
    found = [(cost, work / utilization) for cost, utilization in solved(problem)]
    assert len(found) == len(expected)
    if expected:
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@checked(80)
@given(uneven("reserved"))
def test_reserved_fronts_of_uneven_tables_equal_enumeration(problem):
    capacity = {r.name: max((s for s, _ in multisets(problem, r, 34)), default=0) for r in problem.resources
                if len(usable(problem, r)) < 3}  # fmt: skip
    for r in problem.resources:  # three points: by the recursion over hundredths of a second
        if r.name not in capacity:
            room = round((problem.time_limit - r.unit_overhead) * 100)
            most = [0] * (room + 1)
            for t in range(1, room + 1):
                most[t] = max([most[t - 1]] + [most[t - round(100 * s)] + b for b, s in usable(problem, r)
                                               if round(100 * s) <= t])  # fmt: skip
            capacity[r.name] = most[room]
    a, b = problem.resources
    assert_front(problem, [
        (sum(r.price_per_hour / 3600 * n for r, n in ((a, i), (b, j))), a.peak_flops * i + b.peak_flops * j)
        for i in range(a.max_units + 1)
        for j in range(b.max_units + 1)
        if capacity[a.name] * i + capacity[b.name] * j >= problem.samples
    ])  # fmt: skip


@checked(60)
@given(uneven("elapsed"), st.sampled_from([1, 2, 3]))
def test_elapsed_fronts_of_uneven_tables_equal_enumeration(problem, most):
    """S is the time of some unit's launches; by then each unit does the most that it can."""
    problem = dataclasses.replace(problem, max_launches=most)
    chosen = {r.name: multisets(problem, r, most) for r in problem.resources}
    a, b = problem.resources
    values = []
    for i, j in itertools.product(range(a.max_units + 1), range(b.max_units + 1)):
        used = [(r, n) for r, n in ((a, i), (b, j)) if n]
        for span in {seconds for r, _ in used for _, seconds in chosen[r.name]}:
            done = [max((s for s, seconds in chosen[r.name] if seconds <= span * FITS), default=0) for r, _ in used]
            if all(done) and sum(n * s for (_, n), s in zip(used, done, strict=True)) >= problem.samples:
                values.append((sum(r.price_per_hour / 3600 * n for r, n in used) * span,
                               sum(r.peak_flops * n for r, n in used) * span))  # fmt: skip
    assert_front(problem, values)


@checked(40)
@given(uneven("per_use"))
def test_per_use_ends_of_uneven_tables_are_those_of_the_best_rates(problem):
    """Without limits on units, the cheapest plan runs everything at the least dollars a sample."""
    resources = [dataclasses.replace(r, max_units=None, unit_overhead=0.0) for r in problem.resources]
    problem = dataclasses.replace(problem, resources=resources)
    rates = {r.name: min((t / b for b, t in usable(problem, r)), default=math.inf) for r in resources}
    found = solved(problem)
    if all(map(math.isinf, rates.values())):
        assert not len(found)
        return
    cheapest = min(rates[r.name] * r.price_per_hour / 3600 for r in resources) * problem.samples
    fullest = min(rates[r.name] * r.peak_flops for r in resources)
    assert found[0, 0] == pytest.approx(cheapest, rel=1e-6)
    assert found[-1, 1] == pytest.approx(1e10 / fullest, rel=1e-6)


@checked(25)
@given(uneven("reserved"), st.sampled_from(["reserved", "elapsed"]))
def test_the_model_of_an_uneven_table_has_the_problems_front(problem, billing):
    problem = dataclasses.replace(problem, billing=billing, max_launches=2)
    try:
        model = mopt.build_model(problem)
    except mopt.InfeasibleError:
        assert not len(solved(problem))
        return
    a, b = mopt.solve_epsilon_front(model).values, solved(problem)
    np.testing.assert_allclose(a[[0, -1]], b[[0, -1]], rtol=2e-4)
    assert all(any(p[0] <= q[0] * (1 + 2e-4) and p[1] >= q[1] * (1 - 2e-4) for p in a) for q in b)
    assert all(any(p[0] <= q[0] * (1 + 2e-4) and p[1] >= q[1] * (1 - 2e-4) for p in b) for q in a)


@checked(25)
@given(uneven("reserved"), st.sampled_from([None, 3]))
def test_whole_launches_of_per_use_are_whole_and_do_all_samples(problem, most):
    problem = dataclasses.replace(problem, billing="per_use", launches="whole", max_launches=most)
    try:
        front = mopt.solve_epsilon_front(problem)
    except mopt.InfeasibleError:
        return
    for point in front:
        assert sum(point.plan.samples.values()) == problem.samples
        for pair, launches in point.plan.launches.items():
            assert launches == pytest.approx(round(launches), abs=1e-6)
            largest = max(b for b, _ in usable(problem, next(r for r in problem.resources if r.name == pair[0])))
            assert point.plan.samples[pair[0]] <= largest * launches + 1e-6
