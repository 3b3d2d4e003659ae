"""What one unit can do in a period: batch limits with their reasons, capacities, and launches that reach them."""

import math

import pytest
from hypothesis import given, settings, strategies as st

from mopt import Layer, MemoryPiece, Resource, Workload, batch_limit
from mopt.roofline import PiecewiseLinear
from mopt.service import Service, rounded_up


def resource(**changes):
    values = {"peak_flops": 100e12, "memory_bandwidth": 1e12, "memory": 16e9, "price_per_hour": 1.0}
    return Resource("gpu", **(values | changes))


def workload(**changes):
    values = {
        # 1 + 0.5·b ms, from b = 2 on b ms
        "layers": [Layer("all", flops=100e9, bytes_fixed=1e9, bytes_per_sample=0.5e9)],
        "memory_fixed": 1e9,
        "memory_per_sample": 1e9,
    }
    return Workload(name="net", precision="fp16", **(values | changes))


# -- Batch limits ----------------------------------------------------------------------------------------------------


def test_memory_limits_the_batch():
    assert batch_limit(resource(), workload()) == (15, "memory", "", pytest.approx(math.nan, nan_ok=True))
    assert batch_limit(resource(memory=16.9e9), workload()).batch == 15


def test_the_largest_of_several_memory_pieces_counts():
    pieces = [MemoryPiece(10e9, 0.5e9), MemoryPiece(0, 1.5e9)]
    assert batch_limit(resource(), workload(memory_pieces=pieces)).batch == 10
    assert batch_limit(resource(memory=13e9), workload(memory_pieces=pieces)).batch == 6


def test_a_footprint_that_fits_but_for_rounding_fits():
    assert batch_limit(resource(memory=0.3e9), workload(memory_fixed=0.0, memory_per_sample=0.1e9)).batch == 3
    assert batch_limit(resource(memory=0.3e9 - 10), workload(memory_fixed=0.0, memory_per_sample=0.1e9)).batch == 2


def test_every_accelerator_holds_the_weights():
    large = workload(memory_fixed=20e9)
    eight = resource(memory=128e9, accelerator_count=8)
    assert batch_limit(resource(memory=128e9), large).batch == 108
    refused = batch_limit(eight, large)
    assert (refused.batch, refused.limit, refused.needed) == (0, "memory", 21e9)
    assert refused.reason == "needs 21 GB for a batch of 1 on each accelerator, has 16 GB: 5,000,000,000 B are missing"
    assert batch_limit(eight, workload(memory_fixed=0.5e9)).batch == 8 * 15


def test_batches_are_multiples_of_the_accelerators():
    two = resource(accelerator_count=2, memory=32e9)
    assert batch_limit(two, workload(), samples=13) == (12, "samples", "", pytest.approx(math.nan, nan_ok=True))
    assert batch_limit(two, workload(), latency_limit=9.5e-3).batch == 8


def test_latency_limits_the_batch():
    assert batch_limit(resource(), workload(), latency_limit=7.5e-3)[:2] == (7, "latency")
    assert batch_limit(resource(), workload(), latency_limit=1.5e-3)[:2] == (1, "latency")  # memory roof: 1.5 ms
    refused = batch_limit(resource(), workload(), latency_limit=1.4e-3)
    assert refused[:2] == (0, "latency")
    assert refused.needed == pytest.approx(1.5e-3)
    assert refused.reason == "needs at least 0.0015 s for a launch of 1, latency_limit is 0.0014 s"


def test_the_period_less_its_overhead_limits_the_batch():
    slow = resource(unit_overhead=2e-3)
    assert batch_limit(slow, workload(), time_limit=10e-3)[:2] == (8, "time")
    refused = batch_limit(slow, workload(), time_limit=3e-3)
    assert refused[:2] == (0, "time")
    assert refused.needed == pytest.approx(3.5e-3)
    assert refused.reason.startswith("needs at least 0.0035 s for a launch of 1 and the overhead of 0.002 s, ")
    assert refused.reason.endswith("time_limit is 0.003 s")
    assert batch_limit(slow, workload(), time_limit=1e-3).limit == "time"  # less than the overhead alone


def test_samples_limit_the_batch():
    assert batch_limit(resource(), workload(), samples=5)[:2] == (5, "samples")
    refused = batch_limit(resource(accelerator_count=8, memory=128e9), workload(), samples=5)
    assert refused[:2] == (0, "samples")
    assert refused.needed == 8
    assert refused.reason == "takes at least 8 samples a launch (one per accelerator), the period has 5"


def test_the_tightest_limit_is_named():
    limits = {"latency_limit": 7e-3, "time_limit": 6e-3, "samples": 9}
    assert batch_limit(resource(), workload(), **limits)[:2] == (6, "time")
    assert batch_limit(resource(memory=4e9), workload(), **limits)[:2] == (3, "memory")


def test_nothing_may_limit_the_batch():
    assert batch_limit(resource(), workload(memory_per_sample=0.0))[:2] == (math.inf, "")


def test_inference_chips_do_not_train():
    chip = resource(trains=False)
    assert batch_limit(chip, workload()).batch == 15
    assert batch_limit(chip, workload(mode="training"))[:3] == (0, "training", "does inference only")


def test_a_peak_at_the_precision_is_needed():
    old = resource(peak_flops={"fp32": 10e12, "fp64": 5e12})
    assert batch_limit(old, workload())[:3] == (0, "precision", "has no fp16 peak (has fp32, fp64)")


