"""Measure this machine: its peaks, and launch times of networks on it.

Needs nothing beyond the core for peaks by numpy; torch (extra `torch`) for CUDA and 16-bit formats, and transformers
(extra `hf`) for the shipped networks.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import numpy as np

from mopt.errors import Fault, InputError
from mopt.measurements import Measurement
from mopt.resource import Resource
from mopt.trace.extras import load, version
from mopt.workload import Workload

Backend = Literal["numpy", "torch"]
Optimizer = Literal["sgd", "adamw"]

Step = Callable[[], object]
# Formats of products. On CUDA also "tf32", a way to multiply fp32.
_NUMPY = {"fp64": np.float64, "fp32": np.float32}
_TORCH = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
# What transformers needs to build a shipped network: model type, class, and sizes that aren't its defaults.
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_GPT2 = {"activation_function": "gelu_pytorch_tanh"}
_NETWORKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "resnet18": (
        "resnet", "ResNetForImageClassification",
        {"layer_type": "basic", "hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2]},
    ),
    "resnet50": ("resnet", "ResNetForImageClassification", {}),
    "resnet152": ("resnet", "ResNetForImageClassification", {"depths": [3, 8, 36, 3]}),
    "mobilenet-v2": ("mobilenet_v2", "MobileNetV2ForImageClassification", {}),
    "convnext-t": ("convnext", "ConvNextForImageClassification", {}),
    "vit-b16": ("vit", "ViTForImageClassification", {}),
    "vit-l16": ("vit", "ViTForImageClassification", _LARGE),
    "bert-base": ("bert", "BertForMaskedLM", {}),
    "bert-large": ("bert", "BertForMaskedLM", _LARGE),
    "gpt2": ("gpt2", "GPT2LMHeadModel", _GPT2),
    "gpt2-xl": ("gpt2", "GPT2LMHeadModel", _GPT2 | {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
}  # fmt: skip
_TOKENS = {"bert": 512, "gpt2": 1024}
_WITH_SGD = ("resnet", "mobilenet_v2")
_RUNS = 7
# Seconds after which no further run is started.
_LONG = 5.0


class _Device(NamedTuple):
    """Where torch computes: how to wait for it, its name and memory in B."""

    kind: str
    synchronize: Callable[[], object]
    name: str
    memory: float


def measure_resource(
    *,
    backend: Backend | None = None,
    device: Literal["cpu", "cuda"] | None = None,
    precisions: Sequence[str] | None = None,
    size: int | None = None,
    copy_bytes: float = 5e8,
    name: str | None = None,
    price_per_hour: float = 1.0,
) -> Resource:
    """Time a matrix product for each precision, and a copy in memory, and return what they reach as a resource.

    Peaks and bandwidth are then what this machine reaches with a product and a copy of this size, not what its maker
    states: utilizations are relative to that.

    Parameters
    ----------
    backend : "numpy" or "torch", optional
        Default: torch if it is installed.
    device : "cpu" or "cuda", optional
        Of torch. Default: "cuda" if there is one.
    precisions : sequence of str, optional
        Default: "fp64" and "fp32"; with torch "fp32", on CUDA also "tf32", "fp16" and "bf16". Many CPUs only emulate
        the 16-bit formats, which takes minutes.
    size : int, optional
        Rows and columns of the matrices. Default: 2048, on CUDA 8192.
    copy_bytes : float
        Bytes of what is copied, to be well beyond what caches hold; each is read once and written once.
    name : str, optional
        Of the resource. Default: that of the machine.
    price_per_hour : float
        $/h; there is no way to measure it.

    Returns
    -------
    Resource
        One accelerator, or all CPU cores that the library uses.

    Raises
    ------
    InputError
        If the backend doesn't know a precision.
    MissingExtraError
        If torch is asked for and not installed.
    """
    backend = backend or ("torch" if find_spec("torch") else "numpy")
    place = _HOST if backend == "numpy" else _torch_device(device)
    size = size or (8192 if place.kind == "cuda" else 2048)
    known, usual = _precisions(backend, place)
    chosen = usual if precisions is None else tuple(precisions)
    allowed = f"must be among {', '.join(known)}"
    faults = [Fault("", "measure", "precisions", name, allowed) for name in chosen if name not in known]
    if faults:
        raise InputError(faults)
    product, copy = (_numpy_product, _numpy_copy) if backend == "numpy" else (_torch_product, _torch_copy)
    peaks = {p: 2.0 * size**3 / shortest_time(product(p, size, place), place.synchronize) for p in chosen}
    bandwidth = 2.0 * copy_bytes / shortest_time(copy(int(copy_bytes), place), place.synchronize)
    return Resource(
        name=name or platform.node() or place.name,
        peak_flops=peaks,
        memory_bandwidth=bandwidth,
        memory=place.memory,
        price_per_hour=price_per_hour,
        accelerator=place.name if place.kind == "cuda" else "",
        source=f"measured with {version(backend)} on {place.name}, {date.today().isoformat()}: "
        f"products of {size}x{size}, copy of {copy_bytes / 1e6:.0f} MB",
    )


def shortest_time(run: Callable[[], object], synchronize: Callable[[], object] = lambda: None) -> float:
    """Seconds of the shortest of a few runs, after warming up: what the machine can do when nothing disturbs it."""
    return min(_times(run, synchronize, _RUNS))


def _times(run: Callable[[], object], synchronize: Callable[[], object], runs: int) -> list[float]:
    """Seconds of `runs` runs after one to warm up; of fewer, if they take long."""
    run()
    times: list[float] = []
    while not times or (len(times) < runs and sum(times) < _LONG):
        synchronize()
        start = time.perf_counter()
        run()
        synchronize()
        times.append(time.perf_counter() - start)
    return times


def measure_workload(
    module: Any,
    inputs: Callable[[int], Any],
    workload: Workload,
    batches: Sequence[int],
    *,
    resource: str,
    device: Literal["cpu", "cuda"] | None = None,
    runs: int = _RUNS,
    optimizer: Optimizer = "sgd",
) -> list[Measurement]:
    """Time launches of a PyTorch module at some batches: forward passes, or training steps.

    Parameters
    ----------
    module : torch.nn.Module
        Moved to the device and to the workload's precision, 16 bits of training by autocast.
    inputs : callable
        batch -> arguments, as `mopt.trace.torch` takes them.
    workload : Workload
        What the module is traced as: gives name, mode and precision.
    batches : sequence of int
    resource : str
        Name of the resource, for the measurements.
    device : "cpu" or "cuda", optional
        Default: "cuda" if there is one.
    runs : int
        Timed launches of each batch, after one to warm up, within a few seconds; their median counts.
    optimizer : "sgd" or "adamw"
        Of training steps; SGD is with momentum.

    Returns
    -------
    list of Measurement
        For `mopt.calibrate`.

    Raises
    ------
    MissingExtraError
        If torch is not installed.
    """
    place = _torch_device(device)
    step = _stepper(module, workload, place, optimizer)
    framework = f"PyTorch {version('torch').split()[-1]}"
    made = []
    for batch in batches:
        arguments = _on_device(inputs(batch), place, workload)
        seconds = statistics.median(_times(partial(step, arguments), place.synchronize, runs))
        made.append(
            Measurement(resource, workload.name, batch, seconds, framework=framework, source=f"timed on {place.name}")
        )
    return made


class Network(NamedTuple):
    """A network to time: module, inputs by batch, and what trains it."""

    module: Any
    inputs: Callable[[int], Any]
    optimizer: Optimizer


def shipped_network(name: str) -> Network:
    """The network of a shipped workload ("resnet50-infer"), with random weights, built by transformers.

    Raises
    ------
    InputError
        If there is none of that name.
    MissingExtraError
        If torch or transformers are not installed.
    """
    network, _, mode = name.rpartition("-")
    if network not in _NETWORKS or mode not in ("infer", "train"):
        allowed = f"can be built: {', '.join(f'{known}-infer, {known}-train' for known in _NETWORKS)}"
        raise InputError([Fault("", "measure", "workload", name, allowed)])
    load("torch", "torch")
    transformers: Any = load("transformers", "hf")
    from mopt.trace.hf import inputs_of

    kind, architecture, sizes = _NETWORKS[network]
    if kind == "bert" and mode == "infer":
        architecture = "BertModel"  # encoder and pooler
    classes = {} if kind in _TOKENS else {"num_labels": 1000}
    config = transformers.AutoConfig.for_model(kind, **sizes, **classes)
    module = getattr(transformers, architecture)._from_config(config)
    return Network(module, inputs_of(module, mode, _TOKENS.get(kind)), "sgd" if kind in _WITH_SGD else "adamw")


# -- The machine -----------------------------------------------------------------------------------------------------


def _host_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on this system
        return 16e9


_HOST = _Device("cpu", lambda: None, platform.processor() or platform.machine() or "CPU", _host_memory())


def _torch_device(device: str | None) -> _Device:
    torch: Any = load("torch", "torch")
    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise InputError([Fault("", "measure", "device", device, "torch finds no CUDA here; use cpu")])
    if device == "cpu" or not there:
        return _HOST
    properties = torch.cuda.get_device_properties(0)
    return _Device("cuda", torch.cuda.synchronize, properties.name, float(properties.total_memory))


def _precisions(backend: Backend, place: _Device) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that there are, and those to take if none are asked for."""
    if backend == "numpy":
        return tuple(_NUMPY), tuple(_NUMPY)
    if place.kind == "cuda":
        return (*_TORCH, "tf32"), ("fp32", "tf32", "fp16", "bf16")
    return tuple(_TORCH), ("fp32",)


