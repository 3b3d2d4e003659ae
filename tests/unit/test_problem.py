"""Problems: what is refused and how it is said, what follows from the data, and what is filled in."""

import dataclasses
import math
import pickle
import re

import pytest

from mopt import Demand, InputError, Layer, MemoryPiece, Problem, Quota, Resource, Workload, load_catalog, load_workload

GPU = {
    "name": "gpu", "peak_flops": 1e12, "memory_bandwidth": 1e11, "memory": 8e9, "price_per_hour": 1.0,
    "provider": "A", "region": "east", "accelerator": "G",
}
RESOURCE = Resource(**GPU)
NET = {"name": "net", "precision": "fp16", "layers": [Layer("all", 1e10, 1e8, 1e8)]}
WORKLOAD = Workload(**NET)
OTHER = Workload(**(NET | {"name": "other"}))
ONE = {"resources": [RESOURCE], "workload": WORKLOAD, "samples": 50, "time_limit": 1.0}
SEVERAL = {"resources": [RESOURCE], "demands": [Demand(WORKLOAD, 30), Demand(OTHER, 20)], "time_limit": 1.0}


def problem(**changes):
    return Problem(**(ONE | changes))


def several(**changes):
    return Problem(**(SEVERAL | changes))


# -- Bad values ------------------------------------------------------------------------------------------------------

POSITIVE = "must be greater than 0"
NOT_NEGATIVE = "must be greater than or equal to 0"
FINITE = "must be a finite number"


def one_fault(make, values, record, field, shown, allowed):
    """The message names record, field, value read, and what is allowed."""
    with pytest.raises(InputError) as caught:
        make(**values)
    assert len(caught.value.faults) == 1
    expected = f"{record}: {field}" + (f" = {shown}" if shown else "")
    assert str(caught.value).startswith(f"{expected}: ")
    assert re.search(allowed, str(caught.value).removeprefix(expected))


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("peak_flops", 0, "finite number greater than 0, or map precisions to such numbers"),
        ("peak_flops", {"fp12": 1e12}, "map some of fp64, fp32, tf32, fp16, bf16, fp8, int8 to numbers"),
        ("peak_flops", {"fp16": -1}, "greater than 0"),
        ("memory_bandwidth", 0, POSITIVE),
        ("memory", -1.0, POSITIVE),
        ("memory", "much", "must be a valid number"),
        ("price_per_hour", 0.0, POSITIVE),
        ("price_per_hour", math.nan, FINITE),
        ("max_units", -1, NOT_NEGATIVE),
        ("max_units", 1.5, "must be a valid integer"),
        ("compute_efficiency", 1.2, "must be less than or equal to 1"),
        ("compute_efficiency", 0.0, POSITIVE),
        ("bandwidth_efficiency", 0, POSITIVE),
        ("launch_floor", -1e-3, NOT_NEGATIVE),
        ("launch_overhead", -1e-3, NOT_NEGATIVE),
        ("unit_overhead", math.inf, FINITE),
        ("provider", 1, "must be a valid string"),
        ("region", 1, "must be a valid string"),
        ("accelerator", 1, "must be a valid string"),
        ("accelerator_count", 0, "must be greater than or equal to 1"),
        ("spot", "perhaps", "must be a valid boolean"),
        ("trains", "perhaps", "must be a valid boolean"),
        ("network_bandwidth", 0, POSITIVE),
        ("colour", "red", "Unexpected keyword"),
    ],
)
def test_bad_resource(field, value, allowed):
    one_fault(Resource, GPU | {field: value}, "Resource 'gpu'", field, repr(value), allowed)


@pytest.mark.parametrize(
    ("field", "value", "shown", "allowed"),
    [
        ("precision", "fp12", "'fp12'", "must be one of fp64, fp32, tf32, fp16, bf16, fp8, int8"),
        ("layers", [], "()", "at least one layer, or points"),
        ("memory_fixed", -1, "-1", NOT_NEGATIVE),
        ("memory_per_sample", -1, "-1", NOT_NEGATIVE),
        ("mode", "test", "'test'", "must be 'training' or 'inference'"),
        ("gradient_bytes", -1, "-1", NOT_NEGATIVE),
    ],
)
def test_bad_workload(field, value, shown, allowed):
    one_fault(Workload, NET | {field: value}, "Workload 'net'", field, shown, allowed)


