"""Properties of fronts, each against an independent computation."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy.integrate import quad

from mopt.errors import InputError
from mopt.front import Certificate, ParetoFront
from mopt.front_io import load_front
from mopt.point import Plan, Point, Segment

CERTIFICATE = Certificate(method="m", reason="r", exactness="e", solves=0, resolution=(0.0, 0.0))
SENSES = [(1, -1), (1, 1), (-1, -1), (-1, 1)]
coordinate = st.one_of(st.integers(-50, 50), st.floats(-1e6, 1e6)).map(lambda v: round(float(v), 6) + 0.0)
name = st.text(min_size=1, max_size=8)
number = st.floats(allow_nan=False, allow_infinity=False)


def in_order(draw, size, values=coordinate):
    """Two lists of that many values: the first ascending, the second descending."""
    first, second = (draw(st.lists(values, min_size=size, max_size=size, unique=True)) for _ in range(2))
    return sorted(first), sorted(second, reverse=True)


@st.composite
def finite_fronts(draw, most=12):
    size = draw(st.integers(1, most))
    senses = draw(st.sampled_from(SENSES))
    pairs = zip(*in_order(draw, size), strict=True)
    points = tuple(Point((senses[0] * x, senses[1] * y), {"x": x}) for x, y in pairs)
    return ParetoFront(points=points, senses=senses, complete=True, certificate=CERTIFICATE)


@st.composite
def chains(draw):
    """Costs and capacities of a front of one to four segments that share their ends, and its constant work."""
    size = draw(st.integers(2, 5))
    costs, capacities = in_order(draw, size, st.integers(1, 1000).map(float))
    return costs, capacities, draw(st.integers(1, 100).map(float))


def chain_front(costs, capacities, work):
    points = [Point((c, work / d), {"cost": c}, denominators=(1.0, d)) for c, d in zip(costs, capacities, strict=True)]
    segments = tuple(Segment(a, b) for a, b in itertools.pairwise(points))
    return ParetoFront(points=tuple(points), segments=segments, complete=True, certificate=CERTIFICATE)


@given(finite_fronts(), coordinate, coordinate)
def test_hypervolume_equals_a_count_of_grid_cells(front, ref_x, ref_y):
    s = np.array(front.senses)
    points = front.values * s
    xs, ys = (np.unique([*points[:, k], r]) for k, r in ((0, ref_x), (1, ref_y)))
    area = 0.0
    for x, width in zip(xs, np.diff(xs), strict=False):
        for y, height in zip(ys, np.diff(ys), strict=False):
            inside = x < ref_x and y < ref_y and ((points[:, 0] <= x) & (points[:, 1] <= y)).any()
            area += width * height * inside
    assert front.hypervolume((s[0] * ref_x, s[1] * ref_y)) == pytest.approx(area, rel=1e-9, abs=1e-9)


@given(chains(), st.floats(0.0, 1100.0), st.floats(0.0, 2.0))
def test_hypervolume_of_segments_equals_quadrature(chain, ref_cost, ref_share):
    costs, capacities, work = chain
    front = chain_front(*chain)
    ref_utilization = ref_share * work / max(capacities)

    def gain(cost):
        return max(work / np.interp(cost, costs, capacities) - ref_utilization, 0.0)

    # The kink where the front crosses the reference is one of the pieces' limits.
    crossing = np.interp(-work / ref_utilization, [-d for d in capacities], costs) if ref_utilization > 0 else costs[0]
    limits = sorted({*costs, crossing, ref_cost} - {c for c in (*costs, crossing) if c > ref_cost})
    area = sum(
        quad(gain, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(limits) if a >= costs[0]
    )
    assert front.hypervolume((ref_cost, ref_utilization)) == pytest.approx(area, rel=1e-8, abs=1e-9)


@given(finite_fronts(), coordinate, st.sampled_from([0, 1]))
def test_at_equals_brute_force(front, bound, bounded):
    value = front.senses[bounded] * bound
    other = 1 - bounded
    met = [p for p in front if front.senses[bounded] * p.objectives[bounded] <= bound]
    if met:
        best = min(met, key=lambda p: front.senses[other] * p.objectives[other])
        assert front.at(**{front.names[bounded]: value}) is best
        if bounded == 1:
            assert front.cheapest(utilization=value) is best
    else:
        with pytest.raises(InputError, match="must be at"):
            front.at(**{front.names[bounded]: value})


@given(chains(), st.floats(0.0, 1.0))
def test_points_on_segments_satisfy_their_own_equations(chain, share):
    costs, capacities, work = chain
    front = chain_front(*chain)
    cost = costs[0] + share * (costs[-1] - costs[0])
    point = front.at(cost=cost)
    assert point.objectives[0] == pytest.approx(cost, rel=1e-12)
    assert point.objectives[1] == pytest.approx(work / np.interp(cost, costs, capacities), rel=1e-9)
    assert point.variables["cost"] == pytest.approx(cost, rel=1e-9)
    back = front.cheapest(utilization=point.objectives[1])
    assert back.objectives == pytest.approx(point.objectives, rel=1e-9)


@given(chains())
def test_no_sample_of_a_segment_lies_deeper_than_the_knee(chain):
    front = chain_front(*chain)
    low, high = front.values.min(axis=0), front.values.max(axis=0)

    def depth(pair):
        x, y = (np.array(pair) - low) / (high - low)
        return y - x

    best = depth(front.knee().objectives)
    for segment in front.segments:
        assert all(depth(segment.at(w).objectives) <= best + 1e-9 for w in np.linspace(0, 1, 21))


@given(finite_fronts(most=8), st.integers(2, 8))
def test_thin_has_the_least_radius_with_both_ends(front, n):
    thinned = front.thin(n)
    assert len(thinned) == min(n, len(front))
    assert thinned[0] is front[0]
    assert thinned[-1] is front[-1]
    if n >= len(front):
        return
    scaled = (front.values - front.values.min(axis=0)) / np.ptp(front.values, axis=0)
    distance = np.abs(scaled[:, None] - scaled[None]).max(axis=2)

    def radius(chosen):
        return distance[:, list(chosen)].min(axis=1).max()

    last = len(front) - 1
    least = min(radius((0, *middle, last)) for middle in itertools.combinations(range(1, last), n - 2))
    assert radius([front.points.index(p) for p in thinned]) == pytest.approx(least, rel=1e-9)


@given(finite_fronts(), st.integers(2, 8))
def test_what_thin_omits_gains_no_more_than_the_resolution(front, n):
    thinned = front.thin(n)
    s = np.array(front.senses)
    for point in front.values:
        excess = np.maximum((thinned.values - point) * s, 0.0)
        assert (excess <= np.array(thinned.resolution) * (1 + 1e-12)).all(axis=1).any()


@st.composite
def plans(draw):
    pairs = st.tuples(name, name)
    by_pair = st.dictionaries(pairs, number, max_size=2)
    return Plan(
        units=draw(st.dictionaries(name, st.integers(1, 9), max_size=2)),
        dedicated=draw(st.dictionaries(pairs, st.integers(1, 9), max_size=2)),
        samples=draw(st.dictionaries(name, st.one_of(st.integers(1, 10**6), number), max_size=2)),
        launches=draw(by_pair),
        batch=draw(by_pair),
        busy=draw(by_pair),
        billed=draw(st.dictionaries(name, number, max_size=2)),
        memory=draw(by_pair),
        cost=draw(number),
        cost_per_hour=draw(number),
        utilization=draw(number),
        time_limit=draw(number),
        elapsed=draw(st.none() | number),
        notes=tuple(draw(st.lists(name, max_size=2))),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    finite_fronts(), plans(), st.fractions(), st.dictionaries(name, number), st.dictionaries(name, st.none() | number)
)
def test_files_round_trip(tmp_path, front, plan, fraction, variables, statistics):
    last = Point(front[-1].objectives, variables, exact=(fraction, Fraction(0)), plan=plan)
    stored = ParetoFront(
        points=(*front[:-1], last),
        senses=front.senses,
        complete=True,
        certificate=CERTIFICATE,
        statistics=statistics,
    )
    stored.save(tmp_path / "front.json")
    assert load_front(tmp_path / "front.json") == stored
