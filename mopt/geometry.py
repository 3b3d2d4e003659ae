"""Where things lie on a front: the plan at a value, the knee, the area dominated, an even choice of points.

A front is taken as its pieces (points and segments) in order, and both objectives as minimised. Along a segment, t is
the share of the way in the first objective and `reshape(t, bend)` that in the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from mopt.point import Point, Segment, reshape

Piece = Point | Segment
Pair = tuple[float, float]


def pieces_of(points: Sequence[Point], segments: Sequence[Segment], senses: tuple[int, int]) -> tuple[Piece, ...]:
    """The points that are no end of a segment, and the segments, from best to worst in the first objective."""
    ends = {end.objectives for segment in segments for end, closed in ends_of(segment) if closed}
    pieces: list[Piece] = [point for point in points if point.objectives not in ends]
    pieces += segments

    def key(piece: Piece) -> tuple[float, float]:
        (x, y), _ = corners(piece, senses)
        return x, -y

    return tuple(sorted(pieces, key=key))


def ends_of(segment: Segment) -> tuple[tuple[Point, bool], tuple[Point, bool]]:
    """Start and end of a segment, each with whether it belongs to the front."""
    return (segment.start, segment.start_closed), (segment.end, segment.end_closed)


def minimised(point: Point, senses: tuple[int, int]) -> Pair:
    """The objectives of a point, both minimised."""
    return senses[0] * point.objectives[0], senses[1] * point.objectives[1]


def corners(piece: Piece, senses: tuple[int, int]) -> tuple[Pair, Pair]:
    """Both objectives, minimised, at the two ends of a piece (the same pair twice for a point)."""
    if isinstance(piece, Point):
        return (minimised(piece, senses),) * 2
    return minimised(piece.start, senses), minimised(piece.end, senses)


def box(pieces: Sequence[Piece], senses: tuple[int, int]) -> tuple[Pair, Pair]:
    """Ideal and nadir point of the closed front."""
    first, last = corners(pieces[0], senses)[0], corners(pieces[-1], senses)[1]
    return (first[0], last[1]), (last[0], first[1])


def ranges(pieces: Sequence[Piece], senses: tuple[int, int]) -> tuple[Pair, Pair]:
    """Lowest and highest value of each objective, in its own sense, on the closed front."""
    first, second = (
        sorted((sense * best, sense * worst)) for sense, best, worst in zip(senses, *box(pieces, senses), strict=True)
    )
    return (first[0], first[1]), (second[0], second[1])


def locate(pieces: Sequence[Piece], senses: tuple[int, int], objective: int, value: float) -> Point | None:
    """The best point in the other objective with `objective` (0 or 1) no worse than `value`, or None.

    Values that agree to 1e-12 (relative) count as equal.
    """
    sense, bound = senses[objective], senses[objective] * value

    def within(point: Point) -> bool:
        reached = sense * point.objectives[objective]
        return reached <= bound or math.isclose(reached, bound, rel_tol=1e-12)

    # In this order the bounded objective improves and the other gets worse: the first hit is the best.
    for piece in pieces if objective == 1 else reversed(pieces):
        if isinstance(piece, Point):
            if within(piece):
                return piece
            continue
        (enter, _), (leave, leave_closed) = ends_of(piece) if objective == 1 else reversed(ends_of(piece))
        if within(enter):
            return enter
        if not within(leave):
            continue
        if not math.isclose(leave.objectives[objective], value, rel_tol=1e-12):
            return piece.at_value(objective, value)
        # An open end is dominated by what follows, at the same value of the other objective.
        if leave_closed:
            return leave
    return None


def knee(pieces: Sequence[Piece], senses: tuple[int, int]) -> Point:
    """The point farthest below the chord between the ends, both objectives scaled to their ranges."""
    ideal, nadir = box(pieces, senses)
    scale = [high - low or 1.0 for low, high in zip(ideal, nadir, strict=True)]

    def depth(point: Point) -> float:
        x, y = minimised(point, senses)
        return -((x - ideal[0]) / scale[0] + (y - ideal[1]) / scale[1])

    candidates: list[Point] = []
    for piece in pieces:
        if isinstance(piece, Point):
            candidates.append(piece)
            continue
        candidates += [end for end, closed in ends_of(piece) if closed]
        (x0, y0), (x1, y1) = corners(piece, senses)
        # Inside, the slope of the curve, bend/(1 + t·(bend − 1))², equals that of the chord.
        if piece.bend > 1.0:
            slope = ((x1 - x0) / scale[0]) / ((y0 - y1) / scale[1])
            share = (math.sqrt(piece.bend / slope) - 1.0) / (piece.bend - 1.0)
            if 0.0 < share < 1.0:
                candidates.append(piece.at_value(0, senses[0] * (x0 + share * (x1 - x0))))
    return max(candidates, key=depth)


def dominated_area(pieces: Sequence[Piece], senses: tuple[int, int], reference: Pair) -> float:
    """Area that the front dominates up to `reference` (both minimised), exact under segments too."""
    right, top = reference
    total = 0.0
    for k, piece in enumerate(pieces):
        (x0, y0), (x1, y1) = corners(piece, senses)
        after = corners(pieces[k + 1], senses)[0][0] if k + 1 < len(pieces) else math.inf
        total += max(min(after, right) - x1, 0.0) * max(top - y1, 0.0)
        if isinstance(piece, Point) or x0 >= right or y1 >= top:
            continue
        # The part of the curve inside the reference's quadrant is a curve of the same kind with a bend of its own.
        bend = piece.bend
        enter = reshape((y0 - top) / (y0 - y1), 1.0 / bend) if y0 > top else 0.0
        leave = (right - x0) / (x1 - x0) if x1 > right else 1.0
        if enter < leave:
            y_enter, y_leave = (y0 + (y1 - y0) * reshape(t, bend) for t in (enter, leave))
            part = (1.0 + leave * (bend - 1.0)) / (1.0 + enter * (bend - 1.0))
            width = (leave - enter) * (x1 - x0)
            total += width * (top - y_enter + (y_enter - y_leave) * _mean_share(part))
    return total


def _mean_share(bend: float) -> float:
    """∫₀¹ reshape(t, bend) dt = bend·(x − ln(1 + x))/x² with x = bend − 1; its series where that cancels."""
    x = bend - 1.0
    if abs(x) < 0.1:
        return bend * sum((-x) ** k / (k + 2) for k in range(18))
    return bend * (x - math.log1p(x)) / x**2


def sampled(pieces: Sequence[Piece], senses: tuple[int, int], count: int) -> list[Point]:
    """All points and closed ends, and about `count` points inside the segments, spread by their extents."""
    ideal, nadir = box(pieces, senses)

    def extent(piece: Piece) -> float:
        (x0, y0), (x1, y1) = corners(piece, senses)
        return (x1 - x0) / (nadir[0] - ideal[0] or 1.0) + (y0 - y1) / (nadir[1] - ideal[1] or 1.0)

    everything = sum(map(extent, pieces))
    found: list[Point] = []

    def add(point: Point) -> None:
        x, y = minimised(point, senses)
        if not found or (x > minimised(found[-1], senses)[0] and y < minimised(found[-1], senses)[1]):
            found.append(point)

    for piece in pieces:
        if isinstance(piece, Point):
            add(piece)
            continue
        if piece.start_closed:
            add(piece.start)
        inside = math.floor(count * extent(piece) / everything)
        first, last = (end.objectives[0] for end, _ in ends_of(piece))
        for step in range(1, inside + 1):
            add(piece.at_value(0, first + (last - first) * step / (inside + 1)))
        if piece.end_closed:
            add(piece.end)
    return found


def cover(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], count: int) -> list[int]:
    """Indices of `count` points that cover all: the ends, and the largest distance to a chosen one is least.

    The distance is the larger of the two coordinate differences. This is the coverage representation of Vaz, Paquete,
    Fonseca, Klamroth and Stiglmayr (Computers & Operations Research 63, 2015), here with both ends in it: along a front
    distances are monotone, so for a given radius the greedy choice is best, and the radius is found by bisection.

    Parameters
    ----------
    x, y : ndarray of shape (m,)
        Ascending and descending, each scaled to its range.
    count : int
        At least 2 and at most m.
    """
    last = len(x) - 1

    def reach(k: int, radius: float) -> int:
        """Last index within `radius` of point k."""
        right = np.searchsorted(x, x[k] + radius, side="right")
        return int(min(right, np.searchsorted(-y, radius - y[k], side="right"))) - 1

    def greedy(radius: float) -> list[int]:
        chosen, covered = [0], reach(0, radius)
        while len(chosen) < count and (open_ := covered + 1) <= last:
            if reach(open_, radius) == last:
                covered = last
            else:
                chosen.append(reach(open_, radius))
                covered = reach(chosen[-1], radius)
        return [*chosen, last] if covered == last and len(chosen) < count else []

    chosen = _bisect(greedy)
    distance = np.full(len(x), np.inf)
    for k in chosen:
        distance = np.minimum(distance, np.maximum(abs(x - x[k]), abs(y - y[k])))
    while len(chosen) < count:
        k = int(np.argmax(distance))
        chosen.append(k)
        distance = np.minimum(distance, np.maximum(abs(x - x[k]), abs(y - y[k])))
    return sorted(chosen)


def _bisect(greedy: Callable[[float], list[int]]) -> list[int]:
    low, high = 0.0, 1.0
    chosen = greedy(high)
    for _ in range(60):
        middle = (low + high) / 2
        if found := greedy(middle):
            high, chosen = middle, found
        else:
            low = middle
    return chosen
