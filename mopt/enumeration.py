"""`elapsed` by enumeration: every choice of units, each with its shortest elapsed time, where there are few enough.

Given the units, the launches per unit and the elapsed time S follow: S is the least time in which all units together do
the samples. What a unit does in S is, on the union of all resources' breakpoints, linear between neighbours; so S is
found by a search in a table and one interpolation, for millions of choices at once. Types are left out where what they
cost at their best rates, in any mixture, is dominated by choices of fewer types. Exact for `elapsed` problems with one
demand; the result is every nondominated choice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from mopt.launch_table import FITS
from mopt.plan import Choice
from mopt.problem import Demand, Problem
from mopt.service import UnitService

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Curve = tuple[Floats, Floats]

# Choices there may be at most; most are ruled out by the types they combine, the rest is minutes of work.
MOST_CHOICES = 4_000_000_000
_BLOCK = 400_000
# Parts of a line that are looked at one by one, whether they are dominated.
_PARTS = 8


def choices(problem: Problem) -> int | None:
    """How many choices of units there are; None where enumeration doesn't apply."""
    if problem.billing != "elapsed" or len(problem.demand_by_name) != 1:
        return None
    limits = list(problem.unit_limits.values())
    types = min(problem.max_types or len(limits), len(limits))
    # Elementary symmetric polynomials of the limits: choices by the number of types.
    counts = [1] + [0] * types
    for limit in limits:
        for k in range(types, 0, -1):
            counts[k] += counts[k - 1] * limit
    return sum(counts[1:])


def nondominated_choices(
    problem: Problem, peaks: Mapping[str, float], check: Callable[[], None] = lambda: None, margin: float = 1e-9
) -> list[Choice]:
    """Every choice that no other dominates by more than `margin` (relative) in both objectives; the budget aside.

    `check` is called now and then: it may raise to stop.
    """
    (demand,) = problem.demand_by_name.values()
    names = list(problem.unit_limits)
    table = _Table(problem, names, demand)
    worth = np.array([(problem.by_name[i].price_per_hour, peaks[i]) for i in names])  # price and peak, of one unit
    kept = np.empty((0, 2))
    kept_choices: list[tuple[list[int], list[int], float]] = []
    alone = worth * (table.samples / table.rates)[:, None]

    def rented(types: Ints, counts: Ints) -> Floats:
        """Price and peak of all units."""
        total: Floats = (worth[types] * counts[:, :, None]).sum(axis=1)
        return total

    def beaten(start: Floats, end: Floats, least: Floats, largest: Floats) -> npt.NDArray[np.bool_]:
        """Which lines known choices dominate from the share `least` to `largest` of the way from start to end."""
        all_of_it = np.zeros(len(start), dtype=bool)
        at = np.arange(len(start))
        for parts in (1, _PARTS):  # most are easy to tell
            open_ = at
            for k in range(parts):
                along, width = (end - start)[open_], (largest - least)[open_]
                low, high = (least[open_] + width * share for share in (k / parts, (k + 1) / parts))
                best = start[open_] + np.minimum(along * low[:, None], along * high[:, None])
                open_ = open_[_dominated(best, kept, margin)]
            all_of_it[open_] = True
            at = np.flatnonzero(~all_of_it)
        return all_of_it

    # Units that do a share λ of the samples at their best rate cost λ times what they cost doing all of them: objectives
    # are at least those of a point in the simplex that the types' own span. What is dominated is unbounded upwards, so a
    # simplex is dominated where its edges are.

    def promising(types: Ints) -> npt.NDArray[np.bool_]:
        """Which types, each a row, known choices don't dominate, whatever the units."""
        i, j = np.triu_indices(len(names))
        closed = np.zeros((len(names), len(names)), dtype=bool)
        closed[i, j] = beaten(alone[i], alone[j], np.zeros(len(i)), np.ones(len(i)))
        edges = itertools.combinations_with_replacement(range(types.shape[1]), 2)
        dominated = np.array([closed[types[:, a], types[:, b]] for a, b in edges])
        return np.asarray(~dominated.all(axis=0))

    def hopeless(types: Ints, counts: Ints, last: Ints, most: Ints) -> npt.NDArray[np.bool_]:
        """Which choices known ones dominate with any units of one more type, the last, up to `most`."""
        check()
        rate, one, all_ = table.rate(types, counts), table.rates[last], most * table.rates[last]
        start = rented(types, counts) * (table.samples / rate)[:, None]
        return beaten(start, alone[last], one / (rate + one), all_ / (rate + all_))

    for types, counts in _blocks(problem, names, promising, hopeless):
        check()
        rates = rented(types, counts)
        hopeful = ~_dominated(rates * problem.paid(table.at_least(types, counts))[:, None], kept, margin)
        types, counts, rates = types[hopeful], counts[hopeful], rates[hopeful]
        span = table.shortest(types, counts)
        fits = np.isfinite(span)
        types, counts, span = types[fits], counts[fits], span[fits]
        values = rates[fits] * problem.paid(span)[:, None]
        best = _nondominated(values, margin)
        merged = np.vstack([kept, values[best]])
        kept_choices += [(types[k].tolist(), counts[k].tolist(), float(span[k])) for k in best]
        again = _nondominated(merged, margin)  # in the order of the first objective
        kept, kept_choices = merged[again], [kept_choices[k] for k in again]
    return [
        Choice(
            {(names[k], demand.name): n for k, n in zip(types_used, units, strict=True)},
            {(names[k], demand.name): table.launches(k, span) for k in types_used},
        )
        for types_used, units, span in kept_choices
    ]


