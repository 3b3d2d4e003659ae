"""Text on pictures: names without what they share, and labels that don't overlap."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from matplotlib.transforms import Bbox

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase

SMALL = "small"
# Room around a label in pixels.
_PAD = 1.0
# A fleet's label has at most this many lines.
_MOST_LINES = 3

# Where a label may go: offset in points, horizontal and vertical alignment.
Place = tuple[tuple[float, float], str, str]
AROUND: tuple[Place, ...] = (
    ((0, 6), "center", "bottom"),
    ((0, -6), "center", "top"),
    ((7, 0), "left", "center"),
    ((-7, 0), "right", "center"),
    ((5, 5), "left", "bottom"),
    ((-5, 5), "right", "bottom"),
    ((5, -5), "left", "top"),
    ((-5, -5), "right", "top"),
)


class Label(NamedTuple):
    """A text, and the places at which it may stand, the best first."""

    text: str
    places: Sequence[tuple[tuple[float, float], Place]]
    needed: bool = False


def place_labels(ax: Axes, labels: Sequence[Label], markers: Sequence[tuple[float, float]] = ()) -> None:
    """Write each label at its first place that overlaps no text and no marker, and lies inside the axes.

    A label that fits nowhere is left out, or stands at its last place if it is `needed`. To be called when all else is
    drawn: what fits depends on the size of the figure.
    """
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    renderer: RendererBase = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    inside = ax.get_window_extent(renderer)
    taken = [text.get_window_extent(renderer) for text in ax.texts]
    if (legend := ax.get_legend()) is not None:
        taken.append(legend.get_window_extent(renderer))
    taken += [Bbox.from_bounds(x - 4.0, y - 4.0, 8.0, 8.0) for x, y in map(ax.transData.transform, markers)]
    for label in labels:
        for k, (point, (offset, ha, va)) in enumerate(label.places, start=1):
            text = ax.annotate(
                label.text, point, xytext=offset, textcoords="offset points", ha=ha, va=va, fontsize=SMALL, zorder=6
            )
            extent = text.get_window_extent(renderer).padded(_PAD)
            fits = _within(extent, inside) and extent.count_overlaps(taken) == 0
            if fits or (label.needed and k == len(label.places)):
                taken.append(extent)
                break
            text.remove()


def _within(extent: Bbox, outer: Bbox) -> bool:
    return bool(
        extent.x0 >= outer.x0 and extent.x1 <= outer.x1 and extent.y0 >= outer.y0 and extent.y1 <= outer.y1
    )


def short_names(names: Collection[str]) -> dict[str, str]:
    """Each name without the leading parts ("provider/region/") that all of them share; the last part always stays."""
    split = {name: name.split("/") for name in names}
    shared = 0
    while len({tuple(parts[: shared + 1]) for parts in split.values()}) == 1 and all(
        len(parts) > shared + 1 for parts in split.values()
    ):
        shared += 1
    return {name: "/".join(parts[shared:]) for name, parts in split.items()}


def fleet_text(units: Mapping[str, int], short: Mapping[str, str]) -> str:
    """A fleet as lines `3 × NAME`, the largest numbers first."""
    lines = [f"{number} × {short[name]}" for name, number in sorted(units.items(), key=lambda item: -item[1])]
    if len(lines) > _MOST_LINES:
        more = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 1 :] = [f"and {more} more types"]
    return "\n".join(lines)
