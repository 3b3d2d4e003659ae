"""The shortest elapsed time of choices of units, from a table of what one unit of each resource does by any time."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from mopt.launch_table import FITS
from mopt.problem import Demand, Problem
from mopt.service import UnitService

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Curve = tuple[Floats, Floats]


class ElapsedTable:
    """What one unit of each resource does in S, tabulated at all breakpoints: linear in between."""

    def __init__(self, problem: Problem, names: list[str], demand: Demand) -> None:
        self.samples = demand.samples * (1 - 1e-12)
        latest = problem.time_limit * (1 + FITS)
        services = [problem.services[i, demand.name] for i in names]
        overheads = [service.overhead for service in services]
        self._curves = [_curves(s, o, demand.samples) for s, o in zip(services, overheads, strict=True)]
        self._earliest = np.array([curves[0][0][0] for curves in self._curves])
        grid = {0.0, latest}
        for curves in self._curves:
            breaks = _breaks(curves)
            grid |= {*breaks.tolist(), *_crossings(curves, breaks)}
        self._grid = np.array(sorted(s for s in grid if s <= latest))
        self._done = np.array(
            [np.max([_done(curve, self._grid) for curve in _merged(curves)], axis=0) for curves in self._curves]
        )
        self.rates = np.max(self._done[:, 1:] / self._grid[1:], axis=1)  # the most samples per second, by any time

    def launches(self, k: int, span: float) -> int:
        """Launches of each unit with which it does most by `span`; the fewest of these."""
        done = [float(_done(curve, span * (1 + 1e-12))) for curve in self._curves[k]]
        return 1 + int(np.argmax(np.array(done) >= max(done) * (1 - 1e-12)))

    def rate(self, types: Ints, counts: Ints) -> Floats:
        """The most samples per second of all units."""
        rate: Floats = (self.rates[types] * counts).sum(axis=1)
        return rate

    def at_least(self, types: Ints, counts: Ints) -> Floats:
        """A quick lower bound on S: all units at their best rate from the start."""
        least: Floats = np.maximum(self.samples / self.rate(types, counts), self._earliest[types].max(axis=1))
        return least

    def shortest(self, types: Ints, counts: Ints) -> Floats:
        """Shortest S of each choice, inf where the period is too short."""
        low = np.zeros(len(types), dtype=np.int64)
        high = np.full(len(types), len(self._grid) - 1, dtype=np.int64)
        enough = self._total(types, counts, high) >= self.samples
        for _ in range(math.ceil(math.log2(len(self._grid))) + 1):
            middle = (low + high) // 2
            reached = self._total(types, counts, middle) >= self.samples
            high = np.where(reached, middle, high)
            low = np.where(reached, low, np.minimum(middle + 1, high))
        before = np.maximum(high - 1, 0)
        left, right = self._total(types, counts, before), self._total(types, counts, high)
        share = np.divide(self.samples - left, right - left, out=np.ones_like(left), where=right > left)
        span = self._grid[before] + np.clip(share, 0.0, 1.0) * (self._grid[high] - self._grid[before])
        # Units without samples launch all the same.
        return np.where(enough, np.maximum(span, self._earliest[types].max(axis=1)), np.inf)

    def _total(self, types: Ints, counts: Ints, position: Ints) -> Floats:
        total: Floats = (self._done[types, position[:, None]] * counts).sum(axis=1)
        return total


def _curves(service: UnitService, overhead: float, samples: float) -> list[Curve]:
    """For each number of launches: samples done by S, as breakpoints (times, samples)."""
    curves = []
    for mode in service.modes(samples):
        inner = [(a[1] - b[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(mode.pieces)]
        breaks = np.array([0.0, *[b for b in inner if 0 < b < mode.most], mode.most])
        curves.append((overhead + np.array([mode.time(b) for b in breaks]), breaks))
    return curves


def _merged(curves: list[Curve]) -> list[Curve]:
    """Curves that all jump at once, each later and higher than the last, as one."""
    if any(times[0] < times[-1] for times, _ in curves):
        return curves
    times, most = np.array([(times[0], samples[-1]) for times, samples in curves]).T
    jumps = np.column_stack([np.nextafter(times[1:], 0.0), times[1:]]).ravel()
    return [(np.concatenate([times[:1], jumps]), np.repeat(most, 2)[:-1])]


def _done(curve: Curve, span: float | Floats) -> Floats:
    """Samples done by S: none before the first time, where a flat piece makes it jump; all after the last."""
    times, samples = curve
    return np.asarray(np.interp(span, times, samples, left=0.0))


def _breaks(curves: list[Curve]) -> Floats:
    """Times between which all curves are linear: their breakpoints, and the moments before they set in."""
    times = np.concatenate([times for times, _ in curves])
    before = [np.nextafter(times[0], 0.0) for times, _ in curves]
    return np.unique(np.concatenate([times, before]))


def _crossings(curves: list[Curve], breaks: Floats) -> list[float]:
    """Times at which one number of launches overtakes another."""
    found: list[float] = []
    rising = [curve for curve in curves if curve[0][0] < curve[0][-1]]  # others jump at once
    for one, other in itertools.combinations(rising, 2):
        gap = _done(one, breaks) - _done(other, breaks)
        k = np.flatnonzero(gap[:-1] * gap[1:] < 0)
        found += (breaks[k] + (breaks[k + 1] - breaks[k]) * gap[k] / (gap[k] - gap[k + 1])).tolist()
    return found
