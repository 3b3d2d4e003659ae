"""ONNX graphs built by hand. Needs the extra `onnx`."""

import onnx
import pytest
from onnx import TensorProto, helper

import mopt.trace
from mopt import InputError

FLOAT = TensorProto.FLOAT


def weight(name, shape, kind=FLOAT):
    """An initializer whose data lies in a file that isn't there: only its shape may matter."""
    return TensorProto(name=name, dims=shape, data_type=kind, data_location=TensorProto.EXTERNAL)


def constant(name, values):
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


def model(nodes, inputs, outputs, initializers=(), opset=23):
    def described(values):
        return [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in values]

    graph = helper.make_graph(nodes, "net", described(inputs), described(outputs), list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def one(op, inputs, result_shape, initializers=(), result_type=FLOAT, opset=23, **attributes):
    names = [name for name, _, _ in inputs] + [tensor.name for tensor in initializers]
    node = helper.make_node(op, names, ["out"], name="node", **attributes)
    return model([node], inputs, [("out", result_type, result_shape)], initializers, opset)


def traced(made, precision="fp32", **settings):
    return mopt.trace.onnx(made, precision=precision, **settings)


def costs(made, **settings):
    workload = traced(made, **settings)
    return workload.flops_per_sample, workload.bytes_fixed, workload.bytes_per_sample


X = ("x", FLOAT, ["n", 8, 10, 10])


def test_convolution_with_groups():
    made = one("Conv", [X], None, [weight("w", [16, 4, 3, 3]), weight("b", [16])], group=2, pads=[1, 1, 1, 1])
    assert costs(made) == (2 * 100 * 16 * 4 * 9, 4 * (576 + 16), 4 * (800 + 1600))


def test_transposed_convolution():
    made = one("ConvTranspose", [X], None, [weight("w", [8, 4, 2, 2])], strides=[2, 2])
    assert costs(made) == (2 * 100 * 8 * 4 * 4, 4 * 128, 4 * (800 + 1600))


@pytest.mark.parametrize(("trans_b", "shape"), [(0, [10, 20]), (1, [20, 10])])
def test_gemm(trans_b, shape):
    made = one("Gemm", [("x", FLOAT, ["n", 10])], None, [weight("w", shape), weight("b", [20])], transB=trans_b)
    assert costs(made) == (2 * 10 * 20, 4 * 220, 4 * 30)


def test_matmul_of_activations_and_weights():
    tokens = ("x", FLOAT, ["n", 7, 10])
    assert costs(one("MatMul", [tokens], None, [weight("w", [10, 20])])) == (7 * 400, 800, 4 * 7 * 30)
    both = [tokens, ("y", FLOAT, ["n", 10, 7])]
    assert costs(one("MatMul", both, None)) == (2 * 7 * 7 * 10, 0, 4 * (140 + 49))


def test_einsum():
    both = [("x", FLOAT, ["n", 7, 4, 8]), ("y", FLOAT, ["n", 5, 4, 8])]
    flops, *_ = costs(one("Einsum", both, None, equation="bqhd, bkhd -> bhqk"))
    assert flops == 2 * 7 * 5 * 4 * 8
    flops, *_ = costs(one("Einsum", [both[0]], None, equation="bqhd->bhqd"))
    assert flops == 0


def test_attention_with_grouped_queries():
    heads = [("q", FLOAT, ["n", 8, 6, 16]), ("k", FLOAT, ["n", 2, 9, 16]), ("v", FLOAT, ["n", 2, 9, 4])]
    scores = 2 * 8 * 6 * 9 * (16 + 4)
    moved = 4 * (8 * 6 * 16 + 2 * 9 * 20 + 8 * 6 * 4)
    assert costs(one("Attention", heads, None)) == (scores, 0, moved)
    square = [("q", FLOAT, ["n", 8, 9, 16]), *heads[1:]]
    assert costs(one("Attention", square, None, is_causal=1))[0] == 2 * 8 * 45 * (16 + 4)
    flat = [("q", FLOAT, ["n", 6, 128]), ("k", FLOAT, ["n", 9, 32]), ("v", FLOAT, ["n", 9, 8])]
    assert costs(one("Attention", flat, None, q_num_heads=8, kv_num_heads=2)) == (scores, 0, moved)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers(op, gates):
    made = one(
        op,
        [("x", FLOAT, [5, "n", 16])],
        None,
        [weight("w", [1, 32 * gates, 16]), weight("r", [1, 32 * gates, 32])],
        hidden_size=32,
    )
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "steps"
    swapped = helper.make_node("Transpose", ["batchwise"], ["x"], perm=[1, 0, 2])
    made.graph.node.insert(0, swapped)
    del made.graph.input[:]
    made.graph.input.append(helper.make_tensor_value_info("batchwise", FLOAT, ["n", "steps", 16]))
    assert traced(made, dims={"steps": 5}).flops_per_sample == 2 * 5 * gates * 32 * (16 + 32)


def test_rows_are_touched_only_and_indices_keep_their_width():
    made = one("Gather", [("i", TensorProto.INT64, ["n", 5])], None, [weight("table", [1000, 16])])
    made.graph.node[0].input[:] = ["table", "i"]
    assert costs(made, precision="fp16") == (0, 0, 5 * 8 + 2 * 5 * 16 * 2)


def test_quantized_operators_count_their_own_bytes():
    node = helper.make_node("MatMulInteger", ["x", "w"], ["out"])
    x = ("x", TensorProto.INT8, ["n", 10])
    made = model([node], [x], [("out", TensorProto.INT32, None)], [weight("w", [10, 20], TensorProto.INT8)])
    assert costs(made, precision="int8") == (400, 200, 10 + 80)


def chain(shape=("n", 12)):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="/block/act/Relu"),
        helper.make_node("Add", ["a", "one"], ["b"], name="/block/Add"),
        helper.make_node("Reshape", ["b", "flat"], ["c"], name="/block/Reshape"),
        helper.make_node("MatMul", ["c", "w"], ["y"], name="/head/MatMul"),
    ]
    values = [weight("w", [12, 4]), weight("one", [1]), constant("flat", [-1, 12])]
    return model(nodes, [("x", FLOAT, list(shape))], [("y", FLOAT, None)], values)


