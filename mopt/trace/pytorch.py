"""Trace a PyTorch module on fake tensors: no weights, no arithmetic, any size."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch.utils._pytree import tree_leaves, tree_map

from mopt.errors import MISSING, Fault, InputError
from mopt.trace.extras import version
from mopt.trace.fit import Trace, Update, batch_faults, fit
from mopt.trace.recorder import DropoutOff, Layers, Recorder
from mopt.trace.shape_cache import ShapeCache
from mopt.trace.tape import Tape
from mopt.workload import Workload

DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
OPTIMIZERS = {"adamw": 2, "sgd": 1}  # 32-bit states per parameter
_FAKE_FAILURES = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedOperatorException,
    fake_tensor.UnsupportedFakeTensorException,
    fake_tensor.UnsupportedMutationAliasingException,
)

Inputs = Callable[[int], Any] | Any
Loss = Callable[[Any], torch.Tensor]


def trace(
    module: torch.nn.Module,
    inputs: Inputs,
    *,
    mode: str = "infer",
    precision: str = "bf16",
    optimizer: str | None = None,
    fused: bool = False,
    loss: Loss | None = None,
    batches: Sequence[int] = (2, 3, 5),
) -> Trace:
    """What each operator of one launch costs; `mopt.trace.torch` is this and `Trace.workload`."""
    _check(module, mode, precision, optimizer, batches)
    tapes = []
    weights, update = 0.0, Update()
    for batch in batches:
        tape, weights, update = _run(module, inputs, batch, mode, precision, optimizer, loss)
        tapes.append(tape)
    step = f"training step, {optimizer or 'no optimizer'}" if mode == "train" else "forward pass"
    kind = "elementwise operators fused" if fused else "operator by operator (eager)"
    at = ", ".join(map(str, batches))
    about = (
        f"{type(module).__name__}, {step}, {precision}, traced on fake tensors at batches {at}. "
        f"FLOPs of matrix products, convolutions and attention, 2 a multiply-add; bytes {kind}."
    )
    return fit(tapes, fused=fused, weights=weights, update=update, about=about)


def workload(
    module: torch.nn.Module,
    inputs: Inputs,
    *,
    mode: str,
    precision: str,
    optimizer: str | None,
    fused: bool,
    depth: int | None,
    name: str | None,
    sample: str,
    loss: Loss | None,
    batches: Sequence[int],
    source: str = "",
) -> Workload:
    """See `mopt.trace.torch`."""
    made = trace(
        module,
        inputs,
        mode=mode,
        precision=precision,
        optimizer=optimizer,
        fused=fused,
        loss=loss,
        batches=batches,
    )
    return made.workload(
        name=name or f"{type(module).__name__}-{mode}",
        precision=precision,
        mode=mode,
        depth=depth,
        sample=sample,
        source=source or f"traced with {version('mopt')}, {version('torch')}",
    )


def _check(module: Any, mode: str, precision: str, optimizer: str | None, batches: Sequence[int]) -> None:
    faults = []
    allowed: tuple[tuple[str, Any, Sequence[Any]], ...] = (
        ("mode", mode, ("train", "infer")),
        ("precision", precision, tuple(DTYPES)),
        ("optimizer", optimizer, (*OPTIMIZERS, None)),
    )
    for field, value, values in allowed:
        if value not in values:
            faults.append(Fault("", "trace", field, value, f"must be one of {', '.join(map(str, values))}"))
    if not isinstance(module, torch.nn.Module):
        faults.append(Fault("", "trace", "module", type(module).__name__, "must be a torch.nn.Module"))
    elif any(torch.nn.parameter.is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
        faults.append(Fault("", "trace", "module", type(module).__name__, "must have parameters whose shapes are known"))
    if mode == "infer" and optimizer is not None:
        faults.append(Fault("", "trace", "optimizer", optimizer, "must be None for inference"))
    faults.extend(batch_faults(batches))
    if faults:
        raise InputError(faults)


def _run(
    module: torch.nn.Module,
    inputs: Inputs,
    batch: int,
    mode: str,
    precision: str,
    optimizer: str | None,
    loss: Loss | None,
) -> tuple[Tape, float, Update]:
    """One launch of `batch` samples on the tape, the bytes of the parameters, and the optimizer step that follows."""
    dtype = DTYPES[precision]
    trains = mode == "train"
    fake = fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)
    with _settings(module, trains), fake:
        weights = _fake_weights(module, dtype)
        args, kwargs = _arguments(inputs, batch, dtype)
        layers = Layers(module, weights)
        recorder = Recorder(batch, layers, ShapeCache(fake))
        for tensor in (*weights.values(), *_tensors((args, kwargs))):
            recorder.hold(tensor)
        grad = torch.enable_grad() if trains else torch.no_grad()
        try:
            with DropoutOff(), layers, recorder, grad:
                output = torch.func.functional_call(module, weights, args, kwargs)
                if trains:
                    _loss(output, loss).backward()
        except _FAKE_FAILURES as error:
            text = "needs the values of a tensor, or has no rule for shapes alone"
            fault = Fault("", f"operator {recorder.latest}", "trace", type(error).__name__, text)
            raise InputError([fault]) from error
        except NotImplementedError as error:  # sparse gradients, higher-order operators
            fault = Fault("", f"operator {recorder.latest}", "trace", MISSING, f"what follows can't be traced: {error}")
            raise InputError([fault]) from error
        except (RuntimeError, TypeError, ValueError, IndexError) as error:  # what modules raise on wrong arguments
            text = f"must suit the module, which raised {type(error).__name__}: {error}"
            fault = Fault("", f"operator {recorder.latest}", "inputs", MISSING, text)
            raise InputError([fault]) from error
        recorder.stop()
    parameters = {id(tensor): tensor.nbytes for tensor in weights.values() if isinstance(tensor, torch.nn.Parameter)}
    update = _update(weights, optimizer) if trains else Update()
    return recorder.tape, float(sum(parameters.values())), update


@contextlib.contextmanager
def _settings(module: torch.nn.Module, trains: bool) -> Iterator[None]:
    """Training or inference mode, on the paths whose operators can be seen; everything is put back, also what modules
    keep for their next call (tables made at the first one, states)."""
    before = [pair for child in module.modules() for pair in _kept(child)]
    fastpath, failures = torch.backends.mha.get_fastpath_enabled(), fake_tensor.log.disabled
    torch.backends.mha.set_fastpath_enabled(False)
    fake_tensor.log.disabled = True  # what it logs is raised too
    module.train(trains)
    try:
        # oneDNN's recurrent layers are single operators without a FLOP formula
        with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)
        fake_tensor.log.disabled = failures
        for container, items in before:
            container.clear()
            container.extend(items) if isinstance(container, list) else container.update(items)


def _kept(module: torch.nn.Module) -> Iterator[tuple[Any, Any]]:
    """A module's attributes, and the lists, dicts and sets among them (as those of parameters and buffers): each with a
    copy of what it holds."""
    attributes = vars(module)
    yield attributes, attributes.copy()
    yield from ((value, value.copy()) for value in attributes.values() if isinstance(value, (list, dict, set)))


def _fake_weights(module: torch.nn.Module, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, as fake tensors on the CPU; tied ones stay tied."""
    made: dict[int, torch.Tensor] = {}
    weights = {}
    named = (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    )
    for name, tensor in named:
        if id(tensor) not in made:
            copy = torch.empty_strided(
                tensor.shape,
                tensor.stride(),
                dtype=dtype if tensor.is_floating_point() else tensor.dtype,
                device="cpu",
            )
            if isinstance(tensor, torch.nn.Parameter):
                copy = torch.nn.Parameter(copy, requires_grad=tensor.requires_grad)
            made[id(tensor)] = copy
        weights[name] = made[id(tensor)]
    return weights


