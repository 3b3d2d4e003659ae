"""What ONNX operators compute, from the shapes of their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from mopt.trace.attention import causal_pairs

Shape = tuple[int, ...]
Shapes = Sequence[Shape | None]
Attributes = Mapping[str, Any]


def _convolution(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> int:
    x, weight, out = _shape(inputs, 0), _shape(inputs, 1), _shape(outputs, 0)
    return 2 * x[0] * prod(out[2:]) * prod(weight)


def _quantized_convolution(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> int:
    return _convolution((_shape(inputs, 0), _shape(inputs, 3)), outputs, attributes)


def _transposed_convolution(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> int:
    x, weight = _shape(inputs, 0), _shape(inputs, 1)
    return 2 * x[0] * prod(x[2:]) * prod(weight)


def _gemm(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> int:
    a = _shape(inputs, 0)
    return 2 * prod(_shape(outputs, 0)) * (a[0] if attributes.get("transA") else a[1])


def _matmul(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> int:
    return 2 * prod(_shape(outputs, 0)) * _shape(inputs, 0)[-1]


def _einsum(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> int:
    """One multiply-add for each combination of all indices; none for a single operand."""
    terms = str(attributes["equation"].decode()).replace(" ", "").partition("->")[0].split(",")
    if len(terms) < 2:
        return 0
    size: dict[str, int] = {}
    for k, term in enumerate(terms):
        shape = _shape(inputs, k)
        named = term.replace("...", "")
        size.update(zip(named, shape[len(shape) - len(named) :], strict=True))
        if "..." in term:
            size["..."] = max(size.get("...", 1), prod(shape[: len(shape) - len(named)]))
    return 2 * prod(size.values())


def _attention(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> int:
    """Scores and their product with the values, without what a causal mask leaves out; past keys count."""
    query, key, value = (_shape(inputs, k) for k in range(3))
    past = inputs[4] if len(inputs) > 4 else None
    keys = key[-2] + (past[-2] if past else 0)
    if len(query) == 4:
        heads, width, value_width = query[1], query[3], value[3]
    else:
        heads, groups = attributes["q_num_heads"], attributes["kv_num_heads"]
        width, value_width = query[2] // heads, value[2] // groups
    rows = query[-2]
    before = keys - rows  # seen by the first query already
    causal = attributes.get("is_causal") and before >= 0
    pairs = rows * before + causal_pairs(rows, rows) if causal else rows * keys
    return int(2 * query[0] * heads * pairs * (width + value_width))


def _recurrent(gates: int) -> Callable[[Shapes, Shapes, Attributes], int]:
    def flops(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> int:
        steps, batch = _shape(inputs, 0)[:2]
        directions, _, width = _shape(inputs, 1)
        hidden = _shape(inputs, 2)[2]
        return 2 * steps * batch * directions * gates * hidden * (width + hidden)

    return flops


def _shape(shapes: Shapes, k: int) -> Shape:
    shape = shapes[k]
    assert shape is not None, "required operand"
    return shape


FLOPS: dict[str, Callable[[Shapes, Shapes, Attributes], int]] = {
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "QLinearConv": _quantized_convolution,
    "ConvTranspose": _transposed_convolution,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "Einsum": _einsum,
    "Attention": _attention,
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "RNN": _recurrent(1),
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The result is the first operand, seen another way.
VIEWS = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"))

# Rows of the first operand by index: as many elements as the result has.
GATHERS = frozenset(("Gather", "GatherElements", "GatherND"))

ELEMENTWISE = _names("""
    Abs Add And BatchNormalization Cast Ceil Celu Clip Concat Cos Div Elu Equal Erf Exp Expand Floor Gelu Greater
    GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max
    Min Mish Mod Mul Neg Not Or PRelu Pad Pow QuantizeLinear DequantizeLinear Reciprocal Relu Round
    Selu Sigmoid Sign Sin Slice Softplus Softsign Split Sqrt Sub Sum Swish Tanh ThresholdedRelu Where Xor
""")
ROWWISE = frozenset(("LayerNormalization", "RMSNormalization", "Softmax", "LogSoftmax"))
CONVOLUTIONS = frozenset(("Conv", "ConvInteger", "QLinearConv", "ConvTranspose"))
REDUCTIONS = frozenset(
    "Reduce" + name for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
