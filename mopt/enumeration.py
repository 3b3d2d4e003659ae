"""`elapsed` by enumeration: every choice of units, each with its shortest elapsed time, where there are few enough.

Given the units, the launches per unit and the elapsed time S follow: S is the least time in which all units together do
the samples. What a unit does in S is, on the union of all resources' breakpoints, linear between neighbours; so S is
found by a search in a table and one interpolation, for millions of choices at once. Exact for `elapsed` problems with
one demand; the result is every nondominated choice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mopt.plan import Choice
from mopt.problem import Problem
from mopt.service import Service

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Choices that are enumerated at most: some seconds of work.
MOST_CHOICES = 20_000_000
_BLOCK = 400_000


def choices(problem: Problem) -> int | None:
    """How many choices of units there are; None where enumeration doesn't apply."""
    if problem.billing != "elapsed" or len(problem.demand_by_name) != 1:
        return None
    limits = sorted(problem.unit_limits.values())
    types = min(problem.max_types or len(limits), len(limits))
    # Elementary symmetric polynomials of the limits: choices by the number of types.
    counts = [1] + [0] * types
    for limit in limits:
        for k in range(types, 0, -1):
            counts[k] += counts[k - 1] * limit
            if counts[k] > 10**12:
                return 10**12
    return sum(counts[1:])


def nondominated_choices(problem: Problem, peaks: dict[str, float], margin: float = 1e-9) -> list[Choice]:
    """Every choice that no other dominates by more than `margin` (relative) in both objectives."""
    (demand,) = problem.demand_by_name.values()
    names = list(problem.unit_limits)
    table = _Table([problem.services[i, demand.name] for i in names], problem.time_limit)
    price = np.array([problem.by_name[i].price_per_hour for i in names])
    peak = np.array([peaks[i] for i in names])
    overhead = [problem.by_name[i].unit_overhead for i in names]
    lowest = np.array([o + s.tau.at(0.0) for o, s in zip(overhead, table.services, strict=True)])
    scale = (float(price.max()), float(peak.max()))
    kept = np.empty((0, 2))
    kept_choices: list[tuple[tuple[int, ...], tuple[int, ...], float]] = []
    for types, counts in _blocks(problem, names):
        span = table.shortest(types, counts, demand.samples, lowest)
        fits = span <= problem.time_limit * (1 + 1e-9)
        if not fits.any():
            continue
        types, counts, span = types[fits], counts[fits], span[fits]
        values = np.column_stack([
            (price[types] * counts).sum(axis=1) * span / scale[0], (peak[types] * counts).sum(axis=1) * span / scale[1]
        ])
        best = _nondominated(values, margin)
        merged = np.vstack([kept, values[best]])
        kept_choices += [
            (tuple(types[k].tolist()), tuple(counts[k].tolist()), float(span[k])) for k in best
        ]
        again = _nondominated(merged, margin)
        kept, kept_choices = merged[again], [kept_choices[k] for k in again]
    found = []
    for types_, counts_, span_ in kept_choices:
        used = {(names[i], demand.name): n for i, n in zip(types_, counts_, strict=True) if n}
        launches = {pair: table.launches(names.index(pair[0]), span_) for pair in used}
        found.append(Choice(used, launches))
    return found


def _blocks(problem: Problem, names: list[str]) -> Iterator[tuple[Ints, Ints]]:
    """Choices in blocks: type indices and units, each of shape (choices, types used)."""
    limits = [problem.unit_limits[i] for i in names]
    least = np.array([problem.min_units.get(i, 0) for i in names])
    forced = [k for k in range(len(names)) if least[k] > 0]
    most = min(problem.max_types or len(names), len(names))
    groups = [([k for k, i in enumerate(names) if quota.covers(problem.by_name[i])], quota.max_units)
              for quota in problem.quotas]
    pending: list[tuple[Ints, Ints]] = []
    for size in range(1, most + 1):
        for subset in itertools.combinations(range(len(names)), size):
            if not set(forced) <= set(subset) or any(limits[k] == 0 for k in subset):
                continue
            axes = [np.arange(max(1, least[k]), limits[k] + 1) for k in subset]
            counts = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, size)
            for group, allowed in groups:
                inside = [position for position, k in enumerate(subset) if k in group]
                counts = counts[counts[:, inside].sum(axis=1) <= allowed]
            if not len(counts):
                continue
            pending.append((np.broadcast_to(np.array(subset), counts.shape), counts))
            if sum(len(block) for _, block in pending) >= _BLOCK:
                yield np.concatenate([t for t, _ in pending]), np.concatenate([c for _, c in pending])
                pending = []
        if pending:
            yield np.concatenate([t for t, _ in pending]), np.concatenate([c for _, c in pending])
            pending = []