@pytest.mark.parametrize("field", ["flops", "bytes_fixed", "bytes_per_sample"])
def test_bad_layer(field):
    one_fault(Layer, {"name": "conv", "flops": 1.0, field: -1}, "Layer 'conv'", field, "-1", NOT_NEGATIVE)


def test_a_workload_must_do_something():
    idle = NET | {"layers": [Layer("none", 0)]}
    one_fault(Workload, idle, "Workload 'net'", "layers", "1", "must have FLOPs or bytes")


@pytest.mark.parametrize("field", ["fixed", "per_sample"])
def test_bad_memory_piece(field):
    one_fault(MemoryPiece, {"fixed": 1.0, "per_sample": 1.0, field: -1}, "MemoryPiece", field, "-1", NOT_NEGATIVE)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("workload", "net", "instance of Workload"),
        ("samples", 0, POSITIVE),
        ("samples", math.inf, FINITE),
        ("latency_limit", 0, POSITIVE),
    ],
)
def test_bad_demand(field, value, allowed):
    one_fault(Demand, {"workload": WORKLOAD, "samples": 5, field: value}, "Demand", field, repr(value), allowed)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("max_units", -1, NOT_NEGATIVE),
        ("max_units", 1.5, "must be a valid integer"),
        ("provider", 3, "must be a valid string"),
        ("region", 3, "must be a valid string"),
        ("accelerator", 3, "must be a valid string"),
    ],
)
def test_bad_quota(field, value, allowed):
    one_fault(Quota, {"max_units": 1, "region": "east", field: value}, "Quota", field, repr(value), allowed)


def test_a_quota_needs_a_group():
    one_fault(Quota, {"max_units": 1}, "Quota", "values", "", "a provider, a region or an accelerator")


@pytest.mark.parametrize(
    ("changes", "field", "shown", "allowed"),
    [
        ({"resources": []}, "resources", "()", "at least one"),
        ({"resources": ["gpu"]}, "resources[0]", "'gpu'", "instance of Resource"),
        ({"resources": [RESOURCE, RESOURCE]}, "resources", "'gpu'", "names must be unique"),
        ({"workload": None}, "workload", "None", "a Workload, or demands"),
        ({"workload": "net"}, "workload", "'net'", "instance of Workload"),
        ({"samples": None}, "samples", "None", "greater than 0"),
        ({"samples": 0}, "samples", "0", POSITIVE),
        ({"samples": 2.5}, "samples", "2.5", "a whole number, as launches are whole"),
        ({"time_limit": 0}, "time_limit", "0", POSITIVE),
        ({"time_limit": "soon"}, "time_limit", "'soon'", "must be a valid number"),
        ({"latency_limit": -1}, "latency_limit", "-1", POSITIVE),
        ({"demands": [Demand(OTHER, 5)]}, "demands", "'1 demands'", "demands or workload, samples, latency_limit"),
        ({"billing": "hourly"}, "billing", "'hourly'", "must be 'reserved', 'per_use' or 'elapsed'"),
        ({"launches": "some"}, "launches", "'some'", "must be 'whole' or 'rate'"),
        ({"launches": "rate", "billing": "elapsed"}, "launches", "'rate'", "elapsed billing needs whole launches"),
        ({"max_launches": 0}, "max_launches", "0", "must be greater than or equal to 1"),
        ({"max_launches": 3, "launches": "rate"}, "max_launches", "3", "only with whole launches"),
        ({"max_types": 0}, "max_types", "0", "must be greater than or equal to 1"),
        ({"budget": 0}, "budget", "0", POSITIVE),
        ({"min_units": {"gpu": -1}}, "min_units.gpu", "-1", NOT_NEGATIVE),
        ({"min_units": {"tpu": 1}}, "min_units", "'tpu'", "the name of one of the resources"),
        (
            {"min_units": {"gpu": 3}, "resources": [dataclasses.replace(RESOURCE, max_units=2)]},
            "min_units[gpu]", "3", "at most its max_units = 2",
        ),
        ({"quotas": [{"max_units": 1}]}, "quotas[0]", "{'max_units': 1}", "a provider, a region or an accelerator"),
        ({"quotas": [Quota(1, region="west")]}, "quotas", "'at most 1 units of west'", "no resource has these"),
        ({"utilization": "all"}, "utilization", "'all'", "must be 'compute', 'bandwidth' or 'memory'"),
        ({"colour": 1}, "colour", "1", "Unexpected keyword"),
    ],
)
def test_bad_problem(changes, field, shown, allowed):
    one_fault(problem, changes, "Problem", field, shown, allowed)


