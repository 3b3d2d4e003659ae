"""Problem files: every field and its faults, where resources and workloads come from, round trips."""

import re
from dataclasses import fields, replace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from mopt import (
    Demand,
    InputError,
    Layer,
    MemoryPiece,
    OperatingPoint,
    Parallelism,
    Problem,
    Quota,
    Resource,
    Workload,
    load_catalog,
    load_workload,
)
from mopt.problem_files import load_problem, read_problem_file, save_problem

TINY = """\
name = "tiny"
precision = "fp16"
[[layers]]
name = "fc"
gflops = 2
bytes_fixed_mb = 8
[[memory]]
fixed_gb = 1
per_sample_mb = 40
"""
GOOD = """\
time_limit = 2
samples = 100
workload = "tiny.toml"
latency_limit = 0.5
billing = "elapsed"
launches = "whole"
max_launches = 3
max_types = 2
budget = 1.5
utilization = "memory"
startup = 0.25
minimum_billing = 1.75

[[resources]]
name = "a"
peak_flops = 7e13
memory_bandwidth = 6e11
memory = 24e9
price_per_hour = 1.006
max_units = 9
compute_efficiency = 0.9
bandwidth_efficiency = 0.8
launch_floor = 1e-3
unit_overhead = 1e-2
provider = "X"
region = "r"
accelerator = "A"
accelerator_count = 2
spot = true
trains = false
network_bandwidth = 1e9
source = "price list"

[[resources]]
name = "b"
peak_tflops = { fp16 = 70, fp32 = 35 }
memory_bandwidth_gbs = 600
memory_gb = 24
price_per_hour = 2
network_gbps = 8

[[quotas]]
max_units = 12
provider = "X"
region = "r"
accelerator = "A"

[min_units]
a = 1

[max_units]
b = 7
"""
WORKLOAD = Workload("tiny", "fp16", (Layer("fc", 2e9, 8e6),), 1e9, 4e7)
A = Resource(
    "a", 7e13, 6e11, 24e9, 1.006, 9, 0.9, 0.8, 1e-3, 1e-2, "X", "r", "A", 2, True, False, 1e9, "price list"
)
B = Resource("b", {"fp16": 70e12, "fp32": 35e12}, 600e9, 24e9, 2.0, 7, network_bandwidth=1e9)
PRECISIONS = "fp64, fp32, tf32, fp16, bf16, fp8, int8"
OWN = '[[resources]]\nname = "a"\npeak_tflops = 1\nmemory_gb = 1\nmemory_bandwidth_gbs = 1\nprice_per_hour = 1\n'


@pytest.fixture
def written(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY, encoding="utf-8")

    def write(text):
        path = tmp_path / "problem.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def faults(path):
    """Record, field, value and allowed of every fault; all are of this file."""
    with pytest.raises(InputError) as caught:
        load_problem(path)
    assert all(fault.file == str(path) for fault in caught.value.faults)
    return [(fault.record, fault.field, fault.value, fault.allowed) for fault in caught.value.faults]


def test_reads_every_field(written):
    assert load_problem(written(GOOD)) == Problem(
        (A, B),
        WORKLOAD,
        samples=100,
        time_limit=2.0,
        latency_limit=0.5,
        billing="elapsed",
        launches="whole",
        max_launches=3,
        max_types=2,
        budget=1.5,
        min_units={"a": 1},
        quotas=(Quota(12, "X", "r", "A"),),
        utilization="memory",
        startup=0.25,
        minimum_billing=1.75,
    )


def test_what_is_not_given_takes_the_defaults_of_the_record(written):
    problem = load_problem(written('time_limit = 1\nsamples = 5\nworkload = "gpt2-infer"\n'))
    assert problem == Problem(tuple(load_catalog()), load_workload("gpt2-infer"), samples=5, time_limit=1)


DEMANDS = """\
time_limit = 1
billing = "per_use"
[[demands]]
workload = "tiny.toml"
samples = 0.5
[[demands]]
samples = 7
latency_limit = 0.25
[demands.workload]
name = "inline"
precision = "int8"
layers = [{ name = "x", flops = 1 }]
"""


