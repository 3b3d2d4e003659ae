"""Text on pictures: short names, plain numbers on axes, and legends and labels that don't overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import Bbox

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

SMALL = "small"
# Room around a label in pixels.
_PAD = 1.0
# A fleet's label has at most this many lines, and a name this many characters.
_MOST_LINES = 3
_MOST_CHARACTERS = 28

_MOST_COLUMNS = 3
# A logarithmic axis of more decades has room for their powers of ten alone.
_MANY_DECADES = 2.5

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
    """A text for one of some points, the best first."""

    text: str
    points: Sequence[tuple[float, float]]


def _lay_out(ax: Axes) -> None:
    """Do the layout of the axes' figure, so that extents in pixels hold."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()


def place_labels(ax: Axes, labels: Sequence[Label], markers: Sequence[tuple[float, float]]) -> None:
    """Write each label next to one of its points, where it overlaps nothing and no other marker is as near.

    A label that fits nowhere is left out. To be called when all else is drawn: what fits depends on the size of the
    figure.
    """
    _lay_out(ax)
    inside = ax.get_window_extent()
    taken = [text.get_window_extent() for text in ax.texts]
    if (legend := ax.get_legend()) is not None:
        taken.append(legend.get_window_extent())
    centres = ax.transData.transform(np.array(markers).reshape(-1, 2))
    taken += [Bbox.from_bounds(x - 4.0, y - 4.0, 8.0, 8.0) for x, y in centres]
    lines = [line.get_transform().transform_path(line.get_path()) for line in ax.get_lines()]
    for label in labels:
        # Best is a place that no line crosses.
        for crossed, point, (offset, ha, va) in product((False, True), label.points, AROUND):
            text = ax.annotate(
                label.text, point, xytext=offset, textcoords="offset points", ha=ha, va=va, fontsize=SMALL, zorder=6
            )
            extent = text.get_window_extent().padded(_PAD)
            own = ax.transData.transform(point)
            if (
                _within(extent, inside)
                and extent.count_overlaps(taken) == 0
                and all(_clearly_nearer(extent, own, other) for other in centres)
                and (crossed or not any(path.intersects_bbox(extent, filled=False) for path in lines))
            ):
                taken.append(extent)
                break
            text.remove()


def _clearly_nearer(extent: Bbox, own: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> bool:
    """Whether a label lies nearer to its own marker than to another one elsewhere."""
    middle = np.array([(extent.x0 + extent.x1) / 2.0, (extent.y0 + extent.y1) / 2.0])
    near, far = np.linalg.norm(middle - own), np.linalg.norm(middle - other)
    return bool(1.3 * near < far or np.allclose(own, other, atol=0.5))


def _points_of_small() -> float:
    """Height of small text in points."""
    return FontProperties(size=SMALL).get_size_in_points()


def _within(extent: Bbox, outer: Bbox) -> bool:
    return bool(
        extent.x0 >= outer.x0 and extent.x1 <= outer.x1 and extent.y0 >= outer.y0 and extent.y1 <= outer.y1
    )


def name_on_the_right(ax: Axes, names: Sequence[str], heights: Sequence[float], styles: Sequence[dict[str, Any]]) -> None:
    """Write names right of the axes next to the heights at which lines end, apart from each other.

    A short line in the style of its own leads to each name. Names that don't fit are counted.
    """
    _lay_out(ax)
    frame = ax.get_window_extent()
    figure = ax.get_figure(root=True)
    assert figure is not None
    step = 1.3 * _points_of_small() * figure.dpi / 72.0 / frame.height
    most = int(1.0 / step)
    ends = [float(ax.transAxes.inverted().transform(ax.transData.transform((1.0, height)))[1]) for height in heights]
    order = sorted(range(len(names)), key=lambda k: -ends[k])
    texts = {k: names[k] for k in order}
    if len(order) > most:
        more = len(order) - most + 1
        order = order[:most]
        texts[order[-1]] = f"and {more} more"
    places = spread([ends[k] for k in order], step)
    for k, at in zip(order, places, strict=True):
        ax.plot([1.0, 1.03, 1.07], [ends[k], at, at], transform=ax.transAxes, clip_on=False, **styles[k])
        ax.annotate(texts[k], (1.08, at), xycoords="axes fraction", va="center", fontsize=SMALL, annotation_clip=False)


def spread(heights: Sequence[float], step: float) -> list[float]:
    """Falling heights moved to be at least a step apart, within [0, 1] as far as they fit."""
    placed: list[float] = []
    for height in heights:
        placed.append(min([height, 1.0 - step / 2.0, *(last - step for last in placed[-1:])]))
    floor = step / 2.0
    for k in reversed(range(len(placed))):
        placed[k] = max(placed[k], floor)
        floor = placed[k] + step
    return placed


def legend_above(ax: Axes, **options: Any) -> None:
    """A legend above the axes, in as many columns as their width holds: nothing can lie under it."""
    _lay_out(ax)
    width = ax.get_window_extent().width
    handles, texts = ax.get_legend_handles_labels()
    for columns in range(min(len(handles), _MOST_COLUMNS), 0, -1):
        legend = ax.legend(
            handles, texts, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, fontsize=SMALL,
            title_fontsize=SMALL, alignment="left", frameon=False, borderaxespad=0.3, columnspacing=1.2, **options,
        )  # fmt: skip
        if legend.get_window_extent().width <= width:
            break


def plain_decades(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis; 2 and 5 too where it spans few decades."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if np.log10(high / low) < _MANY_DECADES else (1.0,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def short_names(names: Collection[str]) -> dict[str, str]:
    """Each name without the leading parts ("provider/region/") that all of them share; the last part always stays.

    A long name loses its middle, if that leaves it unlike all others.
    """
    split = {name: name.split("/") for name in names}
    shared = 0
    while len({tuple(parts[: shared + 1]) for parts in split.values()}) == 1 and all(
        len(parts) > shared + 1 for parts in split.values()
    ):
        shared += 1
    short = {name: "/".join(parts[shared:]) for name, parts in split.items()}
    elided = {name: _without_middle(text) for name, text in short.items()}
    counts = Counter(elided.values())
    return {name: literal(text if counts[text] == 1 else short[name]) for name, text in elided.items()}


def literal(text: str) -> str:
    """A text that pictures show letter by letter: $ begins no formula, and a leading _ hides nothing from legends."""
    shown = text.replace("$", r"\$")
    return f"\N{HAIR SPACE}{shown}" if shown.startswith("_") else shown


def _without_middle(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    kept = (_MOST_CHARACTERS - 1) // 2
    return f"{text[:kept]}…{text[-kept:]}"


def fleet_text(units: Mapping[str, int], short: Mapping[str, str]) -> str:
    """A fleet as lines `3 × NAME`, the largest numbers first."""
    lines = [f"{number} × {short[name]}" for name, number in sorted(units.items(), key=lambda item: -item[1])]
    if len(lines) > _MOST_LINES:
        more = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 1 :] = [f"and {more} more types"]
    return "\n".join(lines)
