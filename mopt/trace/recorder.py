"""A dispatch mode that writes every operator of a PyTorch program to a tape."""

from __future__ import annotations

import bisect
import weakref
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from mopt.trace import operators
from mopt.trace.shape_cache import ShapeCache
from mopt.trace.tape import Access, Buffer, Kind, Operator, Tape

_NO_LAYER = "loss"
_F = torch.nn.functional
_DROPOUTS = frozenset(
    (
        _F.dropout,
        _F.dropout1d,
        _F.dropout2d,
        _F.dropout3d,
        _F.alpha_dropout,
        _F.feature_alpha_dropout,
        torch.dropout,
        torch.dropout_,
    )
)


class DropoutOff(TorchFunctionMode):
    """Dropout returns its input: its mask would send attention down the unfused path."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is _F.scaled_dot_product_attention:
            args, given = args[:4], dict(zip(("dropout_p", "is_causal"), args[4:], strict=False))
            kwargs = given | kwargs | {"dropout_p": 0.0}
        elif func is _F.multi_head_attention_forward:
            if len(args) > 10:
                args = (*args[:10], 0.0, *args[11:])
            else:
                kwargs["dropout_p"] = 0.0
        return func(*args, **kwargs)


class Layers:
    """Which module an operator belongs to: of a forward, the innermost module running; of a backward, the module in
    which its autograd node was made, told from the node's sequence number."""

    def __init__(self, module: torch.nn.Module, parameters: dict[str, Any]) -> None:
        self._names = {id(child): name or type(module).__name__ for name, child in module.named_modules()}
        self._parameters = {id(tensor): name.rpartition(".")[0] for name, tensor in parameters.items()}
        self._root = type(module).__name__
        self._running: list[str] = []
        self._since: list[int] = [-1]
        self._made_in: list[str] = [_NO_LAYER]
        self._hooks: list[Any] = []

    def __enter__(self) -> Layers:
        hooks = torch.nn.modules.module
        self._hooks = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *exc: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _enter(self, module: Any, inputs: Any) -> None:
        self._running.append(self._names.get(id(module), self._running[-1] if self._running else self._root))
        self._mark()

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        self._running.pop()
        self._mark()

    def _mark(self) -> None:
        self._since.append(torch.autograd._get_sequence_nr())
        self._made_in.append(self._running[-1] if self._running else _NO_LAYER)

    def current(self) -> str:
        """The layer of the operator that is being dispatched."""
        if self._running:
            return self._running[-1]
        node = torch._C._current_autograd_node()
        if node is None:
            return _NO_LAYER
        if hasattr(node, "variable"):  # accumulates a parameter's gradient
            return self._parameters.get(id(node.variable), _NO_LAYER) or self._root
        return self._made_in[bisect.bisect_right(self._since, node._sequence_nr()) - 1]


class _Rule(NamedTuple):
    """What is known of an operator before it is called."""

    name: str
    kind: Kind
    composite: bool
    flops: Any
    written: frozenset[int | str]
    results: frozenset[int | str]


def _rule(func: Any) -> _Rule:
    name = func.overloadpacket.__name__
    written: set[int | str] = set()
    results: set[int | str] = set()
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    position = 0
    for argument in func._schema.arguments:
        key: int | str = argument.name if argument.kwarg_only else position
        position += not argument.kwarg_only
        if argument.alias_info is not None and argument.alias_info.is_write and torch.Tag.inplace_view not in func.tags:
            (results if argument.is_out or name in operators.OVERWRITES else written).add(key)
    return _Rule(
        name=name,
        kind=operators.kind_of(func),
        composite=has_kernel(func.name(), "CompositeImplicitAutograd") and not has_kernel(func.name(), "CPU"),
        flops=operators.FLOPS.get(name) or flop_registry.get(func.overloadpacket),
        written=frozenset(written),
        results=frozenset(results),
    )


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in an operator's argument or result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def touched_bytes(tensor: torch.Tensor) -> int:
    """Bytes of memory behind a view: a dimension of stride 0 counts once, overlapping windows once."""
    shape, strides = tensor.shape, tensor.stride()
    distinct = prod(size for size, stride in zip(shape, strides, strict=True) if stride or not size)
    return int(min(distinct * tensor.element_size(), tensor.untyped_storage().nbytes()))


