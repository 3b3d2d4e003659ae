"""Tapes worked out by hand: bytes with and without fusion, live memory, affine coefficients, groups."""

import numpy as np
import pytest

from mopt import InputError, MemoryPiece
from mopt.trace.fit import Trace, Update, fit
from mopt.trace.tape import Access, Buffer, Operator, Tape, bytes_moved, kernels, live_bytes


def operator(name, reads, writes, kind="other", flops=0, layer="net"):
    """Reads and writes as (value, bytes); a value is a buffer's index (version 0) or a pair."""

    def accesses(pairs):
        return tuple(Access(v if isinstance(v, tuple) else (v, 0), "all", nbytes) for v, nbytes in pairs)

    return Operator(layer, name, flops, accesses(reads), accesses(writes), kind)


def buffers(*lives):
    return [Buffer(nbytes, born, died) for nbytes, born, died in lives]


def chain(batch=1):
    """x -> matmul -> relu -> scale -> matmul, 8 bytes a sample everywhere, weights of 100 and 40."""
    b = 8 * batch
    operators = [
        operator("mm", [(0, b), (1, 100)], [(2, b)], flops=50 * batch, layer="net.0"),
        operator("relu", [(2, b)], [(3, b)], "elementwise", layer="net.1"),
        operator("scale", [(3, b)], [(4, b)], "elementwise", layer="net.1"),
        operator("mm", [(4, b), (5, 40)], [(6, b)], flops=20 * batch, layer="net.2"),
    ]
    lives = [(b, 0, None), (100, 0, None), (b, 0, 2), (b, 1, 3), (b, 2, 4), (40, 0, None), (b, 3, None)]
    return Tape(batch, operators, buffers(*lives))


def test_eager_bytes_are_operands_and_results():
    assert bytes_moved(chain(), fused=False).tolist() == [116, 16, 16, 56]


def test_a_fused_intermediate_never_reaches_memory():
    assert bytes_moved(chain(), fused=True).tolist() == [116, 8, 8, 56]


def test_live_bytes_follow_allocation_and_release():
    held = 8 + 100 + 40
    assert live_bytes(chain(), fused=False).tolist() == [held + 8, held + 16, held + 16, held + 16, held + 8]
    assert live_bytes(chain(), fused=True).tolist() == [held + 8, held + 8, held + 8, held + 16, held + 8]


def test_an_intermediate_read_elsewhere_is_written():
    tape = chain()
    tape.operators.append(operator("save", [(3, 8)], [(7, 8)]))
    tape.buffers[3].died = 5
    tape.buffers.append(Buffer(8, 4))
    assert bytes_moved(tape, fused=True).tolist() == [116, 16, 8, 56, 16]


def test_a_result_that_stays_is_written():
    operators = [operator("a", [(0, 8)], [(1, 8)], "elementwise"), operator("b", [(1, 8)], [(2, 8)], "elementwise")]
    kept = Tape(1, operators, buffers((8, 0, None), (8, 0, None), (8, 1, None)))
    assert bytes_moved(kept, fused=True).tolist() == [16, 8]


def test_no_kernel_waits_for_its_own_result():
    """a -> mm -> b and a -> b: fusing a with b would put the product inside the kernel that it waits for."""
    operators = [
        operator("a", [(0, 8)], [(1, 8)], "elementwise"),
        operator("mm", [(1, 8)], [(2, 8)]),
        operator("b", [(1, 8), (2, 8)], [(3, 8)], "elementwise"),
    ]
    a, mm, b = kernels(operators)
    assert len({a, mm, b}) == 3


def test_a_reduction_ends_its_kernel():
    operators = [
        operator("a", [(0, 8)], [(1, 8)], "elementwise"),
        operator("sum", [(1, 8)], [(2, 1)], "reduction"),
        operator("b", [(2, 1)], [(3, 1)], "elementwise"),
    ]
    tape = Tape(1, operators, buffers((8, 0, None), (8, 0, 2), (1, 1, 3), (1, 2, None)))
    first, second, third = kernels(operators)
    assert first == second != third
    assert bytes_moved(tape, fused=True).tolist() == [8, 1, 2]


def convolutions():
    """x -> conv -> norm -> + shortcut -> relu, the shortcut from a convolution of its own; 8 bytes everywhere."""
    return [
        operator("conv a", [(0, 8)], [(1, 8)], "convolution"),
        operator("conv b", [(0, 8)], [(2, 8)], "convolution"),
        operator("norm", [(2, 8), (7, 1)], [(3, 8)], "elementwise"),
        operator("add", [(3, 8), (1, 8)], [(4, 8)], "elementwise"),
        operator("relu_", [(4, 8)], [((4, 1), 8)], "elementwise"),
    ]


