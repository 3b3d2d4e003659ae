"""Launch times: the roofline of a resource, applied to a workload layer by layer (Williams et al., CACM 2009)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mopt.communication import copies, fixed_passes, footprint_of, footprint_pieces, link_traffic
from mopt.errors import Fault, InputError
from mopt.launch_table import FITS, LaunchTable
from mopt.resource import Resource
from mopt.workload import Workload

# Values that differ by no more than this share are equal.
_EQUAL = 1e-12


@dataclass(frozen=True)
class PiecewiseLinear:
    """A convex function max_p (slope_p·b + intercept_p) of the batch b ≥ 0, slopes rising.

    Attributes
    ----------
    pieces : tuple of (slope, intercept)
        In s per sample and s; every piece is the largest somewhere on b ≥ 0.
    """

    pieces: tuple[tuple[float, float], ...]

    @cached_property
    def _lines(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Slopes and intercepts."""
        table = np.array(self.pieces)
        return table[:, 0], table[:, 1]

    def __call__(self, batch: float | npt.ArrayLike) -> float | npt.NDArray[np.float64]:
        slopes, intercepts = self._lines
        values = np.max(np.multiply.outer(np.asarray(batch, dtype=float), slopes) + intercepts, axis=-1)
        return float(values) if np.ndim(values) == 0 else values

    def at(self, batch: float) -> float:
        """The value at one batch."""
        return max([slope * batch + intercept for slope, intercept in self.pieces])

    def largest(self, limit: float) -> float:
        """The largest b with a value of at most `limit` (up to 1e-9 of it); -inf if there is none, inf if no bound."""
        allowed = limit * (1 + FITS)
        if any(slope <= 0 and intercept > allowed for slope, intercept in self.pieces):
            return -math.inf
        bounds = [(allowed - intercept) / slope for slope, intercept in self.pieces if slope > 0]
        largest = min(bounds, default=math.inf)
        return largest if largest >= 0 else -math.inf

    def never_above(self, other: PiecewiseLinear, low: float, high: float) -> bool:
        """Whether it is nowhere above another on [low, high], up to rounding."""
        if any(self.at(end) > other.at(end) * (1 + _EQUAL) for end in (low, high)):
            return False
        # Both are piecewise linear, so their difference is largest at an end or at a breakpoint of either.
        pairs = (*itertools.pairwise(self.pieces), *itertools.pairwise(other.pieces))
        breaks = [(p[1] - q[1]) / (q[0] - p[0]) for p, q in pairs]
        points = np.clip([low, *breaks, high], low, high)
        return bool(np.all(np.asarray(self(points)) <= np.asarray(other(points)) * (1 + _EQUAL)))

    def restricted(self, low: float, high: float) -> PiecewiseLinear:
        """The same function on [low, high], without the pieces that are active nowhere there."""
        slopes, intercepts = self._lines
        # Piece p is active from its crossing with p-1 to its crossing with p+1.
        crossings = (intercepts[:-1] - intercepts[1:]) / (slopes[1:] - slopes[:-1])
        start = np.concatenate([[-math.inf], crossings])
        end = np.concatenate([crossings, [math.inf]])
        keep = (end > low) & (start < high)
        if not keep.any():
            keep = np.arange(len(slopes)) == int(np.argmax(slopes * high + intercepts))
        return PiecewiseLinear(tuple(piece for piece, kept in zip(self.pieces, keep, strict=True) if kept))


def upper_envelope(lines: Iterable[tuple[float, float]]) -> PiecewiseLinear:
    """The largest of some lines (slope, intercept) on b ≥ 0, each line that is nowhere the only largest left out."""
    hull: list[tuple[float, float]] = []
    for slope, intercept in sorted(set(lines)):
        if hull and hull[-1][0] == slope:
            hull.pop()
        while hull and intercept >= hull[-1][1]:  # as steep and nowhere lower: the earlier line never shows on b ≥ 0
            hull.pop()
        while len(hull) > 1:
            (s0, i0), (s1, i1) = hull[-2], hull[-1]
            if (i0 - intercept) * (s1 - s0) > (i0 - i1) * (slope - s0):
                break
            hull.pop()
        hull.append((slope, intercept))
    return PiecewiseLinear(tuple(hull))


def launch_time(resource: Resource, workload: Workload) -> PiecewiseLinear | LaunchTable:
    """Time in s of one launch of batch b on one unit of the resource.

    τ(b) = max(t0, h + Σ_l max(f_l·b/(η^c·π), (g·q0_l + q1_l·b)/(η^m·β))) for a unit of g accelerators that run data
    parallel, b a multiple of g: each accelerator holds all weights and takes b/g samples. The floor t0
    (`launch_floor`) and the host's overhead h (`launch_overhead`) are 0 unless measured.

    Where p stages hold the model and a launch is cut into m parts, it takes as long as m + p − 1 parts at one stage;
    where t accelerators split each layer, only g/t hold all weights. What is sent over links is one more roof, overlapped
    with the others (`mopt.communication`).

    Returns
    -------
    PiecewiseLinear or LaunchTable
        Exact and convex; one aggregate layer gives at most three pieces (floor, memory roof, compute roof). A table
        where the workload has points that hold for the resource.

    Raises
    ------
    InputError
        If the resource has no peak at the workload's precision, or none of its points and no layers hold for it, or
        its accelerators can't be shared as the workload's parallelism says.
    """
    if reason := unusable(resource, workload):
        field, value = ("precision", workload.precision) if reason[0] == "precision" else ("points", resource.name)
        raise InputError(
            [Fault("", f"Workload {workload.name!r}", field, value, f"resource {resource.name!r} {reason[1]}")]
        )
    if is_tabulated(resource, workload):
        return LaunchTable.of(table_points(resource, workload))
    return _layered(resource, workload)


