"""Workloads (step S3): FLOPs F, memory traffic Q and footprint of one launch, as functions of the batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field

from mopt.errors import Fault, InputError
from mopt.operating_points import OperatingPoint, point_faults
from mopt.parallelism import Parallelism
from mopt.record import record
from mopt.resource import PRECISIONS, NonNegative, Resource

Batch = float | npt.NDArray[np.float64]


def _known_precision(value: str) -> str:
    if value not in PRECISIONS:
        raise ValueError(f"must be one of {', '.join(PRECISIONS)}")
    return value


Name = Annotated[str, Field(min_length=1)]
Precision = Annotated[str, AfterValidator(_known_precision)]
Mode = Literal["training", "inference"]


@record
class Layer:
    """One layer: f FLOP per sample; q0 bytes per launch (weights) and q1 bytes per sample (activations)."""

    name: str
    flops: NonNegative
    bytes_fixed: NonNegative = 0.0
    bytes_per_sample: NonNegative = 0.0


@record
class MemoryPiece:
    """One affine piece m0 + m1·b of a footprint, in bytes."""

    fixed: NonNegative
    per_sample: NonNegative


@record
class Workload:
    """What one launch (forward pass or training step of batch b on one accelerator) costs.

    Parameters
    ----------
    name : str
    precision : str
        "fp32", "tf32", "fp16", "bf16", "fp8", "int8" or "fp64".
    layers : sequence of Layer
        FLOPs and bytes add up over layers, and so do their roofline times. At least one, or `points`.
    memory_fixed, memory_per_sample : float
        Footprint m0 + m1·b in B of a batch b.
    memory_pieces : sequence of MemoryPiece
        Further affine pieces; the footprint is the largest of all (peaks at different moments).
    mode : "training" or "inference"
        Training is refused by inference-only chips.
    sample : str
        What one sample is: "image", "sequence of 512 tokens", ...
    gradient_bytes : float
        Bytes of gradients that data-parallel units exchange each launch.
    description, source, date : str
        Provenance.
    family : str
        Kind of network whose calibrated efficiencies hold: "cnn", "encoder", "decoder", ...; "": none known.
    points : sequence of OperatingPoint
        What launches cost at some batches, instead of layers, where that is not affine in the batch (a mixture of
        experts); or measured times by resource, which go before any roofline. Only these batches are launched.
    weight_bytes, optimizer_bytes : float
        Parts of `memory_fixed` that ZeRO shares among copies, as it does `gradient_bytes`.
    tensor_bytes : float, optional
        Bytes of activations that tensor parallel accelerators sum up in a launch, per sample: 2 tensors a transformer
        layer of a forward pass, 4 of a training step.
    pipeline_bytes : float, optional
        Bytes that a pipeline stage passes on in a launch, per sample: its last activations and, in training, as many
        for their gradients.
    parallelism : Parallelism
        How the accelerators of a unit share the model. Default: each has a copy of its own.

    Raises
    ------
    InputError
        If a value is outside its range; all faults at once.
    """

    name: Name
    precision: Precision
    layers: tuple[Layer, ...] = ()
    memory_fixed: NonNegative = 0.0
    memory_per_sample: NonNegative = 0.0
    memory_pieces: tuple[MemoryPiece, ...] = ()
    mode: Mode = "inference"
    sample: str = "sample"
    gradient_bytes: NonNegative = 0.0
    description: str = ""
    source: str = ""
    date: str = ""
    family: str = ""
    points: tuple[OperatingPoint, ...] = ()
    weight_bytes: NonNegative = 0.0
    optimizer_bytes: NonNegative = 0.0
    tensor_bytes: NonNegative | None = None
    pipeline_bytes: NonNegative | None = None
    parallelism: Parallelism = Parallelism()

    def __post_init__(self) -> None:
        faults = [*point_faults(self.points, with_layers=bool(self.layers)), *_parallelism_faults(self)]
        if not self.layers and not self.points:
            faults.append(("layers", (), "at least one layer, or points"))
        elif self.layers and not any(layer.flops or layer.bytes_fixed or layer.bytes_per_sample for layer in self.layers):
            faults.append(("layers", len(self.layers), "at least one layer must have FLOPs or bytes"))
        if faults:
            raise InputError([Fault("", f"Workload {self.name!r}", *fault) for fault in faults])

    @cached_property
    def costs(self) -> tuple[OperatingPoint, ...]:
        """The points that say what a launch costs, batches rising; none where layers do."""
        return tuple(sorted((p for p in self.points if p.time is None), key=lambda p: p.batch))

    def measured(self, resource: Resource) -> tuple[OperatingPoint, ...]:
        """The measured launches that hold for a resource: those of its name, else those of its accelerator."""
        own = [point for point in self.points if point.resource == resource.name]
        return tuple(own or [p for p in self.points if p.resource and p.resource == resource.accelerator])

    @cached_property
    def flops_per_sample(self) -> float:
        """F(1) in FLOP; by points, the fewest that a sample takes in any launch, so that padding is not work."""
        return sum(layer.flops for layer in self.layers) or min(
            (sum(point.flops) / point.batch for point in self.points if point.flops), default=0.0
        )

    @property
    def bytes_fixed(self) -> float:
        """Bytes moved per launch whatever the batch; 0 by points."""
        return sum(layer.bytes_fixed for layer in self.layers)

    @property
    def bytes_per_sample(self) -> float:
        """Bytes moved per sample on top of `bytes_fixed`; 0 by points."""
        return sum(layer.bytes_per_sample for layer in self.layers)

    def flops(self, batch: Batch) -> Batch:
        """F(b) in FLOP of one launch of batch b."""
        return self.flops_per_sample * batch

    def traffic(self, batch: Batch) -> Batch:
        """Q(b) in B of one launch of batch b; by points, of the one that holds so many samples."""
        if not self.layers:
            return _stepped([(p.batch, sum(p.bytes)) for p in self.costs or self.points if p.bytes], batch, 0.0)
        return self.bytes_fixed + self.bytes_per_sample * batch

    def arithmetic_intensity(self, batch: Batch) -> Batch:
        """I(b) = F(b)/Q(b) in FLOP/B (eq. 2); inf where points say nothing of bytes."""
        moved = self.traffic(batch)
        if not np.any(moved):
            return np.full_like(moved, math.inf, dtype=float) if np.ndim(moved) else math.inf
        return self.flops(batch) / moved

    @property
    def footprint_pieces(self) -> tuple[MemoryPiece, ...]:
        """All affine pieces of the footprint."""
        return (MemoryPiece(self.memory_fixed, self.memory_per_sample), *self.memory_pieces)

    def footprint(self, batch: Batch) -> Batch:
        """Memory in B that a batch b occupies on one accelerator; by points, inf beyond the largest batch."""
        points = self.costs or self.points
        if not self.layers and any(point.memory is not None for point in points):
            return _stepped([(point.batch, self.memory_of(point)) for point in points], batch, math.inf)
        values = [piece.fixed + piece.per_sample * np.asarray(batch, dtype=float) for piece in self.footprint_pieces]
        largest = np.maximum.reduce(values)
        return float(largest) if np.ndim(largest) == 0 else largest

    def memory_of(self, point: OperatingPoint) -> float:
        """Memory in B of a point's launch on one accelerator: its own or, left out, that of the affine pieces."""
        if point.memory is not None:
            return point.memory
        return max(piece.fixed + piece.per_sample * point.batch for piece in self.footprint_pieces)


