"""Calibration files: reading, writing, faults; and problems that name a calibration."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from mopt import InputError, Layer, Problem, Resource, Workload
from mopt.calibration import Calibration, Entry
from mopt.calibration_files import load_calibration, save_calibration
from mopt.problem_files import load_problem, save_problem

GOOD = """
source = "timed by hand"
date = 2026-01-01

[[entries]]
family = "cnn"
mode = "training"
precision = "fp16"
compute_efficiency = 0.5
bandwidth_efficiency = 1

[[entries]]
family = "cnn"
mode = "training"
precision = "fp16"
resource = "T4"
framework = "PyTorch"
compute_efficiency = 0.4
bandwidth_efficiency = 0.8
launch_overhead = 1e-3
launch_floor = 2e-3
products = 54
rows = 7
compute_range = [0.3, 0.5]
flops_per_watt = 1.6e12
power_exponent = 0.3
"""
DEFAULT = Entry("cnn", "training", "fp16", 0.5, 1.0)
T4 = Entry(
    "cnn", "training", "fp16", 0.4, 0.8, 1e-3, 2e-3, "T4", "PyTorch", (0.3, 0.5), rows=7, products=54,
    flops_per_watt=1.6e12, power_exponent=0.3,
)  # fmt: skip


@pytest.fixture
def written(tmp_path):
    def write(text):
        (tmp_path / "c.toml").write_text(text)
        return tmp_path / "c.toml"

    return write


def test_files_say_what_entries_say(written):
    assert load_calibration(written(GOOD)) == Calibration((DEFAULT, T4), source="timed by hand", date="2026-01-01")


def test_a_framework_may_be_chosen_at_loading(written):
    file = written(GOOD)
    assert load_calibration(file, framework="PyTorch").framework == "PyTorch"
    with pytest.raises(InputError, match=r"framework = 'JAX': must be one of PyTorch"):
        load_calibration(file, framework="JAX")


def test_all_faults_of_a_file_come_at_once(written):
    file = written(
        GOOD.replace("compute_efficiency = 0.5", "compute_efficiency = 1.5")
        .replace("rows = 7", "rows = -7")
        .replace("compute_range = [0.3, 0.5]", "compute_range = [0.3]")
        .replace('resource = "T4"', 'gpu = "T4"')
    )
    with pytest.raises(InputError) as raised:
        load_calibration(file)
    assert {(fault.file, fault.record, fault.field) for fault in raised.value.faults} == {
        (str(file), "entries[0]", "compute_efficiency"),
        (str(file), "entries[1]", "rows"),
        (str(file), "entries[1]", "compute_range"),
        (str(file), "entries[1]", "gpu"),
    }


def test_entries_of_the_same_are_refused(written):
    with pytest.raises(InputError, match=r"c.toml: Calibration: entries = 'cnn training fp16': must be one; there are"):
        load_calibration(written(GOOD + GOOD.split("01-01")[1]))


shares = st.floats(1e-6, 1.0)
seconds = st.floats(0.0, 10.0)
ranges = st.none() | st.tuples(seconds, seconds)
text = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), max_size=8)
entries = st.builds(
    Entry,
    family=text.filter(bool),
    mode=st.sampled_from(["training", "inference"]),
    precision=st.sampled_from(["fp32", "fp16", "int8"]),
    compute_efficiency=shares,
    bandwidth_efficiency=shares,
    launch_overhead=seconds,
    launch_floor=seconds,
    resource=text,
    framework=text,
    compute_range=ranges,
    floor_range=ranges,
    rows=st.integers(0, 9),
    products=st.integers(1, 200),
    flops_per_watt=st.none() | st.floats(1e9, 1e13),
    power_exponent=st.floats(-1.0, 1.0),
)
calibrations = st.builds(
    Calibration,
    st.lists(entries, min_size=1, max_size=3, unique_by=lambda e: (e.group, e.resource)).map(tuple),
    source=text,
    date=text,
)


@given(calibrations)
def test_any_calibration_comes_back_equal(tmp_path_factory, calibration):
    file = tmp_path_factory.mktemp("c") / "c.toml"
    save_calibration(calibration, file)
    assert load_calibration(file) == calibration


@pytest.fixture
def problem():
    workload = Workload("net", "fp16", (Layer("fc", 1e9, 1e6, 1e6),), 1e9, 1e6, mode="training", family="cnn")
    return Problem(Resource("r", 1e12, 1e11, 1e10, 1.0), workload, samples=100, time_limit=10.0)


def test_problem_files_hold_calibrations(problem, tmp_path):
    file = tmp_path / "p.toml"
    for calibration in (None, "auto", Calibration((DEFAULT, T4), framework="PyTorch")):
        made = replace(problem, calibration=calibration)
        save_problem(made, file)
        assert load_problem(file) == made


def test_problem_files_name_calibration_files(problem, written, tmp_path):
    written(GOOD)
    save_problem(problem, tmp_path / "p.toml")
    text = (tmp_path / "p.toml").read_text()
    (tmp_path / "p.toml").write_text(f'calibration = "c.toml"\n{text}')
    assert load_problem(tmp_path / "p.toml").calibration == load_calibration(tmp_path / "c.toml")
    (tmp_path / "p.toml").write_text(f"calibration = 3\n{text}")
    with pytest.raises(InputError, match='calibration = 3: must be "auto", the path of a calibration file, or a table'):
        load_problem(tmp_path / "p.toml")
    (tmp_path / "p.toml").write_text(f'calibration = "none.toml"\n{text}')
    with pytest.raises(InputError, match=r"none.toml: file: can't be read"):
        load_problem(tmp_path / "p.toml")
