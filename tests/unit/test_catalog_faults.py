"""Wrong input: each field of each layout has a fault that names file, record, field and value."""

import re
from pathlib import Path

import pandas as pd
import pytest

from mopt import InputError
from mopt.catalog import Catalog, load_catalog

OWN = {
    "cloud": "X",
    "instance_type": "i",
    "region": "r",
    "accelerator": "T4",
    "accel_count": "1",
    "accel_mem_gb": "16",
    "vcpus": "4",
    "host_mem_gib": "16",
    "network_gbps": "10",
    "price_usd_h": "1",
    "spot_usd_h": "0.5",
    "price_date": "2026-01-01",
    "spot_date": "2026-01-01",
    "source": "price list",
}
SKYPILOT = {
    "InstanceType": "i",
    "AcceleratorName": "T4",
    "AcceleratorCount": "1.0",
    "vCPUs": "4.0",
    "MemoryGiB": "16.0",
    "GpuInfo": "",
    "Price": "1",
    "SpotPrice": "0.5",
    "Region": "r",
    "AvailabilityZone": "z",
}
FRAME = {
    "name": "X/r/i",
    "provider": "X",
    "region": "r",
    "accelerator": "T4",
    "accelerator_count": "1",
    "spot": "False",
    "trains": "True",
    "price_usd_h": "1",
    "memory_gb": "16",
    "memory_bandwidth_gbs": "320",
    "peak_fp64_tflops": "1",
    "peak_fp32_tflops": "8.1",
    "peak_tf32_tflops": "8.1",
    "peak_fp16_tflops": "65",
    "peak_bf16_tflops": "65",
    "peak_fp8_tflops": "65",
    "peak_int8_tflops": "130",
    "network_gbps": "10",
    "max_units": "5",
    "compute_efficiency": "0.9",
    "bandwidth_efficiency": "0.9",
    "launch_floor_s": "0",
    "launch_overhead_s": "0",
    "unit_overhead_s": "0",
    "source": "price list",
}


def write(path: Path, *rows: dict[str, str]) -> Path:
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def faults_of(path: Path, **options):
    with pytest.raises(InputError) as raised:
        load_catalog(path, **options)
    return raised.value.faults


NUMBER = "must be a valid number"
INTEGER = "must be a valid integer"


@pytest.mark.parametrize(
    ("layout", "field", "value", "allowed"),
    [
        (OWN, "instance_type", "", "Field required"),
        (OWN, "accelerator", "", "accel_count"),  # the count is at fault: it counts nothing
        (OWN, "accel_count", "two", NUMBER),
        (OWN, "accel_count", "-1", "must be greater than or equal to 0"),
        (OWN, "accel_count", "0", "must be greater than 0 where an accelerator is named"),
        (OWN, "accel_count", "", "must be greater than 0 where an accelerator is named"),
        (OWN, "accel_count", "2.5", "must be a whole number, or below 1 for a part of an accelerator"),
        (OWN, "accel_mem_gb", "0", "must be greater than 0"),
        (OWN, "accel_mem_gb", "16 GB", NUMBER),
        (OWN, "vcpus", "-4", "must be greater than 0"),
        (OWN, "host_mem_gib", "much", NUMBER),
        (OWN, "network_gbps", "-1", "must be greater than 0"),
        (OWN, "price_usd_h", "1.2 $", NUMBER),
        (OWN, "price_usd_h", "inf", "must be a finite number"),
        (OWN, "spot_usd_h", "n/a", NUMBER),
        (SKYPILOT, "AcceleratorCount", "x", NUMBER),
        (SKYPILOT, "AcceleratorCount", "-8", "must be greater than or equal to 0"),
        (SKYPILOT, "AcceleratorCount", "", "must be greater than 0 where an accelerator is named"),
        (SKYPILOT, "vCPUs", "four", NUMBER),
        (SKYPILOT, "MemoryGiB", "-1", "must be greater than or equal to 0"),
        (SKYPILOT, "Price", "1,5", NUMBER),
        (SKYPILOT, "SpotPrice", "?", NUMBER),
        (SKYPILOT, "GpuInfo", "{'Gpus': [", "must be text, or a mapping as JSON or Python write it"),
        (SKYPILOT, "GpuInfo", "{1, 2}", "must be text, or a mapping as JSON or Python write it"),
        (FRAME, "name", "", "Field required"),
        (FRAME, "accelerator_count", "0", "must be greater than or equal to 1"),
        (FRAME, "accelerator_count", "1.5", INTEGER),
        (FRAME, "spot", "perhaps", "must be a valid boolean"),
        (FRAME, "trains", "2", "must be a valid boolean"),
        (FRAME, "price_usd_h", "0", "must be greater than 0"),
        (FRAME, "price_usd_h", "", "Field required"),
        (FRAME, "memory_gb", "-16", "must be greater than 0"),
        (FRAME, "memory_bandwidth_gbs", "fast", NUMBER),
        (FRAME, "peak_fp64_tflops", "0", "must be greater than 0"),
        (FRAME, "peak_fp32_tflops", "0", "must be greater than 0"),
        (FRAME, "peak_tf32_tflops", "-1", "must be greater than 0"),
        (FRAME, "peak_fp16_tflops", "x", NUMBER),
        (FRAME, "peak_bf16_tflops", "0", "must be greater than 0"),
        (FRAME, "peak_fp8_tflops", "0", "must be greater than 0"),
        (FRAME, "peak_int8_tflops", "nan%", NUMBER),
        (FRAME, "network_gbps", "0", "must be greater than 0"),
        (FRAME, "max_units", "-1", "must be greater than or equal to 0"),
        (FRAME, "compute_efficiency", "1.1", "must be less than or equal to 1"),
        (FRAME, "bandwidth_efficiency", "0", "must be greater than 0"),
        (FRAME, "launch_floor_s", "-1", "must be greater than or equal to 0"),
        (FRAME, "launch_overhead_s", "-1", "must be greater than or equal to 0"),
        (FRAME, "unit_overhead_s", "-1", "must be greater than or equal to 0"),
    ],
)
def test_a_wrong_cell(tmp_path, layout, field, value, allowed):
    path = write(tmp_path / "bad.csv", layout | {field: value})
    (fault,) = faults_of(path)
    assert fault.file == str(path)
    assert fault.record.startswith("line 2")
    if field == "accelerator":
        assert fault.field == "accel_count"
        assert fault.allowed == "must be 0 where no accelerator is named"
        return
    assert fault.field == field
    assert fault.allowed.startswith(allowed)
    if value and not isinstance(fault.value, float):
        assert fault.value == value


