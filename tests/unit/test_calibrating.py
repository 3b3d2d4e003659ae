"""Fits to measured times: known parameters come back, and the rows that spoil them are told."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from mopt import InputError, Layer, Resource, Workload, launch_time
from mopt.calibrating import CalibrationWarning, calibrate
from mopt.measurements import Measurement, at_precision
from mopt.operating_points import OperatingPoint
from mopt.parallelism import Parallelism

# A network bound by compute and one bound by memory: from either alone the two efficiencies can't be told apart.
NET = Workload("net", "fp16", (Layer("conv", 1e10, 1e6, 1e6), Layer("fc", 1e9, 1e8, 1e4)), family="f")
MOVER = Workload("mover", "fp16", (Layer("act", 1e6, 0.0, 1e8), Layer("fc", 1e7, 1e9, 1e4)), family="f")
GPU = Resource("gpu", {"fp16": 1e14, "fp32": 1e13}, 1e12, 1e11, 1.0)
BATCHES = [2**k for k in range(10)]


def times(resource, workload=NET, batches=BATCHES):
    tau = launch_time(resource, workload)
    return [(resource.name, workload.name, batch, tau.at(batch)) for batch in batches]


truths = st.builds(
    lambda compute, bandwidth, overhead, floor: dataclasses.replace(
        GPU, compute_efficiency=compute, bandwidth_efficiency=bandwidth, launch_overhead=overhead, launch_floor=floor
    ),
    st.floats(0.2, 1.0),
    st.floats(0.3, 1.0),
    st.just(0.0) | st.floats(1e-5, 1e-3),
    st.just(0.0) | st.floats(1e-4, 3e-3),
)


@given(truths)
# The same examples each time: about one in 600 is such as the next test has.
@settings(max_examples=25, deadline=None, derandomize=True)
def test_parameters_come_back_from_what_they_predict(truth):
    assert_they_come_back(truth)


@pytest.mark.xfail(strict=True, reason="the fit stops at a local minimum, where the host's time stands for the floor")
def test_parameters_come_back_from_a_floor_under_the_least_batches_alone():
    # All starts of the fit lead there. One with efficiencies of 1, next to no host time and the least measured time as
    # floor wouldn't (0 of 1,500 against 82); it also finds better fits to the shipped measurements, so it changes the
    # shipped calibration, and all figures that rest on it.
    assert_they_come_back(
        dataclasses.replace(
            GPU, compute_efficiency=1.0, bandwidth_efficiency=1.0, launch_overhead=0.0, launch_floor=3.9558591182234886e-4
        )
    )


def assert_they_come_back(truth):
    rows = times(truth) + times(truth, MOVER)
    made = calibrate(rows, GPU, [NET, MOVER], leave_one_out=False).apply(GPU)
    # The prior, of one row's weight or so, pulls a little.
    assert made.compute_efficiency == pytest.approx(truth.compute_efficiency, rel=0.05)
    assert made.bandwidth_efficiency == pytest.approx(truth.bandwidth_efficiency, rel=0.05)
    for workload in (NET, MOVER):
        for batch in (3, 24, 200, 1000):
            assert launch_time(made, workload).at(batch) == pytest.approx(launch_time(truth, workload).at(batch), rel=0.05)


@given(truths, st.integers(0, 19), st.sampled_from([3.0, 10.0]))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_predictions_hold_in_spite_of_a_slow_row(truth, wild, factor):
    # A row that is too fast is another matter: it can be all that tells a floor, and where it beats the bound it is told.
    rows = times(truth) + times(truth, MOVER)
    rows[wild] = (*rows[wild][:3], factor * rows[wild][3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        made = calibrate(rows, GPU, [NET, MOVER], leave_one_out=False).apply(GPU)
    for workload in (NET, MOVER):
        for batch in (24, 200, 1000):
            assert launch_time(made, workload).at(batch) == pytest.approx(launch_time(truth, workload).at(batch), rel=0.15)


def test_one_wild_row_changes_little():
    truth = dataclasses.replace(GPU, compute_efficiency=0.5, bandwidth_efficiency=0.6)
    rows = times(truth)
    rows[7] = (*rows[7][:3], 4 * rows[7][3])
    made = calibrate(rows, GPU, NET)
    assert made.apply(GPU).compute_efficiency == pytest.approx(0.5, rel=0.1)
    wild = max(made.residuals, key=lambda residual: abs(residual.error))
    assert wild.batch == BATCHES[7]
    assert wild.error == pytest.approx(-0.75, abs=0.05)


def test_few_rows_share_what_many_say():
    truth = {"compute_efficiency": 0.4, "bandwidth_efficiency": 0.6}
    others = [dataclasses.replace(GPU, name=f"gpu{k}", **truth) for k in range(3)]
    new = dataclasses.replace(GPU, name="new", compute_efficiency=0.3, bandwidth_efficiency=0.5)
    rows = [row for gpu in others for row in times(gpu)] + times(new, batches=[512])
    made = calibrate(rows, [*others, new], NET, leave_one_out=False)
    default, *own = made.entries
    assert default.resource == ""
    assert default.compute_efficiency == pytest.approx(0.4, rel=0.1)
    assert {entry.resource: entry.rows for entry in own} == {"gpu0": 10, "gpu1": 10, "gpu2": 10, "new": 1}
    # What the one row says, taken on; and what it doesn't say, bandwidth and host, from the others.
    assert own[-1].compute_efficiency == pytest.approx(0.3, rel=0.05)
    assert own[-1].bandwidth_efficiency == pytest.approx(own[0].bandwidth_efficiency, rel=0.1)


def test_ranges_hold_the_truth_and_widen_with_doubt():
    truth = dataclasses.replace(GPU, compute_efficiency=0.5, bandwidth_efficiency=0.6, launch_overhead=2e-3)
    scatter = np.random.default_rng(1).normal(0, 0.05, len(BATCHES))
    noisy = [(*row[:3], row[3] * np.exp(e)) for row, e in zip(times(truth), scatter, strict=True)]
    many, few = (calibrate(rows, GPU, NET).entries[1] for rows in (noisy, noisy[:2]))
    low, high = many.compute_range
    assert low <= 0.5 <= high
    assert few.compute_range[1] / few.compute_range[0] > 2 * high / low


def test_frameworks_have_entries_of_their_own_and_together():
    slow, fast = (dataclasses.replace(GPU, compute_efficiency=share) for share in (0.2, 0.8))
    rows = [
        Measurement(*row, framework=framework)
        for framework, gpu in (("slow", slow), ("fast", fast))
        for row in times(gpu, batches=[64, 128, 256, 512])
    ]
    made = calibrate(rows, GPU, NET)
    found = {name: made.using(name).apply(GPU).compute_efficiency for name in ("slow", "", "fast")}
    assert found["slow"] == pytest.approx(0.2, rel=0.1)
    assert found["fast"] == pytest.approx(0.8, rel=0.1)
    assert found["slow"] < found[""] < found["fast"]
    assert max(abs(residual.error) for residual in made.residuals) < 0.05


def test_rows_in_other_precisions_have_wider_values():
    wide = at_precision(NET, "fp32")
    assert wide.flops(1) == NET.flops(1)
    assert wide.traffic(3) == 2 * NET.traffic(3)
    truth = dataclasses.replace(GPU, compute_efficiency=0.5, bandwidth_efficiency=0.5)
    rows = [Measurement(*row, precision="fp32") for row in times(truth, wide)]
    made = calibrate(rows, GPU, NET)
    assert {entry.precision for entry in made.entries} == {"fp32"}
    assert made.resource_for(GPU, wide).resource.compute_efficiency == pytest.approx(0.5, rel=0.1)


def test_rates_frames_and_files_are_as_good_as_times(tmp_path):
    truth = dataclasses.replace(GPU, compute_efficiency=0.5)
    frame = pd.DataFrame(times(truth), columns=["resource", "workload", "batch", "seconds"])
    rates = frame.assign(samples_per_second=frame.batch / frame.seconds).drop(columns="seconds")
    rates.to_csv(tmp_path / "rates.csv", index=False)
    expected = calibrate(times(truth), GPU, NET).entries
    for given_rows in (frame, rates, tmp_path / "rates.csv", frame.to_dict("records")):
        made = calibrate(given_rows, GPU, NET).entries
        assert [entry.compute_efficiency for entry in made] == pytest.approx([e.compute_efficiency for e in expected])


def test_accelerators_stand_for_one_of_a_unit():
    truth = dataclasses.replace(GPU, compute_efficiency=0.5, bandwidth_efficiency=0.5)
    eight = dataclasses.replace(
        GPU, peak_flops=8e14, memory_bandwidth=8e12, memory=8e11, accelerator="X9", accelerator_count=8
    )
    rows = [("X9", *row[1:]) for row in times(truth)]
    entries = calibrate(rows, eight, NET).entries
    assert entries[1].resource == "X9"
    assert entries[1].compute_efficiency == pytest.approx(0.5, rel=0.1)


# -- What is told ----------------------------------------------------------------------------------------------------


def test_rows_that_beat_the_bound_are_warned_of_and_left_out_on_request():
    truth = dataclasses.replace(GPU, compute_efficiency=0.5, bandwidth_efficiency=0.5)
    rows = times(truth)
    rows[9] = (*rows[9][:3], 0.5 * launch_time(GPU, NET).at(BATCHES[9]))
    with pytest.warns(CalibrationWarning, match=r"1 measured times are shorter .* \(gpu net batch 512\): kept"):
        kept = calibrate(rows, GPU, NET)
    assert [residual.beats_bound for residual in kept.residuals].count(True) == 1
    assert all(residual.used for residual in kept.residuals)
    with pytest.warns(CalibrationWarning, match="left out"):
        without = calibrate(rows, GPU, NET, leave_out_faster=True)
    (left,) = (residual for residual in without.residuals if not residual.used)
    assert left.batch == 512
    assert left.held_out is None
    assert without.entries[1].rows == 9
    assert without.apply(GPU).compute_efficiency == pytest.approx(0.5, rel=0.05)
    with pytest.warns(CalibrationWarning), pytest.raises(InputError, match="all rows beat the roofline bound"):
        calibrate(rows[9:], GPU, NET, leave_out_faster=True)


def test_leaving_one_out_shows_what_a_row_alone_says():
    truth = dataclasses.replace(GPU, compute_efficiency=0.5, bandwidth_efficiency=0.6, launch_overhead=2e-3)
    rows = times(truth)
    rows[3] = (*rows[3][:3], 1.5 * rows[3][3])
    made = calibrate(rows, GPU, NET)
    frame = made.residual_frame()
    assert list(frame.batch) == BATCHES
    # From the others the row is predicted at its undisturbed time.
    assert frame.held_out[3] == pytest.approx(rows[3][3] / 1.5, rel=0.1)
    assert 0 < made.leave_one_out_error < 0.1
    assert np.isnan(calibrate(rows, GPU, NET, leave_one_out=False).leave_one_out_error)


def test_the_default_keeps_how_far_off_predictions_are():
    slow, fast = (
        dataclasses.replace(GPU, name=name, compute_efficiency=share, bandwidth_efficiency=share)
        for name, share in (("slow", 0.4), ("fast", 0.6))
    )
    made = calibrate(times(slow) + times(fast), [slow, fast], NET)
    default = made.entries[0]
    # Left out one by one, rows are predicted by others of their own; all of them, by those of the other.
    assert default.seen_ratios[9] == pytest.approx(1, abs=0.02)
    assert default.seen_ratios[0] > 0.9
    assert default.seen_ratios[-1] < 1.1
    assert default.unseen_ratios[0] == pytest.approx(0.4 / 0.6, rel=0.15)
    assert default.unseen_ratios[-1] == pytest.approx(0.6 / 0.4, rel=0.15)
    assert made.ratios_for(dataclasses.replace(GPU, name="slow"), NET) == default.seen_ratios
    assert made.ratios_for(dataclasses.replace(GPU, name="new"), NET) == default.unseen_ratios
    assert made.ratios_for(slow, NET) == ()  # brings efficiencies of its own
    alone = calibrate(times(slow), slow, NET)
    assert alone.entries[0].unseen_ratios == ()
    assert len(alone.ratios_for(dataclasses.replace(GPU, name="new"), NET)) == 19
    assert calibrate(times(slow)[:5], slow, NET).entries[0].seen_ratios == ()  # too few to say
    assert calibrate(times(slow), slow, NET, leave_one_out=False).entries[0].seen_ratios == ()


def test_what_cannot_be_fitted_is_told():
    table = Workload("table", "fp16", (), points=[OperatingPoint(1, 1e9, 1e9, 1e9)])
    split = dataclasses.replace(NET, name="split", parallelism=Parallelism(tensor=2), tensor_bytes=1.0)
    with pytest.raises(InputError) as raised:
        calibrate([("gpu", "table", 1, 1.0), ("gpu", "split", 1, 1.0), ("gpu", "table", 2, 1.0)], GPU, [table, split])
    assert [(fault.record, fault.field) for fault in raised.value.faults] == [
        ("Workload 'table'", "points"),
        ("Workload 'split'", "parallelism"),
    ]


def test_all_faults_come_at_once():
    with pytest.raises(InputError) as raised:
        calibrate([("gpu", "net", 1, -1.0), {"resource": "gpu", "workload": "net", "batch": 0, "seconds": 1}, 7], GPU, NET)
    assert {(fault.record, fault.field) for fault in raised.value.faults} == {
        ("measurements, row 0", "seconds"),
        ("measurements, row 1", "batch"),
        ("measurements, row 2", "row"),
    }
    rows = [("other", "net", 1, 1.0), ("gpu", "other", 1, 1.0), Measurement("gpu", "net", 1, 1.0, precision="int8")]
    with pytest.raises(InputError) as raised:
        calibrate(rows, GPU, NET)
    assert {(fault.record, fault.field) for fault in raised.value.faults} == {
        ("measurements, row 0", "resource"),
        ("measurements, row 1", "workload"),
        ("measurements, row 2", "precision"),
    }
    with pytest.raises(InputError, match="rows = 0: must be at least one"):
        calibrate([], GPU, NET)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "give either seconds or samples_per_second"),
        ({"seconds": 1.0, "samples_per_second": 1.0}, "give either seconds or samples_per_second"),
        ({"seconds": 1.0, "precision": "fp4"}, "precision must be one of"),
    ],
)
def test_a_measurement_has_one_figure_and_a_known_precision(values, message):
    with pytest.raises(InputError, match=message):
        Measurement("gpu", "net", 1, **values)
