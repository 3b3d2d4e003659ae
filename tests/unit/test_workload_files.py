"""Workload files: every field's faults, units, round trip, names and paths."""

import math

import pytest
from hypothesis import given, strategies as st

import mopt.workload_files
from mopt import InputError, Layer, MemoryPiece, Workload
from mopt.workload_files import list_workloads, load_workload, save_workload, workload_from_dict, workload_to_dict

GOOD = """\
name = "tiny"
precision = "fp16"
mode = "training"
sample = "image"
gradient_bytes = 16
description = "a test"
source = "worked out by hand"
date = "2026-01-01"

[[layers]]
name = "conv"
flops = 2e9
bytes_fixed = 8e6
bytes_per_sample = 5e5

[[layers]]
name = "fc"
flops = 1000

[[memory]]
fixed = 1e9
per_sample = 4e7

[[memory]]
fixed = 2e9
per_sample = 1e7
"""
HEAD, CONV, FC, PIECE = "workload 'tiny'", "layers[0] 'conv'", "layers[1] 'fc'", "memory[1]"
AT_LEAST_0 = "must be greater than or equal to 0"
PRECISIONS = "must be one of fp64, fp32, tf32, fp16, bf16, fp8, int8"


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "tiny.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def faults(path):
    with pytest.raises(InputError) as caught:
        load_workload(path)
    assert all(fault.file == str(path) for fault in caught.value.faults)
    return [(fault.record, fault.field, fault.value, fault.allowed) for fault in caught.value.faults]


def test_reads_every_field(written):
    assert load_workload(written(GOOD)) == Workload(
        name="tiny",
        precision="fp16",
        layers=(Layer("conv", 2e9, 8e6, 5e5), Layer("fc", 1000.0)),
        memory_fixed=1e9,
        memory_per_sample=4e7,
        memory_pieces=(MemoryPiece(2e9, 1e7),),
        mode="training",
        sample="image",
        gradient_bytes=16.0,
        description="a test",
        source="worked out by hand",
        date="2026-01-01",
    )


def test_what_is_not_given_takes_the_defaults_of_the_record(written):
    text = 'name = "a"\nprecision = "int8"\n[[layers]]\nname = "x"\nflops = 1\n'
    assert load_workload(written(text)) == Workload("a", "int8", (Layer("x", 1.0),))


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("flops = 2e9", "gflops = 2"),
        ("bytes_fixed = 8e6", "bytes_fixed_mb = 8"),
        ("bytes_fixed = 8e6", "bytes_fixed_gb = 0.008"),
        ("bytes_per_sample = 5e5", "bytes_per_sample_mb = 0.5"),
        ("bytes_per_sample = 5e5", "bytes_per_sample_gb = 5e-4"),
        ("gradient_bytes = 16", "gradient_bytes_mb = 16e-6"),
        ("gradient_bytes = 16", "gradient_bytes_gb = 16e-9"),
        ("fixed = 1e9", "fixed_mb = 1000"),
        ("fixed = 1e9", "fixed_gb = 1"),
        ("per_sample = 4e7", "per_sample_mb = 40"),
        ("per_sample = 4e7", "per_sample_gb = 0.04"),
        ('date = "2026-01-01"', "date = 2026-01-01"),
    ],
)
def test_customary_units_and_plain_dates(written, line, same):
    expected = load_workload(written(GOOD))
    assert f"\n{line}\n" in GOOD
    read = load_workload(written(GOOD.replace(f"\n{line}\n", f"\n{same}\n", 1)))
    assert read.date == expected.date
    for got, want in zip(figures(read), figures(expected), strict=True):
        assert math.isclose(got, want, rel_tol=1e-15)


def figures(workload):
    yield workload.gradient_bytes
    for layer in workload.layers:
        yield from (layer.flops, layer.bytes_fixed, layer.bytes_per_sample)
    for piece in workload.footprint_pieces:
        yield from (piece.fixed, piece.per_sample)


