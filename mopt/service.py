"""What one unit of a resource can do for a demand in a period: batch limit, capacity, and the launches that reach it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mopt.resource import Resource
from mopt.roofline import FITS, PiecewiseLinear, launch_time
from mopt.workload import Workload

Limit = Literal["", "precision", "training", "memory", "latency", "time", "samples"]


class BatchLimit(NamedTuple):
    """The largest usable batch, and what limits it.

    `batch` is 0 where there is none; `reason` then says why, and `needed` what the limit would have to be (in the
    limit's own unit, NaN where that is no number).
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
    available_time: float | None = None,
    samples: float | None = None,
) -> BatchLimit:
    """Largest batch of a unit that fits memory, latency, time and the samples there are.

    A batch is a multiple of the unit's accelerators g; each accelerator holds its own copy of the weights.

    Parameters
    ----------
    latency_limit, available_time : float, optional
        Longest computing time of one launch in s: a limit of the demand, and what the period leaves (T − o).
    samples : float, optional
        Samples of a period; no batch is larger.
    """
    g = resource.accelerator_count
    if workload.mode == "training" and not resource.trains:
        return BatchLimit(0, "training", "does inference only")
    if resource.peak(workload.precision) is None:
        known = ", ".join(resource.peak_flops) if isinstance(resource.peak_flops, dict) else ""
        return BatchLimit(0, "precision", f"has no {workload.precision} peak (has {known})")
    tau = launch_time(resource, workload)
    memory = resource.memory / g
    best, limit = math.inf, ""
    for piece in workload.footprint_pieces:
        room = memory * (1 + FITS) - piece.fixed
        accelerator_batch = math.inf if piece.per_sample == 0 else room / piece.per_sample
        if room < 0:
            accelerator_batch = -math.inf
        if accelerator_batch * g < best:
            best, limit = accelerator_batch * g, "memory"
    if best < g:
        need = float(workload.footprint(1))
        return BatchLimit(0, "memory", f"needs {need / 1e9:.4g} GB for a batch of 1 on each accelerator, "
                                       f"has {memory / 1e9:.4g} GB", need)
    shortest = tau.at(g)
    for bound, name, text in ((latency_limit, "latency", "latency_limit is"), (available_time, "time", "it has")):
        if bound is None:
            continue
        fitting = tau.largest(bound) if bound > 0 else -math.inf
        if fitting * (1 + FITS) < g:
            return BatchLimit(0, name, f"needs at least {shortest:.4g} s for a launch of {g}, {text} {bound:.4g} s",
                              shortest)
        if fitting < best:
            best, limit = fitting, name
    if samples is not None and samples < best:
        best, limit = samples, "samples"
        if best < g:
            return BatchLimit(0, "samples", f"a launch takes at least {g} samples (one per accelerator), "
                                            f"the period has {samples:g}", g)
    if math.isinf(best):
        return BatchLimit(math.inf, "")
    return BatchLimit(math.floor(best * (1 + FITS) / g) * g, limit)  # type: ignore[arg-type]


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
        b̄ in samples; inf if nothing limits the batch.
    available : float
        T − o, seconds of computing in a period.
    capacity : float
        W: samples a unit can do in a period.
    whole : bool
        Whether a period holds whole launches.
    max_launches : int, optional
        Launches of one unit in a period.
    """

    tau: PiecewiseLinear
    step: int
    batch_limit: float
    available: float
    capacity: float
    whole: bool
    max_launches: int | None

    def batches(self, samples: float, launches: int | None = None) -> list[int]:
        """Whole launches of even size that do `samples` in the least time (fewest launches, unless their number is given)."""
        accelerator_samples = math.ceil(samples * (1 - FITS) / self.step)
        if accelerator_samples <= 0:
            return []
        count = launches or math.ceil(accelerator_samples * self.step / self.batch_limit)
        low, extra = divmod(accelerator_samples, count)
        return [self.step * (low + (position < extra)) for position in range(count) if low or position < extra]

    def busy(self, samples: float, launches: int | None = None) -> float:
        """Seconds of computing that `batches` takes."""
        return math.fsum(self.tau.at(batch) for batch in self.batches(samples, launches))


def unit_capacity(
    tau: PiecewiseLinear, step: int, limit: float, available: float, *, whole: bool, max_launches: int | None = None
) -> float:
    """W: samples one unit can do in `available` seconds.

    Whole launches: the largest Σ b_j over finite multisets of batches that are multiples of `step`, at most `limit`
    each, with Σ τ(b_j) ≤ available. As τ is convex with nonnegative intercepts, the best multiset of given total has
    the fewest launches that `limit` allows, of even size; so the total is found by bisection. Fractional launches:
    available·sup b/τ(b), not floored.
    """
    if available <= 0:
        return 0.0
    if not whole:
        steepest = tau.pieces[-1][0]
        if math.isinf(limit):
            return available / steepest if steepest > 0 else math.inf
        return available * limit / tau.at(limit)
    service = Service(tau, step, limit, available, 0.0, True, max_launches)
    allowed = available * (1 + FITS)
    low = int(limit) // step  # in multiples of `step`: one launch of the largest batch fits
    most = math.floor(allowed / tau.at(limit)) + 1  # full launches that fit, and one that is not full
    if max_launches is not None:
        most = min(most, max_launches)
    high = most * low
    while low < high:
        middle = (low + high + 1) // 2
        if service.busy(middle * step) <= allowed:
            low = middle
        else:
            high = middle - 1
    return float(low * step)