def test_several_demands_from_a_file_and_inline(written):
    problem = load_problem(written(DEMANDS + OWN))
    inline = Workload("inline", "int8", (Layer("x", 1.0),))
    assert problem.demands == (Demand(WORKLOAD, 0.5), Demand(inline, 7, 0.25))
    assert problem.workload is None


@pytest.mark.parametrize("key", ["workload", "demands"])
def test_a_workload_table_is_read_like_a_workload_file(written, key):
    within = "demands.workload" if key == "demands" else "workload"
    inline = re.sub(r"(?m)^\[\[(layers|memory)\]\]", rf"[[{within}.\1]]", TINY)
    head = "time_limit = 1\n"
    head += "samples = 3\n[workload]\n" if key == "workload" else "[[demands]]\nsamples = 3\n[demands.workload]\n"
    problem = load_problem(written(head + inline + OWN))
    assert [demand.workload for demand in problem.demand_by_name.values()] == [WORKLOAD]


# -- Where the resources come from -----------------------------------------------------------------------------------

HEAD = 'time_limit = 1\nsamples = 8\nworkload = "resnet50-train"\n'


def test_the_shipped_catalog_with_all_filters(written):
    filters = 'provider = "AWS"\nregion = ["us-east-1"]\naccelerator = ["T4", "A10G"]\n'
    shipped = load_catalog()
    expected = shipped.where(provider="AWS", region="us-east-1", accelerator=["T4", "A10G"])
    assert 0 < len(expected) < len(shipped)
    assert load_problem(written(f"{HEAD}[catalog]\n{filters}")).resources == tuple(expected)
    names = 'names = ["AWS/us-east-1/g5.xlarge"]'
    assert load_problem(written(f"{HEAD}[catalog]\n{names}")).resources == (shipped["AWS/us-east-1/g5.xlarge"],)


def test_spot_offers_come_if_asked_for(written):
    text = f'{HEAD}[catalog]\naccelerator = "A10G"\nprovider = "AWS"\n'
    without = load_problem(written(text)).resources
    spot = load_problem(written(text + "spot = true\n")).resources
    assert not any(resource.spot for resource in without)
    assert list(without) == [resource for resource in spot if not resource.spot]
    assert any(resource.spot for resource in spot)


def test_a_catalog_file_is_found_from_the_problem_file_and_what_it_keeps_out_is_told(written, tmp_path):
    csv = (
        "cloud,instance_type,region,accelerator,accel_count,vcpus,host_mem_gib,price_usd_h\n"
        "X,one,r,T4,1,4,16,1\nX,two,r,T4,1,4,16,0\n"
    )
    (tmp_path / "offers.csv").write_text(csv, encoding="utf-8")
    read = read_problem_file(written(f'{HEAD}[catalog]\nfile = "offers.csv"\n'))
    assert [resource.name for resource in read.problem.resources] == ["X/r/one"]
    assert read.rejected == {"X/r/two": "a price of 0 $/h"}


def test_own_resources_stand_alone_or_beside_a_catalog(written):
    assert [r.name for r in load_problem(written(HEAD + OWN)).resources] == ["a"]
    both = load_problem(written(f'{HEAD}[catalog]\nnames = "AWS/us-east-1/g5.xlarge"\n{OWN}'))
    assert [r.name for r in both.resources] == ["AWS/us-east-1/g5.xlarge", "a"]


def test_max_units_goes_before_what_a_resource_says(written):
    problem = load_problem(written(GOOD.replace("b = 7", "a = 5")))
    assert [resource.max_units for resource in problem.resources] == [5, None]


def test_the_same_figures_in_either_unit(written):
    customary = GOOD
    for si, other in (
        ("peak_flops = 7e13", "peak_tflops = 70"),
        ("memory_bandwidth = 6e11", "memory_bandwidth_gbs = 600"),
        ("memory = 24e9", "memory_gb = 24"),
        ("network_bandwidth = 1e9", "network_gbps = 8"),
    ):
        assert si in customary
        customary = customary.replace(si, other)
    assert load_problem(written(customary)) == load_problem(written(GOOD))


