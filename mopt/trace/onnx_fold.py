"""Shape inference that also follows shapes computed by the graph itself."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper, reference, shape_inference

LARGEST_CONSTANT = 4096  # entries; larger ones can't be shapes

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


def inferred(model: Any) -> tuple[Any, set[str]]:
    """The model with shapes, and with what follows from constants and shapes alone turned into constants.

    The names of the constants that come from shapes, and may change with the batch, are returned besides.

    onnx's own propagation of shape data covers few operators; here small constants are evaluated by its reference
    implementation, in rounds until no new ones appear.

    Raises
    ------
    onnx.shape_inference.InferenceError
        If shapes contradict each other.
    """
    from_shapes: set[str] = set()
    while True:
        del model.graph.value_info[:]
        model = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        if not _fold(model, from_shapes):
            return model, from_shapes


def shapes(graph: Any) -> tuple[dict[str, Shape], dict[str, int]]:
    """Shape and element type of each tensor whose shape is known."""
    known: dict[str, Shape] = {}
    types: dict[str, int] = {}
    for tensor in graph.initializer:
        known[tensor.name], types[tensor.name] = tuple(tensor.dims), tensor.data_type
    for values in (graph.input, graph.value_info, graph.output):
        for value in values:
            kind = value.type.tensor_type
            if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
                known[value.name] = tuple(dim.dim_value for dim in kind.shape.dim)
                types[value.name] = kind.elem_type
    return known, types


def _fold(model: Any, from_shapes: set[str]) -> bool:
    """One round; False if nothing new was found."""
    graph = model.graph
    known, _ = shapes(graph)
    values = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if prod(tensor.dims) <= LARGEST_CONSTANT and tensor.data_location != onnx.TensorProto.EXTERNAL
    }
    left = []
    for node in graph.node:
        found = _value(node, known, values, model.opset_import)
        if found is None:
            left.append(node)
            continue
        values[node.output[0]] = found
        if node.op_type in ("Shape", "Size") or not from_shapes.isdisjoint(node.input):
            from_shapes.add(node.output[0])
        graph.initializer.append(numpy_helper.from_array(found, node.output[0]))
    if len(left) == len(graph.node):
        return False
    del graph.node[:]
    graph.node.extend(left)
    return True


def _value(node: Any, known: dict[str, Shape], values: dict[str, Array], opsets: Any) -> Array | None:
    """What a node computes, if that follows from constants and shapes and is small."""
    if len(node.output) != 1 or node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "Shape" and node.input[0] in known:
        ends = {attribute.name: attribute.i for attribute in node.attribute}
        return np.array(known[node.input[0]][ends.get("start", 0) : ends.get("end")], dtype=np.int64)
    if node.op_type == "Size" and node.input[0] in known:
        return np.array(prod(known[node.input[0]]), dtype=np.int64)
    if node.op_type.startswith("Random") or any(name and name not in values for name in node.input):
        return None
    if prod(known.get(node.output[0], ())) > LARGEST_CONSTANT:
        return None
    given = [helper.make_tensor_value_info(name, 1, None) for name in dict.fromkeys(node.input) if name]
    graph = helper.make_graph([node], "constant", given, [helper.make_tensor_value_info(node.output[0], 1, None)])
    evaluator = reference.ReferenceEvaluator(helper.make_model(graph, opset_imports=list(opsets)))
    found = np.asarray(evaluator.run(None, {name: values[name] for name in node.input if name})[0])
    is_shape = found.dtype.kind in "iub" or found.size == 1  # weights stay as they are, and operators on them too
    return found if is_shape and found.size <= LARGEST_CONSTANT else None
