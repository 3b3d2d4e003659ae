"""Shapes of results that have been seen before.

FakeTensorMode works out the shapes of every operator anew, or finds them in a cache whose keys take longer to make than
the rest of a trace. A network repeats few operators on few shapes, so that keys of shapes alone are enough here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

_CPU = torch.device("cpu")
_UNSUITABLE = (torch.Tag.inplace_view, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
_BATCH_NORM = torch.ops.aten.native_batch_norm.default
_BATCH_NORM_BACKWARD = torch.ops.aten.native_batch_norm_backward.default
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.layout, torch.device, torch.memory_format)


class _Result(NamedTuple):
    """A tensor to make: on storage of its own, or on that of operand `of`; `same`: the operand itself."""

    of: int | None
    same: bool
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype


class _Unsuitable(Exception):
    """The operator's result can't be told from shapes, or is not plain tensors."""


class ShapeCache:
    """Runs operators on fake tensors of one mode, each combination of operator and shapes but once."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._suitable: dict[Any, bool] = {}
        self._results: dict[Any, tuple[type, tuple[_Result | None, ...]]] = {}

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `func(*args, **kwargs)` gives."""
        suitable = self._suitable.get(func)
        if suitable is None:
            suitable = func.namespace == "aten" and not any(tag in func.tags for tag in _UNSUITABLE)
            self._suitable[func] = suitable
        if not suitable:
            return func(*args, **kwargs)
        operands: list[Any] = []
        try:
            key = (func, _key(args, operands), tuple((name, _key(value, operands)) for name, value in kwargs.items()))
        except _Unsuitable:
            return func(*args, **kwargs)
        known = self._results.get(key)
        if known is None:
            out = self._decomposed(func, args) if not kwargs else None
            out = func(*args, **kwargs) if out is None else out
            try:
                self._results[key] = type(out), tuple(_results(out, operands))
            except _Unsuitable:
                self._suitable[func] = False
            return out
        kind, results = known
        made = [None if result is None else self._make(result, operands) for result in results]
        return kind(made) if kind in (tuple, list) else made[0]

    def _decomposed(self, func: Any, args: tuple[Any, ...]) -> tuple[FakeTensor, ...] | None:
        """What a batch norm with statistics of its own gives: FakeTensorMode's decomposition, on bare meta tensors.

        Among fake tensors it takes ten times as long, half of the time of tracing a convolutional network.
        """
        if func is not _BATCH_NORM_BACKWARD and not (func is _BATCH_NORM and args[5]):
            return None
        with in_kernel_invocation_manager(self._mode):
            bare = [
                torch.empty_strided(arg.shape, arg.stride(), dtype=arg.dtype, device="meta")
                if isinstance(arg, torch.Tensor)
                else arg
                for arg in args
            ]
            try:
                out = decomposition_table[func](*bare)
            except (RuntimeError, TypeError, ValueError, IndexError):
                return None  # the general way raises what there is to raise
        if any(tensor is None for tensor in out):
            return None
        return tuple(FakeTensor(self._mode, tensor, _CPU) for tensor in out)

    def _make(self, result: _Result, operands: list[Any]) -> Any:
        if result.same:
            return operands[result.of or 0]
        with in_kernel_invocation_manager(self._mode):
            tensor = torch.empty_strided(result.shape, result.stride, dtype=result.dtype, device="meta")
            if result.of is not None:
                storage = operands[result.of].untyped_storage()
                tensor.set_(storage, result.offset, result.shape, result.stride)
        return FakeTensor(self._mode, tensor, _CPU)


def _key(value: Any, operands: list[Any]) -> Any:
    """Hashable, and equal for arguments that differ in the values of tensors only; collects the tensors."""
    if isinstance(value, torch.Tensor):
        if type(value) is not FakeTensor or value.constant is not None:
            raise _Unsuitable
        operands.append(value)
        return value.shape, value.stride(), value.storage_offset(), value.dtype
    if isinstance(value, (tuple, list)):
        return tuple([_key(item, operands) for item in value])
    if isinstance(value, _PLAIN):
        return type(value), value  # 1, 1.0 and True are equal, and give results of different types
    raise _Unsuitable


def _results(out: Any, operands: list[Any]) -> Iterator[_Result | None]:
    storages = {tensor.untyped_storage()._cdata: k for k, tensor in reversed([*enumerate(operands)])}
    new: set[int] = set()
    for tensor in out if isinstance(out, (tuple, list)) else (out,):
        if tensor is None:
            yield None
            continue
        if type(tensor) is not FakeTensor or tensor.constant is not None or tensor.fake_device != _CPU:
            raise _Unsuitable
        if tensor.dtype.is_complex:  # may be conjugated lazily
            raise _Unsuitable
        storage = tensor.untyped_storage()
        same = next((k for k, operand in enumerate(operands) if operand is tensor), None)
        of = storages.get(storage._cdata) if same is None else same
        shape, stride, offset = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
        if of is None:
            extent = (
                sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) + 1 if tensor.numel() else 0
            )
            if storage._cdata in new or offset or storage.nbytes() != extent * tensor.element_size():
                raise _Unsuitable
            new.add(storage._cdata)
        yield _Result(of, same is not None, shape, stride, offset, tensor.dtype)
