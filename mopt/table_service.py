"""What one unit does in a period where launch times are a table of operating points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from mopt.launch_table import FITS, LaunchTable

Pieces = tuple[tuple[float, float], ...]
Runs = list[tuple[float, float]]


class Mode(NamedTuple):
    """One way for a unit to run where all units of a kind run equally.

    Attributes
    ----------
    launches : int
    most : float
        Samples that the unit can do.
    pieces : tuple of (slope, intercept)
        Its seconds of computing by its samples: the largest of slope·samples + intercept.
    """

    launches: int
    most: float
    pieces: Pieces

    def time(self, samples: float) -> float:
        """Seconds for some samples."""
        return max(slope * samples + intercept for slope, intercept in self.pieces)


class Corner(NamedTuple):
    """A batch of which launches are mixed: launches a sample, and seconds a sample under each roof."""

    launches: float
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class TableService:
    """One unit of a resource serving a demand for a period by launches of a table; see `Service`.

    Any launches of the table may be mixed, so the table needn't be convex.

    Attributes
    ----------
    tau : LaunchTable
        The usable launches of the unit.
    """

    tau: LaunchTable
    step: int
    batch_limit: float
    available: float
    whole: bool
    max_launches: int | None = None
    overhead: float = 0.0

    @property
    def tabulated(self) -> bool:
        """Whether launch times are those of a table."""
        return True

    @property
    def _best(self) -> int:
        return self.tau.batches[self.tau.best]

    @cached_property
    def capacity(self) -> float:
        """W: samples the unit can do in the period.

        Whole launches: the largest total whose quickest launches fit, which is found by bisection as that time rises
        with it. Fractional launches: those with the least time a sample, not floored.
        """
        rate = self._best / self.tau.at(self._best)
        if not self.whole:
            return self.available * rate
        allowed = self.available * (1 + FITS)
        low, high = int(self.batch_limit), int(allowed * rate * (1 + FITS)) + 1
        if self.max_launches is not None:
            high = min(high, self.max_launches * self.tau.batches[-1])
        while low < high:
            middle = (low + high + 1) // 2
            runs = self.tau.quickest(middle, self.max_launches)
            if runs is not None and self.tau.seconds(runs) <= allowed:
                low = middle
            else:
                high = middle - 1
        return float(low)

    def runs(self, samples: float) -> Runs:
        """The launches that do `samples` in the least time: batches, and how many of each; the last may be padded."""
        if samples <= 0:
            return []
        if not self.whole:
            return [(self._best, samples / self._best)]
        found = self.tau.quickest(samples, self.max_launches)
        return [(math.inf, 1)] if found is None else [(float(batch), float(times)) for batch, times in found]

    def busy(self, samples: float) -> float:
        """Seconds of computing that `runs` takes."""
        return self.tau.seconds(self.runs(samples))

    def modes(self, samples: float) -> list[Mode]:
        """The totals worth choosing, each with its quickest launches: more in longer time, up to enough for all."""
        assert self.max_launches is not None
        found = []
        for total in self.tau.totals(self.max_launches):
            runs = self.runs(total)
            seconds = self.tau.seconds(runs)
            if seconds > self.available * (1 + FITS):
                break
            found.append(Mode(int(sum(times for _, times in runs)), float(total), ((0.0, seconds),)))
            if total >= samples:
                break
        return found

    def corners(self) -> list[Corner]:
        """The launches to mix: all of the table."""
        return [Corner(1 / b, (time / b,)) for b, time in zip(self.tau.batches, self.tau.times, strict=True)]

    def memory_at(self, batch: float) -> float:
        """Bytes on each accelerator at a batch of the unit."""
        return self.tau.memory_at(batch)

    def replaces(self, other: object) -> bool:
        """Whether it does whatever another service does, no slower launch by launch."""
        return isinstance(other, TableService) and self.tau.never_above(other.tau)