@pytest.mark.parametrize(
    ("line", "wrong", "record", "field", "value", "allowed"),
    [
        ('name = "tiny"', 'name = ""', "workload ''", "name", "", "at least 1 character"),
        ('name = "tiny"', "name = 5", "workload", "name", 5, "must be a valid string"),
        ('precision = "fp16"', 'precision = "half"', HEAD, "precision", "half", PRECISIONS),
        ('mode = "training"', 'mode = "train"', HEAD, "mode", "train", "must be 'training' or 'inference'"),
        ('sample = "image"', "sample = 1", HEAD, "sample", 1, "must be a valid string"),
        ('description = "a test"', "description = 1", HEAD, "description", 1, "must be a valid string"),
        ('source = "worked out by hand"', "source = 1", HEAD, "source", 1, "must be a valid string"),
        ('date = "2026-01-01"', "date = 2026", HEAD, "date", 2026, "must be a valid string"),
        ("gradient_bytes = 16", "gradient_bytes = -1", HEAD, "gradient_bytes", -1, AT_LEAST_0),
        ("gradient_bytes = 16", "gradient_bytes_mb = -1", HEAD, "gradient_bytes_mb", -1, AT_LEAST_0),
        ("gradient_bytes = 16", "gradient_bytes_gb = -1", HEAD, "gradient_bytes_gb", -1, AT_LEAST_0),
        ('name = "conv"', "name = 5", "layers[0]", "name", 5, "must be a valid string"),
        ("flops = 2e9", "flops = -1", CONV, "flops", -1, AT_LEAST_0),
        ("flops = 2e9", 'flops = "2e9"', CONV, "flops", "2e9", "must be a valid number"),
        ("flops = 2e9", "flops = true", CONV, "flops", True, "must be a valid number"),
        ("flops = 2e9", "flops = inf", CONV, "flops", math.inf, "must be a finite number"),
        ("flops = 2e9", "gflops = -1", CONV, "gflops", -1, AT_LEAST_0),
        ("bytes_fixed = 8e6", "bytes_fixed = -1", CONV, "bytes_fixed", -1, AT_LEAST_0),
        ("bytes_fixed = 8e6", "bytes_fixed_mb = -1", CONV, "bytes_fixed_mb", -1, AT_LEAST_0),
        ("bytes_fixed = 8e6", "bytes_fixed_gb = -1", CONV, "bytes_fixed_gb", -1, AT_LEAST_0),
        ("bytes_per_sample = 5e5", "bytes_per_sample = -1", CONV, "bytes_per_sample", -1, AT_LEAST_0),
        ("bytes_per_sample = 5e5", "bytes_per_sample_mb = -1", CONV, "bytes_per_sample_mb", -1, AT_LEAST_0),
        ("bytes_per_sample = 5e5", "bytes_per_sample_gb = -1", CONV, "bytes_per_sample_gb", -1, AT_LEAST_0),
        ("fixed = 2e9", "fixed = -1", PIECE, "fixed", -1, AT_LEAST_0),
        ("fixed = 2e9", "fixed_mb = -1", PIECE, "fixed_mb", -1, AT_LEAST_0),
        ("fixed = 2e9", "fixed_gb = -1", PIECE, "fixed_gb", -1, AT_LEAST_0),
        ("per_sample = 1e7", "per_sample = -1", PIECE, "per_sample", -1, AT_LEAST_0),
        ("per_sample = 1e7", "per_sample_mb = -1", PIECE, "per_sample_mb", -1, AT_LEAST_0),
        ("per_sample = 1e7", "per_sample_gb = -1", PIECE, "per_sample_gb", -1, AT_LEAST_0),
        ("flops = 1000", "flops = 1000\nflop = 3", FC, "flop", 3, "unknown key; allowed: name, flops, gflops, bytes"),
        ("fixed = 2e9", "fixed = 2e9\nslope = 3", PIECE, "slope", 3, "unknown key; allowed: fixed, fixed_mb"),
        ('sample = "image"', "batch = 3", HEAD, "batch", 3, "unknown key; allowed: name, precision, layers, memory"),
        ("flops = 1000", "flops = 1000\ngflops = 1", FC, "gflops", 1, "given as flops too: keep one"),
        ("fixed = 2e9", "fixed = 2e9\nfixed_gb = 2", PIECE, "fixed_gb", 2, "given as fixed too: keep one"),
    ],
)
def test_a_wrong_value_is_named_with_its_place_and_range(written, line, wrong, record, field, value, allowed):
    assert f"{line}\n" in GOOD
    path = written(GOOD.replace(f"{line}\n", f"{wrong}\n", 1))
    [(got_record, got_field, got_value, got_allowed)] = faults(path)
    assert (got_record, got_field, got_value) == (record, field, value)
    assert allowed in got_allowed


@pytest.mark.parametrize(
    ("line", "record", "field", "allowed"),
    [
        ('name = "tiny"', "workload", "name", "required"),
        ('precision = "fp16"', HEAD, "precision", "required"),
        ('name = "fc"', "layers[1]", "name", "required"),
        ("flops = 1000", FC, "flops", "missing: give flops or gflops"),
        ("fixed = 2e9", PIECE, "fixed", "missing: give fixed or fixed_mb or fixed_gb"),
        ("per_sample = 1e7", PIECE, "per_sample", "missing: give per_sample or per_sample_mb or per_sample_gb"),
    ],
)
def test_what_must_be_given(written, line, record, field, allowed):
    path = written(GOOD.replace(f"{line}\n", "", 1))
    [(got_record, got_field, value, got_allowed)] = faults(path)
    assert (got_record, got_field, repr(value)) == (record, field, "(missing)")
    assert allowed in got_allowed


