"""Operating points: what a workload says by them, launch times, batch limits, files, pictures, faults."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import mopt
from mopt import InputError, Layer, OperatingPoint, Problem, Resource, Workload, batch_limit, launch_time
from mopt.cli import app

GPU = Resource("gpu", peak_flops=100e12, memory_bandwidth=1e12, memory=16e9, price_per_hour=1.0, accelerator="X1")
TWO = dataclasses.replace(GPU, name="two", peak_flops=200e12, memory_bandwidth=2e12, memory=32e9, accelerator_count=2)

# 1, 4 and 4.5 ms by the memory roof; 16 ms by the compute roof, in memory that doesn't suffice
COSTS = Workload(
    "mixture",
    "fp16",
    points=[
        OperatingPoint(1, 1e10, 1e9, memory=2e9),
        OperatingPoint(8, 8e10, 4e9, memory=4e9),
        OperatingPoint(16, 1.6e11, 4.5e9, memory=6e9),
        OperatingPoint(160, 1.6e12, 5e9, memory=20e9),
    ],
)
# Measured: 8 takes longer than 12, so that launches of 5 to 12 samples are all launches of 12.
MEASURED = Workload(
    "measured",
    "fp16",
    layers=[Layer("all", 1e10, 1e9, 1e8)],
    memory_fixed=1e9,
    memory_per_sample=1e9,
    points=[
        OperatingPoint(4, time=0.010, resource="X1"),
        OperatingPoint(12, time=0.018, resource="X1"),
        OperatingPoint(8, time=0.020, resource="X1"),
        OperatingPoint(32, time=0.020, memory=2e9, resource="two"),
    ],
)


# -- Workloads -------------------------------------------------------------------------------------------------------


def test_work_is_the_least_a_sample_takes_and_costs_are_those_of_the_launch_that_holds_it():
    w = dataclasses.replace(COSTS, points=[*COSTS.points[:2], OperatingPoint(16, 3.2e11, 4.5e9, memory=6e9)])
    assert w.flops_per_sample == 1e10
    assert w.flops(20) == 2e11
    assert [w.traffic(b) for b in (1, 2, 8, 9, 16, 17)] == [1e9, 4e9, 4e9, 4.5e9, 4.5e9, 0.0]
    assert w.traffic(np.array([1.0, 9.0])).tolist() == [1e9, 4.5e9]
    assert [w.footprint(b) for b in (1, 2, 16)] == [2e9, 4e9, 6e9]
    assert w.footprint(17) == math.inf
    assert w.arithmetic_intensity(8) == 20.0


def test_without_memory_the_footprint_is_the_workloads_own():
    w = Workload("w", "fp16", points=[OperatingPoint(4, 1e9, 1e9)], memory_fixed=1e9, memory_per_sample=2e9)
    assert w.footprint(4) == 9e9
    assert batch_limit(GPU, w)[:2] == (4, "table")
    refused = batch_limit(dataclasses.replace(GPU, memory=8e9), w)
    assert (refused.batch, refused.limit, refused.needed) == (0, "memory", 9e9)
    assert refused.reason.endswith("has 8 GB: 1,000,000,000 B are missing")


def test_a_point_without_memory_has_none_of_another_points():
    points = [OperatingPoint(4, time=1.0, resource="gpu", memory=7e9), OperatingPoint(4, time=1.0, resource="two")]
    w = Workload("w", "fp16", points=points, memory_fixed=1e9)
    assert (launch_time(GPU, w).memory, launch_time(TWO, w).memory) == ((7e9,), (1e9,))
    mixed = Workload("w", "fp16", points=[OperatingPoint(2, 1e9), OperatingPoint(4, 2e9, memory=7e9)], memory_fixed=1e9)
    assert launch_time(GPU, mixed).memory == (1e9, 7e9)
    assert [mixed.footprint(b) for b in (1, 3, 5)] == [1e9, 7e9, math.inf]


def test_a_workload_of_times_alone_has_no_intensity():
    w = Workload("w", "fp16", points=[OperatingPoint(4, flops=1e9, time=1.0, resource="gpu")])
    assert w.arithmetic_intensity(4) == math.inf
    assert w.footprint(4) == 0.0


# -- Launch times ----------------------------------------------------------------------------------------------------


def test_costs_are_under_the_roofs_of_each_resource():
    tau = launch_time(GPU, COSTS)
    assert tau.batches == (1, 8, 16, 160)
    assert tau.times == pytest.approx((1e-3, 4e-3, 4.5e-3, 16e-3))
    assert tau(8.5) == tau.at(9) == pytest.approx(4.5e-3)
    assert tau([1, 2]) == pytest.approx([1e-3, 4e-3])
    assert tau.at(161) == math.inf
    slow = dataclasses.replace(GPU, compute_efficiency=0.5, bandwidth_efficiency=0.5, launch_overhead=1e-3)
    assert launch_time(slow, COSTS).times == pytest.approx((3e-3, 9e-3, 10e-3, 33e-3))
    assert launch_time(dataclasses.replace(GPU, launch_floor=4.2e-3), COSTS).batches == (8, 16, 160)


def test_times_of_layers_add_up():
    w = Workload("w", "fp16", points=[OperatingPoint(2, flops=[1e11, 1e9], bytes=[1e8, 3e9])])
    assert launch_time(GPU, w).times == pytest.approx((1e-3 + 3e-3,))


def test_accelerators_of_a_unit_each_run_the_launch():
    assert launch_time(TWO, COSTS).batches == (2, 16, 32, 320)
    assert launch_time(TWO, COSTS).times == launch_time(GPU, COSTS).times


def test_measured_times_hold_for_their_resource_and_a_longer_one_of_fewer_samples_is_left_out():
    tau = launch_time(GPU, MEASURED)
    assert (tau.batches, tau.times) == ((4, 12), (0.010, 0.018))
    assert tau.memory == (5e9, 13e9)
    # by name before accelerator; batches are those of one accelerator
    assert launch_time(TWO, MEASURED).batches == (64,)
    assert isinstance(launch_time(dataclasses.replace(GPU, name="else", accelerator=""), MEASURED), mopt.PiecewiseLinear)


def test_without_a_table_or_layers_there_are_no_times():
    w = Workload("w", "fp16", points=[OperatingPoint(4, flops=1e9, time=1.0, resource="X1")])
    other = dataclasses.replace(GPU, name="other", accelerator="X2")
    assert batch_limit(other, w).limit == "table"
    problem = Problem([GPU, other], w, 4, time_limit=10.0)
    assert problem.rejected == {"other": "has no launch times in the table of the workload, which has no layers either"}
    with pytest.raises(InputError, match="points = 'other': resource 'other' has no launch times in the table"):
        launch_time(other, w)
    with pytest.raises(mopt.InfeasibleError, match="no resource can serve w, by reason: table 1; the closest is other"):
        mopt.build_model(Problem([other], w, 4, time_limit=10.0))


# -- Batch limits and capacities -------------------------------------------------------------------------------------


def test_points_that_fit_are_the_batches():
    assert batch_limit(GPU, COSTS)[:2] == (16, "memory")
    assert batch_limit(dataclasses.replace(GPU, memory=20e9), COSTS)[:2] == (160, "table")
    assert batch_limit(GPU, COSTS, latency_limit=4.2e-3)[:2] == (8, "latency")
    assert batch_limit(GPU, COSTS, time_limit=2e-3, samples=100)[:2] == (1, "time")
    assert batch_limit(GPU, COSTS, samples=3)[:2] == (16, "memory")  # padded
    refused = batch_limit(GPU, COSTS, latency_limit=0.5e-3)
    assert (refused.limit, refused.needed) == ("latency", pytest.approx(1e-3))
    assert batch_limit(TWO, COSTS, samples=1).limit == "samples"


@pytest.mark.parametrize(
    ("billing", "most", "capacity"),
    [
        ("reserved", None, 3 * 16 + 8),  # 3·4.5 + 4 = 17.5 ms of 17.9
        ("reserved", 2, 32),
        ("per_use", None, 17.9 / 4.5 * 16),
    ],
)
def test_capacity_packs_the_period(billing, most, capacity):
    problem = Problem([GPU], COSTS, 1000, time_limit=17.9e-3, billing=billing, max_launches=most)
    assert problem.services["gpu", "mixture"].capacity == pytest.approx(capacity)


def test_the_plan_launches_what_the_table_has():
    problem = Problem([GPU], COSTS, 25, time_limit=18e-3, max_launches=3)
    (point,) = mopt.solve_epsilon_front(problem)
    pair = "gpu", "mixture"
    # 16 + 8 + 1 samples: 4.5 + 4 + 1 ms; 16 + 16 padded: 9 ms
    assert point.plan.launches == {pair: 2}
    assert point.plan.busy == {pair: pytest.approx(9e-3)}
    assert point.plan.memory == {pair: 6e9}
    assert point.plan.samples == {"gpu": 25}
    assert point.objectives[1] == pytest.approx(25e10 / (100e12 * 18e-3))


def test_the_memory_of_a_plan_is_that_of_its_largest_launch():
    problem = Problem([GPU], COSTS, 25, time_limit=18e-3, billing="per_use", launches="whole", max_launches=3)
    for point in mopt.solve_epsilon_front(problem):
        assert point.plan.memory == {("gpu", "mixture"): 6e9}
        assert point.plan.busy["gpu", "mixture"] == pytest.approx(9e-3)


def test_utilizations_by_points():
    bandwidth = Problem([GPU], COSTS, 16, time_limit=0.01, utilization="bandwidth")
    assert mopt.solve_epsilon_front(bandwidth)[0].objectives[1] == pytest.approx(4.5e9 / (1e12 * 0.01))
    memory = Problem([GPU], COSTS, 16, time_limit=0.01, utilization="memory")
    assert mopt.solve_epsilon_front(memory)[0].objectives[1] == pytest.approx(6e9 * 4.5e-3 / (16e9 * 0.01))


def test_measured_times_are_given_not_calibrated():
    calibrated = mopt.load_calibration()
    family = dataclasses.replace(MEASURED, family="cnn")
    a100 = dataclasses.replace(GPU, name="else", accelerator="A100")
    problem = Problem([GPU, a100], family, 4, time_limit=1.0, calibration=calibrated)
    assert problem.calibrated["gpu", "measured"].mark == "given"
    assert problem.calibrated["else", "measured"].mark in ("calibrated", "family default")
    assert problem.services["gpu", "measured"].tau.times == (0.010, 0.018)


# -- Files, pickles, pictures, the command line -----------------------------------------------------------------------


@pytest.mark.parametrize("workload", [COSTS, MEASURED], ids=["costs", "measured"])
def test_files_and_pickles_give_the_same_back(tmp_path, workload):
    mopt.save_workload(workload, tmp_path / "w.toml")
    assert mopt.load_workload(tmp_path / "w.toml") == workload
    assert pickle.loads(pickle.dumps(workload)) == workload
    problem = Problem([GPU, TWO], workload, 16, time_limit=1.0, billing="elapsed")
    mopt.save_problem(problem, tmp_path / "p.toml")
    assert mopt.load_problem(tmp_path / "p.toml") == problem
    assert pickle.loads(pickle.dumps(problem)) == problem


def test_customary_units(tmp_path):
    (tmp_path / "w.toml").write_text(
        'name = "w"\nprecision = "fp16"\n'
        "[[points]]\nbatch = 2\ngflops = [1.5, 2]\nbytes_mb = [3, 4]\nmemory_gb = 5\n"
        '[[points]]\nbatch = 4\ntime_ms = 2.5\nresource = "A100"\n'
    )
    first, second = mopt.load_workload(tmp_path / "w.toml").points
    assert first == OperatingPoint(2, (1.5e9, 2e9), (3e6, 4e6), 5e9)
    assert second == OperatingPoint(4, time=0.0025, resource="A100")


def test_all_faults_of_points_in_a_file(tmp_path):
    (tmp_path / "w.toml").write_text(
        'name = "w"\nprecision = "fp16"\n'
        '[[points]]\nbatch = 0\ngflops = "many"\nflops = 1\n'
        "[[points]]\nbatch = 2.5\nbytes = [1, -1]\ntime_ms = 0\nspeed = 1\n"
    )
    with pytest.raises(InputError) as caught:
        mopt.load_workload(tmp_path / "w.toml")
    found = [(f.record, f.field) for f in caught.value.faults]
    assert found == [
        ("points[0]", "batch"), ("points[0]", "gflops"), ("points[0]", "flops"), ("points[1]", "batch"),
        ("points[1]", "bytes"), ("points[1]", "time_ms"), ("points[1]", "speed"),
    ]  # fmt: skip


@pytest.mark.parametrize("workload", [COSTS, MEASURED], ids=["costs", "measured"])
def test_pictures(workload):
    ax = mopt.plot_launch_time(GPU, workload, ax=Figure().add_subplot(), latency_limit=0.1)
    (x, y) = next(line for line in ax.get_lines() if line.get_marker() == "o").get_data()
    tau = launch_time(dataclasses.replace(GPU), workload)
    fit = tau.upto(batch_limit(GPU, workload).batch)
    assert (tuple(x), tuple(y)) == (fit.batches, pytest.approx([1e3 * t for t in fit.times]))
    mopt.plot_roofline([GPU, TWO], [workload], batches=(1, 8, 500), ax=Figure().add_subplot())


def test_the_command_line_takes_workloads_of_points(tmp_path):
    path = tmp_path / "w.toml"
    mopt.save_workload(COSTS, path)
    told = CliRunner().invoke(app, ["explain", str(path), "g5.xlarge", "--time-limit", "1"], env={"COLUMNS": "200"})
    assert told.exit_code == 0, told.output
    assert "batch limit: 160 samples, by table" in told.output
    limits = ["--samples", "64", "--time-limit", "1", "--name", "AWS/us-east-1/g5.xlarge"]
    solved = CliRunner().invoke(app, ["front", str(path), *limits], env={"COLUMNS": "200"})
    assert solved.exit_code == 0, solved.output


# -- Faults ----------------------------------------------------------------------------------------------------------


def test_all_faults_of_a_point_at_once():
    with pytest.raises(InputError) as caught:
        OperatingPoint(0, flops=-1.0, bytes=[1.0, -2.0], memory=-1.0, time=0.0)
    assert [f.field for f in caught.value.faults] == ["batch", "flops[0]", "bytes[1]", "memory", "time"]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(4, 1.0), (4, 2.0)], [("points[0].batch", "given 2 times: keep one"), ("points[1].batch", "given 2 times")]),
        ([(4, 1.0, (), None, 0.5)], [("points[0].time", "a time and the resource")]),
        ([(4, 1.0, (), None, None, "gpu")], [("points[0].time", "a time and the resource")]),
        ([(4,)], [("points[0].flops", "needs FLOPs or bytes")]),
        ([(4, (1.0, 1.0), 1.0)], [("points[0].bytes", "one number for each of the 2 layers")]),
        (
            [(4, (1.0, 1.0)), (8, 1.0)],
            [("points[0].flops", "the same number of layers at all points: some have 1, 2"), ("points[1].flops", "")],
        ),
    ],
)
def test_points_that_do_not_fit_together(points, expected):
    with pytest.raises(InputError) as caught:
        Workload("w", "fp16", points=[OperatingPoint(*point) for point in points])
    found = [(f.field, f.allowed) for f in caught.value.faults]
    assert len(found) == len(expected)
    for (field, allowed), (expected_field, text) in zip(found, expected, strict=True):
        assert field == expected_field
        assert text in allowed


def test_costs_are_given_by_layers_or_by_points():
    with pytest.raises(InputError, match="costs are those of the layers"):
        Workload("w", "fp16", [Layer("all", 1e9)], points=[OperatingPoint(4, 1e9)])


def test_what_a_problem_asks_of_points():
    timed = Workload("w", "fp16", points=[OperatingPoint(4, time=1.0, resource="gpu")])
    with pytest.raises(InputError, match="flops = 0: needed for utilization='compute'"):
        Problem([GPU], timed, 4, time_limit=10.0)
    with pytest.raises(InputError, match="bytes = 0: needed for utilization='bandwidth'"):
        Problem([GPU], timed, 4, time_limit=10.0, utilization="bandwidth")
    with pytest.raises(InputError, match="memory = 0: needed for utilization='memory'"):
        Problem([GPU], timed, 4, time_limit=10.0, utilization="memory")
    held = dataclasses.replace(timed, memory_fixed=4e9)
    front = mopt.solve_epsilon_front(Problem([GPU], held, 4, time_limit=10.0, utilization="memory"))
    assert front[0].objectives[1] == pytest.approx(4e9 * 1.0 / (16e9 * 10))
    with pytest.raises(InputError, match="max_launches may be at most 64"):
        Problem([GPU], COSTS, 4, time_limit=10.0, max_launches=65)
