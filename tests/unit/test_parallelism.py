"""Shared models: memory by degree and ZeRO stage, launch times, links, exchange of gradients, refusals, notes."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from typer.testing import CliRunner

import mopt
from mopt import (
    InputError,
    Layer,
    MemoryPiece,
    OperatingPoint,
    Parallelism,
    Problem,
    Resource,
    Workload,
    batch_limit,
    launch_time,
)
from mopt.cli import app
from mopt.communication import exchange_time, footprint_pieces, link_traffic

# 8 accelerators of 100 TFLOP/s, 1 TB/s and 16 GB each
EIGHT = Resource("eight", peak_flops=800e12, memory_bandwidth=8e12, memory=128e9, price_per_hour=8.0,
                 accelerator_count=8, link_bandwidth=100e9, network_bandwidth=10e9)  # fmt: skip
NET = Workload(
    "net", "fp16", [Layer("all", 1e11, 4e9, 1e8)], mode="training", memory_fixed=32e9, memory_per_sample=1e9,
    gradient_bytes=4e9, weight_bytes=4e9, optimizer_bytes=24e9, tensor_bytes=1e9, pipeline_bytes=5e7,
)  # fmt: skip


def split(workload=NET, **how):
    return dataclasses.replace(workload, parallelism=Parallelism(**how))


def held(workload, resource=EIGHT):
    """Bytes on each accelerator without a sample."""
    return max(piece.fixed for piece in footprint_pieces(resource, workload))


# -- Memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_as_published(zero, gigabytes):
    """7.5 billion parameters, K = 12, 64 accelerators: Rajbhandari et al. 2020, Figure 1."""
    psi = 7.5e9
    net = dataclasses.replace(
        NET, memory_fixed=16 * psi, weight_bytes=2 * psi, gradient_bytes=2 * psi, optimizer_bytes=12 * psi
    )
    many = dataclasses.replace(EIGHT, accelerator_count=64)
    assert held(split(net, zero=zero), many) / 1e9 == pytest.approx(gigabytes, abs=0.05)


def test_degrees_split_weights_and_samples():
    assert held(NET) == 32e9
    assert held(split(tensor=4)) == held(split(pipeline=4)) == held(split(tensor=2, pipeline=2)) == 8e9
    (piece,) = footprint_pieces(EIGHT, split(tensor=4))
    assert piece.per_sample == 0.25e9
    # two copies share the states, each on four accelerators
    assert held(split(tensor=4, zero=3)) == 4e9


def test_a_peak_without_gradients_keeps_them():
    """Weights and optimizer states are always there; at the second peak there are no gradients to share."""
    net = dataclasses.replace(NET, memory_fixed=30e9, memory_per_sample=0.0, memory_pieces=[MemoryPiece(33e9, 0.0)])
    small, large = footprint_pieces(EIGHT, split(net, zero=2))
    assert small.fixed == 30e9 - 24e9 * 7 / 8
    assert large.fixed == 33e9 - (24e9 + 4e9) * 7 / 8


def test_a_model_too_large_for_one_accelerator_is_placed_or_refused_with_what_is_missing():
    refused = batch_limit(EIGHT, NET)
    assert (refused.batch, refused.limit, refused.needed) == (0, "memory", 33e9)
    assert refused.reason == (
        "needs 33 GB for a batch of 1 on each accelerator, has 16 GB: 17,000,000,000 B are missing"
    )
    refused = batch_limit(EIGHT, split(tensor=2))
    assert refused.reason.endswith("for a batch of 1 on each 2 accelerators, has 16 GB: 500,000,000 B are missing")
    assert batch_limit(EIGHT, split(tensor=4))[:2] == (2 * 32, "memory")
    assert batch_limit(EIGHT, split(zero=2))[:2] == (8 * 8, "memory")  # 4 + 28/8 + a ≤ 16
    problem = Problem([EIGHT], split(tensor=4), 64, time_limit=1.0)
    (point,) = mopt.solve_epsilon_front(problem)
    assert point.plan.memory == {("eight", "net"): 16e9}
    assert Problem([EIGHT], NET, 64, time_limit=1.0).rejected["eight"].endswith("17,000,000,000 B are missing")


def test_llama_70b_is_placed_on_eight_accelerators_only_together():
    decode = mopt.load_workload("llama3-70b-decode")
    offer = mopt.load_catalog()["AWS/us-east-1/p4de.24xlarge"]
    refused = batch_limit(offer, decode)
    assert refused.limit == "memory"
    assert refused.reason.endswith(f"{math.ceil(decode.footprint(1) - 80e9):,} B are missing")
    assert batch_limit(offer, split(decode, tensor=8)).batch > 100
    assert batch_limit(offer, split(decode, pipeline=8)).batch > 100


# -- Launch times ----------------------------------------------------------------------------------------------------


def test_tensor_parallel_copies_read_their_weights_once():
    """Four accelerators a copy: 0.4 Tflop/s and 4 TB/s; the other four do the same with the other half."""
    net = split(dataclasses.replace(NET, tensor_bytes=0.0), tensor=4)
    tau = launch_time(EIGHT, net)
    for b in (2, 8, 64):
        a = b / 2
        assert tau.at(b) == pytest.approx(max(1e11 * a / 400e12, (4e9 + 1e8 * a) / 4e12))


def test_the_link_is_one_more_roof():
    """Rings: each accelerator sends 2·3/4 of 1 GB a sample at 100 GB/s: 15 ms, more than all else."""
    net = split(tensor=4)
    assert link_traffic(EIGHT, net) == (1.5e9, 0.0)
    assert launch_time(EIGHT, net).at(8) == pytest.approx(4 * 15e-3)
    fast = dataclasses.replace(EIGHT, link_bandwidth=1e15)
    assert launch_time(fast, net).at(8) == pytest.approx((4e9 + 4e8) / 4e12)


def test_a_pipeline_takes_as_long_as_its_parts_and_what_fills_it():
    """Two stages, four copies, eight parts of one sample: nine parts at half of the layers each."""
    net = split(dataclasses.replace(NET, pipeline_bytes=0.0), pipeline=2, microbatches=8)
    part = max(1e11 / 100e12, (4e9 + 1e8) / 1e12) / 2
    assert launch_time(EIGHT, net).at(4 * 8) == pytest.approx(9 * part)
    # of 4 GB only 2·0.5 + 2·0.25 move with each part; the other 2.5 GB once, half of them at each stage
    light = dataclasses.replace(net, weight_bytes=0.5e9, gradient_bytes=0.25e9)
    assert launch_time(EIGHT, light).at(32) == pytest.approx((9 * (1.5e9 + 1e8) / 2 + 2.5e9 / 2) / 1e12)
    host = dataclasses.replace(EIGHT, launch_overhead=0.01)
    assert launch_time(host, net).at(4 * 8) == pytest.approx(9 * (part + 0.01 / 2))
    assert Parallelism(pipeline=2).parts == 8
    assert link_traffic(EIGHT, split(pipeline=2)) == (5e7, 0.0)
    large = dataclasses.replace(EIGHT, memory=800e9)
    problem = Problem([large], net, 64, time_limit=1.0)
    assert problem.services["eight", "net"].step == 32
    assert batch_limit(large, net, samples=31).reason.startswith("takes at least 32 samples a launch (pipeline=2)")


def test_zero_3_gathers_weights_over_the_link():
    """Half of the weights are gathered forward, and again backward: with gradients once, 1.5 times 2·Ψ."""
    sample, gathered = link_traffic(EIGHT, split(zero=3))
    assert (sample, gathered) == (0.0, 2 * 7 / 8 * 4e9)
    assert launch_time(EIGHT, split(zero=3)).at(8) == pytest.approx(gathered / 100e9)
    serving = dataclasses.replace(NET, mode="inference", gradient_bytes=0.0)
    assert link_traffic(EIGHT, split(serving, zero=3)) == (0.0, 7 / 8 * 4e9)
    plain, shared = exchange_time(EIGHT, NET), exchange_time(EIGHT, split(zero=3))
    within = 2 * 7 / 8 * 4e9 / 100e9
    assert plain == pytest.approx(within + 2 * 4e9 / 10e9)
    assert shared == pytest.approx(within / 2 + 2 * 4e9 / 10e9)
    assert gathered / 100e9 + within / 2 == pytest.approx(1.5 * within)


def test_points_are_shared_too():
    mixture = Workload(
        "mixture", "fp16", points=[OperatingPoint(4, 4e11, 1e10, memory=40e9)], tensor_bytes=1e6, memory_fixed=1e9
    )
    tau = launch_time(EIGHT, split(mixture, tensor=4))
    assert tau.batches == (8,)
    assert tau.times == pytest.approx((10e9 / 4e12,))
    assert tau.memory == (10e9,)
    with pytest.raises(InputError, match="one microbatch, as points don't say what the parts of a launch cost"):
        dataclasses.replace(mixture, pipeline_bytes=1.0, parallelism=Parallelism(pipeline=2))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.sampled_from([0, 1, 2, 3]), st.integers(1, 4))
def test_more_accelerators_for_a_copy_never_need_more_memory(tensor, pipeline, zero, parts):
    if tensor * pipeline > 8:
        return
    how = {"tensor": tensor, "pipeline": pipeline, "zero": zero, "microbatches": parts}
    assert held(split(**how)) <= held(NET)
    if tensor > 1:
        assert held(split(**how)) <= held(split(**how | {"tensor": tensor // 2})) * (1 + 1e-12)
    tau = launch_time(EIGHT, split(**how))
    b = 8 // (tensor * pipeline) * parts
    # no faster than all accelerators at peak
    assert tau.at(b) >= 1e11 * b / 800e12 * (1 - 1e-12)


# -- Exchange of gradients -------------------------------------------------------------------------------------------

ONE = Resource("one", peak_flops=100e12, memory_bandwidth=1e12, memory=64e9, price_per_hour=1.0, network_bandwidth=40e9)


@pytest.mark.parametrize("billing", ["reserved", "per_use", "elapsed"])
def test_allreduce_is_lost_in_each_period(billing):
    problem = Problem([ONE], NET, 64, time_limit=1.0, billing=billing, unit_overhead="allreduce")
    service = problem.services["one", "net"]
    assert service.overhead == pytest.approx(2 * 4e9 / 40e9)
    assert service.available == pytest.approx(0.8)
    plain = dataclasses.replace(problem, unit_overhead=None, resources=[dataclasses.replace(ONE, unit_overhead=0.2)])
    a, b = mopt.solve_epsilon_front(problem), mopt.solve_epsilon_front(plain)
    np.testing.assert_allclose(a.values, b.values)
    assert not any("communication" in note for point in a for note in point.plan.notes)
    assert sum("gradients are exchanged once a period" in text for text in problem.assumptions) == 1
    assert not any("gradients are exchanged" in text for text in plain.assumptions)


def test_demands_lose_what_their_own_gradients_take():
    other = dataclasses.replace(NET, name="other", gradient_bytes=8e9)
    serving = dataclasses.replace(NET, name="serving", mode="inference", gradient_bytes=0.0)
    demands = [mopt.Demand(w, 8) for w in (NET, other, serving)]
    problem = Problem([ONE], demands=demands, time_limit=1.0, billing="per_use", unit_overhead="allreduce")
    assert [problem.services["one", d.name].overhead for d in demands] == pytest.approx([0.2, 0.4, 0.0])
    point = mopt.solve_epsilon_front(problem)[0]
    busy = sum(point.plan.busy.values())
    assert point.plan.billed["one"] == pytest.approx(busy + 0.6)


def test_bandwidths_that_are_not_known_are_reasons():
    cut = dataclasses.replace(ONE, name="cut", network_bandwidth=None)
    problem = Problem([ONE, cut], NET, 8, time_limit=1.0, unit_overhead="allreduce")
    assert problem.rejected == {"cut": "has no network_bandwidth, which the exchange of gradients between units takes"}
    assert Problem([cut], NET, 8, time_limit=1.0).rejected == {}
    serving = dataclasses.replace(NET, mode="inference", gradient_bytes=0.0)
    assert Problem([cut], serving, 8, time_limit=1.0, unit_overhead="allreduce").rejected == {}
    loose = dataclasses.replace(EIGHT, link_bandwidth=None)
    for how in ({"tensor": 4}, {"pipeline": 4}, {"zero": 3}):
        assert batch_limit(loose, split(**how)).reason == (
            "has no link_bandwidth, which communication between its accelerators takes"
        )
    timed = dataclasses.replace(NET, points=[OperatingPoint(2, time=0.1, memory=1e9, resource="eight")])
    assert batch_limit(loose, split(timed, tensor=4)).batch == 4  # communication is in the measured time
    large = dataclasses.replace(loose, memory=800e9)
    assert batch_limit(large, NET).batch > 0
    assert "eight" in Problem([large], NET, 8, time_limit=1.0, unit_overhead="allreduce").rejected


def test_too_long_an_exchange_is_a_reason():
    slow = dataclasses.replace(ONE, network_bandwidth=4e9)
    problem = Problem([slow], NET, 8, time_limit=1.0, launches="rate", unit_overhead="allreduce")
    assert problem.rejected == {"one": "needs more than its overhead of 2 s, time_limit is 1 s"}


@pytest.mark.parametrize("billing", ["reserved", "per_use", "elapsed"])
def test_plans_of_several_training_units_are_marked(billing):
    problem = Problem([ONE], NET, 2000, time_limit=1.0, billing=billing)
    for point in mopt.solve_epsilon_front(problem):
        units = point.plan.units["one"]
        marks = [note for note in point.plan.notes if note.startswith("communication not counted")]
        assert marks == ([f"communication not counted: {units} units exchange gradients of net in no time"]
                         if units > 1 else [])  # fmt: skip
    counted = dataclasses.replace(problem, resources=[dataclasses.replace(ONE, unit_overhead=0.1)])
    serving = dataclasses.replace(problem, workload=dataclasses.replace(NET, mode="inference"))
    for other in (counted, serving):
        for point in mopt.solve_epsilon_front(other):
            assert not any("communication" in note for note in point.plan.notes)


# -- Faults, files, the command line -----------------------------------------------------------------------------------


def test_accelerators_that_cannot_be_shared_out():
    refused = batch_limit(EIGHT, split(tensor=3, pipeline=2))
    assert (refused.limit, refused.reason) == (
        "parallelism", "has 8 accelerators, not a multiple of 6 (tensor=3 pipeline=2)"
    )  # fmt: skip
    for how in ({"tensor": 2}, {"tensor": 2, "zero": 3}):
        assert batch_limit(ONE, split(**how)).limit == "parallelism"
        problem = Problem([ONE], split(**how), 8, time_limit=1.0, unit_overhead="allreduce")
        assert problem.rejected["one"].startswith("has 1 accelerator, not a multiple of 2")
    with pytest.raises(InputError, match="'eight' has 8 accelerators, not a multiple of 3"):
        launch_time(EIGHT, split(tensor=3))


def test_what_a_parallelism_must_know():
    bare = Workload("bare", "fp16", [Layer("all", 1e9)], mode="training")
    with pytest.raises(InputError) as caught:
        split(bare, tensor=2, pipeline=2, zero=3)
    assert [f.field for f in caught.value.faults] == [
        "tensor_bytes", "pipeline_bytes", "optimizer_bytes", "gradient_bytes", "weight_bytes",
    ]  # fmt: skip
    with pytest.raises(InputError, match="0 or 3 in inference"):
        split(dataclasses.replace(NET, mode="inference"), zero=1)
    with pytest.raises(InputError) as caught:
        Parallelism(tensor=0, pipeline=-1, microbatches=0, zero=4)
    assert [f.field for f in caught.value.faults] == ["tensor", "pipeline", "microbatches", "zero"]
    with pytest.raises(InputError, match="gradient_bytes = 0: needed with unit_overhead='allreduce'"):
        Problem([ONE], bare, 8, time_limit=1.0, unit_overhead="allreduce")


def test_texts():
    assert Parallelism.parse("tensor=4,zero=1") == Parallelism.parse("zero=1 tensor=4") == Parallelism(4, zero=1)
    for text in ("tensor", "tensor=x", "tensors=2", "tensor=-1"):
        with pytest.raises(InputError, match="must be tensor=N, pipeline=N"):
            Parallelism.parse(text)
    with pytest.raises(InputError, match="zero = 4"):
        Parallelism.parse("zero=4")


def test_a_problem_file_says_how_models_are_shared(tmp_path):
    mopt.save_workload(NET, tmp_path / "net.toml")
    path = tmp_path / "p.toml"
    mopt.save_problem(Problem([EIGHT], split(tensor=4), 64, time_limit=1.0, unit_overhead="allreduce"), path)
    own = mopt.load_problem(path)
    assert own.workload == split(tensor=4)
    text = 'time_limit = 1.0\nsamples = 64\nworkload = "net.toml"\nunit_overhead = "allreduce"\n'
    table = path.read_text()[path.read_text().index("[[resources]]") :]
    end = table.find("\n[workload]")
    path.write_text(text + "parallelism = {tensor = 4}\n" + table[: end if end > 0 else None])
    assert mopt.load_problem(path) == own
    path.write_text(text + "parallelism = {tensor = 0, pipes = 2}\n" + table[: end if end > 0 else None])
    with pytest.raises(InputError) as caught:
        mopt.load_problem(path)
    assert [(f.record, f.field) for f in caught.value.faults] == [
        ("problem: parallelism", "tensor"), ("problem: parallelism", "pipes"),
    ]  # fmt: skip


def test_the_catalog_knows_links_of_machines_with_several_accelerators():
    catalog = mopt.load_catalog()
    # A100: NVLink of 600 GB/s both ways; T4: PCIe of 16 GB/s; one accelerator sends nothing
    assert catalog["AWS/us-east-1/p4d.24xlarge"].link_bandwidth == 300e9
    assert catalog["AWS/us-east-1/g4dn.12xlarge"].link_bandwidth == 16e9
    assert catalog["AWS/us-east-1/g4dn.xlarge"].link_bandwidth is None
    frame = catalog.to_frame().set_index("name")
    assert frame.loc["AWS/us-east-1/p4d.24xlarge", "link_bandwidth_gbs"] == 300
    assert mopt.Catalog.from_frame(catalog.to_frame())["AWS/us-east-1/p4d.24xlarge"].link_bandwidth == 300e9


def test_the_command_line_shares_models(tmp_path):
    path = tmp_path / "net.toml"
    mopt.save_workload(NET, path)
    limits = ["--samples", "64", "--time-limit", "5", "--name", "AWS/us-east-1/g4dn.12xlarge"]
    run = CliRunner().invoke
    assert run(app, ["front", str(path), *limits]).exit_code == 1
    shared = run(app, ["front", str(path), *limits, "--parallelism", "tensor=4", "--unit-overhead", "allreduce"])
    assert shared.exit_code == 0, shared.output
    told = run(app, ["explain", str(path), "g4dn.12xlarge", "--parallelism", "tensor=4"])
    assert "batch limit: 32 samples, by memory" in told.output
    assert run(app, ["explain", str(path), "g4dn.12xlarge", "--parallelism", "four"]).exit_code == 2