def unusable(resource: Resource, workload: Workload) -> tuple[str, str] | None:
    """Why no launch time can be given: what is at fault, and a sentence."""
    if resource.peak(workload.precision) is None:
        known = ", ".join(resource.peak_flops) if isinstance(resource.peak_flops, dict) else ""
        return "precision", f"has no {workload.precision} peak (has {known})"
    if not copies(resource, workload):
        how = workload.parallelism
        g = resource.accelerator_count
        return "parallelism", f"has {g} accelerator{'s' * (g != 1)}, not a multiple of {how.degree} ({how})"
    if not workload.layers and not workload.costs and not workload.measured(resource):
        return "table", "has no launch times in the table of the workload, which has no layers either"
    return None


def is_tabulated(resource: Resource, workload: Workload) -> bool:
    """Whether launch times are those of points: measured ones, or costs instead of layers."""
    return not workload.layers or bool(workload.measured(resource))


def table_points(resource: Resource, workload: Workload) -> list[tuple[int, float, float]]:
    """Of each point that holds for a unit: batch of the unit, seconds, and bytes on each accelerator."""
    R, found = copies(resource, workload), []
    degree = workload.parallelism.degree
    if measured := workload.measured(resource):
        for point in measured:
            assert point.time is not None
            # Memory that was measured is that of an accelerator, however the model was shared.
            memory = point.memory
            if memory is None:
                memory = footprint_of(resource, workload, workload.memory_of(point))
            found.append((R * point.batch, point.time, memory))
        return found
    accelerators = degree / resource.accelerator_count
    peak = resource.compute_efficiency * (resource.peak(workload.precision) or math.inf) * accelerators
    bandwidth = resource.bandwidth_efficiency * resource.memory_bandwidth * accelerators
    per_sample, gathered = link_traffic(resource, workload)
    for point in workload.costs:
        layers = itertools.zip_longest(point.flops, point.bytes, fillvalue=0.0)
        seconds = resource.launch_overhead + math.fsum(max(f / peak, q / bandwidth) for f, q in layers)
        sent = (per_sample * point.batch + gathered) / (resource.link_bandwidth or math.inf)
        memory = footprint_of(resource, workload, workload.memory_of(point))
        found.append((R * point.batch, max(seconds, resource.launch_floor, sent), memory))
    return found


def memory_by_batch(resource: Resource, workload: Workload) -> PiecewiseLinear:
    """Bytes on each accelerator, of a unit's batch, by layers."""
    R = copies(resource, workload)
    return upper_envelope((piece.per_sample / R, piece.fixed) for piece in footprint_pieces(resource, workload))


def _layered(resource: Resource, workload: Workload) -> PiecewiseLinear:
    how, R = workload.parallelism, copies(resource, workload)
    peak = resource.peak(workload.precision)
    assert peak is not None
    flops, fixed, per_sample = _layer_arrays(workload)
    bandwidth = resource.bandwidth_efficiency * resource.memory_bandwidth
    longer = how.slots / how.parts
    compute = longer * flops / (resource.compute_efficiency * peak)
    intercept = fixed_passes(workload) * R * fixed / bandwidth
    slope = longer * per_sample / bandwidth

    # A layer leaves the memory roof where the compute roof overtakes it, never if that is the flatter one.
    steeper = compute > slope
    with np.errstate(divide="ignore", invalid="ignore"):
        switch = np.where(steeper, intercept / np.where(steeper, compute - slope, 1.0), math.inf)
    order = np.argsort(switch, kind="stable")
    switch, compute, slope, intercept = switch[order], compute[order], slope[order], intercept[order]
    moving = int(np.searchsorted(switch, math.inf))
    # Sums over what is still on the memory roof are taken from the far end: nothing is left over by cancellation.
    rest_slope = np.concatenate([np.cumsum(slope[::-1])[::-1], [0.0]])
    rest_intercept = np.concatenate([np.cumsum(intercept[::-1])[::-1], [0.0]])
    done = np.concatenate([[0.0], np.cumsum(compute)])
    host = how.slots / how.pipeline
    added = host * resource.launch_overhead
    lines = [(float(done[k] + rest_slope[k]), added + float(rest_intercept[k])) for k in range(moving + 1)]
    if resource.launch_floor > 0:
        lines.append((0.0, host * resource.launch_floor))
    sample, gathered = link_traffic(resource, workload)
    if sample or gathered:
        link = resource.link_bandwidth or math.inf
        lines.append((sample / R / link, gathered / link))
    return upper_envelope(lines)


def _layer_arrays(workload: Workload) -> tuple[npt.NDArray[np.float64], ...]:
    table = np.array([(layer.flops, layer.bytes_fixed, layer.bytes_per_sample) for layer in workload.layers])
    return table[:, 0], table[:, 1], table[:, 2]