def soonest(problem: Problem, dedicated: Mapping[tuple[str, str], int]) -> Choice | None:
    """Units with the launches by which each demand is done first; None if the period is too short."""
    counts: dict[tuple[str, str], int] = {}
    for r, demand in problem.demand_by_name.items():
        names = [i for (i, q), n in dedicated.items() if q == r and n]
        table = _Table(problem, names, demand)
        types = np.arange(len(names))[None, :]
        (span,) = table.shortest(types, np.array([[dedicated[i, r] for i in names]]))
        if not np.isfinite(span):
            return None
        counts |= {(i, r): table.launches(k, float(span)) for k, i in enumerate(names)}
    return Choice(dict(dedicated), counts)


def _blocks(
    problem: Problem,
    names: list[str],
    promising: Callable[[Ints], npt.NDArray[np.bool_]],
    hopeless: Callable[[Ints, Ints, Ints, Ints], npt.NDArray[np.bool_]],
) -> Iterator[tuple[Ints, Ints]]:
    """Choices within all limits but the budget, in blocks: types by index and units, of shape (choices, types used).

    Fewer types come first; those that aren't promising, and units that are hopeless, are left out.
    """
    least = np.array([max(1, problem.min_units.get(i, 0)) for i in names])
    largest = np.array([problem.unit_limits[i] for i in names])
    needed = [k for k, i in enumerate(names) if problem.min_units.get(i, 0)]
    groups = [
        (np.array([quota.covers(problem.by_name[i]) for i in names]), quota.max_units) for quota in problem.quotas
    ]

    def combined(types: Ints, size: int) -> Iterator[Ints]:
        """Rows of `size` types, rising, that begin with these."""
        if types.shape[1] == size:
            yield types
            return
        for part, more in _in_blocks(len(names) - 1 - types[:, -1], _BLOCK):
            yield from combined(np.column_stack([types[part], types[part, -1] + 1 + more]), size)

    def grown(types: Ints, units: Ints) -> Iterator[tuple[Ints, Ints]]:
        """All units of the types that begin with these."""
        k = units.shape[1]
        used = types[:, :k]
        keep = np.ones(len(types), dtype=bool)
        for group, allowed in groups:
            keep &= (units * group[used]).sum(axis=1) <= allowed  # more units can't mend it
        if k and k == types.shape[1] - 1:
            keep[keep] = ~hopeless(used[keep], units[keep], types[keep, k], largest[types[keep, k]])
        types, units = types[keep], units[keep]
        if k == types.shape[1]:
            yield types, units
            return
        first = least[types[:, k]]
        for part, more in _in_blocks(np.maximum(largest[types[:, k]] - first + 1, 0), _BLOCK):
            yield from grown(types[part], np.column_stack([units[part], first[part] + more]))

    for size in range(1, min(problem.max_types or len(names), len(names)) + 1):
        for types in combined(np.arange(len(names))[:, None], size):
            types = types[np.isin(types, needed).sum(axis=1) == len(needed)]
            types = types[promising(types)]
            for chosen, units in grown(types, np.empty((len(types), 0), dtype=np.int64)):
                if len(chosen):
                    yield chosen, units


def _in_blocks(times: Ints, size: int) -> Iterator[tuple[Ints, Ints]]:
    """Each index k `times[k]` times, and 0 to `times[k]` - 1 beside it, in blocks of about a size."""
    splits = np.searchsorted(np.cumsum(times), np.arange(size, times.sum(), size))
    for part in np.split(np.arange(len(times)), splits):
        of = times[part]
        yield np.repeat(part, of), np.arange(of.sum()) - np.repeat(np.cumsum(of) - of, of)


class _Table:
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


def _nondominated(values: Floats, margin: float) -> Ints:
    """Indices of the rows that no other beats by more than `margin` of its size in both columns, the first rising."""
    order: Ints = np.lexsort((values[:, 1], values[:, 0]))
    rows = values[order]
    return order[~_dominated(rows, rows, margin)]


def _dominated(values: Floats, known: Floats, margin: float) -> npt.NDArray[np.bool_]:
    """Which rows some known one, given with the first column rising, beats by more than `margin` in both columns."""
    better = np.searchsorted(known[:, 0], values[:, 0] * (1 - margin))
    best_second = np.concatenate([[np.inf], np.minimum.accumulate(known[:, 1])])
    dominated: npt.NDArray[np.bool_] = values[:, 1] * (1 - margin) > best_second[better]
    return dominated