# -- Faults ----------------------------------------------------------------------------------------------------------

HEAD_KEYS = (
    "time_limit, samples, workload, latency_limit, demands, billing, launches, max_launches, max_types, budget, "
    "utilization, calibration, startup, minimum_billing, unit_overhead, parallelism, catalog, resources, max_units, "
    "min_units, quotas"
)
ABOVE_0 = "must be greater than 0"
AT_LEAST_0 = "must be greater than or equal to 0"
AT_LEAST_1 = "must be greater than or equal to 1"


@pytest.mark.parametrize(
    ("line", "wrong", "record", "field", "value", "allowed"),
    [
        ("time_limit = 2", "time_limit = 0", "problem", "time_limit", 0, ABOVE_0),
        ("time_limit = 2", "time_limit = inf", "problem", "time_limit", float("inf"), "must be a finite number"),
        ("samples = 100", 'samples = "100"', "problem", "samples", "100", "must be a valid number"),
        ("samples = 100", "samples = -1", "problem", "samples", -1, ABOVE_0),
        ("latency_limit = 0.5", "latency_limit = 0", "problem", "latency_limit", 0, ABOVE_0),
        ('billing = "elapsed"', 'billing = "spot"', "problem", "billing", "spot",
         "must be 'reserved', 'per_use' or 'elapsed'"),
        ('launches = "whole"', "launches = 1", "problem", "launches", 1, "must be 'whole' or 'rate'"),
        ("max_launches = 3", "max_launches = 0", "problem", "max_launches", 0, AT_LEAST_1),
        ("max_types = 2", "max_types = 1.5", "problem", "max_types", 1.5, "must be a valid integer"),
        ("budget = 1.5", "budget = -1", "problem", "budget", -1, ABOVE_0),
        ('utilization = "memory"', 'utilization = "x"', "problem", "utilization", "x",
         "must be 'compute', 'bandwidth' or 'memory'"),
        ("max_types = 2", "max_type = 2", "problem", "max_type", 2, f"unknown key; allowed: {HEAD_KEYS}"),
        ('workload = "tiny.toml"', "workload = 3", "problem", "workload", 3,
         "must be the name of a shipped workload, the path of a workload file, or a table"),
        ('name = "b"', 'name = ""', "resources[1] ''", "name", "", "String should have at least 1 character"),
        ("peak_flops = 7e13", "peak_flops = 0", "resources[0] 'a'", "peak_flops", 0,
         "must be a finite number greater than 0, or a table from precision to such numbers"),
        ("peak_flops = 7e13", "peak_flops = true", "resources[0] 'a'", "peak_flops", True,
         "must be a finite number greater than 0, or a table from precision to such numbers"),
        ("peak_flops = 7e13", "peak_flops = { }", "resources[0] 'a'", "peak_flops", {},
         f"must be a number, or a table with some of {PRECISIONS}"),
        ("fp16 = 70, fp32 = 35", "fp17 = 70", "resources[1] 'b'", "peak_tflops", {"fp17": 70},
         f"must be a number, or a table with some of {PRECISIONS}"),
        ("fp16 = 70, fp32 = 35", "fp16 = -70", "resources[1] 'b'", "peak_tflops", {"fp16": -70},
         "must be a finite number greater than 0, or a table from precision to such numbers"),
        ("memory_bandwidth = 6e11", "memory_bandwidth = 0", "resources[0] 'a'", "memory_bandwidth", 0, ABOVE_0),
        ("memory_bandwidth_gbs = 600", "memory_bandwidth_gbs = -1", "resources[1] 'b'", "memory_bandwidth_gbs", -1,
         ABOVE_0),
        ("memory = 24e9", "memory = -24e9", "resources[0] 'a'", "memory", -24e9, ABOVE_0),
        ("memory_gb = 24", "memory_gb = 0", "resources[1] 'b'", "memory_gb", 0, ABOVE_0),
        ("memory_gb = 24", "memory_gb = 24\nmemory = 24e9", "resources[1] 'b'", "memory", 24e9,
         "given as memory_gb too: keep one"),
        ("price_per_hour = 1.006", "price_per_hour = 0", "resources[0] 'a'", "price_per_hour", 0, ABOVE_0),
        ("max_units = 9", "max_units = -1", "resources[0] 'a'", "max_units", -1, AT_LEAST_0),
        ("compute_efficiency = 0.9", "compute_efficiency = 1.1", "resources[0] 'a'", "compute_efficiency", 1.1,
         "must be less than or equal to 1"),
        ("bandwidth_efficiency = 0.8", "bandwidth_efficiency = 0", "resources[0] 'a'", "bandwidth_efficiency", 0,
         ABOVE_0),
        ("launch_floor = 1e-3", "launch_floor = -1e-3", "resources[0] 'a'", "launch_floor", -1e-3, AT_LEAST_0),
        ("unit_overhead = 1e-2", "unit_overhead = -1e-2", "resources[0] 'a'", "unit_overhead", -1e-2, AT_LEAST_0),
        ("accelerator_count = 2", "accelerator_count = 0", "resources[0] 'a'", "accelerator_count", 0, AT_LEAST_1),
        ("spot = true", "spot = 1", "resources[0] 'a'", "spot", 1, "must be a valid boolean"),
        ("trains = false", 'trains = "no"', "resources[0] 'a'", "trains", "no", "must be a valid boolean"),
        ("network_bandwidth = 1e9", "network_bandwidth = 0", "resources[0] 'a'", "network_bandwidth", 0, ABOVE_0),
        ("network_gbps = 8", "network_gbps = 0", "resources[1] 'b'", "network_gbps", 0, ABOVE_0),
        ('source = "price list"', "source = 1", "resources[0] 'a'", "source", 1, "must be a valid string"),
        ("max_units = 12", "max_units = 1.5", "quotas[0]", "max_units", 1.5, "must be a valid integer"),
        ("[min_units]\na = 1", "[min_units]\na = -1", "min_units", "a", -1, AT_LEAST_0),
        ("[max_units]\nb = 7", '[max_units]\nb = "7"', "max_units", "b", "7", "must be a valid integer"),
        ("[max_units]\nb = 7", "[max_units]\nbb = 7", "max_units", "bb", 7,
         "must be the name of a resource; closest: b"),
        ("[min_units]\na = 1", "[min_units]\nz = 1", "min_units", "z", 1, "must be the name of a resource"),
    ],
)  # fmt: skip
def test_each_field_has_its_fault(written, line, wrong, record, field, value, allowed):
    assert f"{line}\n" in GOOD or f"{line} " in GOOD
    assert faults(written(GOOD.replace(line, wrong, 1))) == [(record, field, value, allowed)]