def test_a_convolution_takes_what_is_elementwise_in_its_results():
    assert kernels(convolutions()) == [0, 1, 1, 1, 1]
    lives = [(8, 0, None), (8, 0, 4), (8, 1, 3), (8, 2, 4), (8, 3, None)]
    tape = Tape(1, convolutions(), [*buffers(*lives), Buffer(8, 5), Buffer(8, 5), Buffer(1, 0)])
    assert bytes_moved(tape, fused=True).tolist() == [16, 8 + 1 + 8 + 8, 0, 0, 0]
    assert bytes_moved(tape, fused=False).tolist() == [16, 16, 17, 24, 16]


def test_rows_of_a_convolution_are_read_from_memory():
    """A norm needs its row before its first result; and no epilogue can wait for what is made from it."""
    operators = [
        operator("conv", [(0, 8)], [(1, 8)], "convolution"),
        operator("relu", [(1, 8)], [(2, 8)], "elementwise"),
        operator("softmax", [(2, 8)], [(3, 8)], "rowwise"),
        operator("gate", [(2, 8), (3, 8)], [(4, 8)], "elementwise"),
    ]
    conv, relu, softmax, gate = kernels(operators)
    assert conv == relu != softmax == gate
    tape = Tape(1, operators, buffers((8, 0, None), (8, 0, 2), (8, 1, 4), (8, 2, 4), (8, 3, None)))
    assert bytes_moved(tape, fused=True).tolist() == [16, 0, 8, 8]


def test_in_place_reads_and_writes_and_keeps_versions_apart():
    operators = [
        operator("mm", [(0, 8)], [(1, 8)]),
        operator("relu_", [(1, 8)], [((1, 1), 8)], "elementwise"),
        operator("mm", [((1, 1), 8)], [(2, 8)]),
    ]
    tape = Tape(1, operators, buffers((8, 0, None), (8, 0, None), (8, 2, None)))
    for fused in (False, True):
        assert bytes_moved(tape, fused).tolist() == [16, 16, 16]


def test_one_kernel_reads_a_value_once_and_rows_every_time():
    whole = operator("f", [(0, 8), (0, 8)], [(1, 8)])
    rows = Operator("net", "gather", 0, (Access((0, 0), None, 24),), (Access((1, 0), "all", 24),), "other")
    assert bytes_moved(Tape(1, [whole], buffers((8, 0, None), (8, 0, None))), False).tolist() == [16]
    assert bytes_moved(Tape(1, [rows], buffers((8, 0, None), (24, 0, None))), False).tolist() == [48]


def test_views_of_a_value_are_read_up_to_its_size():
    parts = tuple(Access((0, 0), part, 6) for part in ("left", "right"))
    tape = Tape(
        1, [Operator("net", "cat", 0, parts, (Access((1, 0), "all", 8),), "other")], buffers((8, 0, None), (8, 0, None))
    )
    assert bytes_moved(tape, False).tolist() == [16]


NO_UPDATE = Update()


def fitted(tapes, fused=False, update=NO_UPDATE):
    return fit(tapes, fused=fused, weights=0.0, update=update, about="by hand")


def test_coefficients_come_out_exactly():
    trace = fitted([chain(b) for b in (2, 3, 5)])
    assert trace.flops.tolist() == [50, 0, 0, 20]
    assert trace.bytes_fixed.tolist() == [100, 0, 0, 40]
    assert trace.bytes_per_sample.tolist() == [16, 16, 16, 16]
    assert trace.memory == (MemoryPiece(140, 24),)


def test_what_is_not_affine_is_named():
    tapes = [chain(b) for b in (2, 3, 5)]
    for tape in tapes:
        tape.operators[1] = operator("gram", [(2, 8)], [(3, 8 * tape.batch)], flops=tape.batch**2, layer="net.1")
    with pytest.raises(InputError) as caught:
        fitted(tapes)
    (fault,) = caught.value.faults
    assert (fault.record, fault.field, fault.value) == ("operator 1, gram in net.1", "flops", [4, 9, 25])
    assert fault.allowed == "must be affine in the batch (batches 2, 3, 5)"


def test_costs_that_fall_below_zero_at_batch_zero_are_named():
    tapes = [chain(b) for b in (2, 3, 5)]
    for tape in tapes:
        tape.operators[0] = operator("pairs", [(0, 8)], [(2, 8)], flops=10 * (tape.batch - 1))
    with pytest.raises(InputError, match=r"operator 0, pairs in net: flops = \[10, 20, 40\]: must be c \+ d\*batch"):
        fitted(tapes)


