"""Pictures of fronts, legible in grey at 6×4 inches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axis import Axis
from matplotlib.patches import Polygon
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from mopt import geometry
from mopt.errors import Fault, InputError
from mopt.geometry import ends_of
from mopt.plot_labels import SMALL, fleet_text, legend_above, literal, short_names
from mopt.point import Point, Segment, reshape
from mopt.resource import Resource

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mopt.front import ParetoFront

Curve = npt.NDArray[np.float64]  # of shape (steps, 2)

_STYLES: tuple[tuple[str, str, str], ...] = (
    ("o", "-", "0.0"),
    ("s", "--", "0.4"),
    ("^", ":", "0.0"),
    ("D", "-.", "0.55"),
    ("v", "-", "0.7"),
    ("P", "--", "0.2"),
)
_FILLS = (("0.25", ""), ("0.85", "///"), ("0.55", ""), ("1.0", "..."), ("0.75", ""), ("0.95", "xxx"), ("0.4", "\\\\\\"))
# With more steps than this in a picture the lines between them would blacken it.
_MOST_STEPS = 60
# Numbers on a horizontal axis, at most.
_MOST_TICKS = 6


def new_axes() -> Axes:
    """Axes of a new figure of 6×4 inches."""
    return plt.subplots(figsize=(6, 4), layout="constrained")[1]


# -- One front ---------------------------------------------------------------------------------------------------------


def draw_front(front: ParetoFront, ax: Axes | None = None) -> Axes:
    """Draw a front: see `ParetoFront.plot`."""
    ax = ax or new_axes()
    curves = [_curve(piece) for piece in front.pieces]
    if curves:
        ax.plot(*_border(curves).T, color="0.5", linewidth=1, zorder=1, label="border of the dominated side")
    segments = [curve for piece, curve in zip(front.pieces, curves, strict=True) if isinstance(piece, Segment)]
    for k, curve in enumerate(segments):
        ax.plot(*curve.T, color="black", linewidth=2, zorder=2, label="segment" if k == 0 else None)
    size = 5 if len(front) <= 40 else 3
    if front.points:
        ax.plot(*front.values.T, "o", color="black", markersize=size, zorder=3, label="point of the front")
    open_ends = [end.objectives for segment in front.segments for end, closed in ends_of(segment) if not closed]
    if open_ends:
        x, y = np.array(open_ends).T
        ax.plot(x, y, "o", color="black", markerfacecolor="white", markersize=size + 1, zorder=4, label="open end")
    name_axes(front, ax)
    if front.points:
        ax.plot(*front.knee().objectives, "D", color="black", fillstyle="none", markersize=11, zorder=5, label="knee")
        lines = _label_ends(front, ax)
        _shade(front, curves, ax, room=0.12 + 0.08 * lines)
        legend_above(ax)
    return ax


def _curve(piece: Point | Segment) -> Curve:
    """Objectives along a piece, shape (steps, 2)."""
    if isinstance(piece, Point):
        return np.array([piece.objectives])
    start, end = np.array(piece.start.objectives), np.array(piece.end.objectives)
    shares = np.linspace(0.0, 1.0, 2 if piece.bend == 1.0 else 50)
    moved = np.array([(t, reshape(t, piece.bend)) for t in shares])
    curve: Curve = start + (end - start) * moved
    return curve


def _border(curves: list[Curve]) -> Curve:
    """The curves joined by steps: the second objective stays until the first reaches the next piece."""
    corners: list[Curve] = []
    for curve, following in pairwise(curves):
        corners += [curve, np.array([(following[0, 0], curve[-1, 1])])]
    return np.concatenate([*corners, curves[-1]])


def _label_ends(front: ParetoFront, ax: Axes) -> int:
    """Write the fleets at the two ends, below the first and above the last, where no point can be; the most lines."""
    most = 0
    ends = [front.points[0], front.points[-1]][: len(front)]
    plans = [end.plan for end in ends]
    short = short_names({name for plan in plans if plan is not None for name in plan.units})
    right, up = front.senses[0], -front.senses[1]
    for k, (end, plan) in enumerate(zip(ends, plans, strict=True)):
        if plan is None:
            continue
        beyond = up if k else -up
        outward = right if k == 0 else -right
        text = fleet_text(plan.units, short)
        most = max(most, 1 + text.count("\n"))
        ax.annotate(
            text, end.objectives, xytext=(-4 * outward, 12 * beyond),
            textcoords="offset points", ha="left" if outward == 1 else "right", va="bottom" if beyond == 1 else "top",
            fontsize=SMALL, linespacing=1.1, zorder=6,
        )  # fmt: skip
    return most


def _shade(front: ParetoFront, curves: list[Curve], ax: Axes, room: float) -> None:
    """Shade what no plan reaches, and hatch what is still open of it; fixes the limits of the axes."""
    before, after = _open_ends(front, curves)
    ax.update_datalim([*before, *after])
    ax.autoscale(True)
    ax.margins(x=0.06, y=room)
    ax.autoscale_view()
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    x_best, x_worst = (left, right) if front.senses[0] == 1 else (right, left)
    y_best, y_worst = (low, high) if front.senses[1] == 1 else (high, low)
    first, last = curves[0][0], curves[-1][-1]
    # From the best corner of the picture along the border. Where a search stopped, only what is better than a point
    # in both objectives is known to be out of reach.
    path = [np.array([(x_best, y_best), (x_best, y_worst), (first[0], y_worst)] if front.complete
                     else [(x_best, y_best), (x_best, first[1])])]
    unknown = [_rectangle(first, (x_best, y_worst))] if before else []
    for curve, following in pairwise(curves):
        outer = (following[0, 0], curve[-1, 1])
        inner = (curve[-1, 0], following[0, 1])
        if front.complete or _explored(front, curve[-1, 1], following[0, 1]):
            path += [curve, np.array([outer])]
        else:
            path += [curve, np.array([inner])]
            unknown.append(_rectangle(curve[-1], following[0]))
    path.append(curves[-1])
    path.append(np.array([(x_worst, last[1]), (x_worst, y_best)] if front.complete else [(last[0], y_best)]))
    unknown += [_rectangle(last, (x_worst, y_best))] if after else []
    # Added as artists: the shade must not count when limits are chosen again.
    ax.add_artist(Polygon(np.concatenate(path), facecolor="0.9", edgecolor="none", zorder=0, label="infeasible side"))
    for k, corners in enumerate(unknown):
        ax.add_artist(
            Polygon(corners, facecolor="none", edgecolor="0.6", linewidth=0, hatch="////", zorder=0,
                    label="still open" if k == 0 else None)
        )
    ax.set_xlim(left, right)
    ax.set_ylim(low, high)


def _rectangle(corner: Sequence[float], opposite: Sequence[float]) -> Curve:
    (x0, y0), (x1, y1) = corner, opposite
    return np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])


def _open_ends(front: ParetoFront, curves: list[Curve]) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """What an incomplete front leaves open before its first and after its last point: a place there, if anything."""
    (x0, y0), (x1, y1) = curves[0][0], curves[-1][-1]
    step, sense = front.senses[0] * 0.25 * (abs(x1 - x0) or abs(x1) or 1.0), front.senses[1]
    bounds = [value for pair in front.unexplored for value in pair if np.isfinite(value)]
    worse, better = [v for v in bounds if sense * v > sense * y0], [v for v in bounds if sense * v < sense * y1]
    return ([(x0 - step, max(worse, key=lambda v: sense * v))] if worse else [],
            [(x1 + step, min(better, key=lambda v: sense * v))] if better else [])  # fmt: skip


def _explored(front: ParetoFront, start: float, end: float) -> bool:
    """Whether an incomplete front says of a range of the second objective that nothing is missing in it."""
    low, high = sorted((start, end))
    return bool(front.unexplored) and all(high <= bottom or low >= top for bottom, top in front.unexplored)


def name_axes(front: ParetoFront, ax: Axes) -> None:
    """Label and number both axes with the objectives of a front."""
    _name_axis(front, 0, ax.xaxis)
    _name_axis(front, 1, ax.yaxis)


def _name_axis(front: ParetoFront, k: int, axis: Axis, bound: str = "") -> None:
    """Label an axis with objective `k`, and number it; powers of ten stand in the label."""
    name = f"{literal(front.names[k])}{bound}"
    if axis is axis.axes.xaxis:
        axis.set_major_locator(MaxNLocator(_MOST_TICKS, steps=[1, 2, 2.5, 5, 10]))
    if front.names[k] == "utilization":
        axis.set_major_formatter(PercentFormatter(1.0, symbol=""))
        axis.set_label_text(f"{name} (% of rented peak)")
        return
    largest = float(np.abs(front.values[:, k]).max(initial=0.0))
    power = 0 if largest == 0.0 or 0.01 <= largest < 1e5 else 3 * math.floor(math.log10(largest) / 3)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 10.0**power:.10g}"))
    factor = f"$10^{{{power}}}$" if power else ""
    if front.names[k] == "cost" and front.time_limit is not None:
        unit = f"{factor} \\$".strip()
        axis.set_label_text(f"{name} ({unit} per period of {front.time_limit:g} s)")
    else:
        sense = "minimised" if front.senses[k] == 1 else "maximised"
        axis.set_label_text(f"{name} ({f'{factor}, ' if factor else ''}{sense})")


# -- Fleets along a front ----------------------------------------------------------------------------------------------


def draw_fleets(
    front: ParetoFront,
    ax: Axes | None = None,
    by: Literal["units", "cost"] = "units",
    resources: Iterable[Resource] | None = None,
) -> Axes:
    """Draw the fleets along a front: see `ParetoFront.plot_fleets`."""
    if by not in ("units", "cost"):
        raise InputError([Fault("", "plot_fleets", "by", by, "must be 'units' or 'cost'")])
    if not front.points or front.points[0].plan is None:
        raise InputError([Fault("", "front", "points", len(front), "must be points with plans")])
    prices = _prices(front, resources) if by == "cost" else {}
    x, stacks = _stacks(front, prices, by)
    ax = ax or new_axes()
    # The types that take most of the picture have a band of their own.
    order = sorted(stacks, key=lambda name: -float(np.trapezoid(stacks[name], x)))
    bands = order if len(order) <= len(_FILLS) else order[: len(_FILLS) - 1]
    short = short_names(stacks)
    names = [short[name] for name in bands]
    heights = [stacks[name] for name in bands]
    if len(bands) < len(order):
        names.append(f"{len(order) - len(bands)} others")
        heights.append(np.sum([stacks[name] for name in order[len(bands) :]], axis=0))
    bottom = np.zeros_like(x)
    for name, height, (colour, hatch) in zip(names, heights, _FILLS, strict=False):
        ax.fill_between(x, bottom, bottom + height, facecolor=colour, hatch=hatch, edgecolor="black",
                        linewidth=0.4 if len(front) <= _MOST_STEPS else 0.0, label=name)
        bottom = bottom + height
    ax.set_xlim(*((x[0], x[-1]) if x[0] < x[-1] else (x[-1], x[0])))
    ax.set_ylim(0, 1.05 * float(bottom.max()))
    _name_axis(front, 1, ax.xaxis, " of at most" if front.senses[1] == 1 else " of at least")
    if by == "cost":
        _name_axis(front, 0, ax.yaxis)
    else:
        ax.set_ylabel("units rented")
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    handles, texts = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], texts[::-1], frameon=False, fontsize=SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _stacks(
    front: ParetoFront, prices: dict[str, float], by: Literal["units", "cost"]
) -> tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[np.float64]]]:
    """Values of the second objective, and of each resource its height there: those of the best plan that reaches it."""
    ideal, nadir = geometry.box(front.pieces, front.senses)
    sense = front.senses[1]
    # The first plan is the best for any value up to its own: show a little of that.
    reached = sense * nadir[1] + sense * 0.05 * ((nadir[1] - ideal[1]) or abs(nadir[1]) or 1.0)
    x: list[float] = []
    rows: list[dict[str, float]] = []
    for plans in _runs(front):
        values = [point.objectives[1] for point in plans]
        if len(plans) == 1 or values[0] != reached:
            x.append(reached)
            rows.append(_heights(plans[0], prices, by))
        x += values
        rows += [_heights(point, prices, by) for point in plans]
        reached = values[-1]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return np.array(x), {name: np.array([row.get(name, 0.0) for row in rows]) for name in names}


def _runs(front: ParetoFront) -> Iterator[tuple[Point, ...]]:
    """The points in order, those along one segment together."""
    for piece in front.pieces:
        if isinstance(piece, Point):
            yield (piece,)
        else:
            yield tuple(piece.at(float(share)) for share in np.linspace(0.0, 1.0, 33))


def _heights(point: Point, prices: dict[str, float], by: Literal["units", "cost"]) -> dict[str, float]:
    plan = point.plan
    if plan is None:
        return {}
    if by == "units":
        return {name: float(number) for name, number in plan.units.items()}
    return {name: prices[name] / 3600.0 * seconds for name, seconds in plan.billed.items()}


def _prices(front: ParetoFront, resources: Iterable[Resource] | None) -> dict[str, float]:
    """$/h by name, of the resources given or those of the problem that the front was solved for."""
    problem = front._problem()
    known_resources = resources or (problem.resources if problem is not None else ())
    known = {resource.name: resource.price_per_hour for resource in known_resources}
    used = {name for point in front if point.plan is not None for name in point.plan.billed}
    if missing := used - known.keys():
        allowed = f"give the resources of the front, {', '.join(sorted(missing))} missing"
        raise InputError([Fault("", "plot_fleets", "resources", len(known), allowed)])
    return known


# -- Several fronts ----------------------------------------------------------------------------------------------------


def compare(fronts: Sequence[ParetoFront], labels: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw several fronts of the same objectives together.

    Each has a marker and a line of its own; the line borders what the front dominates, thick along segments.

    Parameters
    ----------
    fronts : sequence of ParetoFront
    labels : sequence of str
        One a front, for the legend.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure of 6×4 inches.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        No fronts or too many, not one label each, or fronts of other objectives or periods than the first.
    """
    if not 1 <= len(fronts) <= len(_STYLES):
        raise InputError([Fault("", "compare", "fronts", len(fronts), f"must be 1 to {len(_STYLES)} fronts")])
    faults = []
    if len(labels) != len(fronts):
        faults.append(Fault("", "compare", "labels", len(labels), f"must be {len(fronts)}, one a front"))
    same = ("names", "senses", "time_limit")
    faults += [
        Fault("", f"front {k}", field, getattr(front, field), f"must be {getattr(fronts[0], field)!r} as in front 0")
        for k, front in enumerate(fronts) for field in same if getattr(front, field) != getattr(fronts[0], field)
    ]  # fmt: skip
    if faults:
        raise InputError(faults)
    ax = ax or new_axes()
    for k, (front, label, (marker, line, colour)) in enumerate(zip(fronts, labels, _STYLES, strict=False)):
        curves = [_curve(piece) for piece in front.pieces]
        if not curves:
            continue
        ax.plot(*_border(curves).T, linestyle=line, linewidth=1, color=colour, zorder=2 + k)
        for piece, curve in zip(front.pieces, curves, strict=True):
            if isinstance(piece, Segment):
                ax.plot(*curve.T, linestyle="-", linewidth=2.5, color=colour, zorder=2 + k)
        size = 5 if len(front) <= 40 else 3
        ax.plot(*front.values.T, marker, color=colour, markersize=size, zorder=2 + k)
        ax.plot([], [], marker=marker, linestyle=line, color=colour, markersize=5, linewidth=1, label=literal(label))
    name_axes(fronts[0], ax)
    legend_above(ax)
    return ax