@pytest.mark.parametrize(
    ("changes", "field", "shown", "allowed"),
    [
        ({"demands": ["net"]}, "demands[0]", "'net'", "instance of Demand"),
        ({"demands": [Demand(WORKLOAD, 5), Demand(WORKLOAD, 6)]}, "demands", "'net'", "workload names must be unique"),
        ({"demands": [Demand(WORKLOAD, 5), Demand(OTHER, 2.5)]}, "demands[1].samples", "2.5", "a whole number"),
        ({"latency_limit": 1.0}, "demands", "'2 demands'", "either demands or workload, samples, latency_limit"),
    ],
)
def test_bad_demands(changes, field, shown, allowed):
    one_fault(several, changes, "Problem", field, shown, allowed)


def test_all_faults_are_told_at_once():
    with pytest.raises(InputError, match="3 faults") as caught:
        problem(samples=-1, time_limit=-1, billing="hourly")
    assert {fault.field for fault in caught.value.faults} == {"samples", "time_limit", "billing"}
    with pytest.raises(InputError) as caught:
        problem(samples=2.5, min_units={"tpu": 1}, quotas=[Quota(1, region="west")])
    assert {fault.field for fault in caught.value.faults} == {"samples", "min_units", "quotas"}


def test_time_limit_is_named():
    with pytest.raises(InputError, match="time_limit: Field required"):
        Problem([RESOURCE], WORKLOAD, 5)


# -- What is accepted ------------------------------------------------------------------------------------------------


def test_catalogs_and_single_records_are_sequences():
    catalog = load_catalog().where(provider="AWS", region="us-east-1")
    assert Problem(catalog, WORKLOAD, 5, time_limit=1.0).resources == tuple(catalog)
    assert problem(resources=RESOURCE).resources == (RESOURCE,)
    assert several(demands=Demand(WORKLOAD, 5)).demands == (Demand(WORKLOAD, 5),)
    assert problem(quotas=Quota(3, region="east")).quotas == (Quota(3, region="east"),)
    assert problem(quotas=[{"max_units": 3, "region": "east"}]).quotas == (Quota(3, region="east"),)


def test_fractions_of_samples_come_with_rates():
    assert problem(samples=0.5, launches="rate").samples == 0.5
    assert problem(samples=0.5, billing="per_use").samples == 0.5


def test_problems_are_frozen_equal_and_picklable():
    p = problem(min_units={"gpu": 1}, quotas=[Quota(3, region="east")])
    assert p.services
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.samples = 3
    copy = pickle.loads(pickle.dumps(p))
    assert copy == p
    assert copy.services == p.services
    assert p != problem()
    assert dataclasses.replace(p, budget=1.0).budget == 1.0


@pytest.mark.parametrize(
    ("quota", "covered"),
    [
        (Quota(1, provider="A"), True),
        (Quota(1, provider="B"), False),
        (Quota(1, provider="A", region="east", accelerator="G"), True),
        (Quota(1, provider="A", region="west"), False),
        (Quota(1, accelerator="G"), True),
    ],
)
def test_a_quota_covers_what_has_all_its_marks(quota, covered):
    assert quota.covers(RESOURCE) is covered


# -- What follows ----------------------------------------------------------------------------------------------------


def test_launches_default_by_billing():
    assert [problem(billing=b).whole for b in ("reserved", "per_use", "elapsed")] == [True, False, True]
    assert [problem(billing=b).launches_per_unit for b in ("reserved", "per_use", "elapsed")] == [None, None, 4]
    assert problem(billing="per_use", launches="whole", max_launches=2).launches_per_unit == 2


def test_default_units_are_just_enough():
    # One launch of b takes b/100 s (compute) from b = 1 on, so a unit does 100 samples in 1 s.
    assert problem(samples=250).services["gpu", "net"].capacity == 100
    assert problem(samples=250).unit_limits == {"gpu": 3}
    assert problem(samples=300).unit_limits == {"gpu": 3}
    assert problem(samples=301).unit_limits == {"gpu": 4}
    assert problem(samples=250, min_units={"gpu": 7}).unit_limits == {"gpu": 7}
    assert several(demands=[Demand(WORKLOAD, 250), Demand(OTHER, 10)]).unit_limits == {"gpu": 4}
    assert problem(resources=[dataclasses.replace(RESOURCE, max_units=2)]).unit_limits == {"gpu": 2}