class _Table:
    """What one unit of each resource does in S, tabulated at all breakpoints: linear in between."""

    def __init__(self, services: list[Service], time_limit: float) -> None:
        self.services = services
        self._overheads = [time_limit - service.available for service in services]
        grid = {0.0, time_limit * (1 + 1e-9)}
        self._curves = [self._by_launches(k) for k in range(len(services))]
        for curves in self._curves:
            for times, _ in curves:
                grid |= set(times.tolist())
            grid |= set(_crossings(curves))
        self._grid = np.array(sorted(s for s in grid if 0 <= s <= time_limit * (1 + 1e-9)))
        self._done = np.array([
            np.max([np.interp(self._grid, times, done, left=0.0) for times, done in curves], axis=0)
            for curves in self._curves
        ])

    def _by_launches(self, k: int) -> list[tuple[Floats, Floats]]:
        """For each number of launches: samples done by S, as breakpoints (times, samples), flat after the last."""
        service, overhead = self.services[k], self._overheads[k]
        curves = []
        assert service.max_launches is not None
        for c in range(1, service.max_launches + 1):
            most = min(c * service.batch_limit, service.capacity)
            pieces = service.tau.restricted(0.0, most / c).pieces
            inner = [c * (a[1] - b[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(pieces)]
            samples = np.array([0.0, *[b for b in inner if 0 < b < most], most])
            times = overhead + c * np.asarray(service.tau(samples / c))
            curves.append((times, samples))
            if c * service.batch_limit >= service.capacity:
                break
        return curves

    def launches(self, k: int, span: float) -> int:
        """Launches of each unit with which it does most by `span`; the fewest of these."""
        done = [float(np.interp(span * (1 + 1e-13), times, samples, left=-1.0)) for times, samples in self._curves[k]]
        return 1 + int(np.argmax(np.array(done) >= max(done) * (1 - 1e-12)))

    def shortest(self, types: Ints, counts: Ints, samples: float, lowest: Floats) -> Floats:
        """Shortest S of each choice, inf where the period is too short; no less than `lowest` of any type used."""
        low = np.zeros(len(types), dtype=np.int64)
        high = np.full(len(types), len(self._grid) - 1, dtype=np.int64)
        enough = self._total(types, counts, high) >= samples * (1 - 1e-12)
        for _ in range(math.ceil(math.log2(len(self._grid))) + 1):
            middle = (low + high) // 2
            reached = self._total(types, counts, middle) >= samples * (1 - 1e-12)
            high = np.where(reached, middle, high)
            low = np.where(reached, low, np.minimum(middle + 1, high))
        before = np.maximum(high - 1, 0)
        left, right = self._total(types, counts, before), self._total(types, counts, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(right > left, (samples - left) / (right - left), 1.0)
        span = self._grid[before] + np.clip(share, 0.0, 1.0) * (self._grid[high] - self._grid[before])
        return np.where(enough, np.maximum(span, lowest[types].max(axis=1)), np.inf)

    def _total(self, types: Ints, counts: Ints, position: Ints) -> Floats:
        return (self._done[types, position[:, None]] * counts).sum(axis=1)


def _crossings(curves: list[tuple[Floats, Floats]]) -> list[float]:
    """Times at which one number of launches overtakes another."""
    found = []
    for (t1, s1), (t2, s2) in itertools.combinations(curves, 2):
        grid = np.union1d(t1, t2)
        gap = np.interp(grid, t1, s1, left=0.0) - np.interp(grid, t2, s2, left=0.0)
        for k in np.flatnonzero(gap[:-1] * gap[1:] < 0):
            found.append(float(grid[k] + (grid[k + 1] - grid[k]) * gap[k] / (gap[k] - gap[k + 1])))
    return found


def _nondominated(values: Floats, margin: float) -> Ints:
    """Indices of the rows that no earlier row, in order, beats by more than `margin` of its size; all ties stay."""
    order = np.lexsort((values[:, 1], values[:, 0]))
    second = values[order, 1]
    best_before = np.minimum.accumulate(np.concatenate([[np.inf], second[:-1]]))
    return order[second <= best_before * (1 + margin)]