@pytest.mark.parametrize(
    ("line", "record", "field", "allowed"),
    [
        ("time_limit = 2\n", "problem", "time_limit", "Field required"),
        ("samples = 100\n", "problem", "samples", "a number greater than 0"),
        ('workload = "tiny.toml"\n', "problem", "workload", "a Workload, or demands"),
        ('name = "a"\n', "resources[0]", "name", "Field required"),
        ("peak_flops = 7e13\n", "resources[0] 'a'", "peak_flops", "missing: give peak_flops or peak_tflops"),
        ("memory_bandwidth = 6e11\n", "resources[0] 'a'", "memory_bandwidth",
         "missing: give memory_bandwidth or memory_bandwidth_gbs"),
        ("memory_gb = 24\n", "resources[1] 'b'", "memory", "missing: give memory or memory_gb"),
        ("price_per_hour = 2\n", "resources[1] 'b'", "price_per_hour", "Field required"),
        ("max_units = 12\n", "quotas[0]", "max_units", "Field required"),
    ],
)  # fmt: skip
def test_each_required_field_is_missed(written, line, record, field, allowed):
    text = GOOD.replace(line, "", 1)
    if line.startswith("name"):
        text = text.replace("[min_units]\na = 1\n", "")
    ((got_record, got_field, _, got_allowed),) = faults(written(text))
    assert (got_record, got_field, got_allowed) == (record, field, allowed)