def test_the_message_names_it_all(tmp_path):
    path = write(tmp_path / "bad.csv", OWN, OWN | {"instance_type": "j", "price_usd_h": "cheap"})
    message = re.escape(f"{path}: line 3 (X/r/j): price_usd_h = 'cheap': must be a valid number")
    with pytest.raises(InputError, match=message):
        load_catalog(path)


def test_all_faults_at_once(tmp_path):
    path = write(tmp_path / "bad.csv", OWN | {"vcpus": "x", "price_usd_h": "y"}, OWN, OWN | {"accel_count": "-1"}, OWN)
    assert [(fault.record, fault.field) for fault in faults_of(path)] == [
        ("line 2 (X/r/i)", "vcpus"),
        ("line 2 (X/r/i)", "price_usd_h"),
        ("line 4 (X/r/i)", "accel_count"),
        ("line 5 (X/r/i)", "instance_type"),
    ]


def test_offers_listed_twice(tmp_path):
    (fault,) = faults_of(write(tmp_path / "bad.csv", OWN, OWN | {"price_usd_h": "2"}))
    assert (fault.record, fault.field, fault.value) == ("line 3 (X/r/i)", "instance_type", "X/r/i")
    assert fault.allowed == "must be unique; line 2 has it too"
    (fault,) = faults_of(write(tmp_path / "frame.csv", FRAME, FRAME))
    assert (fault.field, fault.allowed) == ("name", "must be unique; line 2 has it too")


def test_a_skypilot_row_that_names_nothing(tmp_path):
    nothing = SKYPILOT | {"InstanceType": "", "AcceleratorName": "", "AcceleratorCount": ""}
    (fault,) = faults_of(write(tmp_path / "aws.csv", nothing))
    assert (fault.field, fault.allowed) == ("InstanceType", "must be given, or AcceleratorName must")


def test_peaks_of_one_kind_must_be_given(tmp_path):
    bare = {column: cell for column, cell in FRAME.items() if not column.startswith("peak")}
    (fault,) = faults_of(write(tmp_path / "none.csv", bare))
    assert fault.field == "peak_tflops"
    assert fault.allowed.startswith("this or one of peak_fp64_tflops, peak_fp32_tflops")
    (fault,) = faults_of(write(tmp_path / "both.csv", FRAME | {"peak_tflops": "65"}))
    assert (fault.field, fault.value) == ("peak_tflops", 65)
    assert fault.allowed == "must be left out where peaks by precision are given"


