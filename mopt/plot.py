"""Pictures of fronts."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.ticker import PercentFormatter

from mopt.geometry import ends_of
from mopt.point import Point, Segment, reshape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mopt.front import ParetoFront


def draw_front(front: ParetoFront, ax: Axes | None = None) -> Axes:
    """Draw points, segments, the border of what they dominate, and the knee; legible in grey at 6×4 inches."""
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    curves = [_curve(piece) for piece in front.pieces]
    if curves:
        x, y = _border(curves)
        ax.plot(x, y, color="0.65", linewidth=1, zorder=1, label="border of the dominated side")
    segments = [(piece, curve) for piece, curve in zip(front.pieces, curves, strict=True) if isinstance(piece, Segment)]
    for k, (_, curve) in enumerate(segments):
        ax.plot(*curve.T, color="black", linewidth=2, zorder=2, label="segment" if k == 0 else None)
    size = 5 if len(front) <= 40 else 3
    if front.points:
        ax.plot(*front.values.T, "o", color="black", markersize=size, zorder=3, label="point of the front")
    open_ends = [end.objectives for segment in front.segments for end, closed in ends_of(segment) if not closed]
    if open_ends:
        x, y = np.array(open_ends).T
        ax.plot(x, y, "o", color="black", markerfacecolor="white", markersize=size + 1, zorder=4, label="open end")
    if front.points:
        ax.plot(*front.knee().objectives, "D", color="black", fillstyle="none", markersize=12, zorder=5, label="knee")
        ax.legend(frameon=False, fontsize="small")
    ax.set_xlabel(_label(front, 0))
    ax.set_ylabel(_label(front, 1))
    for axis, name in zip((ax.xaxis, ax.yaxis), front.names, strict=True):
        if name == "utilization":
            axis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    return ax


def _curve(piece: Point | Segment) -> npt.NDArray[np.float64]:
    """Objectives along a piece, shape (steps, 2)."""
    if isinstance(piece, Point):
        return np.array([piece.objectives])
    start, end = np.array(piece.start.objectives), np.array(piece.end.objectives)
    shares = np.linspace(0.0, 1.0, 2 if piece.bend == 1.0 else 50)
    moved = np.array([(t, reshape(t, piece.bend)) for t in shares])
    curve: npt.NDArray[np.float64] = start + (end - start) * moved
    return curve


def _border(curves: list[npt.NDArray[np.float64]]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The curves joined by steps: the second objective stays until the first reaches the next piece."""
    corners = []
    for curve, following in pairwise(curves):
        corners += [curve, [(following[0, 0], curve[-1, 1])]]
    path = np.concatenate([*corners, curves[-1]])
    return path[:, 0], path[:, 1]


def _label(front: ParetoFront, k: int) -> str:
    name = front.names[k]
    if name == "cost" and front.time_limit is not None:
        return f"cost (\\$ per period of {front.time_limit:g} s)"
    if name == "utilization":
        return "utilization (% of rented peak)"
    return f"{name} ({'minimised' if front.senses[k] == 1 else 'maximised'})"
