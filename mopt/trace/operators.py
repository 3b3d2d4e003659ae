"""What torch's operators compute and touch, where the general rule (operands read, results written) is wrong."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch

from mopt.trace.attention import causal_pairs
from mopt.trace.tape import Kind

Shape = tuple[int, ...]


def convolution_backward_flops(grad: Any, x: Any, weight: Any, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
    """Each of the two gradients costs what the forward convolution does, whatever the groups.

    torch's own formula multiplies the weight gradient by the number of groups.
    """
    transposed, output_mask = args[4], args[7]
    pixels = prod((x if transposed else grad).shape[2:])
    return int(2 * x.shape[0] * pixels * prod(weight.shape) * (bool(output_mask[0]) + bool(output_mask[1])))


def attention_flops(query: Any, key: Any, value: Any, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
    """Scores and their product with the values, without what a causal mask leaves out (torch's registry counts it)."""
    causal = args[1] if len(args) > 1 else kwargs.get("is_causal", False)
    return _scores(query, key, causal) * 2 * int(query.shape[-1] + value.shape[-1])


def attention_backward_flops(grad: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
    """Five products of the forward's size: scores once more, then the gradients of scores, values, queries and keys."""
    return _scores(query, key, args[3]) * 2 * int(3 * query.shape[-1] + 2 * value.shape[-1])


def _scores(query: Any, key: Any, causal: bool) -> int:
    *heads, rows, _ = query.shape
    return int(prod(heads)) * (causal_pairs(rows, key.shape[-2]) if causal else int(rows * key.shape[-2]))


def grouped_matmul_flops(a: Any, b: Any, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
    """One product per group; a ragged side (2-d) is shared out over the groups, so its rows are counted once."""
    if a.dim() == 2 and b.dim() == 2:
        return int(2 * a.shape[0] * a.shape[1] * b.shape[1])
    if a.dim() == 3 and b.dim() == 2:
        return int(2 * a.shape[1] * a.shape[2] * b.shape[1])
    return int(2 * prod(a.shape) * b.shape[-1])


def product_flops(a: Any, b: Any, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
    """A product of `a` (m×k or k) with `b` (k×n or k)."""
    return int(2 * prod(a.shape) * prod(b.shape[1:]))


def added_product_flops(bias: Any, a: Any, b: Any, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
    """`bias` plus the product of `a` and `b`."""
    return product_flops(a, b)


def trilinear_flops(
    a: Any, b: Any, c: Any, a_new: Any, b_new: Any, c_new: Any, *args: Any, out_val: Any = None, **kwargs: Any
) -> int:
    """A multiply-add for each combination of indices of three operands, each with new dimensions of size 1."""
    shapes = []
    for operand, new in ((a, a_new), (b, b_new), (c, c_new)):
        sizes = iter(operand.shape)
        shapes.append([1 if k in new else next(sizes) for k in range(operand.dim() + len(new))])
    return int(2 * prod(map(max, zip(*shapes, strict=True))))


FLOPS: dict[str, Callable[..., int]] = {
    "convolution_backward": convolution_backward_flops,
    "_scaled_dot_product_flash_attention_for_cpu": attention_flops,
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention_backward_flops,
    "_grouped_mm": grouped_matmul_flops,
    "_scaled_grouped_mm": grouped_matmul_flops,
    "mv": product_flops,
    "dot": product_flops,
    "vdot": product_flops,
    "_int_mm": product_flops,
    "addmv": added_product_flops,
    "_addmm_activation": added_product_flops,
    "_trilinear": trilinear_flops,
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Pointwise in what they compute, but without torch's tag.
_ELEMENTWISE = _names("""
    _to_copy copy_ copy cat stack slice_backward select_backward constant_pad_nd hardswish hardswish_
    hardswish_backward hardtanh_backward hardsigmoid_backward elu_backward leaky_relu_backward fill fill_ zero_ zeros
    ones full zeros_like ones_like full_like new_zeros new_ones new_full scalar_tensor arange tril triu repeat
    nll_loss_backward nll_loss2d_backward
""")
_REDUCTIONS = _names("""
    sum mean amax amin max min argmax argmin prod var var_mean std std_mean any all norm linalg_vector_norm logsumexp
""")
# Row by row, and decomposed by compilers.
_ROWWISE = _names("""
    native_layer_norm _fused_rms_norm _softmax _safe_softmax _log_softmax _softmax_backward_data
    _log_softmax_backward_data
""")


def kind_of(operator: Any) -> Kind:
    """How a compiler that fuses elementwise operators treats this one."""
    name = operator.overloadpacket.__name__
    if torch.Tag.pointwise in operator.tags or name in _ELEMENTWISE:
        return "elementwise"
    if name in _ROWWISE:
        return "rowwise"
    if name in _REDUCTIONS:
        return "reduction"
    return "convolution" if name == "convolution" else "other"


def kind_of_call(name: str, kind: Kind, args: tuple[Any, ...], out: Any) -> Kind:
    """The kind with its arguments seen: a reduction that leaves the first dimension lets what follows go on row by row
    in the same kernel, and batch norm with given statistics is elementwise."""
    if kind == "reduction":
        result = out[0] if isinstance(out, tuple) else out
        if result.dim() and args[0].dim() > 1 and result.shape[0] == args[0].shape[0]:
            return "rowwise"
    elif name == "native_batch_norm" and not args[5]:
        return "elementwise"
    return kind


# Allocation without a write.
UNWRITTEN = _names("empty empty_strided empty_like new_empty new_empty_strided empty_permuted")

# In place, without looking at what was there.
OVERWRITES = _names("copy_ fill_ zero_ normal_ uniform_ bernoulli_ random_ exponential_")

# Operands of which only the shape matters, by position.
UNREAD: dict[str, int] = {
    **dict.fromkeys(_names("zeros_like ones_like full_like new_zeros new_ones new_full rand_like randn_like"), 0),
    **dict.fromkeys(
        _names("""
            nll_loss_backward nll_loss2d_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward
            avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward
            reflection_pad1d_backward reflection_pad2d_backward replication_pad2d_backward
        """),
        1,
    ),
}

# Of the first operand, as many elements as the result has.
_GATHERS = _names("embedding index_select gather index _unsafe_index take take_along_dim")

# Of the first operand, the rows that the second one lists.
_ROWS = _names("_embedding_bag _embedding_bag_forward_only embedding_renorm_")

# Of the first operand, in place: as many elements as the source (position) has; True: reads them too.
_SCATTERS: dict[str, tuple[int, bool]] = {
    "index_put_": (2, True),
    "_index_put_impl_": (2, True),
    "index_add_": (3, True),
    "scatter_add_": (3, True),
    "scatter_reduce_": (3, True),
    "scatter_": (3, False),
    "index_copy_": (3, False),
}


def rows_read(name: str, args: tuple[Any, ...], out: Any) -> int | None:
    """Bytes read of the first operand where an operator reads only the rows that it is asked for; else None."""
    if name in _GATHERS:
        return int(out.numel() * args[0].element_size())
    if name in ("nll_loss_forward", "nll_loss2d_forward"):
        return int(args[1].numel() * args[0].element_size())
    if name in _ROWS:
        return int(args[1].numel() * args[0][0].numel() * args[0].element_size())
    if name in _SCATTERS:
        source, reads = _SCATTERS[name]
        return _scattered(args, source) if reads else 0
    return None


def rows_written(name: str, args: tuple[Any, ...]) -> int | None:
    """Bytes written to the first operand where an operator writes only some rows of it in place; else None."""
    if name in _SCATTERS:
        return _scattered(args, _SCATTERS[name][0])
    return rows_read(name, args, None) if name == "embedding_renorm_" else None


def _scattered(args: tuple[Any, ...], source: int) -> int:
    values = args[source]
    count = values.numel() if isinstance(values, torch.Tensor) else args[source - 1].numel()
    return int(count * args[0].element_size())
