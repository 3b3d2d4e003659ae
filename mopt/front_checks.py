"""What is wrong with a front: points out of order or dominated, segments whose ends are no points of it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from mopt import geometry
from mopt.errors import Fault

if TYPE_CHECKING:
    from mopt.front import ParetoFront


def disorder(front: ParetoFront) -> Iterator[Fault]:
    """Points that don't come after the one before, or are dominated by it."""
    for k, (point, following) in enumerate(pairwise(front.points), start=1):
        here: tuple[float | Fraction, ...] = geometry.minimised(point, front.senses)
        there: tuple[float | Fraction, ...] = geometry.minimised(following, front.senses)
        if point.exact and following.exact:
            here, there = point.exact, following.exact
        if not (here[0] < there[0] and here[1] > there[1]):
            allowed = f"must be worse than {point.objectives} in the first and better in the second"
            yield Fault("", f"point {k}", "objectives", following.objectives, allowed)


def stray_ends(front: ParetoFront) -> Iterator[Fault]:
    """Segments that end before they start, and closed ends that are no points."""
    known = {point.objectives for point in front.points}
    for k, segment in enumerate(front.segments):
        (x0, y0), (x1, y1) = geometry.corners(segment, front.senses)
        if not (x0 < x1 and y0 > y1):
            allowed = f"must be worse than its start {segment.start.objectives} in the first, better in the second"
            yield Fault("", f"segment {k}", "end", segment.end.objectives, allowed)
        for end, closed in geometry.ends_of(segment):
            if closed and end.objectives not in known:
                yield Fault("", f"segment {k}", "closed end", end.objectives, "must be a point of the front")