def _region(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype


class Recorder(TorchDispatchMode):
    """Writes the operators that run inside it to `tape`."""

    def __init__(self, batch: int, layers: Layers, shapes: ShapeCache) -> None:
        super().__init__()
        self._shapes = shapes
        self.tape = Tape(batch)
        self._layers = layers
        self._rules: dict[Any, _Rule] = {}
        self._index: dict[int, int] = {}
        self._versions: list[int] = []
        self._watched: dict[int, Any] = {}
        self._latest: tuple[Any, str] | None = None

    def hold(self, tensor: torch.Tensor) -> int:
        """The index of a tensor's buffer; one not seen before is allocated now."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._index:
            return self._index[key]
        index = self._index[key] = len(self.tape.buffers)
        self.tape.buffers.append(Buffer(storage.nbytes(), len(self.tape.operators)))
        self._versions.append(0)

        def free(_: Any) -> None:
            self.tape.buffers[index].died = len(self.tape.operators)
            del self._index[key], self._watched[index]

        self._watched[index] = weakref.ref(storage, free)
        return index

    @property
    def latest(self) -> str:
        """The operator dispatched last, and its layer: where a trace broke off."""
        return "{} in {}".format(*self._latest) if self._latest else "none"

    def stop(self) -> None:
        """From here on nothing that is freed counts."""
        self._watched.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return args[0].fake_device  # autograd asks this of every operand; no kernel runs
        rule = self._rules.get(func)
        if rule is None:
            rule = self._rules[func] = _rule(func)
        if rule.composite:
            with self:
                return func.decompose(*args, **kwargs)
        layer = self._layers.current()
        self._latest = func, layer
        known = [(key, tensor, self.hold(tensor)) for key, tensor in _arguments(args, kwargs)]
        out = self._shapes.call(func, args, kwargs)
        if rule.name not in operators.UNWRITTEN:
            self._record(rule, layer, known, args, kwargs, out)
        else:
            self.hold(out)
        return out

    def _record(self, rule: _Rule, layer: str, known: list[Any], args: Any, kwargs: Any, out: Any) -> None:
        reads: dict[Access, None] = {}
        writes: list[Access] = []
        rows = operators.rows_read(rule.name, args, out)
        for key, tensor, index in known:
            value = (index, self._versions[index])
            if key == 0 and rows is not None:
                reads[Access(value, None, rows)] = None
            elif key not in rule.results and key != operators.UNREAD.get(rule.name):
                reads[Access(value, _region(tensor), touched_bytes(tensor))] = None
        inputs = {index for _, _, index in known}
        for tensor in tensors(out):
            index = self.hold(tensor)
            if index not in inputs:
                writes.append(Access((index, 0), _region(tensor), touched_bytes(tensor)))
        for key, tensor, index in known:
            if key in rule.written or key in rule.results:
                nbytes = operators.rows_written(rule.name, args) if key == 0 else None
                nbytes = touched_bytes(tensor) if nbytes is None else nbytes
                if nbytes < self.tape.buffers[index].nbytes:  # what is not overwritten lives on in the new value
                    reads[Access((index, self._versions[index]), "rest", 0)] = None
                self._versions[index] += 1
                writes.append(Access((index, self._versions[index]), _region(tensor), nbytes))
        if writes:
            flops = rule.flops(*args, **kwargs, out_val=out) if rule.flops else 0
            kind = operators.kind_of_call(rule.name, rule.kind, args, out)
            self.tape.operators.append(Operator(layer, rule.name, int(flops), tuple(reads), tuple(writes), kind))


def _arguments(args: Any, kwargs: Any) -> Iterator[tuple[int | str, torch.Tensor]]:
    for key, value in (*enumerate(args), *kwargs.items()):
        for tensor in tensors(value):
            yield key, tensor
