"""Fronts of mixed-integer problems by enumeration of their integers, without the package: the truth that it is held to.

The slice of a choice of integers has a convex front, found by linear programs (scipy). The nondominated set of all
slices is the graph of F(t), the least second objective with the first at most t, where F falls. All is minimised.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import linprog

Pair = tuple[float, float]
# Piece of F from the first objective's value t to the next piece's: t, F(t), and F's limit at the next one.
Step = tuple[float, float, float]

TIE = 1e-9


@dataclass(frozen=True)
class Component:
    """A connected part of a front: a chain of straight pieces, or a point; its ends may be open."""

    vertices: tuple[Pair, ...]
    start_closed: bool = True
    end_closed: bool = True


@dataclass(frozen=True)
class Slice:
    """min (costs[k]·x + constants[k], k = 0, 1) over a polyhedron, given as linprog takes it."""

    costs: np.ndarray
    constants: Pair
    polyhedron: Mapping[str, Any]

    def best(self, weights: Pair, **more: Any) -> Pair | None:
        """Values at a solution that is best for a weighting."""
        found = linprog(weights[0] * self.costs[0] + weights[1] * self.costs[1], **{**self.polyhedron, **more})
        if found.status == 2:
            return None
        assert found.status == 0, found.message
        return tuple(float(c @ found.x) + k for c, k in zip(self.costs, self.constants, strict=True))

    def lexicographic(self, k: int) -> Pair:
        """Best in objective k, then in the other."""
        weights = ((1.0, 0.0), (0.0, 1.0))
        first = self.best(weights[k])
        assert first is not None
        rows, sides = self.polyhedron.get("A_ub"), self.polyhedron.get("b_ub", [])
        rows = self.costs[k : k + 1] if rows is None else np.vstack([rows, self.costs[k : k + 1]])
        for slack in (0.0, 1e-10, 1e-8):
            most = first[k] - self.constants[k] + slack * max(1.0, abs(first[k]))
            if found := self.best(weights[1 - k], A_ub=rows, b_ub=np.append(sides, most)):
                return found
        raise AssertionError("no solution where there was one")

    def front(self) -> list[Pair]:
        """The vertices of its front."""
        start, end = self.lexicographic(0), self.lexicographic(1)
        tie = TIE * max(1.0, *map(abs, (*start, *end)))
        if end[0] - start[0] <= tie or start[1] - end[1] <= tie:
            return [(min(start[0], end[0]), min(start[1], end[1]))]
        return [start, *self._between(start, end), end]

    def _between(self, p: Pair, q: Pair) -> list[Pair]:
        size = max(p[1] - q[1], q[0] - p[0])
        weights = ((p[1] - q[1]) / size, (q[0] - p[0]) / size)
        found = self.best(weights)
        assert found is not None
        gain = weights[0] * (p[0] - found[0]) + weights[1] * (p[1] - found[1])
        if gain <= 1e-8 * max(1.0, abs(p[0]), abs(p[1])):
            return []
        return [*self._between(p, found), found, *self._between(found, q)]


def enumerated(slices: Iterable[Slice]) -> list[Component]:
    """The front of all slices together."""
    ideals = [(slice_.best((1.0, 0.0)), slice_.best((0.0, 1.0)), slice_) for slice_ in slices]
    feasible = [((first[0], second[1]), slice_) for first, second, slice_ in ideals if first and second]
    scale = np.ptp([ideal for ideal, _ in feasible], axis=0) + TIE
    lower: list[Step] = []
    for ideal, slice_ in sorted(feasible, key=lambda item: float(np.sum(item[0] / scale))):
        if not lower or ideal[1] < _part(lower, ideal[0], ideal[0])[0] - TIE:
            lower = _minimum(lower, _steps(slice_.front()))
    return _components(lower)


def _steps(vertices: Sequence[Pair]) -> list[Step]:
    steps = [(p[0], p[1], q[1]) for p, q in pairwise(vertices)]
    return [*steps, (vertices[-1][0], vertices[-1][1], vertices[-1][1])]


def _minimum(first: list[Step], second: list[Step]) -> list[Step]:
    """The smaller of two functions, each infinite before its first step and constant from its last."""
    if not first:
        return second
    found: list[Step] = []
    grid = sorted({step[0] for step in (*first, *second)})
    for left, right in zip(grid, [*grid[1:], np.inf], strict=True):
        a, b = (_part(steps, left, right) for steps in (first, second))
        gap_left, gap_right = a[0] - b[0], a[1] - b[1]
        if right < np.inf and min(gap_left, gap_right) < -TIE and max(gap_left, gap_right) > TIE:
            share = gap_left / (gap_left - gap_right)
            middle, value = left + share * (right - left), a[0] + share * (a[1] - a[0])
            _append(found, (left, min(a[0], b[0]), value), middle)
            _append(found, (middle, value, min(a[1], b[1])), right)
        else:
            _append(found, (left, *min(a, b)), right)
    return found


def _append(steps: list[Step], step: Step, end: float) -> None:
    """Add a step that lasts until `end`; one with its predecessor if they are one straight piece."""
    if steps and end < np.inf:
        t, value, limit = steps[-1]
        middle = value + (step[2] - value) * (step[0] - t) / (end - t)
        if abs(limit - step[1]) <= TIE and abs(limit - middle) <= TIE:
            steps[-1] = (t, value, step[2])
            return
    steps.append(step)


def _part(steps: list[Step], left: float, right: float) -> Pair:
    """Values at `left` and just before `right`, between which no step begins."""
    k = bisect_right(steps, left, key=lambda step: step[0]) - 1
    if k < 0:
        return np.inf, np.inf
    t, value, limit = steps[k]
    if k + 1 == len(steps):
        return value, limit
    slope = (limit - value) / (steps[k + 1][0] - t)
    return value + slope * (left - t), limit if right == steps[k + 1][0] else value + slope * (right - t)


def _components(steps: list[Step]) -> list[Component]:
    found: list[Component] = []
    chain: list[Pair] = []
    closed = True
    before, scale = np.inf, max(1.0, *(abs(step[1]) for step in steps))
    tie = TIE * scale

    def finish(end_closed: bool) -> None:
        if chain:
            found.append(Component(tuple(chain), closed, end_closed))
            chain.clear()

    for (t, value, limit), following in zip(steps, [*(step[0] for step in steps[1:]), np.inf], strict=True):
        if following - t <= tie:  # one breakpoint, worked out twice
            continue
        falls = value - limit > 1e-7 * (following - t)
        if value < before - tie:
            finish(end_closed=False)
            chain, closed = [(t, value)], True
        elif falls and not chain:
            chain, closed = [(t, value)], False
        if falls:
            chain.append((following, limit))
        else:
            finish(end_closed=True)
        before = limit
    finish(end_closed=True)
    return found


def differences(found: Sequence[Component], known: Sequence[Component], tolerance: Pair) -> list[str]:
    """How two fronts differ by more than a tolerance in each objective; ends must agree on being open or closed."""
    if len(found) != len(known):
        return [f"{len(found)} connected parts instead of {len(known)}"]
    faults = []
    for k, (mine, truth) in enumerate(zip(found, known, strict=True)):
        ends = [(part.vertices[0], part.vertices[-1], part.start_closed, part.end_closed) for part in (mine, truth)]
        if ends[0][2:] != ends[1][2:]:
            faults.append(f"part {k}: ends closed {ends[0][2:]} instead of {ends[1][2:]}")
        if not all(_near(p, q, tolerance) for p, q in zip(ends[0][:2], ends[1][:2], strict=True)):
            faults.append(f"part {k}: from {ends[0][0]} to {ends[0][1]} instead of {ends[1][0]} to {ends[1][1]}")
        for name, one, other in (("vertex", mine, truth), ("missing vertex", truth, mine)):
            faults += [f"part {k}: {name} {v}" for v in one.vertices if not _on(v, other.vertices, tolerance)]
    return faults


def _near(p: Pair, q: Pair, tolerance: Pair) -> bool:
    return all(abs(a - b) <= t for a, b, t in zip(p, q, tolerance, strict=True))


def _on(p: Pair, chain: Sequence[Pair], tolerance: Pair) -> bool:
    """Whether a point is near a chain: near a vertex, or near the straight line between two, in either objective."""
    x, y = p
    for (x0, y0), (x1, y1) in pairwise(chain):
        if x0 <= x <= x1 and abs(y0 + (y1 - y0) * (x - x0) / (x1 - x0) - y) <= tolerance[1]:
            return True
        if y1 <= y <= y0 and abs(x0 + (x1 - x0) * (y - y0) / (y1 - y0) - x) <= tolerance[0]:
            return True
    return any(_near(p, q, tolerance) for q in chain)