def test_flops_that_do_not_grow_with_the_batch():
    tapes = [chain(b) for b in (2, 3, 5)]
    for tape in tapes:
        tape.operators[1] = operator("table", [(2, 8)], [(3, 8)], flops=1000, layer="net.1")
    with pytest.raises(InputError, match=r"operator 1, table in net.1: flops .* must grow with the batch"):
        fitted(tapes)
    for tape in tapes:
        tape.operators[1] = operator("table", [(2, 8)], [(3, 8)], flops=1, layer="net.1")
    trace = fitted(tapes)
    assert trace.flops_fixed == 1
    assert trace.flops.tolist() == [50, 1, 0, 20]


def test_operators_must_be_the_same_at_every_batch():
    tapes = [chain(b) for b in (2, 3, 5)]
    tapes[2].operators[1] = operator("tanh", [(2, 8)], [(3, 8)], layer="net.1")
    with pytest.raises(InputError, match=r"operator 1: name = 'relu in net.1 at batch 2, tanh in net.1 at batch 5'"):
        fitted(tapes)
    tapes[2] = chain(5)
    del tapes[2].operators[3]
    with pytest.raises(InputError, match=r"operator 3, mm in net.2: count"):
        fitted(tapes)


def test_layers_by_path_and_depth():
    trace = fitted([chain(b) for b in (2, 3, 5)], update=Update(bytes_moved=7))
    assert [layer.name for layer in trace.layers()] == ["net.0", "net.1", "net.2", "optimizer"]
    assert [layer.name for layer in trace.layers(1)] == ["net", "optimizer"]
    (everything, optimizer) = trace.layers(0)
    assert (everything.flops, everything.bytes_fixed, everything.bytes_per_sample) == (70, 140, 64)
    assert optimizer.bytes_fixed == 7


def plain(layers, costs):
    flops, fixed, per_sample = np.array(costs, dtype=float).T
    names = tuple(layers)
    return Trace(names, names, flops, fixed, per_sample, 0.0, (MemoryPiece(0, 0),), 0.0, Update(), "by hand")


def test_equal_layers_are_merged_without_changing_the_roofline():
    trace = plain(["b.0.fc", "b.1.fc", "b.2.fc", "head"], [(6, 3, 1), (6, 3, 1), (6, 9, 1), (6, 3, 1)])
    layers = trace.layers()
    assert [(layer.name, layer.flops) for layer in layers] == [("b.*.fc x2", 12), ("b.2.fc", 6), ("head", 6)]
    for ridge in (0.1, 0.7, 2.0):
        merged = sum(max(layer.flops * 4 / ridge, layer.bytes_fixed + 4 * layer.bytes_per_sample) for layer in layers)
        assert merged == pytest.approx(np.maximum(trace.flops * 4 / ridge, trace.bytes_fixed + 4).sum())


def test_the_gap_that_grouping_leaves_is_the_worst_one():
    """Intensities 10 and 0.1 at any batch: at ridge R the operators take max(10/R, 1) + max(1/R, 10), the group
    max(11/R, 11); the worst R is 10 or 0.1 or 1, by hand 1: 20 against 11."""
    trace = plain(["net.a", "net.b"], [(10, 0, 1), (1, 0, 10)])
    share, _, ridge = trace.grouping_gap(1)
    assert ridge == pytest.approx(1)
    assert share == pytest.approx(1 - 11 / 20)
    assert trace.grouping_gap(None)[0] == 0
    made = trace.workload(name="net", precision="fp32", mode="infer", depth=1)
    assert "2 operators in 1 layers: the roofline time is at most 45.0% below" in made.description


def test_footprint_is_the_envelope_of_all_moments():
    """140 + 24b while running, 148 + 3·8b after a step that keeps 3 copies: the envelope has both where they cross."""
    tapes = [chain(b) for b in (2, 3, 5)]
    for tape in tapes:
        tape.operators.append(operator("state", [(6, 8)], [(7, 500)]))
        tape.buffers.append(Buffer(500, 4, 5))
        tape.buffers[6].nbytes = 8 * tape.batch
    trace = fitted(tapes, update=Update(state=1000))
    assert trace.memory == (MemoryPiece(1640, 16), MemoryPiece(1140, 24))
    made = trace.workload(name="net", precision="fp32", mode="train")
    assert made.footprint(10) == 1800
    assert made.footprint(100) == 3540
