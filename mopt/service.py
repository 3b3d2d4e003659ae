"""What one unit of a resource can do for a demand in a period: batch limit, capacity, and launches that reach it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, cast

from mopt.communication import copies, missing_bandwidth
from mopt.launch_table import FITS, LaunchTable
from mopt.resource import Resource
from mopt.roofline import PiecewiseLinear, is_tabulated, launch_time, memory_by_batch, table_points, unusable
from mopt.table_service import Corner, Mode, TableService
from mopt.workload import Workload

Limit = Literal[
    "", "precision", "training", "parallelism", "link", "table", "memory", "latency", "time", "samples", "units"
]


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

    A batch is a multiple of the unit's accelerators g, each of which holds its own copy of the weights; with a
    parallelism, of the copies and of the parts of a launch. Where launch times are those of points, it is one of these,
    and samples don't limit it: launches may be padded.

    Parameters
    ----------
    latency_limit, time_limit : float, optional
        Seconds: longest computing time of one launch, and the period, of which `unit_overhead` is lost.
    samples : float, optional
        Samples of a period; no batch is larger.
    """
    if workload.mode == "training" and not resource.trains:
        return BatchLimit(0, "training", "does inference only")
    if fault := unusable(resource, workload):
        return BatchLimit(0, cast("Limit", fault[0]), fault[1])
    if missing := missing_bandwidth(resource, workload, exchange=False):
        return BatchLimit(0, "link", missing)
    step = step_of(resource, workload)
    memory = resource.memory / resource.accelerator_count
    tau = usable_times(resource, workload)
    if isinstance(tau, LaunchTable):
        need = min(held for _, _, held in table_points(resource, workload))
        largest: float = tau.batches[-1] if tau.batches else 0
    else:
        footprint = memory_by_batch(resource, workload)
        need = footprint.at(step)
        largest = footprint.largest(memory)
    if largest < step:
        samples_each = step // copies(resource, workload)
        what = f"a batch of {samples_each} on each accelerator" if workload.parallelism.degree == 1 else (
            f"a batch of {samples_each} on each {workload.parallelism.degree} accelerators")
        return BatchLimit(0, "memory", f"needs {rounded_up(need / 1e9)} GB for {what}, has {memory / 1e9:.4g} GB: "
                                       f"{math.ceil(need - memory):,} B are missing", need)
    limits: list[tuple[float, Limit]] = [(largest, "memory")]
    if isinstance(tau, LaunchTable) and largest == max(b for b, _, _ in table_points(resource, workload)):
        limits = [(largest, "table")]
    times: tuple[tuple[float | None, float, Limit], ...] = (
        (latency_limit, 0.0, "latency"),
        (time_limit, resource.unit_overhead, "time"),
    )
    for bound, lost, name in times:
        if bound is None:
            continue
        largest = tau.largest(bound - lost) if bound > lost else -math.inf
        if largest < step:
            need = lost + tau.at(step)
            included = f" and the overhead of {lost:.4g} s" if lost else ""
            return BatchLimit(0, name, f"needs at least {rounded_up(need)} s for a launch of {step}{included}, "
                                       f"{name}_limit is {bound:.4g} s", need)
        limits.append((largest, name))
    if samples is not None:
        if samples < step:
            each = "one per accelerator" if step == resource.accelerator_count else str(workload.parallelism)
            return BatchLimit(0, "samples", f"takes at least {step} samples a launch ({each}), "
                                            f"the period has {samples:g}", step)
        if not isinstance(tau, LaunchTable):
            limits.append((samples, "samples"))
    best, limit = min(limits, key=lambda item: item[0])
    return BatchLimit(math.inf, "") if math.isinf(best) else BatchLimit(math.floor(best / step) * step, limit)


def step_of(resource: Resource, workload: Workload) -> int:
    """What a unit's batches are multiples of: copies of the model, times the parts of a launch."""
    parts = 1 if is_tabulated(resource, workload) else workload.parallelism.parts
    return copies(resource, workload) * parts


def usable_times(resource: Resource, workload: Workload) -> PiecewiseLinear | LaunchTable:
    """Launch times; of a table, the points that fit the memory."""
    if not is_tabulated(resource, workload):
        return launch_time(resource, workload)
    room = resource.memory / resource.accelerator_count * (1 + FITS)
    return LaunchTable.of(point for point in table_points(resource, workload) if point[2] <= room)


def service_of(
    resource: Resource, workload: Workload, batch: float, time_limit: float, *, whole: bool, max_launches: int | None
) -> Service | TableService:
    """What a unit with batches of at most `batch` can do in a period."""
    step, tau, lost = step_of(resource, workload), usable_times(resource, workload), resource.unit_overhead
    if isinstance(tau, LaunchTable):
        return TableService(tau.upto(batch), step, batch, time_limit - lost, whole, max_launches, lost)
    memory = memory_by_batch(resource, workload)
    return Service(tau, step, batch, time_limit - lost, whole, max_launches, lost, memory)


@dataclass(frozen=True)
class Service:
    """One unit of a resource serving a demand for a period.

    Attributes
    ----------
    tau : PiecewiseLinear
        Launch time in s, of a unit's batch in samples.
    step : int
        Copies of the model in the unit, times the parts of a launch: batches are multiples of it.
    batch_limit : float
        b̄ in samples.
    available : float
        T − o, seconds of computing in a period.
    whole : bool
        Whether a period holds whole launches.
    max_launches : int, optional
        Launches of one unit in a period.
    overhead : float
        o, seconds of a period that the unit loses.
    footprint : PiecewiseLinear, optional
        Bytes on each accelerator, of a unit's batch.
    """

    tau: PiecewiseLinear
    step: int
    batch_limit: float
    available: float
    whole: bool
    max_launches: int | None = None
    overhead: float = 0.0
    footprint: PiecewiseLinear | None = None

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

    @property
    def tabulated(self) -> bool:
        """Whether launch times are those of a table."""
        return False

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

    def modes(self, samples: float) -> list[Mode]:
        """Those launch counts, with what a unit does by them: batches are even, and so may be fractions."""
        return [
            Mode(
                count,
                (most := min(count * self.batch_limit, self.capacity)),
                tuple((slope, count * start) for slope, start in self.tau.restricted(0.0, most / count).pieces),
            )
            for count in self.launch_counts(samples)
        ]

    def corners(self) -> list[Corner]:
        """The launches to mix: any of batches between one sample and b̄ are, on average, mixtures of these two."""
        pieces = self.tau.restricted(1, self.batch_limit).pieces
        return [
            Corner(1 / batch, tuple(slope + intercept / batch for slope, intercept in pieces))
            for batch in sorted({1.0, self.batch_limit})
        ]

    def memory_at(self, batch: float) -> float:
        """Bytes on each accelerator at a batch of the unit."""
        assert self.footprint is not None
        return self.footprint.at(batch)

    def replaces(self, other: object) -> bool:
        """Whether it does whatever another service does, no slower launch by launch."""
        if not isinstance(other, Service):
            return False
        low = 0.0 if other.whole else float(other.step)
        return self.tau.never_above(other.tau, low, other.batch_limit)


UnitService = Service | TableService


def even(total: int, parts: int) -> list[tuple[int, int]]:
    """Whole parts of a total that differ by at most one: sizes, and how many of each (none that are empty)."""
    low, extra = divmod(total, parts)
    return [(size, times) for size, times in ((low + 1, extra), (low, parts - extra)) if size and times]


def rounded_up(value: float) -> str:
    """A number to four digits that is no smaller: what a message says is needed must be enough."""
    digit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.ceil(value / digit * (1 - FITS)) * digit:.4g}"
