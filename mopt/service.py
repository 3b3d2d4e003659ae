"""What one unit of a resource can do for a demand in a period: batch limit, capacity, and launches that reach it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from mopt.resource import Resource
from mopt.roofline import FITS, PiecewiseLinear, launch_time, upper_envelope
from mopt.workload import Workload

Limit = Literal["", "precision", "training", "memory", "latency", "time", "samples", "units"]


class BatchLimit(NamedTuple):
    """The largest usable batch, and what limits it.

    `batch` is 0 where there is none; `reason` then says why, and `needed` what the limit would have to be: seconds of
    a launch or of the period, bytes of an accelerator, samples (NaN where it is no number).
    """

    batch: float
    limit: Limit
    reason: str = ""
    needed: float = math.nan


def batch_limit(
    resource: Resource,
    workload: Workload,
    *,
    latency_limit: float | None = None,
    time_limit: float | None = None,
    samples: float | None = None,
) -> BatchLimit:
    """Largest batch of a unit that fits memory, latency, time and the samples there are.

    A batch is a multiple of the unit's accelerators g; each accelerator holds its own copy of the weights.

    Parameters
    ----------
    latency_limit, time_limit : float, optional
        Seconds: longest computing time of one launch, and the period, of which `unit_overhead` is lost.
    samples : float, optional
        Samples of a period; no batch is larger.
    """
    g = resource.accelerator_count
    if workload.mode == "training" and not resource.trains:
        return BatchLimit(0, "training", "does inference only")
    if resource.peak(workload.precision) is None:
        known = ", ".join(resource.peak_flops) if isinstance(resource.peak_flops, dict) else ""
        return BatchLimit(0, "precision", f"has no {workload.precision} peak (has {known})")
    memory = resource.memory / g
    footprint = upper_envelope((piece.per_sample, piece.fixed) for piece in workload.footprint_pieces)
    largest = g * footprint.largest(memory)
    if largest < g:
        need = float(workload.footprint(1))
        return BatchLimit(0, "memory", f"needs {rounded_up(need / 1e9)} GB for a batch of 1 on each accelerator, "
                                       f"has {memory / 1e9:.4g} GB", need)
    limits: list[tuple[float, Limit]] = [(largest, "memory")]
    tau = launch_time(resource, workload)
    times: tuple[tuple[float | None, float, Limit], ...] = (
        (latency_limit, 0.0, "latency"),
        (time_limit, resource.unit_overhead, "time"),
    )
    for bound, lost, name in times:
        if bound is None:
            continue
        largest = tau.largest(bound - lost) if bound > lost else -math.inf
        if largest < g:
            need = lost + tau.at(g)
            included = f" and the overhead of {lost:.4g} s" if lost else ""
            return BatchLimit(0, name, f"needs at least {rounded_up(need)} s for a launch of {g}{included}, "
                                       f"{name}_limit is {bound:.4g} s", need)
        limits.append((largest, name))
    if samples is not None:
        if samples < g:
            return BatchLimit(0, "samples", f"takes at least {g} samples a launch (one per accelerator), "
                                            f"the period has {samples:g}", g)
        limits.append((samples, "samples"))
    best, limit = min(limits, key=lambda item: item[0])
    return BatchLimit(math.inf, "") if math.isinf(best) else BatchLimit(math.floor(best / g) * g, limit)


@dataclass(frozen=True)
class Service:
    """One unit of a resource serving a demand for a period.

    Attributes
    ----------
    tau : PiecewiseLinear
        Launch time in s, of a unit's batch in samples.
    step : int
        Accelerators in the unit; batches are multiples of it.
    batch_limit : float
        b̄ in samples.
    available : float
        T − o, seconds of computing in a period.
    whole : bool
        Whether a period holds whole launches.
    max_launches : int, optional
        Launches of one unit in a period.
    """

    tau: PiecewiseLinear
    step: int
    batch_limit: float
    available: float
    whole: bool
    max_launches: int | None = None

    @cached_property
    def capacity(self) -> float:
        """W: samples the unit can do in the period.

        Whole launches: the largest Σ b_j over finite multisets of batches b_j ≤ b̄ that are multiples of `step`, with
        Σ τ(b_j) ≤ T − o. The least time of a total rises with it, so the total is found by bisection. Fractional
        launches: (T − o)·b̄/τ(b̄), not floored.
        """
        full = self.tau.at(self.batch_limit)
        if not self.whole:
            return self.available * self.batch_limit / full
        allowed = self.available * (1 + FITS)
        # Full launches that fit, and one that is not full: τ(b)/b falls with b, so nothing does more.
        most = math.floor(allowed / full) + 1
        if self.max_launches is not None:
            most = min(most, self.max_launches)
        largest = int(self.batch_limit) // self.step
        low, high = largest, most * largest  # in multiples of `step`: one launch of the largest batch fits
        while low < high:
            middle = (low + high + 1) // 2
            if self.busy(middle * self.step) <= allowed:
                low = middle
            else:
                high = middle - 1
        return float(low * self.step)

    def runs(self, samples: float) -> list[tuple[float, float]]:
        """The launches that do `samples` in the least time: batches, and how many of each.

        As τ is convex and τ(b)/b falls with b, these are the fewest launches, of even size; where launches are
        fractional, all of the largest batch.
        """
        if samples <= 0:
            return []
        if not self.whole:
            return [(self.batch_limit, samples / self.batch_limit)]
        accelerator_samples = math.ceil(samples / self.step)
        count = math.ceil(accelerator_samples * self.step / self.batch_limit)
        return [(self.step * b, times) for b, times in even(accelerator_samples, count)]

    def busy(self, samples: float) -> float:
        """Seconds of computing that `runs` takes."""
        return math.fsum(times * self.tau.at(batch) for batch, times in self.runs(samples))

    def launch_counts(self, samples: float) -> range:
        """Launches of a unit worth choosing where all run equally many: one more helps only if all are full."""
        assert self.max_launches is not None
        return range(1, min(self.max_launches, math.ceil(min(self.capacity, samples) / self.batch_limit)) + 1)


def even(total: int, parts: int) -> list[tuple[int, int]]:
    """Whole parts of a total that differ by at most one: sizes, and how many of each (none that are empty)."""
    low, extra = divmod(total, parts)
    return [(size, times) for size, times in ((low + 1, extra), (low, parts - extra)) if size and times]


def rounded_up(value: float) -> str:
    """A number to four digits that is no smaller: what a message says is needed must be enough."""
    digit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.ceil(value / digit * (1 - FITS)) * digit:.4g}"
