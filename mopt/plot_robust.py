"""The picture of a robust front."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.ticker import PercentFormatter

from mopt.plot import name_axes, new_axes
from mopt.plot_labels import legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mopt.robust import RobustFront


def draw_robust(robust: RobustFront, ax: Axes | None = None) -> Axes:
    """Draw nominal plans with the ranges of their costs: see `RobustFront.plot`."""
    ax = ax or new_axes()
    frame = robust.to_frame()
    shades = ScalarMappable(cmap="Greys")
    shades.set_clim(0.0, 1.0)
    known = frame["feasible"] > 0
    some = frame[known]
    ax.hlines(
        some["utilization"], some["cost_low"], some["cost_high"], color="0.6", linewidth=2, zorder=1,
        label=f"cost in {robust.scenarios} scenarios",
    )  # fmt: skip
    colors = shades.to_rgba(np.asarray(frame["nondominated"]))
    ax.scatter(frame["cost"], frame["utilization"], c=colors, edgecolors="black", s=36, zorder=2, label="nominal plan")
    if not known.all():
        never = frame[~known]
        ax.plot(never["cost"], never["utilization"], "kx", markersize=8, zorder=3, label="never feasible")
    ax.figure.colorbar(shades, ax=ax, format=PercentFormatter(1.0), label="scenarios in which it is nondominated")
    name_axes(robust.nominal, ax)
    legend_above(ax)
    return ax