def test_elapsed_takes_16_units_unless_told():
    assert problem(billing="elapsed").unit_limits == {"gpu": 16}
    assert problem(billing="elapsed", min_units={"gpu": 20}).unit_limits == {"gpu": 20}
    assert problem(billing="elapsed", resources=[dataclasses.replace(RESOURCE, max_units=3)]).unit_limits == {"gpu": 3}


def test_rejected_with_reasons():
    slow = dataclasses.replace(RESOURCE, name="slow", unit_overhead=0.5)
    late = dataclasses.replace(RESOURCE, name="late", unit_overhead=2.0)
    none = dataclasses.replace(RESOURCE, name="none", max_units=0)
    tiny = dataclasses.replace(RESOURCE, name="tiny", memory=1e9)
    old = dataclasses.replace(RESOURCE, name="old", peak_flops={"fp32": 1e12})
    resources = [RESOURCE, slow, late, none, tiny, old]
    needy = dataclasses.replace(WORKLOAD, memory_fixed=4e9)
    p = problem(resources=resources, workload=needy)
    assert set(p.unit_limits) == {"gpu", "slow"}
    assert p.rejected == {
        "late": "needs at least 2.01 s for a launch of 1 and the overhead of 2 s, time_limit is 1 s",
        "none": "has max_units = 0",
        "tiny": "needs 4 GB for a batch of 1 on each accelerator, has 1 GB: 3,000,000,000 B are missing",
        "old": "has no fp16 peak (has fp32)",
    }
    rates = problem(resources=resources, workload=needy, launches="rate")
    assert rates.rejected["late"] == "needs more than its overhead of 2 s, time_limit is 1 s"


def test_a_resource_may_serve_some_demands_only():
    large = dataclasses.replace(OTHER, memory_fixed=20e9)
    big = dataclasses.replace(RESOURCE, name="big", memory=40e9)
    p = several(resources=[RESOURCE, big], demands=[Demand(WORKLOAD, 30), Demand(large, 20)])
    assert set(p.services) == {("gpu", "net"), ("big", "net"), ("big", "other")}
    assert not p.rejected
    assert "other: 1 resources serve other demands only" in p.assumptions
    none = several(demands=[Demand(WORKLOAD, 30, latency_limit=1e-4), Demand(large, 20)])
    assert none.rejected["gpu"].startswith("net: needs at least 0.01 s")
    assert "; other: needs 20 GB" in none.rejected["gpu"]


def test_what_nothing_limits_is_limited_to_a_billion():
    p = problem(launches="rate")
    assert p.services["gpu", "net"].batch_limit == 1e9
    assert p.services["gpu", "net"].capacity == pytest.approx(100)
    assert any(text.startswith("batch_limit: 1e+09 samples an accelerator on 1 resources") for text in p.assumptions)


def test_assumptions_say_what_was_filled_in():
    texts = "\n".join(problem(billing="elapsed").assumptions)
    assert "launches: whole launches of whole batches (default of elapsed)" in texts
    assert "max_launches: 4 launches" in texts
    assert "max_units: 16 units of each of 1 resources" in texts
    assert "times of 1 resources are the ideal roofline bound" in texts
    assert "what is paid has no start-up time (startup = 0 s) and no minimum (minimum_billing = 0 s)" in texts
    told = problem(
        billing="elapsed", launches="whole", max_launches=2, startup=0.5, minimum_billing=0.25,
        resources=[dataclasses.replace(RESOURCE, max_units=3, compute_efficiency=0.5)],
    )
    assert told.assumptions == ()


def test_assumptions_of_training_and_of_stand_ins():
    trained = dataclasses.replace(WORKLOAD, mode="training", precision="bf16")
    half = dataclasses.replace(RESOURCE, peak_flops={"fp16": 1e12})
    texts = "\n".join(problem(workload=trained, resources=[half]).assumptions)
    assert "communication between units is not counted (unit_overhead = 0 for 1 resources)" in texts
    assert "bf16: the other 16-bit format stands in on 1 resources" in texts


def test_the_shipped_catalog_sorts_out_what_cannot_train():
    p = Problem(load_catalog(), load_workload("resnet50-train"), 2048, time_limit=1.0)
    assert len(p.unit_limits) + len(p.rejected) == len(p.resources)
    assert {name for name in p.rejected if "/inf" in name}  # inference-only instances
    assert any("does inference only" in reason for reason in p.rejected.values())
