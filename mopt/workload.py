"""Workloads (step S3): FLOPs F, memory traffic Q and footprint of one launch, as functions of the batch."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, model_validator

from mopt.record import record
from mopt.resource import PRECISIONS, NonNegative

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
        At least one; FLOPs and bytes add up over layers, and so do their roofline times.
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

    Raises
    ------
    InputError
        If a value is outside its range; all faults at once.
    """

    name: Name
    precision: Precision
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
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

    @model_validator(mode="after")
    def _does_something(self) -> Workload:
        if not any(layer.flops or layer.bytes_fixed or layer.bytes_per_sample for layer in self.layers):
            raise ValueError("at least one layer must have FLOPs or bytes")
        return self

    @property
    def flops_per_sample(self) -> float:
        """F(1) in FLOP."""
        return sum(layer.flops for layer in self.layers)

    @property
    def bytes_fixed(self) -> float:
        """Bytes moved per launch whatever the batch."""
        return sum(layer.bytes_fixed for layer in self.layers)

    @property
    def bytes_per_sample(self) -> float:
        """Bytes moved per sample on top of `bytes_fixed`."""
        return sum(layer.bytes_per_sample for layer in self.layers)

    def flops(self, batch: Batch) -> Batch:
        """F(b) in FLOP of one launch of batch b."""
        return self.flops_per_sample * batch

    def traffic(self, batch: Batch) -> Batch:
        """Q(b) in B of one launch of batch b."""
        return self.bytes_fixed + self.bytes_per_sample * batch

    def arithmetic_intensity(self, batch: Batch) -> Batch:
        """I(b) = F(b)/Q(b) in FLOP/B (eq. 2)."""
        return self.flops(batch) / self.traffic(batch)

    @property
    def footprint_pieces(self) -> tuple[MemoryPiece, ...]:
        """All affine pieces of the footprint."""
        return (MemoryPiece(self.memory_fixed, self.memory_per_sample), *self.memory_pieces)

    def footprint(self, batch: Batch) -> Batch:
        """Memory in B that a batch b occupies on one accelerator."""
        values = [piece.fixed + piece.per_sample * np.asarray(batch, dtype=float) for piece in self.footprint_pieces]
        largest = np.maximum.reduce(values)
        return float(largest) if np.ndim(largest) == 0 else largest