def _parallelism_faults(workload: Workload) -> Iterator[tuple[str, Any, str]]:
    """What a parallelism needs to know of a workload and isn't given."""
    how = workload.parallelism
    if how.tensor > 1 and workload.tensor_bytes is None:
        yield "tensor_bytes", None, f"needed with tensor = {how.tensor}: bytes of activations summed up per sample"
    if how.pipeline > 1 and workload.pipeline_bytes is None:
        yield "pipeline_bytes", None, f"needed with pipeline = {how.pipeline}: bytes that a stage passes on per sample"
    if how.parts > 1 and any(point.time is None for point in workload.points):
        yield "parallelism", str(how), "one microbatch, as points don't say what the parts of a launch cost"
    if workload.mode == "inference" and how.zero in (1, 2):
        yield "parallelism.zero", how.zero, "0 or 3 in inference, which has no optimizer states and gradients"
    shared = ("optimizer_bytes", "gradient_bytes", "weight_bytes")
    for least, field in enumerate(shared, start=1):
        needed = how.zero >= least and (workload.mode == "training" or field == "weight_bytes")
        if needed and not getattr(workload, field):
            yield field, 0, f"needed with zero = {how.zero}: what the copies share"


def _stepped(values: Iterable[tuple[int, float]], batch: Batch, beyond: float) -> Batch:
    """The value of the smallest batch of a table that is no smaller than `batch`; of several, the least."""
    batches, found = np.array(sorted(values)).reshape(-1, 2).T
    first = np.searchsorted(batches, np.asarray(batch, dtype=float))
    chosen = np.append(found, beyond)[first]
    return float(chosen) if np.ndim(chosen) == 0 else chosen