# -- Capacity --------------------------------------------------------------------------------------------------------


def service(pieces=((0.1, 0.0),), step=1, limit=10, available=1.0, whole=True, most=None):
    return Service(PiecewiseLinear(tuple(pieces)), step, limit, available, whole, most)


def most_by_multisets(s):
    """The largest Σ b_j by looking at multisets of batches: the least time for each total, launch by launch."""
    best = {0: 0.0}
    reach = 0
    for _ in range(s.max_launches or 40):
        longer = dict(best)
        for total, seconds in best.items():
            for batch in range(s.step, int(s.batch_limit) + 1, s.step):
                time = seconds + s.tau(batch)
                if time <= s.available * (1 + 1e-9) and time < longer.get(total + batch, math.inf):
                    longer[total + batch] = time
        if longer == best:
            break
        best = longer
        reach = max(best)
    return reach


curves = st.one_of(
    st.tuples(st.integers(1, 4), st.integers(0, 6)).map(lambda p: ((p[0] / 10, p[1] / 10),)),
    st.tuples(st.integers(0, 2), st.integers(2, 6), st.integers(1, 3), st.integers(0, 2)).map(
        lambda p: ((p[0] / 10, p[1] / 10), ((p[0] + p[2]) / 10, min(p[3], p[1] - 1) / 10))
    ),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(curves, st.sampled_from([1, 2, 3]), st.integers(1, 9), st.integers(1, 40), st.sampled_from([None, 1, 2, 5]))
def test_capacity_equals_the_best_multiset(pieces, step, largest, tenths, most):
    s = service(pieces, step, largest * step, tenths / 10, most=most)
    if s.tau(s.batch_limit) <= s.available * (1 + 1e-9):  # as a batch limit does
        assert s.capacity == most_by_multisets(s)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(curves, st.sampled_from([1, 2, 3]), st.integers(1, 9), st.integers(1, 60))
def test_runs_do_the_samples_in_the_least_time(pieces, step, largest, samples):
    s = service(pieces, step, largest * step)
    runs = s.runs(samples)
    done = sum(batch * times for batch, times in runs)
    assert samples <= done < samples + step
    assert all(batch % step == 0 and 0 < batch <= s.batch_limit for batch, _ in runs)
    assert sum(times for _, times in runs) == math.ceil(done / s.batch_limit)
    longer = service(pieces, step, largest * step, available=s.busy(samples))
    assert longer.capacity >= done
    shorter = service(pieces, step, largest * step, available=s.busy(samples) * (1 - 1e-6))
    assert shorter.tau(s.batch_limit) > shorter.available or shorter.capacity < done


@pytest.mark.parametrize(
    ("seconds", "launches"), [(0.1, 10), (1 / 3, 3), (0.2, 5), (1 / 7, 7), (0.1 + 1e-8, 9), (1.0, 1)]
)
def test_launches_that_fill_the_period_exactly_fit(seconds, launches):
    assert service([(0.0, seconds)], limit=1).capacity == launches


def test_the_last_launch_may_be_smaller():
    s = service([(0.1, 0.05)], limit=4)  # 0.45 s for 4; two of them leave 0.1 s, three launches take 0.15 + 0.1·b
    assert s.capacity == 8
    assert service([(0.1, 0.02)], limit=4).capacity == 9  # 0.06 + 0.9
    assert service([(0.1, 0.02)], limit=4).runs(9) == [(3, 3)]
    assert service([(0.1, 0.02)], limit=4).runs(10) == [(4, 1), (3, 2)]


def test_max_launches_caps_the_capacity():
    assert [service([(0.1, 0.0)], limit=2, most=k).capacity for k in (1, 2, 5, 9)] == [2, 4, 10, 10]


def test_millions_of_launches_are_counted_not_listed():
    day = service([(1e-4, 1e-3)], limit=10, available=86400.0)
    assert day.capacity == 10 * 43_200_000
    assert day.runs(day.capacity - 5)[0] == (10, 43_199_995)


def test_fractional_launches_run_at_the_largest_batch():
    s = service([(0.1, 0.5)], limit=10, available=2.0, whole=False)
    assert s.capacity == pytest.approx(2.0 * 10 / 1.5)
    assert s.runs(4.0) == [(10, 0.4)]
    assert s.busy(s.capacity) == pytest.approx(2.0)


def test_no_samples_no_launches():
    assert service().runs(0) == []
    assert service(whole=False).busy(0) == 0


def test_launch_counts_worth_choosing():
    s = service([(0.1, 0.0)], limit=2, most=4)  # W = 8
    assert list(s.launch_counts(100)) == [1, 2, 3, 4]
    assert list(s.launch_counts(3)) == [1, 2]
    assert list(s.launch_counts(2)) == [1]
    assert list(service([(0.25, 0.0)], limit=2, most=4).launch_counts(100)) == [1, 2]  # W = 4


@pytest.mark.parametrize(
    ("value", "text"), [(0.42, "0.42"), (0.42341, "0.4235"), (1.0, "1"), (123.45, "123.5"), (0.1 + 0.2, "0.3")]
)
def test_what_is_needed_is_rounded_up(value, text):
    assert rounded_up(value) == text
    assert float(text) >= value * (1 - 1e-9)