CATALOG_KEYS = "file, provider, region, accelerator, names, spot"


@pytest.mark.parametrize(
    ("line", "field", "value", "allowed"),
    [
        ('provider = "AWSS"', "provider", "AWSS", "must be one of AWS, Azure, GCP"),
        ("provider = 1", "provider", 1, "must be a text or a list of texts"),
        ('region = "moon"', "region", "moon", None),
        ("region = [1]", "region", [1], "must be a text or a list of texts"),
        ('accelerator = ["T5"]', "accelerator", "T5", None),
        ("names = 5", "names", 5, "must be a text or a list of texts"),
        ('names = "g5"', "name", "g5", None),
        ('spot = "yes"', "spot", "yes", "must be a valid boolean"),
        ("file = 3", "file", 3, "must be a valid string"),
        ("vendor = 1", "vendor", 1, f"unknown key; allowed: {CATALOG_KEYS}"),
        ('provider = "AWS"\nregion = "eastus"', "provider, region", {"provider": "AWS", "region": "eastus"},
         "no offer has all of these"),
    ],
)  # fmt: skip
def test_each_catalog_key_has_its_fault(written, line, field, value, allowed):
    ((record, got_field, got_value, got_allowed),) = faults(written(f"{HEAD}[catalog]\n{line}\n"))
    assert (record, got_field, got_value) == ("catalog", field, value)
    assert allowed in (None, got_allowed)


@pytest.mark.parametrize(
    ("line", "wrong", "record", "field", "value", "allowed"),
    [
        ("samples = 7", "samples = 0", "demands[1]", "samples", 0, ABOVE_0),
        ("samples = 7", "", "demands[1]", "samples", None, "Field required"),
        ("latency_limit = 0.25", "latency_limit = -1", "demands[1]", "latency_limit", -1, ABOVE_0),
        ("latency_limit = 0.25", "latency = 1", "demands[1]", "latency", 1,
         "unknown key; allowed: workload, samples, latency_limit, parallelism"),
        ('workload = "tiny.toml"', "workload = 1", "demands[0]", "workload", 1,
         "must be the name of a shipped workload, the path of a workload file, or a table"),
        ("flops = 1", "flops = -1", "demands[1]: layers[0] 'x'", "flops", -1, AT_LEAST_0),
        ('precision = "int8"', 'precision = "int7"', "demands[1]: workload 'inline'", "precision", "int7",
         f"must be one of {PRECISIONS}"),
    ],
)  # fmt: skip
def test_each_field_of_a_demand_has_its_fault(written, line, wrong, record, field, value, allowed):
    ((got_record, got_field, got_value, got_allowed),) = faults(written((DEMANDS + OWN).replace(line, wrong, 1)))
    assert (got_record, got_field, got_allowed) == (record, field, allowed)
    assert value is None or got_value == value


@pytest.mark.parametrize(
    ("wrong", "record", "field"),
    [
        ("resources = 3", "problem", "resources"),
        ("resources = [3]", "resources[0]", "table"),
        ("demands = 3", "problem", "demands"),
        ("demands = [3]", "demands[0]", "table"),
        ("quotas = 3", "problem", "quotas"),
        ("quotas = [3]", "quotas[0]", "table"),
        ("catalog = 3", "catalog", "table"),
        ("min_units = 3", "problem", "min_units"),
        ("max_units = 3", "problem", "max_units"),
    ],
)
def test_tables_must_be_tables(written, wrong, record, field):
    ((got_record, got_field, value, allowed),) = faults(written(f"{HEAD}{wrong}\n"))
    assert (got_record, got_field) == (record, field)
    assert value == 3
    assert "must be" in allowed


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (Problem, f"{HEAD}x = 1\n{OWN}"),
        (Resource, f"{HEAD}{OWN}x = 1\n"),
        (Quota, f"{HEAD}{OWN}[[quotas]]\nmax_units = 1\nx = 1\n"),
        (Demand, DEMANDS.replace("samples = 7", "samples = 7\nx = 1") + OWN),
    ],
)
def test_every_field_of_a_record_has_its_key(written, record, text):
    ((_, field, _, allowed),) = faults(written(text))
    assert field == "x"
    keys = allowed.removeprefix("unknown key; allowed: ").split(", ")
    assert {field.name for field in fields(record)} <= set(keys)