def test_views_are_free_and_fusion_saves_intermediates():
    assert costs(chain()) == (96, 4 + 192, 96 + 96 + 48 + 16)
    assert costs(chain(), fused=True) == (96, 4 + 192, 96 + 48 + 16)


def test_layers_by_module_path_and_depth():
    assert [layer.name for layer in traced(chain()).layers] == ["block.act", "block", "head"]
    assert [layer.name for layer in traced(chain(), depth=1).layers] == ["block", "head"]
    assert len(traced(chain(), depth=0).layers) == 1


def test_footprint_by_hand():
    """Weights, input, and the largest set of live tensors: x, a and b while adding."""
    made = traced(chain())
    assert (made.memory_fixed, made.memory_per_sample) == (4 * 49, 3 * 48)
    assert made.weight_bytes == 4 * 49


def test_a_fixed_batch_is_replaced_where_the_graph_allows():
    assert costs(chain((1, 12))) == costs(chain())
    made = chain((1, 12))
    made.graph.initializer[2].CopyFrom(constant("flat", [1, 12]))
    with pytest.raises(InputError, match="fixed batch"):
        traced(made)


def test_shapes_computed_by_the_graph_are_followed():
    """Shape -> Gather -> Mul -> Concat -> ConstantOfShape -> Where -> Expand: legacy exporters write such chains."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Concat", ["batch", "minus"], ["target"], axis=0),
        helper.make_node(
            "ConstantOfShape", ["two"], ["ones"], value=helper.make_tensor("v", TensorProto.INT64, [1], [1])
        ),
        helper.make_node("Equal", ["target", "minus_ones"], ["given"]),
        helper.make_node("Where", ["given", "ones", "target"], ["final"]),
        helper.make_node("Expand", ["w", "final"], ["wide"]),
        helper.make_node("Add", ["x", "wide"], ["out"]),
    ]
    values = [
        constant("zero", [0]),
        constant("minus", [-1]),
        constant("two", [2]),
        constant("minus_ones", [-1, -1]),
        weight("w", [1, 12]),
    ]
    made = model(nodes, [("x", FLOAT, ["n", 12])], [("out", FLOAT, None)], values)
    # the table and the shape are read once; written and read for each sample, with the input and the result besides
    assert costs(made) == (0, 48 + 16, 4 * 48)


def test_other_named_dimensions_need_a_value():
    made = one("MatMul", [("x", FLOAT, ["n", "tokens", 10])], None, [weight("w", [10, 20])])
    assert traced(made, dims={"tokens": 7}).flops_per_sample == 7 * 400
    with pytest.raises(InputError, match="input x: dims = 'tokens': needs a value: give it in dims"):
        traced(made)


def test_what_is_not_affine_is_named():
    node = helper.make_node("Einsum", ["x", "x"], ["out"], name="/pairs/Einsum", equation="ik,jk->ij")
    made = model([node], [("x", FLOAT, ["n", 12])], [("out", FLOAT, None)])
    with pytest.raises(InputError, match=r"operator 0, Einsum in pairs: flops = \[96, 216, 600\]: must be affine"):
        traced(made)


def test_operators_of_other_domains_are_named():
    made = chain()
    made.graph.node[0].domain = "com.example"
    made.graph.node[0].op_type = "Magic"
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(InputError, match="Magic '/block/act/Relu'"):
        traced(made)


def test_files(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(chain(), path)
    assert costs(path) == costs(str(path)) == costs(chain())
    path.write_bytes(b"not a protocol buffer")
    with pytest.raises(InputError, match="is not an ONNX model") as caught:
        traced(path)
    assert caught.value.faults[0].file == str(path)
    with pytest.raises(InputError, match="can't be read"):
        traced(tmp_path / "absent.onnx")


def test_settings_are_checked_at_once():
    with pytest.raises(InputError) as caught:
        traced(chain(), precision="fp12", batches=(1, 2, 3))
    assert [fault.field for fault in caught.value.faults] == ["batches", "precision"]