def _arguments(inputs: Inputs, batch: int, dtype: torch.dtype) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The module's arguments for a batch: what the callable returns, or the example resized."""
    given = inputs(batch) if callable(inputs) else _resized(inputs, batch)

    def cast(item: Any) -> Any:
        return item.to(dtype) if isinstance(item, torch.Tensor) and item.is_floating_point() else item

    given = tree_map(cast, given)
    if isinstance(given, Mapping):
        return (), dict(given)
    if isinstance(given, (tuple, list)):
        if len(given) == 2 and isinstance(given[0], (tuple, list)) and isinstance(given[1], Mapping):
            return tuple(given[0]), dict(given[1])
        return tuple(given), {}
    return (given,), {}


def _resized(example: Any, batch: int) -> Any:
    """The example on fake tensors, with `batch` in place of the first dimension that its tensors share."""
    leading = next((tensor.shape[0] for tensor in _tensors(example) if tensor.dim()), None)
    if leading is None:
        text = "must be a callable batch -> arguments, or example tensors whose first dimension is the batch"
        raise InputError([Fault("", "trace", "inputs", type(example).__name__, text)])

    def resize(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        shape = (batch, *item.shape[1:]) if item.dim() and item.shape[0] == leading else item.shape
        return torch.empty(shape, dtype=item.dtype, device="cpu")

    return tree_map(resize, example)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _loss(output: Any, loss: Loss | None) -> torch.Tensor:
    """The scalar to differentiate: `loss(output)`, the output's own `loss`, a scalar output, or its squares' sum.

    A plain sum would send back one number, seen as a whole tensor through strides of 0.
    """
    if loss is not None:
        return loss(output)
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(own, torch.Tensor):
        return own
    outputs = [tensor for tensor in _tensors(output) if tensor.is_floating_point() and tensor.requires_grad]
    if len(outputs) == 1 and not outputs[0].dim():
        return outputs[0]
    sums = [tensor.square().sum() for tensor in outputs]
    if not sums:
        raise InputError([Fault("", "trace", "loss", type(output).__name__, "must depend on a trainable parameter")])
    return sum(sums[1:], start=sums[0])


def _update(weights: dict[str, torch.Tensor], optimizer: str | None) -> Update:
    """The optimizer in one pass over its operands, as torch's fused optimizers do it.

    A pass reads the gradient, the 32-bit parameter and states and writes parameter and states back. Parameters of 16
    bits have a 32-bit master copy among the states and are written besides (Micikevicius et al., Mixed Precision
    Training, 2018; Rajbhandari et al., ZeRO, 2020, section 3.1).
    """
    trained = {id(tensor): tensor for tensor in weights.values() if tensor.grad is not None}
    gradients = float(sum(tensor.grad.nbytes for tensor in trained.values() if tensor.grad is not None))
    if optimizer is None:
        return Update(gradients=gradients)
    moved = state = 0.0
    for tensor in trained.values():
        count, size = tensor.numel(), tensor.element_size()
        master = 4 if size < 4 else 0
        kept = OPTIMIZERS[optimizer] * max(4, size) + master
        state += count * kept
        moved += count * (size + 2 * kept + (size if master else 2 * size))
    return Update(bytes_moved=moved, state=state, gradients=gradients)
