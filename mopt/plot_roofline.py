"""Pictures of rooflines and launch times, legible in grey at 6×4 inches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from mopt.errors import Fault, InputError
from mopt.plot import new_axes
from mopt.plot_labels import AROUND, SMALL, Label, place_labels, short_names
from mopt.resource import Resource
from mopt.roofline import launch_time
from mopt.service import batch_limit
from mopt.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Item = TypeVar("Item")
Floats = npt.NDArray[np.float64]

_LEGEND: dict[str, Any] = {
    "fontsize": SMALL, "title_fontsize": SMALL, "alignment": "left", "edgecolor": "none", "framealpha": 1.0
}  # fmt: skip
_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def plot_roofline(
    resources: Resource | Iterable[Resource],
    workloads: Workload | Iterable[Workload] = (),
    batches: Sequence[float] = (1, 8, 64),
    ax: Axes | None = None,
) -> Axes:
    """Draw the rooflines of resources, and where workloads lie under them.

    A roof is P(I) = min(π, β·I) of one unit. A marker is what a unit does with one batch, F(b)/τ(b): below the roof by
    what efficiencies, the launch floor, and layers under different roofs cost. After Williams, Waterman and Patterson,
    CACM 52(4), 2009.

    Parameters
    ----------
    resources : Resource or iterable of Resource
    workloads : Workload or iterable of Workload
        Each has a marker of its own, joined along its batches on each resource that it runs on.
    batches : sequence of float
        Samples per launch on each accelerator; those that don't fit its memory are left out.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure of 6×4 inches.

    Returns
    -------
    matplotlib Axes
        Both axes logarithmic: FLOP/B, and TFLOP/s of a unit.

    Raises
    ------
    InputError
        No resource, a batch that isn't positive, or a resource without a peak at the precision of a workload.
    """
    machines, loads = _listed(resources), _listed(workloads)
    faults = [Fault("", "plot_roofline", "batches", b, "must be a finite number greater than 0")
              for b in batches if not 0 < b < math.inf]
    if not machines:
        faults.append(Fault("", "plot_roofline", "resources", 0, "must be at least one"))
    if faults:
        raise InputError(faults)
    paths = [(k, w, r, _path(r, w, sorted(batches))) for k, w in enumerate(loads) for r in machines]
    paths = [path for path in paths if len(path[3])]
    precisions: list[str | None] = list(dict.fromkeys(w.precision for w in loads)) or [None]
    roofs = [roof for r in machines for roof in _roofs(r, precisions)]
    reached = [path[:, 1] for *_, path in paths]
    intensities = np.concatenate([[r.ridge_point(p) for r, p, _ in roofs], *reached])
    low, high = intensities.min() / 4.0, intensities.max() * 6.0
    ax = ax or new_axes()

    short = short_names([r.name for r in machines])
    labels = []
    # From the highest: of two close roofs the upper one's name goes above it, the lower one's below.
    for k, (resource, precision, name) in enumerate(sorted(roofs, key=lambda roof: -(roof[0].peak(roof[1]) or 0.0))):
        ridge = resource.ridge_point(precision)
        x = np.array([low, ridge, high])
        y = [resource.attainable_flops(value, precision) / 1e12 for value in x]
        line = _LINES[k % len(_LINES)]
        ax.plot(x, y, line, color="0.35" if k < len(_LINES) else "0.6", linewidth=1.4, zorder=2)
        labels.append(_roof_label(f"{short[resource.name]}{name}", x, y))
    for k, _, _, path in paths:
        ax.plot(path[:, 1], path[:, 2] / 1e12, _MARKERS[k % len(_MARKERS)], linestyle="-", linewidth=0.8, color="black",
                markersize=5, markerfacecolor="white" if k % 2 else "black", zorder=4)
    for k, workload in enumerate(loads):
        ax.plot([], [], _MARKERS[k % len(_MARKERS)], color="black", markersize=5,
                markerfacecolor="white" if k % 2 else "black", label=workload.name)
    # A batch has the same intensity on every resource: its number stands at the fastest alone.
    for k in range(len(loads)):
        own = [path for j, *_, path in paths if j == k]
        fastest = max(own, key=lambda path: float(path[-1, 2]), default=np.empty((0, 3)))
        labels += [Label(f"{b:g}", [((x, y / 1e12), place) for place in AROUND]) for b, x, y in fastest]
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low, high)
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top * 2.5)
    ax.set_xlabel("arithmetic intensity (FLOP/B)")
    ax.set_ylabel("performance of one unit (TFLOP/s)")
    if loads:
        title = "number: samples per accelerator"
        ax.legend(loc="upper left", title=title, **_LEGEND)
    place_labels(ax, labels, [(x, y / 1e12) for *_, path in paths for _, x, y in path])
    return ax


def _roofs(resource: Resource, precisions: Sequence[str | None]) -> list[tuple[Resource, str | None, str]]:
    """The different roofs of a resource: one precision of each, and what to add to the name."""
    by_peak: dict[float | None, list[str | None]] = {}
    for precision in precisions:
        by_peak.setdefault(resource.peak(precision), []).append(precision)
    several = len(by_peak) > 1
    return [(resource, same[0], f" {'/'.join(map(str, same))}" if several else "") for same in by_peak.values()]


def _roof_label(name: str, x: Floats, y: Sequence[float]) -> Label:
    """Above or below the flat part, at its right end first; else above the slope."""
    flat = [x[2] * (x[1] / x[2]) ** share for share in (0.0, 0.2, 0.4, 0.6)]
    places = [((at, y[2]), ((-4.0, side), "right", va)) for at in flat for side, va in ((2.0, "bottom"), (-3.0, "top"))]
    slope = [(x[0] * (x[1] / x[0]) ** share, y[0] * (y[1] / y[0]) ** share) for share in (0.85, 0.6, 0.4, 0.2)]
    places += [(at, ((-4.0, 2.0), "right", "bottom")) for at in slope]
    return Label(name, places, needed=True)


def _path(resource: Resource, workload: Workload, batches: Sequence[float]) -> Floats:
    """Of each batch per accelerator that fits: itself, intensity in FLOP/B, FLOP/s of a unit; shape (n, 3)."""
    g = resource.accelerator_count
    largest = batch_limit(resource, workload)
    if largest.limit == "precision":
        raise InputError(f"resource {resource.name!r} {largest.reason}, workload {workload.name!r} needs one")
    fits = np.array([b for b in batches if g * b <= largest.batch], dtype=float)
    tau = launch_time(resource, workload)
    speed = np.asarray(workload.flops(g * fits)) / np.asarray(tau(g * fits))
    return np.column_stack([fits, np.asarray(workload.arithmetic_intensity(fits)), speed])


def plot_launch_time(
    resource: Resource, workload: Workload, ax: Axes | None = None, latency_limit: float | None = None
) -> Axes:
    """Draw the time of one launch on one unit against its batch: τ(b), its pieces, and the batch limit.

    Parameters
    ----------
    resource : Resource
    workload : Workload
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure of 6×4 inches.
    latency_limit : float, optional
        Longest time of a launch in s.

    Returns
    -------
    matplotlib Axes
        Both axes logarithmic: samples per launch of the unit, and ms.

    Raises
    ------
    InputError
        If the resource can't run the workload at all.
    """
    limit = batch_limit(resource, workload, latency_limit=latency_limit)
    if limit.batch <= 0:
        raise InputError(f"resource {resource.name!r} can't run workload {workload.name!r}: {limit.reason}")
    tau, low = launch_time(resource, workload), float(resource.accelerator_count)
    slopes, intercepts = np.array(tau.pieces).T
    kinks = (intercepts[:-1] - intercepts[1:]) / (slopes[1:] - slopes[:-1])
    last = float(kinks[-1]) if kinks.size else low
    high = 3.0 * max(last, low) if math.isinf(limit.batch) else 2.5 * limit.batch
    x = np.geomspace(low, high, 300)
    kinks = kinks[(kinks > low) & (kinks < high)]
    ax = ax or new_axes()
    ax.plot(x, 1e3 * np.asarray(tau(x)), color="black", linewidth=2, zorder=3, label="launch time")
    shown = tau.restricted(low, high)
    ends = (shown.pieces[0], shown.pieces[-1])
    for (slope, intercept), line in zip(ends[: len(shown.pieces)], ("--", ":"), strict=False):
        ax.plot(x, 1e3 * (slope * x + intercept), line, color="0.45", linewidth=1.2, zorder=2,
                label=_equation(slope, intercept))
    if kinks.size:
        count = f"{len(kinks)} kink{'s' * (len(kinks) != 1)} between {len(shown.pieces)} pieces"
        ax.plot(kinks, 1e3 * np.asarray(tau(kinks)), "o", color="black", markerfacecolor="white", markersize=4,
                zorder=4, label=count)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low, high)
    times = 1e3 * np.array([tau.at(low), tau.at(high)])
    ax.set_ylim(times[0] / 1.6, times[1] * 1.6)
    if not math.isinf(limit.batch):
        name = f"batch limit {limit.batch:g} ({limit.limit})"
        ax.axvline(limit.batch, color="0.3", linewidth=1, zorder=1, label=name)
        ax.axvspan(limit.batch, high, color="0.9", zorder=0)
    if latency_limit is not None:
        ax.axhline(1e3 * latency_limit, color="0.3", linewidth=1, linestyle="-.", zorder=1,
                   label=f"latency limit {1e3 * latency_limit:g} ms")
    unit = "unit" if resource.accelerator_count == 1 else f"unit of {resource.accelerator_count} accelerators"
    ax.set_xlabel(f"batch (samples per launch of one {unit})")
    ax.set_ylabel("launch time (ms)")
    title = f"{workload.name} on {short_names([resource.name])[resource.name]}"
    ax.legend(loc="upper left", title=title, **_LEGEND)
    return ax


def _equation(slope: float, intercept: float) -> str:
    parts = [f"{1e3 * intercept:.3g} ms"] * (intercept > 0) + [f"{1e3 * slope:.3g} ms·b"] * (slope > 0)
    return "piece: " + " + ".join(parts)


def _listed(items: Item | Iterable[Item]) -> list[Item]:
    return list(items) if isinstance(items, Iterable) else [items]
