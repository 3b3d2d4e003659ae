"""Launch times as a table of operating points, convex or not, and the quickest launches that do so many samples."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

# Times that differ by no more than this share are equal.
_EQUAL = 1e-12
# A time, a footprint or a packing fits its limit up to this relative error: ten launches of 0.1 s fit one second.
FITS = 1e-9
# Samples, in units of the batches' common divisor, for which least times are kept.
_LONGEST = 2**22

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LaunchTable:
    """Time of a launch at the batches of a unit that a table has; fewer samples are padded to the next batch.

    Attributes
    ----------
    batches : tuple of int
        Samples of a launch of the unit, rising.
    times : tuple of float
        Seconds, rising: a point that another beats in both is left out.
    memory : tuple of float
        Bytes on each accelerator.
    """

    batches: tuple[int, ...]
    times: tuple[float, ...]
    memory: tuple[float, ...]

    @staticmethod
    def of(points: Iterable[tuple[int, float, float]]) -> LaunchTable:
        """The table of some (batch, time, memory), without those that a larger batch beats in time."""
        kept: list[tuple[int, float, float]] = []
        for point in sorted(points, key=lambda point: (-point[0], point[1])):
            if not kept or point[1] < kept[-1][1]:
                kept.append(point)
        batches, times, memory = zip(*reversed(kept), strict=True) if kept else ((), (), ())
        return LaunchTable(batches, times, memory)

    def __call__(self, batch: float | npt.ArrayLike) -> float | Floats:
        place = np.searchsorted(self.batches, np.asarray(batch, dtype=float) * (1 - _EQUAL))
        values = np.append(self.times, math.inf)[place]
        return float(values) if np.ndim(values) == 0 else values

    def at(self, batch: float) -> float:
        """The time of a launch that holds so many samples; inf where none does."""
        return next((time for b, time in zip(self.batches, self.times, strict=True) if b >= batch), math.inf)

    def largest(self, limit: float) -> float:
        """The largest batch with a time of at most `limit` (up to 1e-9 of it); -inf if there is none."""
        fit = [b for b, time in zip(self.batches, self.times, strict=True) if time <= limit * (1 + FITS)]
        return fit[-1] if fit else -math.inf

    def memory_at(self, batch: float) -> float:
        """Bytes on each accelerator of a launch that holds so many samples."""
        return next((held for b, held in zip(self.batches, self.memory, strict=True) if b >= batch), math.inf)

    def never_above(self, other: LaunchTable) -> bool:
        """Whether each launch of another table takes no longer by this one."""
        return all(self.at(b) <= time * (1 + _EQUAL) for b, time in zip(other.batches, other.times, strict=True))

    def upto(self, batch: float) -> LaunchTable:
        """The table without larger batches."""
        count = sum(b <= batch for b in self.batches)
        return LaunchTable(self.batches[:count], self.times[:count], self.memory[:count])

    @property
    def best(self) -> int:
        """The place of the point with the least time a sample, of several the largest."""
        rates = [time / b for b, time in zip(self.batches, self.times, strict=True)]
        least = min(rates) * (1 + _EQUAL)
        return max(place for place, rate in enumerate(rates) if rate <= least)

    def quickest(self, samples: float, most: int | None = None) -> list[tuple[int, int]] | None:
        """The launches that do at least `samples` in the least time: batches, and how many of each.

        At most `most` launches; None if those can't.
        """
        found = _packing(self.batches, self.times).runs(math.ceil(samples))
        if most is None or sum(times for _, times in found) <= most:
            return found
        return _limited(self.batches, self.times, most).runs(math.ceil(samples))

    def seconds(self, runs: Iterable[tuple[float, float]]) -> float:
        """What launches take together."""
        return math.fsum(times * self.at(batch) for batch, times in runs)

    def totals(self, most: int) -> list[int]:
        """What at most `most` launches can do together, rising, where no more takes no longer."""
        return _limited(self.batches, self.times, most).totals()


class _Packing:
    """Any number of launches: an unbounded covering knapsack, by dynamic programming over samples.

    The least time T(s) to do s samples is min_p τ_p + T(s − b_p). From some s on, one more of the point with the least
    time a sample is all that changes, T(s + b*) = T(s) + τ*: once this holds for as many s in a row as the largest
    batch has samples, the recursion carries it on for ever; and it comes to hold, as of b* other launches some always
    do a multiple of b* together, which the best point does no slower (Gilmore and Gomory, Operations Research 14, 1966).
    It is taken to hold from `_LONGEST` on, which loses less than a launch where batches are that large.
    """

    def __init__(self, batches: tuple[int, ...], times: tuple[float, ...]) -> None:
        self._unit = math.gcd(*batches)
        self._sizes = np.array(batches) // self._unit
        self._times = np.array(times)
        rates = self._times / self._sizes
        self._best = int(np.flatnonzero(rates <= rates.min() * (1 + _EQUAL))[-1])
        best, largest = int(self._sizes[self._best]), int(self._sizes[-1])
        enough = min(best * largest + largest + best, max(_LONGEST, 4 * largest))
        length = min(4 * largest, enough)
        while True:
            self._least = self._cover(length)
            last = self._least[length - largest :]
            before = self._least[length - largest - best : length + 1 - best]
            if length >= enough or np.all(np.abs(last - before - times[self._best]) <= _EQUAL * last):
                break
            length = min(2 * length, enough)
        self._length = length

    def _cover(self, length: int) -> Floats:
        """T(0), ..., T(length)."""
        exact = np.full(length + int(self._sizes[-1]) + 1, math.inf)
        exact[0] = 0.0
        for size, time in zip(self._sizes.tolist(), self._times.tolist(), strict=True):
            # Any number of launches of one size: running minima along each residue.
            rows = -(-len(exact) // size)
            table = np.full(rows * size, math.inf)
            table[: len(exact)] = exact
            spent = (np.arange(rows) * time)[:, None]
            exact = (np.minimum.accumulate(table.reshape(rows, size) - spent, axis=0) + spent).ravel()[: len(exact)]
        covered: Floats = np.minimum.accumulate(exact[::-1])[::-1][: length + 1]
        return covered

    def runs(self, samples: int) -> list[tuple[int, int]]:
        left = -(-samples // self._unit)
        counts = [0] * len(self._sizes)
        if left > self._length:
            best = int(self._sizes[self._best])
            counts[self._best] = -(-(left - self._length) // best)
            left -= counts[self._best] * best
        while left > 0:
            place = int(np.argmin(self._times + self._least[np.maximum(left - self._sizes, 0)]))
            counts[place] += 1
            left -= int(self._sizes[place])
        return [(int(size) * self._unit, k) for size, k in zip(self._sizes, counts, strict=True) if k]


class _Limited:
    """At most so many launches: T_k(s) = min_p τ_p + T_(k−1)(s − b_p)."""

    def __init__(self, batches: tuple[int, ...], times: tuple[float, ...], most: int) -> None:
        self._unit = math.gcd(*batches)
        self._sizes = np.array(batches) // self._unit
        self._times = np.array(times)
        length = most * int(self._sizes[-1]) + 1
        least = np.full(length, math.inf)
        least[0] = 0.0
        self._least = [least]
        for _ in range(most):
            before, least = least, least.copy()
            for size, time in zip(self._sizes.tolist(), times, strict=True):
                least[1:size] = np.minimum(least[1:size], time)
                least[size:] = np.minimum(least[size:], time + before[: length - size])
            self._least.append(least)

    def runs(self, samples: int) -> list[tuple[int, int]] | None:
        left = -(-samples // self._unit)
        if left >= len(self._least[-1]):
            return None
        shortest = float(self._least[-1][left])
        launches = next(k for k, least in enumerate(self._least) if least[left] <= shortest * (1 + _EQUAL))
        counts = [0] * len(self._sizes)
        while left > 0:
            launches -= 1
            place = int(np.argmin(self._times + self._least[launches][np.maximum(left - self._sizes, 0)]))
            counts[place] += 1
            left -= int(self._sizes[place])
        return [(int(size) * self._unit, k) for size, k in zip(self._sizes, counts, strict=True) if k]

    def totals(self) -> list[int]:
        least = self._least[-1]
        longer = np.append(least[1:] > least[:-1] * (1 + _EQUAL), True)
        return [int(s) * self._unit for s in np.flatnonzero(longer) if s]


_packing = lru_cache(maxsize=256)(_Packing)
_limited = lru_cache(maxsize=64)(_Limited)
