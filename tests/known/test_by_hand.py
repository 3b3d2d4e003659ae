"""The example that by_hand.md works out: every number of it."""

import numpy as np
import pytest

from mopt import Layer, Problem, Resource, Workload, batch_limit, launch_time, solve_epsilon_front

WORKLOAD = Workload(
    name="net",
    precision="fp16",
    layers=[Layer("all", flops=100e9, bytes_fixed=1e9, bytes_per_sample=0.5e9)],
    memory_fixed=2e9,
    memory_per_sample=0.5e9,
)
SMALL = Resource("small", peak_flops=40e12, memory_bandwidth=200e9, memory=6e9, price_per_hour=0.8)
MEDIUM = Resource("medium", peak_flops=80e12, memory_bandwidth=500e9, memory=12e9, price_per_hour=2.8)
LARGE = Resource(
    "large", peak_flops=200e12, memory_bandwidth=1000e9, memory=32e9, price_per_hour=5.0, accelerator_count=2
)
RESOURCES = (SMALL, MEDIUM, LARGE)
PERIOD = 0.1


def problem(**changes):
    return Problem(**{"resources": RESOURCES, "workload": WORKLOAD, "samples": 400, "time_limit": PERIOD} | changes)


def per_period(dollars_per_hour):
    return dollars_per_hour / 3600 * PERIOD


def test_ridge_points():
    assert [r.ridge_point() for r in RESOURCES] == pytest.approx([200, 160, 200])


@pytest.mark.parametrize(
    ("batch", "flops", "traffic", "intensity"), [(2, 200, 2, 100), (8, 800, 5, 160), (20, 2000, 11, 2000 / 11)]
)
def test_intensity_grows_with_the_batch(batch, flops, traffic, intensity):
    assert WORKLOAD.flops(batch) == pytest.approx(flops * 1e9)
    assert WORKLOAD.traffic(batch) == pytest.approx(traffic * 1e9)
    assert WORKLOAD.arithmetic_intensity(batch) == pytest.approx(intensity)


@pytest.mark.parametrize(
    ("resource", "batch", "tflops"), [(MEDIUM, 2, 50), (MEDIUM, 8, 80), (MEDIUM, 20, 80), (SMALL, 8, 32)]
)
def test_attainable_flops_on_both_sides_of_the_ridge(resource, batch, tflops):
    assert resource.attainable_flops(WORKLOAD.arithmetic_intensity(batch)) == pytest.approx(tflops * 1e12)


@pytest.mark.parametrize(
    ("resource", "milliseconds"),
    [
        (SMALL, {1: 7.5, 8: 25}),
        (MEDIUM, {2: 4, 8: 10, 20: 25}),  # memory roof, ridge, compute roof
        (LARGE, {16: 10, 46: 25, 56: 30}),
    ],
)
def test_launch_times(resource, milliseconds):
    tau = launch_time(resource, WORKLOAD)
    assert [tau(batch) * 1e3 for batch in milliseconds] == pytest.approx(list(milliseconds.values()))


def test_pieces():
    """Slopes and intercepts; a compute roof that shows nowhere is left out."""
    pieces = {r.name: np.array(launch_time(r, WORKLOAD).pieces) * 1e3 for r in RESOURCES}
    np.testing.assert_allclose(pieces["small"], [(2.5, 5)])
    np.testing.assert_allclose(pieces["medium"], [(1, 2), (1.25, 0)])
    np.testing.assert_allclose(pieces["large"], [(0.5, 2)])


def test_batch_limits_and_what_a_unit_does():
    assert [batch_limit(r, WORKLOAD)[:2] for r in RESOURCES] == [(8, "memory"), (20, "memory"), (56, "memory")]
    services = problem().services
    assert [services[name, "net"].capacity for name in ("small", "medium", "large")] == [32, 80, 184]


FRONT = [  # units, $/h, rented TFLOP/s
    ({"small": 13}, 10.4, 520),
    ({"small": 7, "large": 1}, 10.6, 480),
    ({"small": 1, "large": 2}, 10.8, 440),
    ({"medium": 5}, 14.0, 400),
]


def test_front():
    front = solve_epsilon_front(problem())
    assert front.complete
    assert [point.units for point in front] == [units for units, _, _ in FRONT]
    for point, (_, dollars, tflops) in zip(front, FRONT, strict=True):
        assert point.objectives == pytest.approx((per_period(dollars), 400 / tflops), rel=1e-12)
        assert point.plan.cost_per_hour == pytest.approx(dollars)
        assert sum(point.samples.values()) == 400


def test_the_plan_that_wastes_nothing():
    plan = solve_epsilon_front(problem())[3].plan
    assert plan.samples == {"medium": 400}
    assert plan.launches == {("medium", "net"): 20}
    assert plan.batch == {("medium", "net"): 20}
    assert plan.memory == {("medium", "net"): 12e9}
    assert plan.busy[("medium", "net")] == pytest.approx(5 * PERIOD)
    assert plan.billed == {"medium": pytest.approx(5 * PERIOD)}


def test_per_use():
    front = solve_epsilon_front(problem(billing="per_use"))
    dollars = [400 * rate / 3600e3 for rate in (2.5, 5 * 30 / 56, 3.5)]
    ends = [front.segments[0].start, *[segment.end for segment in front.segments]]
    assert len(front.segments) == 2
    assert [end.objectives[0] for end in ends] == pytest.approx(dollars, rel=1e-6)
    assert [end.objectives[1] for end in ends] == pytest.approx([0.8, 56 / 60, 1.0], rel=1e-6)
    assert [list(end.samples) for end in ends] == [["small"], ["large"], ["medium"]]


def test_elapsed():
    limited = [Resource(**{**vars(r), "max_units": n}) for r, n in ((SMALL, 13), (MEDIUM, 5))]
    front = solve_epsilon_front(problem(resources=limited, billing="elapsed", max_types=1))
    seconds = [4 * 5e-3 + 2.5e-3 * 400 / 13, 0.1]
    assert [point.units for point in front] == [{"small": 13}, {"medium": 5}]
    assert [point.plan.elapsed for point in front] == pytest.approx(seconds)
    assert [point.objectives[0] for point in front] == pytest.approx(
        [10.4 / 3600 * seconds[0], 14 / 3600 * seconds[1]]
    )
    assert [point.objectives[1] for point in front] == pytest.approx([40 / (520 * seconds[0]), 1.0])
    assert seconds[0] == pytest.approx(0.0969, abs=5e-5)
    assert front[0].objectives[1] == pytest.approx(0.794, abs=5e-4)