def test_a_quota_names_a_group_that_there_is(written):
    nameless = 'provider = "X"\nregion = "r"\naccelerator = "A"\n\n[min'
    assert nameless in GOOD
    ((record, _, _, allowed),) = faults(written(GOOD.replace(nameless, "[min")))
    assert (record, allowed) == ("quotas[0]", "a quota needs a provider, a region or an accelerator")
    nowhere = GOOD.replace('accelerator = "A"\n\n[min', 'accelerator = "Z"\n\n[min')
    ((record, field, value, allowed),) = faults(written(nowhere))
    assert (record, field, value) == ("problem", "quotas", "at most 12 units of X r Z")
    assert "no resource" in allowed


def test_all_faults_of_all_parts_come_at_once(written):
    text = (
        'time_limit = 0\nworkload = "resnet51"\nsamples = "a"\nfoo = 1\n[catalog]\nprovider = "B"\n'
        '[[resources]]\nname = "a"\n[[quotas]]\nmax_units = -1\n[max_units]\nq = -2\n'
    )
    assert {(record, field) for record, field, _, _ in faults(written(text))} == {
        ("problem", "time_limit"),
        ("problem", "samples"),
        ("problem", "foo"),
        ("problem", "workload"),
        ("catalog", "provider"),
        ("resources[0] 'a'", "price_per_hour"),
        ("resources[0] 'a'", "peak_flops"),
        ("resources[0] 'a'", "memory"),
        ("resources[0] 'a'", "memory_bandwidth"),
        ("quotas[0]", "max_units"),
        ("max_units", "q"),
    }


def test_all_contradictions_come_at_once(written):
    text = GOOD.replace("samples = 100", "samples = 1.5").replace('launches = "whole"', 'launches = "rate"')
    text = text.replace('name = "b"', 'name = "a"').replace("[max_units]\nb = 7", "")
    assert {(record, field) for record, field, _, _ in faults(written(text))} == {
        ("problem", "resources"),
        ("problem", "launches"),
        ("problem", "max_launches"),
    }


def test_a_workload_is_either_alone_or_in_demands(written):
    ((record, field, _, allowed),) = faults(written(f"samples = 3\n{DEMANDS}{OWN}"))
    assert (record, field) == ("problem", "demands")
    assert allowed == "give either demands or workload, samples, latency_limit"


