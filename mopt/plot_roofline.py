"""Pictures of rooflines and launch times, legible in grey at 6×4 inches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from mopt.errors import Fault, InputError
from mopt.launch_table import LaunchTable
from mopt.plot import new_axes
from mopt.plot_labels import (
    Label,
    legend_above,
    literal,
    name_on_the_right,
    place_labels,
    plain_decades,
    short_names,
)
from mopt.resource import PRECISIONS, Resource
from mopt.roofline import PiecewiseLinear, launch_time
from mopt.service import batch_limit, step_of, usable_times
from mopt.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Item = TypeVar("Item")
Floats = npt.NDArray[np.float64]

_LINES = ("-", "--", "-.", ":")
_GREYS = ("0.3", "0.65", "0.0")
_PIECES = ("--", ":", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def plot_roofline(
    resources: Resource | Iterable[Resource],
    workloads: Workload | Iterable[Workload] = (),
    batches: Sequence[float] = (1, 8, 64),
    ax: Axes | None = None,
    precision: str | None = None,
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
        Where to draw; by default a new figure of 6×4 inches. Names stand right of it: a figure of your own needs room
        there, or a layout that makes it ("constrained").
    precision : str, optional
        Of the roofs where no workload says it; by default each has its highest peak.

    Returns
    -------
    matplotlib Axes
        Both axes logarithmic: FLOP/B, and TFLOP/s of a unit.

    Raises
    ------
    InputError
        No resource, no batch or one that isn't positive, or a resource without a peak at the precision of a workload.
    """
    machines, loads = _listed(resources), _listed(workloads)
    faults = [*_unlike("resources", machines, Resource), *_unlike("workloads", loads, Workload)]
    faults += [Fault("", "plot_roofline", "batches", b, "must be a finite number greater than 0")
               for b in batches if not _positive(b)]
    if not len(batches):
        faults.append(Fault("", "plot_roofline", "batches", 0, "must be at least one"))
    if not machines:
        faults.insert(0, Fault("", "plot_roofline", "resources", 0, "must be at least one"))
    if precision is not None and precision not in PRECISIONS:
        faults.append(Fault("", "plot_roofline", "precision", precision, f"must be one of {', '.join(PRECISIONS)}"))
    if faults:
        raise InputError(faults)
    paths = [(k, w, r, _path(r, w, sorted(batches))) for k, w in enumerate(loads) for r in machines]
    paths = [path for path in paths if len(path[3])]
    precisions: list[str | None] = list(dict.fromkeys(w.precision for w in loads)) or [precision]
    roofs = [roof for r in machines for roof in _roofs(r, precisions)]
    reached = [path[:, 1] for *_, path in paths]
    intensities = np.concatenate([[r.ridge_point(p) for r, p, _ in roofs], *reached])
    low, high = intensities.min() / 4.0, intensities.max() * 6.0
    ax = ax or new_axes()

    ax.set_xscale("log")
    ax.set_yscale("log")
    short = short_names([r.name for r in machines])
    names, heights, styles = [], [], []
    for k, (resource, precision, name) in enumerate(roofs):
        x = np.array([low, resource.ridge_point(precision), high])
        y = [resource.attainable_flops(value, precision) / 1e12 for value in x]
        style: dict[str, Any] = {"linestyle": _LINES[k % len(_LINES)], "color": _GREYS[k // len(_LINES) % len(_GREYS)]}
        ax.plot(x, y, linewidth=1.4, zorder=2, **style)
        names.append(f"{short[resource.name]}{name}")
        heights.append(y[-1])
        styles.append(style | {"linewidth": 1.0})
    for k, _, _, path in paths:
        ax.plot(path[:, 1], path[:, 2] / 1e12, _MARKERS[k % len(_MARKERS)], linestyle="-", linewidth=0.8, color="black",
                markersize=5, markerfacecolor="white" if k % 2 else "black", zorder=4)
    for k, workload in enumerate(loads):
        ax.plot([], [], _MARKERS[k % len(_MARKERS)], linestyle="none", color="black", markersize=5,
                markerfacecolor="white" if k % 2 else "black", label=literal(workload.name))
    ax.set_xlim(low, high)
    plain_decades(ax.xaxis)
    plain_decades(ax.yaxis)
    ax.set_xlabel("arithmetic intensity (FLOP/B)")
    ax.set_ylabel("performance of one unit (TFLOP/s)")
    if loads:
        legend_above(ax, title="number: samples per accelerator")
    name_on_the_right(ax, names, heights, styles)
    place_labels(ax, list(_numbers(paths)), [(x, y / 1e12) for *_, path in paths for _, x, y in path])
    return ax


def _numbers(paths: Sequence[tuple[int, Workload, Resource, Floats]]) -> Iterator[Label]:
    """The batches of each workload: at its fastest resource if there is room, else at another."""
    for workload in dict.fromkeys(k for k, *_ in paths):
        own = sorted((path for k, *_, path in paths if k == workload), key=lambda path: -float(path[-1, 2]))
        for batch in dict.fromkeys(float(b) for path in own for b in path[:, 0]):
            yield Label(f"{batch:g}", [(x, y / 1e12) for path in own for b, x, y in path if b == batch])


def _roofs(resource: Resource, precisions: Sequence[str | None]) -> list[tuple[Resource, str | None, str]]:
    """The different roofs of a resource: one precision of each, and what to add to the name."""
    by_peak: dict[float | None, list[str | None]] = {}
    for precision in precisions:
        by_peak.setdefault(resource.peak(precision), []).append(precision)
    several = len(by_peak) > 1
    return [(resource, same[0], f" {'/'.join(map(str, same))}" if several else "") for same in by_peak.values()]


def _path(resource: Resource, workload: Workload, batches: Sequence[float]) -> Floats:
    """Of each batch per accelerator that fits: itself, intensity in FLOP/B, FLOP/s of a unit; shape (n, 3)."""
    g = resource.accelerator_count
    largest = batch_limit(resource, workload)
    if largest.limit == "precision":
        raise InputError(f"resource {resource.name!r} {largest.reason}, workload {workload.name!r} needs one")
    fits = np.array([b for b in batches if g * b <= largest.batch], dtype=float)
    if not fits.size:
        return np.empty((0, 3))
    speed = np.asarray(workload.flops(g * fits)) / np.asarray(launch_time(resource, workload)(g * fits))
    held = g * fits / step_of(resource, workload)
    return np.column_stack([fits, np.asarray(workload.arithmetic_intensity(held)), speed])


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
        If the resource can't run the workload at all, or for a latency limit that isn't positive.
    """
    if latency_limit is not None and not _positive(latency_limit):
        allowed = "must be a finite number greater than 0"
        raise InputError([Fault("", "plot_launch_time", "latency_limit", latency_limit, allowed)])
    limit = batch_limit(resource, workload, latency_limit=latency_limit)
    if limit.batch <= 0:
        raise InputError(f"resource {resource.name!r} can't run workload {workload.name!r}: {limit.reason}")
    tau, low = usable_times(resource, workload), float(step_of(resource, workload))
    ax = ax or new_axes()
    if isinstance(tau, LaunchTable):
        high, longest = 2.5 * limit.batch, tau.times[-1]
        _draw_table(ax, tau)
    else:
        high = _draw_pieces(ax, tau, low, limit.batch)
        longest = tau.at(high)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low / 1.2 if isinstance(tau, LaunchTable) else low, high)
    times = 1e3 * np.array([tau.at(low), longest, latency_limit or 0.0])
    ax.set_ylim(times[0] / 1.6, times.max() * 1.6)
    plain_decades(ax.xaxis)
    plain_decades(ax.yaxis)
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
    title = f"{literal(workload.name)} on {short_names([resource.name])[resource.name]}"
    legend_above(ax, title=title)
    return ax


def _draw_table(ax: Axes, tau: LaunchTable) -> None:
    """The points, and the steps by which launches of fewer samples are padded."""
    ax.step(tau.batches, 1e3 * np.array(tau.times), where="pre", color="black", linewidth=1, zorder=3)
    ax.plot(tau.batches, 1e3 * np.array(tau.times), "o", color="black", markersize=4, zorder=4,
            label=f"{len(tau.batches)} operating point{'s' * (len(tau.batches) != 1)}")


def _draw_pieces(ax: Axes, tau: PiecewiseLinear, low: float, largest: float) -> float:
    """The launch time and its pieces, and the end of the axis."""
    slopes, intercepts = np.array(tau.pieces).T
    kinks = (intercepts[:-1] - intercepts[1:]) / (slopes[1:] - slopes[:-1])
    last = float(kinks[-1]) if kinks.size else low
    high = 3.0 * max(last, low) if math.isinf(largest) else 2.5 * largest
    x = np.geomspace(low, high, 300)
    kinks = kinks[(kinks > low) & (kinks < high)]
    ax.plot(x, 1e3 * np.asarray(tau(x)), color="black", linewidth=2, zorder=3, label="launch time")
    shown = tau.restricted(low, high)
    # Of many pieces only the first and the last: the kinks tell where the others are.
    drawn = shown.pieces if len(shown.pieces) <= len(_PIECES) else (shown.pieces[0], shown.pieces[-1])
    for (slope, intercept), line in zip(drawn, _PIECES, strict=False):
        ax.plot(x, 1e3 * (slope * x + intercept), line, color="0.45", linewidth=1.2, zorder=2,
                label=_equation(slope, intercept))
    if kinks.size:
        count = f"{len(kinks)} kink{'s' * (len(kinks) != 1)} between {len(shown.pieces)} pieces"
        ax.plot(kinks, 1e3 * np.asarray(tau(kinks)), "o", color="black", markerfacecolor="white", markersize=4,
                zorder=4, label=count)
    return high


def _equation(slope: float, intercept: float) -> str:
    parts = [f"{1e3 * intercept:.3g} ms"] * (intercept > 0) + [f"{1e3 * slope:.3g} ms·b"] * (slope > 0)
    return "piece: " + " + ".join(parts)


def _listed(items: Item | Iterable[Item]) -> list[Item]:
    return list(items) if isinstance(items, Iterable) and not isinstance(items, str) else [items]


def _unlike(field: str, items: Sequence[object], kind: type) -> Iterator[Fault]:
    for item in items:
        if not isinstance(item, kind):
            yield Fault("", "plot_roofline", field, item, f"must be a {kind.__name__}")


def _positive(value: object) -> bool:
    return isinstance(value, Real) and 0 < float(value) < math.inf
