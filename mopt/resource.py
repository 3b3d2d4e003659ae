"""Resources (step S1): what can be rented, and its roofline's two roofs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, field_validator

from mopt.errors import Fault, InputError
from mopt.record import record

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Efficiency = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]

PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
_STAND_IN = {"fp16": "bf16", "bf16": "fp16"}


def _positive_number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError("must be a finite number greater than 0, or map precisions to such numbers")
    return number


@record
class Resource:
    """One rentable thing, bought in whole units: a cloud instance type or a whole machine.

    Parameters
    ----------
    name : str
        Unique within a problem.
    peak_flops : float or mapping of str to float
        Peak dense FLOP/s of one unit, all its accelerators together (π): one number for any precision, or a
        mapping from precision ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp64") to a number.
    memory_bandwidth, memory : float
        Peak memory bandwidth in B/s (β) and accelerator memory in B (M) of one unit.
    price_per_hour : float
        $/h of one unit (C).
    max_units : int, optional
        Units that can be had (N). None: no limit of its own.
    compute_efficiency, bandwidth_efficiency : float
        Shares of the two peaks that are reached in practice (η), in (0, 1].
    launch_floor : float
        Shortest time of one launch in s (t0).
    unit_overhead : float
        Time in s that each unit loses per period (o).
    accelerator_count : int
        Accelerators in a unit; they run data parallel.
    trains : bool
        False for inference-only chips.
    network_bandwidth : float, optional
        B/s of a unit's network, to other units.
    source : str
        Where the figures come from.
    launch_overhead : float
        Time in s that the host adds to each launch, on top of what the roofs take.
    link_bandwidth : float, optional
        B/s that an accelerator sends to the others in its unit (one direction: NVLink, or else PCIe).

    Raises
    ------
    InputError
        If a value is outside its range; all faults at once.
    """

    name: Annotated[str, Field(min_length=1)]
    peak_flops: float | dict[str, float]
    memory_bandwidth: Positive
    memory: Positive
    price_per_hour: Positive
    max_units: Annotated[int, Field(ge=0)] | None = None
    compute_efficiency: Efficiency = 1.0
    bandwidth_efficiency: Efficiency = 1.0
    launch_floor: NonNegative = 0.0
    unit_overhead: NonNegative = 0.0
    provider: str = ""
    region: str = ""
    accelerator: str = ""
    accelerator_count: Count = 1
    spot: bool = False
    trains: bool = True
    network_bandwidth: Positive | None = None
    source: str = ""
    launch_overhead: NonNegative = 0.0
    link_bandwidth: Positive | None = None

    @field_validator("peak_flops", mode="before")
    @classmethod
    def _peaks(cls, value: object) -> float | dict[str, float]:
        if not isinstance(value, Mapping):
            return _positive_number(value)
        if not value or any(key not in PRECISIONS for key in value):
            raise ValueError(f"must be a number, or map some of {', '.join(PRECISIONS)} to numbers")
        return {key: _positive_number(peak) for key, peak in value.items()}

    def peak(self, precision: str | None = None) -> float | None:
        """Peak FLOP/s of one unit at a precision; None where it has none.

        fp16 and bf16 stand in for each other; nothing else stands in for anything. Without a precision, the
        highest peak there is.
        """
        if not isinstance(self.peak_flops, dict):
            return self.peak_flops
        if precision is None:
            return max(self.peak_flops.values())
        value = self.peak_flops.get(precision)
        return self.peak_flops.get(_STAND_IN.get(precision, "")) if value is None else value

    def ridge_point(self, precision: str | None = None) -> float:
        """Arithmetic intensity π/β in FLOP/B above which a unit is compute-bound (eq. 1).

        Raises
        ------
        InputError
            If the resource has no peak at that precision.
        """
        return self._peak_or_raise(precision) / self.memory_bandwidth

    def attainable_flops(self, intensity: float, precision: str | None = None) -> float:
        """The roofline P(I) = min(π, β·I) in FLOP/s at an intensity in FLOP/B (eq. 3).

        Source: Williams, Waterman, Patterson, CACM 52(4), 2009.
        """
        return min(self._peak_or_raise(precision), self.memory_bandwidth * intensity)

    def _peak_or_raise(self, precision: str | None) -> float:
        peak = self.peak(precision)
        if peak is None:
            known = ", ".join(self.peak_flops) if isinstance(self.peak_flops, dict) else ""
            raise InputError([Fault("", f"Resource {self.name!r}", "precision", precision, f"has peaks for {known}")])
        return peak