def _numpy_product(precision: str, size: int, place: _Device) -> Step:
    a = np.random.default_rng(0).random((size, size)).astype(_NUMPY[precision])
    b, out = a.copy(), np.empty_like(a)
    return lambda: np.matmul(a, b, out=out)


def _numpy_copy(size: int, place: _Device) -> Step:
    source, target = np.ones(size, dtype=np.uint8), np.zeros(size, dtype=np.uint8)
    return lambda: np.copyto(target, source)


def _torch_product(precision: str, size: int, place: _Device) -> Step:
    torch: Any = load("torch", "torch")
    dtype = getattr(torch, _TORCH.get(precision, "float32"))
    a = torch.rand((size, size), device=place.kind).to(dtype)
    b, out = a.clone(), torch.empty_like(a)

    def run() -> None:
        with _float32_products(precision):
            torch.matmul(a, b, out=out)

    return run


def _torch_copy(size: int, place: _Device) -> Step:
    torch: Any = load("torch", "torch")
    source = torch.ones(size, dtype=torch.uint8, device=place.kind)
    target = torch.zeros_like(source)
    return lambda: target.copy_(source)


# -- Launches --------------------------------------------------------------------------------------------------------


@contextmanager
def _float32_products(precision: str) -> Iterator[None]:
    """Products of fp32 in TF32 if that is the precision, else not."""
    torch: Any = load("torch", "torch")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _stepper(
    module: Any, workload: Workload, place: _Device, trained_by: Optimizer
) -> Callable[[tuple[Any, Any]], object]:
    """One launch, given (args, kwargs)."""
    torch: Any = load("torch", "torch")
    dtype = getattr(torch, _TORCH.get(workload.precision, "float32"))
    if workload.mode == "inference":
        module = module.to(place.kind, dtype).eval()

        def infer(given: tuple[Any, Any]) -> object:
            with torch.inference_mode(), _float32_products(workload.precision):
                return module(*given[0], **given[1])

        return infer
    module = module.to(place.kind).train()
    kind, options = (torch.optim.AdamW, {}) if trained_by == "adamw" else (torch.optim.SGD, {"momentum": 0.9})
    optimizer = kind(module.parameters(), lr=1e-6, **options)

    def train(given: tuple[Any, Any]) -> None:
        half = dtype in (torch.float16, torch.bfloat16)
        with _float32_products(workload.precision):
            with torch.autocast(place.kind, dtype=dtype, enabled=half):
                loss = _loss(module(*given[0], **given[1]))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return train


def _loss(output: Any) -> Any:
    """The output's own loss, or the sum of squares of its first tensor."""
    own = getattr(output, "loss", None)
    if own is not None:
        return own
    first = (
        output if hasattr(output, "square") else next(iter(output.values() if hasattr(output, "values") else output))
    )
    return first.float().square().sum()


def _on_device(given: Any, place: _Device, workload: Workload) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) on the device, floating inputs random and in the precision that the module takes."""
    torch: Any = load("torch", "torch")
    dtype = getattr(torch, _TORCH.get(workload.precision, "float32")) if workload.mode == "inference" else torch.float32

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.is_floating_point():
            return torch.rand(value.shape, device=place.kind).to(dtype)
        return value.to(place.kind)

    if isinstance(given, Mapping):
        args, kwargs = (), dict(given)
    elif isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping):
        args, kwargs = tuple(given[0]), dict(given[1])
    else:
        args, kwargs = given if isinstance(given, tuple) else (given,), {}
    return tuple(map(moved, args)), {key: moved(value) for key, value in kwargs.items()}
