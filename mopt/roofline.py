"""Launch times: the roofline of a resource, applied to a workload layer by layer (Williams et al., CACM 2009)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mopt.errors import Fault, InputError
from mopt.resource import Resource
from mopt.workload import Workload

# A time, a footprint or a packing fits its limit up to this relative error: ten launches of 0.1 s fit one second.
FITS = 1e-9


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


def launch_time(resource: Resource, workload: Workload) -> PiecewiseLinear:
    """Time in s of one launch of batch b on one unit of the resource.

    τ(b) = max(t0, h + Σ_l max(f_l·b/(η^c·π), (g·q0_l + q1_l·b)/(η^m·β))) for a unit of g accelerators that run data
    parallel, b a multiple of g: each accelerator holds all weights and takes b/g samples. The floor t0
    (`launch_floor`) and the host's overhead h (`launch_overhead`) are 0 unless measured.

    Returns
    -------
    PiecewiseLinear
        Exact and convex; one aggregate layer gives at most three pieces (floor, memory roof, compute roof).

    Raises
    ------
    InputError
        If the resource has no peak at the workload's precision.
    """
    peak = resource.peak(workload.precision)
    if peak is None:
        known = ", ".join(resource.peak_flops) if isinstance(resource.peak_flops, dict) else ""
        raise InputError(
            [Fault("", f"Workload {workload.name!r}", "precision", workload.precision,
                   f"resource {resource.name!r} has peaks for {known} only")]
        )
    flops, fixed, per_sample = _layer_arrays(workload)
    bandwidth = resource.bandwidth_efficiency * resource.memory_bandwidth
    compute = flops / (resource.compute_efficiency * peak)
    intercept = resource.accelerator_count * fixed / bandwidth
    slope = per_sample / bandwidth

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
    added = resource.launch_overhead
    lines = [(float(done[k] + rest_slope[k]), added + float(rest_intercept[k])) for k in range(moving + 1)]
    if resource.launch_floor > 0:
        lines.append((0.0, resource.launch_floor))
    return upper_envelope(lines)


def _layer_arrays(workload: Workload) -> tuple[npt.NDArray[np.float64], ...]:
    table = np.array([(layer.flops, layer.bytes_fixed, layer.bytes_per_sample) for layer in workload.layers])
    return table[:, 0], table[:, 1], table[:, 2]
