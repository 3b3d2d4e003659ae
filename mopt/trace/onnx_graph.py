"""Trace an ONNX graph by shape inference at several batches: no weights are read, nothing runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from os import PathLike, fspath
from typing import Any

import onnx
from onnx import helper, inliner, shape_inference

from mopt.errors import MISSING, Fault, InputError
from mopt.trace import onnx_costs
from mopt.trace.extras import version
from mopt.trace.fit import Update, batch_faults, fit
from mopt.trace.onnx_fold import LARGEST_CONSTANT, inferred, shapes
from mopt.trace.tape import Access, Buffer, Kind, Operator, Tape
from mopt.workload import Workload

Model = str | PathLike[str] | Any

# Bytes that a floating-point tensor of the graph takes at each precision; at 8 bits, integer tensors say so themselves.
PRECISIONS = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": None, "int8": None}
_FLOATS = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
    onnx.TensorProto.DOUBLE,
)
_SCOPES = "pkg.torch.onnx.name_scopes"


def workload(
    model: Model,
    *,
    precision: str,
    fused: bool,
    depth: int | None,
    name: str | None,
    sample: str,
    dims: Mapping[str, int] | None,
    batches: Sequence[int],
) -> Workload:
    """See `mopt.trace.onnx`."""
    faults = batch_faults(batches)
    if precision not in PRECISIONS:
        faults.append(Fault("", "trace", "precision", precision, f"must be one of {', '.join(PRECISIONS)}"))
    if faults:
        raise InputError(faults)
    loaded, file = _load(model)
    tapes = [_Graph(loaded, file, batch, dims or {}, PRECISIONS[precision]).tape() for batch in batches]
    kind = "elementwise operators fused" if fused else "operator by operator"
    at = ", ".join(map(str, batches))
    about = (
        f"ONNX graph {loaded.graph.name!r}, forward pass, {precision}, from shapes at batches {at}. FLOPs of matrix "
        f"products, convolutions and attention, 2 a multiply-add; bytes {kind}."
    )
    kinds = PRECISIONS[precision]
    weights = sum(
        float(prod(tensor.dims) * _item(tensor.data_type, kinds))
        for tensor in loaded.graph.initializer
        if tensor.data_type in _FLOATS or kinds is None
    )
    made = fit(tapes, fused=fused, weights=weights, update=Update(), about=about)
    return made.workload(
        name=name or loaded.graph.name or "onnx",
        precision=precision,
        mode="infer",
        depth=depth,
        sample=sample,
        source=f"traced with {version('mopt')}, {version('onnx')}",
    )


def _load(model: Model) -> tuple[Any, str]:
    if isinstance(model, onnx.ModelProto):
        loaded, file = onnx.ModelProto(), ""
        loaded.CopyFrom(model)
    else:
        file = fspath(model)
        try:
            loaded = onnx.load(file, load_external_data=False)
        except OSError as error:
            raise InputError([Fault(file, "", "file", file, f"can't be read: {error.strerror}")]) from None
        except Exception as error:  # protobuf's own class, which onnx doesn't document
            raise InputError([Fault(file, "", "file", file, f"is not an ONNX model: {error}")]) from error
    if loaded.functions:
        loaded = inliner.inline_local_functions(loaded)
    for tensor in loaded.graph.initializer:
        if prod(tensor.dims) > LARGEST_CONSTANT:  # shape inference needn't carry the weights
            for data in ("raw_data", "float_data", "int32_data", "int64_data", "double_data"):
                tensor.ClearField(data)
    return loaded, file


class _Graph:
    """The graph at one batch, with every shape known."""

    def __init__(self, model: Any, file: str, batch: int, dims: Mapping[str, int], float_bytes: int | None) -> None:
        self._file = file
        self._batch = batch
        self._float_bytes = float_bytes
        self._model = onnx.ModelProto()
        self._model.CopyFrom(model)
        self._graph = self._model.graph
        constants = {tensor.name for tensor in self._graph.initializer}
        self._inputs = [value for value in self._graph.input if value.name not in constants]
        self._bind(dims)
        self._infer()
        self._shapes, self._types = shapes(self._graph)

    def _bind(self, dims: Mapping[str, int]) -> None:
        """Give every dimension of the inputs a number: the batch to the first input's first dimension and to all that
        share its name (or, where it is a number, to first dimensions equal to it)."""
        first = list(self._inputs[0].type.tensor_type.shape.dim) if self._inputs else []
        if not first:
            raise InputError([Fault(self._file, "graph", "input", "none", "needs a tensor with a batch dimension")])
        named, fixed = first[0].dim_param, first[0].dim_value
        free: dict[str, str] = {}
        for value in self._inputs:
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.dim_param:
                    size = self._batch if dim.dim_param == named else dims.get(dim.dim_param)
                    if size is None:
                        free[dim.dim_param] = value.name
                    else:
                        dim.dim_value = size
                elif axis == 0 and (not dim.dim_value or (not named and dim.dim_value == fixed)):
                    dim.dim_value = self._batch
        if free:
            text = "needs a value: give it in dims"
            raise InputError([Fault(self._file, f"input {value}", "dims", name, text) for name, value in free.items()])

    def _infer(self) -> None:
        for value in self._graph.output:
            value.type.tensor_type.ClearField("shape")
        try:
            self._model, self._from_shapes = inferred(self._model)
        except shape_inference.InferenceError as error:
            text = f"shapes can't be inferred at batch {self._batch}; was it exported with a fixed batch? {error}"
            raise InputError([Fault(self._file, "graph", "nodes", MISSING, text)]) from error
        self._graph = self._model.graph

    def tape(self) -> Tape:
        """The graph's nodes as operators; what depends on constants alone is folded, as runtimes do."""
        tape = Tape(self._batch)
        buffer: dict[str, int] = {}
        last_use: dict[int, int] = {}
        static = {tensor.name for tensor in self._graph.initializer} - self._from_shapes | {""}

        def hold(name: str, born: int) -> int:
            if name not in buffer:
                buffer[name] = len(tape.buffers)
                tape.buffers.append(Buffer(self._nbytes(name), born))
            return buffer[name]

        kept = {hold(value.name, 0) for value in self._inputs}
        for position, node in enumerate(self._graph.node):
            self._check(node, position)
            if all(name in static for name in node.input):
                static.update(node.output)
                continue
            if self._is_view(node):
                self._check_view(node, position)
                buffer[node.output[0]] = hold(node.input[0], 0)
                continue
            step = len(tape.operators)
            reads = []
            for k, name in enumerate(node.input):
                if not name:
                    continue
                index = hold(name, 0)
                if name in static:
                    kept.add(index)
                last_use[index] = step
                if k == 0 and node.op_type in onnx_costs.GATHERS:
                    rows = prod(self._shapes[node.output[0]]) * self._item(self._types[name])
                    reads.append(Access((index, 0), None, rows))
                else:
                    reads.append(Access((index, 0), "all", self._nbytes(name)))
            writes = []
            for name in node.output:
                if name:
                    index = hold(name, step)
                    last_use.setdefault(index, step)
                    writes.append(Access((index, 0), "all", self._nbytes(name)))
            unique = tuple(dict.fromkeys(reads))
            tape.operators.append(
                Operator(
                    _layer(node, position), node.op_type, self._flops(node), unique, tuple(writes), self._kind(node)
                )
            )
        kept.update(buffer[value.name] for value in self._graph.output if value.name in buffer)
        for index, step in last_use.items():
            if index not in kept:
                tape.buffers[index].died = step + 1
        return tape

    def _check(self, node: Any, position: int) -> None:
        """Every shape must be known, and control flow would hide operators."""
        where = f"node {position}, {node.op_type} {node.name!r}"
        if any(
            attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for attribute in node.attribute
        ):
            raise InputError([Fault(self._file, where, "op_type", node.op_type, "must not have subgraphs")])
        unknown = [name for name in (*node.input, *node.output) if name and name not in self._shapes]
        if unknown:
            text = "must have a shape that can be inferred (operator of another domain, or shape from data)"
            raise InputError([Fault(self._file, where, "tensor", unknown[0], text)])

    def _check_view(self, node: Any, position: int) -> None:
        sizes = [prod(self._shapes[name]) for name in (node.input[0], node.output[0])]
        if sizes[0] != sizes[1]:
            text = f"must keep the number of elements at batch {self._batch}; was it exported with a fixed batch?"
            raise InputError(
                [Fault(self._file, f"node {position}, {node.op_type} {node.name!r}", "shape", sizes, text)]
            )

    def _is_view(self, node: Any) -> bool:
        if node.op_type == "Cast":
            return self._item(self._types[node.input[0]]) == self._item(self._types[node.output[0]])
        return node.op_type in onnx_costs.VIEWS

    def _item(self, kind: int) -> int:
        return _item(kind, self._float_bytes)

    def _nbytes(self, name: str) -> int:
        return prod(self._shapes[name]) * self._item(self._types[name])

    def _flops(self, node: Any) -> int:
        formula = onnx_costs.FLOPS.get(node.op_type)
        if formula is None:
            return 0
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        return formula(
            [self._shapes.get(name) for name in node.input],
            [self._shapes.get(name) for name in node.output],
            attributes,
        )

    def _kind(self, node: Any) -> Kind:
        if node.op_type in onnx_costs.ELEMENTWISE:
            return "elementwise"
        if node.op_type in onnx_costs.ROWWISE:
            return "rowwise"
        if node.op_type in onnx_costs.CONVOLUTIONS:
            return "convolution"
        if node.op_type in onnx_costs.REDUCTIONS:
            shape, result = self._shapes[node.input[0]], self._shapes[node.output[0]]
            return "rowwise" if len(shape) > 1 and result[:1] == shape[:1] else "reduction"
        return "other"


def _item(kind: int, float_bytes: int | None) -> int:
    """Bytes of one element."""
    if float_bytes and kind in _FLOATS:
        return float_bytes
    return max(1, int(helper.tensor_dtype_to_np_dtype(kind).itemsize))


def _layer(node: Any, position: int) -> str:
    """The module that a node comes from, as exporters write it down; else the node's own name."""
    scopes = next((item.value for item in node.metadata_props if item.key == _SCOPES), "")
    if scopes:
        names = [part.strip().strip("'\"") for part in scopes.strip("[]").split(",")]
        return names[-2] if len(names) > 1 and names[-2] else names[-1]
    path = node.name.strip("/").split("/")
    return ".".join(path[:-1]) if len(path) > 1 else node.name or f"{node.op_type}_{position}"