def test_faults_of_other_files_name_those(written, tmp_path):
    path = written(f'{HEAD.replace("resnet50-train", "./tiny.toml")}[catalog]\nfile = "offers.csv"\n')
    (tmp_path / "tiny.toml").write_text(TINY.replace("gflops = 2", "gflops = -2"), encoding="utf-8")
    (tmp_path / "offers.csv").write_text("cloud,instance_type\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_problem(path)
    assert {fault.file for fault in caught.value.faults} == {str(tmp_path / "tiny.toml"), str(tmp_path / "offers.csv")}


def test_no_file_and_no_toml(written, tmp_path):
    missing = tmp_path / "missing.toml"
    with pytest.raises(InputError, match=rf"{re.escape(str(missing))}: file: can't be read: No such file"):
        load_problem(missing)
    with pytest.raises(InputError, match="not a TOML file"):
        load_problem(written("a = "))


# -- Round trips -----------------------------------------------------------------------------------------------------


def test_a_problem_of_the_shipped_catalog_comes_back_equal(tmp_path):
    catalog = load_catalog(spot=True).where(provider="AWS")
    problem = Problem(catalog, load_workload("resnet50-train"), samples=2048, time_limit=1.0)
    save_problem(problem, tmp_path / "p.toml")
    assert load_problem(tmp_path / "p.toml") == problem


text = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=8)
names = text.filter(bool)
positive = st.floats(1e-30, 1e30)
shares = st.floats(1e-6, 1.0)
precisions = st.sampled_from(PRECISIONS.split(", "))
resources = st.builds(
    Resource,
    name=names,
    peak_flops=positive | st.dictionaries(precisions, positive, min_size=1),
    memory_bandwidth=positive,
    memory=positive,
    price_per_hour=positive,
    max_units=st.none() | st.integers(5, 9),
    compute_efficiency=shares,
    bandwidth_efficiency=shares,
    launch_floor=shares,
    launch_overhead=shares,
    unit_overhead=st.just(0.0) | shares,
    link_bandwidth=st.none() | positive,
    provider=st.sampled_from(["", "X"]),
    region=text,
    accelerator_count=st.integers(1, 9),
    spot=st.booleans(),
    trains=st.booleans(),
    network_bandwidth=st.none() | positive,
    source=text,
)
points = st.builds(
    OperatingPoint, st.integers(1, 9), st.tuples(positive, positive), st.tuples(positive, positive), st.none() | positive
)
measured = st.builds(OperatingPoint, st.integers(1, 9), time=positive, memory=positive, resource=st.just("x"))
splits = st.builds(Parallelism, st.integers(1, 4), st.integers(1, 4), st.none() | st.integers(1, 8), st.integers(0, 3))
workloads = st.builds(
    Workload,
    name=names,
    precision=precisions,
    layers=st.lists(st.builds(Layer, text, positive, positive), min_size=1, max_size=2),
    memory_pieces=st.lists(st.builds(MemoryPiece, positive, positive), min_size=1, max_size=2),
    points=st.lists(measured, max_size=2, unique_by=lambda point: point.batch),
    mode=st.just("training"),
    gradient_bytes=positive,
    weight_bytes=positive,
    optimizer_bytes=positive,
    tensor_bytes=positive,
    pipeline_bytes=positive,
    parallelism=splits,
) | st.builds(
    Workload,
    name=names,
    precision=precisions,
    memory_fixed=positive,
    points=st.lists(points, min_size=1, max_size=3, unique_by=lambda point: point.batch),
)
demands = st.builds(Demand, workloads, st.integers(1, 100), st.none() | positive)


@st.composite
def problems(draw):
    chosen = draw(st.lists(resources, min_size=1, max_size=3, unique_by=lambda resource: resource.name))
    first = replace(chosen[0], provider="X")
    limits = {
        "time_limit": draw(positive),
        "billing": draw(st.sampled_from(["reserved", "elapsed"])),
        "max_launches": draw(st.none() | st.integers(1, 9)),
        "max_types": draw(st.none() | st.integers(1, 9)),
        "budget": draw(st.none() | positive),
        "min_units": draw(st.dictionaries(st.just(first.name), st.integers(0, 5))),
        "quotas": draw(st.lists(st.builds(Quota, st.integers(0, 9), st.just("X")), max_size=2)),
        "utilization": draw(st.sampled_from(["compute", "bandwidth", "memory"])),
        "startup": draw(st.just(0.0) | positive),
        "unit_overhead": draw(st.sampled_from([None, "allreduce"])),
    }
    several = draw(st.lists(demands, max_size=2, unique_by=lambda demand: demand.name))
    if several:
        return Problem([first, *chosen[1:]], demands=several, **limits)
    one = draw(demands)
    return Problem([first, *chosen[1:]], one.workload, one.samples, latency_limit=one.latency_limit, **limits)


@given(problems())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_problem_comes_back_equal(tmp_path, problem):
    path = tmp_path / "p.toml"
    save_problem(problem, path)
    assert load_problem(path) == problem