def test_all_faults_at_once(written):
    text = GOOD.replace("fp16", "fp17").replace("flops = 2e9", "flops = -1").replace("fixed = 2e9", 'fixed = "2e9"')
    path = written(text)
    assert [(record, field) for record, field, _, _ in faults(path)] == [
        (HEAD, "precision"),
        (CONV, "flops"),
        (PIECE, "fixed"),
    ]
    with pytest.raises(InputError) as caught:
        load_workload(path)
    assert f"{path}: {CONV}: flops = -1: {AT_LEAST_0}" in str(caught.value)


@pytest.mark.parametrize(
    ("tables", "record", "field", "allowed"),
    [
        ("", "Workload 'tiny'", "layers", "at least one layer, or points"),
        ("layers = []", "Workload 'tiny'", "layers", "at least one layer, or points"),
        ("[layers]\nname = 'x'\nflops = 1", HEAD, "layers", "must be a valid list"),
        ("layers = [3]", "layers[0]", "table", "must be a table with name, flops"),
        ("memory = 3\n[[layers]]\nname = 'x'\nflops = 1", HEAD, "memory", "must be a valid list"),
        (
            "[[layers]]\nname = 'x'\nflops = 0",
            "Workload 'tiny'",
            "layers",
            "at least one layer must have FLOPs or bytes",
        ),
        ("[[layers]]\nname = 'x'\ngflops = 1e300", "Layer 'x'", "flops", "must be a finite number"),
    ],
)
def test_wrong_tables(written, tables, record, field, allowed):
    path = written(f'name = "tiny"\nprecision = "fp16"\n{tables}\n')
    [(got_record, got_field, _, got_allowed)] = faults(path)
    assert (got_record, got_field) == (record, field)
    assert allowed in got_allowed


def test_not_toml(written):
    [(_, field, _, allowed)] = faults(written("name = tiny"))
    assert (field, allowed.split(":")[0]) == ("file", "not a TOML file")
    assert "line 1" in allowed


def test_not_text(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_bytes(b"\xff\xfe")
    [(_, field, _, allowed)] = faults(path)
    assert (field, allowed.split(":")[0]) == ("file", "not a TOML file")


def test_no_such_file(tmp_path):
    [(_, field, _, allowed)] = faults(tmp_path / "none.toml")
    assert (field, allowed) == ("file", "can't be read: No such file or directory")


def test_unknown_name_lists_what_there_is_and_what_is_close():
    with pytest.raises(InputError) as caught:
        load_workload("resnet50-trian")
    message = str(caught.value)
    assert message.startswith("workload = 'resnet50-trian': no such workload; did you mean 'resnet50-train'")
    assert all(name in message for name in list_workloads())
    with pytest.raises(InputError, match="no such workload; shipped: bert-base-infer, bert-base-train"):
        load_workload("qqq")


@pytest.mark.parametrize("spelt", ["tiny.toml", "./tiny.toml", "./tiny"])
def test_a_string_with_a_folder_or_suffix_is_a_path(written, monkeypatch, spelt):
    path = written(GOOD)
    path.with_suffix("").write_text(GOOD)
    monkeypatch.chdir(path.parent)
    assert load_workload(spelt).name == "tiny"


def test_shipped_files_are_found_inside_an_installed_package(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.toml").write_text(GOOD)
    monkeypatch.setattr(mopt.workload_files.resources, "files", lambda package: tmp_path)
    assert list_workloads() == ["tiny"]
    assert load_workload("tiny").name == "tiny"


SI = st.floats(min_value=0, max_value=1e300) | st.integers(min_value=0, max_value=2**62).map(float)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LAYERS = st.builds(Layer, TEXT, SI, SI, SI)
WORKLOADS = st.builds(
    Workload,
    name=TEXT.filter(bool),
    precision=st.sampled_from(["fp32", "bf16"]),
    layers=st.lists(LAYERS, max_size=3).map(lambda some: (Layer("first", 1.0), *some)),
    memory_fixed=SI,
    memory_per_sample=SI,
    memory_pieces=st.lists(st.builds(MemoryPiece, SI, SI), max_size=2).map(tuple),
    mode=st.sampled_from(["training", "inference"]),
    sample=TEXT,
    gradient_bytes=SI,
    description=TEXT,
    source=TEXT,
    date=TEXT,
)


@given(WORKLOADS)
def test_a_saved_workload_reads_back_equal(tmp_path_factory, workload):
    path = tmp_path_factory.getbasetemp() / "trip.toml"
    save_workload(workload, path)
    assert load_workload(path) == workload
    assert workload_from_dict(workload_to_dict(workload)) == workload
