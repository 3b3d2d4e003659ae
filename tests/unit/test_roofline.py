"""Launch times: the roofline, layer by layer, as an exact piecewise-linear function."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mopt import InputError, Layer, Resource, Workload, launch_time, load_catalog, load_workload
from mopt.roofline import PiecewiseLinear, upper_envelope

BATCHES = np.array([0.0, 0.25, 1, 2, 3, 7, 10, 64, 1000, 12345])


def resource(**changes):
    values = {"peak_flops": 100e12, "memory_bandwidth": 1e12, "memory": 16e9, "price_per_hour": 1.0}
    return Resource("gpu", **(values | changes))


def workload(*layers, **changes):
    named = [Layer(f"l{k}", *layer) for k, layer in enumerate(layers)]
    return Workload(**({"name": "net", "precision": "fp16", "layers": named} | changes))


def plain_sum(r, w, batch):
    """τ from its definition."""
    peak, bandwidth = r.compute_efficiency * r.peak_flops, r.bandwidth_efficiency * r.memory_bandwidth
    seconds = sum(
        max(
            layer.flops * batch / peak,
            (r.accelerator_count * layer.bytes_fixed + layer.bytes_per_sample * batch) / bandwidth,
        )
        for layer in w.layers
    )
    return max(r.launch_floor, r.launch_overhead + seconds)


amount = st.one_of(st.just(0.0), st.floats(1e3, 1e12))
layers = st.lists(st.tuples(amount, amount, amount), min_size=1, max_size=8).filter(lambda rows: any(map(any, rows)))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    layers,
    st.sampled_from([1, 2, 8]),
    st.sampled_from([0.0, 1e-3, 0.5]),
    st.sampled_from([0.0, 2e-3]),
    st.floats(0.05, 1),
    st.floats(0.05, 1),
)
def test_pieces_are_the_sum_over_layers(rows, count, floor, overhead, compute, bandwidth):
    r = resource(
        accelerator_count=count, launch_floor=floor, launch_overhead=overhead,
        compute_efficiency=compute, bandwidth_efficiency=bandwidth,
    )
    w = workload(*rows)
    tau = launch_time(r, w)
    np.testing.assert_allclose(tau(BATCHES), [plain_sum(r, w, b) for b in BATCHES], rtol=1e-12)
    assert [tau.at(b) for b in BATCHES] == tau(BATCHES).tolist()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=10))
def test_envelope_keeps_just_the_lines_that_show(lines):
    envelope = upper_envelope(lines)
    grid = np.linspace(0, 40, 401)
    np.testing.assert_allclose(envelope(grid), [max(a * b + c for a, c in lines) for b in grid])
    slopes, intercepts = np.array(envelope.pieces).T
    assert (np.diff(slopes) > 0).all()
    crossings = (intercepts[:-1] - intercepts[1:]) / np.diff(slopes)
    assert (np.diff([0.0, *crossings]) > 0).all()  # every piece is the largest on an interval of b ≥ 0


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=10),
    st.floats(0, 20), st.floats(0, 20),
)
def test_restriction_changes_nothing_within(lines, low, width):
    envelope = upper_envelope(lines)
    restricted = envelope.restricted(low, low + width)
    grid = np.linspace(low, low + width, 50)
    np.testing.assert_allclose(restricted(grid), envelope(grid), rtol=1e-12, atol=1e-12)
    assert set(restricted.pieces) <= set(envelope.pieces)


def test_restriction_drops_what_shows_nowhere():
    envelope = PiecewiseLinear(((0.0, 4.0), (1.0, 2.0), (2.0, 0.0)))  # crossings at 2, both
    assert upper_envelope(envelope.pieces).pieces == ((0.0, 4.0), (2.0, 0.0))
    envelope = PiecewiseLinear(((0.0, 4.0), (1.0, 3.0), (2.0, 0.0)))  # crossings at 1 and 3
    assert envelope.restricted(0, 1).pieces == ((0.0, 4.0),)
    assert envelope.restricted(1.5, 2).pieces == ((1.0, 3.0),)
    assert envelope.restricted(2, 9).pieces == ((1.0, 3.0), (2.0, 0.0))
    assert envelope.restricted(5, 5).pieces == ((2.0, 0.0),)


def test_an_aggregate_layer_has_floor_memory_roof_and_compute_roof():
    w = workload((100e9, 1e9, 0.5e9))
    tau = launch_time(resource(launch_floor=1.5e-3), w)
    np.testing.assert_allclose(tau.pieces, [(0, 1.5e-3), (0.5e-3, 1e-3), (1e-3, 0)], atol=1e-18)
    # The roofs meet at b = 2, after 2 ms: a longer floor hides the memory roof.
    hidden = launch_time(resource(launch_floor=5e-3), w)
    np.testing.assert_allclose(hidden.pieces, [(0, 5e-3), (1e-3, 0)], atol=1e-18)
    assert (hidden(4), hidden(6)) == (5e-3, 6e-3)


def test_many_layers_leave_the_memory_roof_one_by_one():
    w = workload((1e9, 1e6, 1e6), (1e9, 1e7, 1e6), (0, 1e6, 1e6))  # the last never does
    tau = launch_time(resource(), w)
    assert len(tau.pieces) == 3
    np.testing.assert_allclose(tau.pieces, [(3e-6, 1.2e-5), (1.2e-5, 1.1e-5), (2.1e-5, 1e-6)], rtol=1e-12)


def test_a_unit_of_several_accelerators_runs_data_parallel():
    w = workload((100e9, 1e9, 0.5e9), (5e9, 1e8, 1e9))
    one = resource()
    eight = resource(peak_flops=800e12, memory_bandwidth=8e12, memory=128e9, accelerator_count=8)
    for batch in (1, 3, 50):
        assert launch_time(eight, w)(8 * batch) == pytest.approx(launch_time(one, w)(batch), rel=1e-12)
    assert launch_time(eight, w)(0) == pytest.approx(launch_time(one, w)(0), rel=1e-12)  # each reads all weights


def test_efficiencies_lower_the_roofs():
    compute_bound, memory_bound = workload((100e9, 0, 1e3)), workload((1e3, 0, 1e9))
    half = resource(compute_efficiency=0.5, bandwidth_efficiency=0.25)
    assert launch_time(half, compute_bound)(10) == pytest.approx(2 * launch_time(resource(), compute_bound)(10))
    assert launch_time(half, memory_bound)(10) == pytest.approx(4 * launch_time(resource(), memory_bound)(10))


def test_precision_chooses_the_peak():
    both = resource(peak_flops={"fp16": 100e12, "fp32": 10e12})
    times = {p: launch_time(both, workload((100e9, 0, 0), precision=p))(1) for p in ("fp16", "bf16", "fp32")}
    assert times == pytest.approx({"fp16": 1e-3, "bf16": 1e-3, "fp32": 1e-2})
    with pytest.raises(InputError, match=r"'net'.*precision = 'int8'.*'gpu' has no int8 peak .has fp16, fp32"):
        launch_time(both, workload((100e9, 0, 0), precision="int8"))


def test_ridge_point_is_where_the_roofs_meet():
    r = resource()
    assert r.ridge_point("fp16") == 100
    assert r.attainable_flops(100) == r.attainable_flops(1e6) == 100e12
    assert r.attainable_flops(25) == 25e12


def test_largest_inverts():
    tau = PiecewiseLinear(((0.0, 4.0), (1.0, 3.0), (2.0, 0.0)))
    for limit in (4.5, 5.0, 6.0, 100.0):
        assert tau(tau.largest(limit)) == pytest.approx(limit)
    assert tau.largest(3.9) == -math.inf
    assert tau.largest(4.0) == pytest.approx(1)
    assert PiecewiseLinear(((0.0, 4.0),)).largest(4.0) == math.inf
    assert PiecewiseLinear(((2.0, 1.0),)).largest(0.5) == -math.inf


def test_largest_forgives_rounding_and_no_more():
    tau = PiecewiseLinear(((0.1, 0.0),))
    assert math.floor(tau.largest(0.1 + 0.1 + 0.1)) == 3
    assert math.floor(PiecewiseLinear(((1 / 3, 0.0),)).largest(1.0)) == 3
    assert math.floor(tau.largest(0.3 * (1 - 1e-8))) == 2


def test_values_take_the_shape_of_the_batch():
    tau = PiecewiseLinear(((0.0, 4.0), (2.0, 0.0)))
    assert tau(3) == 6.0
    assert isinstance(tau(3), float)
    assert tau(np.array([[1, 2], [3, 4]])).tolist() == [[4, 4], [6, 8]]


def test_slopes_of_pieces_rise_on_real_networks():
    for name in ("resnet50-train", "bert-large-infer", "llama3-8b-decode"):
        w = load_workload(name)
        for r in load_catalog().where(provider="AWS", region="us-east-1"):
            if r.peak(w.precision) is not None:
                pieces = launch_time(r, w).pieces
                assert all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(pieces))