@pytest.mark.parametrize(
    ("layout", "column"),
    [(OWN, column) for column in ("cloud", "instance_type", "region", "accelerator", "accel_count", "vcpus")]
    + [(OWN, "host_mem_gib"), (OWN, "price_usd_h")]
    + [(SKYPILOT, column) for column in ("InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB")]
    + [(SKYPILOT, "Price"), (SKYPILOT, "Region")]
    + [(FRAME, column) for column in ("name", "price_usd_h", "memory_gb", "memory_bandwidth_gbs")],
)
def test_a_column_that_must_be_there(tmp_path, layout, column):
    path = write(tmp_path / "bad.csv", {key: cell for key, cell in layout.items() if key != column})
    (fault,) = faults_of(path)
    assert (fault.file, fault.record, fault.field) == (str(path), "header", column)
    assert fault.allowed == "this column must be there"


@pytest.mark.parametrize("layout", [OWN, FRAME])
def test_a_column_that_is_unknown(tmp_path, layout):
    (fault,) = faults_of(write(tmp_path / "bad.csv", layout | {"spot_price": "1"}))
    assert (fault.record, fault.field, fault.value) == ("header", "columns", "spot_price")
    assert fault.allowed.startswith("must be among ")


def test_other_columns_of_skypilot_files_are_left_alone(tmp_path):
    assert len(load_catalog(write(tmp_path / "aws.csv", SKYPILOT | {"Arch": "x86_64"}))) == 1


@pytest.mark.parametrize(
    ("content", "field", "allowed"),
    [
        (b"", "file", "is empty; must be a CSV file with a header"),
        (b"\n \n", "file", "is empty; must be a CSV file with a header"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "file", "must be a CSV file in UTF-8"),
        (b'cloud,instance_type\n"X,y\n', "file", "must be a CSV file in UTF-8"),
        (
            b"make,model\nVW,Golf\n",
            "columns",
            "must be those of the shipped catalog.csv, of Catalog.to_frame or of Sky",
        ),
        (b"cloud,cloud\nx,y\n", "columns", "must not be listed twice"),
        (",".join(OWN).encode(), "rows", "must be at least one"),
        (",".join(OWN).encode() + b"\nX,i,r\n", "cells", "must be as many as columns in the header (14)"),
    ],
)
def test_files_that_are_no_catalogs(tmp_path, content, field, allowed):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    (fault,) = faults_of(path)
    assert (fault.file, fault.field) == (str(path), field)
    assert fault.allowed.startswith(allowed)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv: file: does not exist"):
        load_catalog(tmp_path / "none.csv")
    with pytest.raises(InputError, match="file: Is a directory"):
        load_catalog(tmp_path)


def test_provider_is_for_skypilot_files(tmp_path):
    (fault,) = faults_of(write(tmp_path / "own.csv", OWN), provider="AWS")
    assert (fault.field, fault.value) == ("provider", "AWS")


def test_frames_report_their_rows():
    frame = pd.DataFrame([FRAME, FRAME | {"name": "X/r/j", "memory_gb": "-1"}])
    with pytest.raises(InputError, match=r"row 1 \(X/r/j\): memory_gb = '-1': must be greater than 0"):
        Catalog.from_frame(frame)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"provider": "aws"}, r"provider = 'aws': must be one of AWS, Azure, GCP"),
        ({"region": "us-east-9"}, r"region = 'us-east-9': is none of the \d+ there are; closest: us-east"),
        ({"accelerator": ["T4", "A1000"]}, r"accelerator = 'A1000': must be one of .*A100, A100-80GB"),
        ({"spot": True}, r"spot = True: must be one of False"),
        (
            {"names": "g5.xlarge"},
            r"name = 'g5.xlarge': is none of the 1\d+ there are; closest: AWS/us-east-1/g5.xlarge",
        ),
        ({"provider": "x", "region": "y"}, r"2 faults:"),
    ],
)
def test_conditions_that_nothing_meets(condition, message):
    with pytest.raises(InputError, match=message):
        load_catalog().where(**condition)


def test_names_that_are_not_there():
    catalog = load_catalog()
    with pytest.raises(InputError, match=r"closest: AWS/us-east-1/p4d\.24xlarge"):
        catalog["AWS/us-east-1/p4d.24large"]
    with pytest.raises(InputError, match=r"was kept out: no peak FLOP/s is known of Gaudi"):
        catalog["AWS/us-east-1/dl1.24xlarge"]
    with pytest.raises(IndexError):
        catalog[10_000]
