"""How the accelerators of a unit share a model: copies, tensor and pipeline parallel parts, sharded states."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from pydantic import Field

from mopt.errors import Fault, InputError
from mopt.record import record
from mopt.resource import Count


@record
class Parallelism:
    """Accelerators that hold one copy of a model together; a unit of g holds g / (tensor · pipeline) copies.

    Parameters
    ----------
    tensor : int
        Accelerators among which every layer is split (Shoeybi et al., Megatron-LM, 2019), activations too (Korthikanti
        et al., 2022).
    pipeline : int
        Stages, each with an equal share of the layers (Huang et al., GPipe, 2019).
    microbatches : int, optional
        Parts into which a launch is cut to keep the stages busy. Default: 4 a stage, as GPipe advises; 1 without
        stages.
    zero : int
        What the copies in a unit share instead of repeating it (Rajbhandari et al., ZeRO, 2020): 0 nothing, 1 optimizer
        states, 2 gradients too, 3 weights too.

    Raises
    ------
    InputError
        If a value is outside its range; all faults at once.
    """

    tensor: Count = 1
    pipeline: Count = 1
    microbatches: Count | None = None
    zero: Annotated[int, Field(ge=0, le=3)] = 0

    @property
    def degree(self) -> int:
        """Accelerators that hold one copy."""
        return self.tensor * self.pipeline

    @property
    def parts(self) -> int:
        """Microbatches of a launch."""
        return self.microbatches or (4 * self.pipeline if self.pipeline > 1 else 1)

    @property
    def slots(self) -> int:
        """Microbatches that a launch takes as long as: those that it has, and pipeline − 1 to fill the stages."""
        return self.parts + self.pipeline - 1

    @staticmethod
    def parse(text: str) -> Parallelism:
        """What a text like "tensor=4,zero=1" says.

        Raises
        ------
        InputError
            If it names anything else, or a value is no whole number in its range.
        """
        names = [field.name for field in dataclasses.fields(Parallelism)]
        given = {}
        for part in text.replace(",", " ").split():
            name, _, value = part.partition("=")
            if name not in names or not value.isdecimal():
                allowed = f"must be {', '.join(f'{name}=N' for name in names)}, or several of these with commas between"
                raise InputError([Fault("", "", "parallelism", text, allowed)])
            given[name] = int(value)
        return Parallelism(**given)

    def __str__(self) -> str:
        degrees = {"tensor": self.tensor, "pipeline": self.pipeline}
        return " ".join(f"{name}={degree}" for name, degree in degrees.items() if degree > 1) or "data parallel"
