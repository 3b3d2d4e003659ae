"""`elapsed` by enumeration: every choice of units, each with its shortest elapsed time, where there are few enough.

Given the units, the launches per unit and the elapsed time S follow: S is the least time in which all units together do
the samples. What a unit does in S is, on the union of all resources' breakpoints, linear between neighbours; so S is
found by a search in a table and one interpolation, for millions of choices at once. Types are left out where what they
cost at their best rates, in any mixture, is dominated by choices of fewer types. Exact for `elapsed` problems with one
demand; the result is every nondominated choice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from mopt.elapsed_table import ElapsedTable, Floats, Ints
from mopt.plan import Choice
from mopt.problem import Problem

# Choices there may be at most; most are ruled out by the types they combine, the rest is minutes of work.
MOST_CHOICES = 4_000_000_000
_BLOCK = 400_000
# Parts of a line that are looked at one by one, whether they are dominated.
_PARTS = 8

# A choice that was looked at: types by index, units of each, elapsed time.
Looked = tuple[list[int], list[int], float]
# Looks at all choices of some types: rows, each with their indices.
Sift = Callable[["Sieve", Ints], None]


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
    problem: Problem,
    peaks: Mapping[str, float],
    sift: Sift,
    margin: float = 1e-9,
) -> list[Choice]:
    """Every choice that no other dominates by more than `margin` (relative) in both objectives; the budget aside.

    What is done sooner comes first.

    Parameters
    ----------
    sift : callable
        Has all choices of some types looked at, which may raise to stop.
    """
    (demand,) = problem.demand_by_name.values()
    names = list(problem.unit_limits)
    sieve = Sieve(problem, names, peaks, margin)
    for size in range(1, min(problem.max_types or len(names), len(names)) + 1):
        for types in sieve.types(size):
            sift(sieve, types)
    return [
        Choice(
            {(names[k], demand.name): n for k, n in zip(types_used, units, strict=True)},
            {(names[k], demand.name): sieve.table.launches(k, span) for k in types_used},
        )
        for types_used, units, span in sorted(sieve.choices, key=lambda looked: (looked[2], looked[:2]))
    ]


def soonest(problem: Problem, dedicated: Mapping[tuple[str, str], int]) -> Choice | None:
    """Units with the launches by which each demand is done first; None if the period is too short."""
    counts: dict[tuple[str, str], int] = {}
    for r, demand in problem.demand_by_name.items():
        names = [i for (i, q), n in dedicated.items() if q == r and n]
        table = ElapsedTable(problem, names, demand)
        types = np.arange(len(names))[None, :]
        (span,) = table.shortest(types, np.array([[dedicated[i, r] for i in names]]))
        if not np.isfinite(span):
            return None
        counts |= {(i, r): table.launches(k, float(span)) for k, i in enumerate(names)}
    return Choice(dict(dedicated), counts)


class Sieve:
    """All choices of units within all limits but the budget, and the nondominated among those that were looked at.

    Of types that are the same but for their names, a later one is used only once there are no more of an earlier one.

    Parameters
    ----------
    names : list of str
        The types, in the order of their indices.

    Attributes
    ----------
    values : array of shape (kept, 2)
        Both objectives of the nondominated, the first one rising.
    choices : list of Looked
        The nondominated themselves.
    """

    def __init__(self, problem: Problem, names: list[str], peaks: Mapping[str, float], margin: float) -> None:
        (demand,) = problem.demand_by_name.values()
        self.table = ElapsedTable(problem, names, demand)
        self._margin = margin
        self._startup, self._least_paid = problem.startup, problem.minimum_billing
        # Price and peak of one unit, and what doing all samples at the best rate would cost.
        self._worth = np.array([(problem.by_name[i].price_per_hour, peaks[i]) for i in names])
        self._alone = self._worth * (self.table.samples / self.table.rates)[:, None]
        self._least = np.array([max(1, problem.min_units.get(i, 0)) for i in names])
        self._largest = np.array([problem.unit_limits[i] for i in names])
        self._needed = [k for k, i in enumerate(names) if problem.min_units.get(i, 0)]
        self._groups = [
            (np.array([quota.covers(problem.by_name[i]) for i in names]), quota.max_units) for quota in problem.quotas
        ]
        self._before = _twins(problem, names, peaks, self._groups)
        self._after = np.full(len(names), -1)
        self._after[self._before[self._before >= 0]] = np.flatnonzero(self._before >= 0)
        self.values: Floats = np.empty((0, 2))
        self.choices: list[Looked] = []

    def types(self, size: int) -> Iterator[Ints]:
        """All promising combinations of so many types, in blocks: rows of indices, rising."""
        for types in self._combined(np.arange(len(self._least))[:, None], size):
            complete = types[np.isin(types, self._needed).sum(axis=1) == len(self._needed)]
            before = self._before[complete]
            follows = (before[:, :, None] == complete[:, None, :]).any(axis=2)
            complete = complete[(follows | (before < 0)).all(axis=1)]
            yield complete[self._promising(complete)]

    def count(self, types: Ints) -> int:
        """How many choices of some types there are."""
        return int(np.maximum(self._largest - self._least + 1, 0)[types].prod(axis=1).sum())

    def sift(self, types: Ints, check: Callable[[], None] = lambda: None) -> None:
        """Look at all choices of some types; `check` is called now and then, and may raise to stop."""
        for chosen, units in self._grown(types, np.empty((len(types), 0), dtype=np.int64), check):
            check()
            self._look_at(chosen, units)

    def take(self, values: Floats, choices: list[Looked]) -> None:
        """Take in choices that were looked at elsewhere, with their values."""
        merged = np.vstack([self.values, values])
        all_of_them = self.choices + choices
        again = _nondominated(merged, self._margin)  # in the order of the first objective
        self.values, self.choices = merged[again], [all_of_them[k] for k in again]

    def _look_at(self, types: Ints, counts: Ints) -> None:
        """Choices: types by index and units, both of shape (choices, types used)."""
        if not len(types):
            return
        table, rates = self.table, self._rented(types, counts)
        least = rates * self._paid(table.at_least(types, counts))[:, None]
        hopeful = ~_dominated(least, self.values, self._margin)
        types, counts, rates = types[hopeful], counts[hopeful], rates[hopeful]
        span = table.shortest(types, counts)
        fits = np.isfinite(span)
        types, counts, span = types[fits], counts[fits], span[fits]
        values = rates[fits] * self._paid(span)[:, None]
        best = _nondominated(values, self._margin)
        self.take(values[best], [(types[k].tolist(), counts[k].tolist(), float(span[k])) for k in best])

    def _paid(self, span: Floats) -> Floats:
        """Seconds that are paid of each unit."""
        paid: Floats = np.maximum(span + self._startup, self._least_paid)
        return paid

    def _rented(self, types: Ints, counts: Ints) -> Floats:
        """Price and peak of all units."""
        total: Floats = (self._worth[types] * counts[:, :, None]).sum(axis=1)
        return total

    def _combined(self, types: Ints, size: int) -> Iterator[Ints]:
        """Rows of `size` types, rising, that begin with these."""
        if types.shape[1] == size:
            yield types
            return
        for part, more in _in_blocks(len(self._least) - 1 - types[:, -1], _BLOCK):
            yield from self._combined(np.column_stack([types[part], types[part, -1] + 1 + more]), size)

    def _grown(self, types: Ints, units: Ints, check: Callable[[], None]) -> Iterator[tuple[Ints, Ints]]:
        """All units of the types that begin with these, but for hopeless ones."""
        k = units.shape[1]
        used = types[:, :k]
        keep = np.ones(len(types), dtype=bool)
        for group, allowed in self._groups:
            keep &= (units * group[used]).sum(axis=1) <= allowed  # more units can't mend it
        if k and k == types.shape[1] - 1:
            check()
            keep[keep] = ~self._hopeless(used[keep], units[keep], types[keep, k])
        types, units = types[keep], units[keep]
        if k == types.shape[1]:
            yield types, units
            return
        follows = (self._after[types[:, k]][:, None] == types).any(axis=1)
        first = np.where(follows, self._largest[types[:, k]], self._least[types[:, k]])
        for part, more in _in_blocks(np.maximum(self._largest[types[:, k]] - first + 1, 0), _BLOCK):
            yield from self._grown(types[part], np.column_stack([units[part], first[part] + more]), check)

    # Units that do a share λ of the samples at their best rate cost λ times what they cost doing all of them: objectives
    # are at least those of a point in the simplex that the types' own span. What is dominated is unbounded upwards, so a
    # simplex is dominated where its edges are.

    def _promising(self, types: Ints) -> npt.NDArray[np.bool_]:
        """Which types, each a row, known choices don't dominate, whatever the units."""
        i, j = np.triu_indices(len(self._alone))
        closed = np.zeros((len(self._alone), len(self._alone)), dtype=bool)
        closed[i, j] = self._beaten(self._alone[i], self._alone[j], np.zeros(len(i)), np.ones(len(i)))
        edges = itertools.combinations_with_replacement(range(types.shape[1]), 2)
        dominated = np.array([closed[types[:, a], types[:, b]] for a, b in edges])
        return np.asarray(~dominated.all(axis=0))

    def _hopeless(self, types: Ints, counts: Ints, last: Ints) -> npt.NDArray[np.bool_]:
        """Which choices known ones dominate with any units of one more type, the last."""
        table = self.table
        rate, one = table.rate(types, counts), table.rates[last]
        all_ = self._largest[last] * one
        start = self._rented(types, counts) * (table.samples / rate)[:, None]
        return self._beaten(start, self._alone[last], one / (rate + one), all_ / (rate + all_))

    def _beaten(self, start: Floats, end: Floats, least: Floats, largest: Floats) -> npt.NDArray[np.bool_]:
        """Which lines known choices dominate from the share `least` to `largest` of the way from start to end."""
        all_of_it = np.zeros(len(start), dtype=bool)
        at = np.arange(len(start))
        for parts in (1, _PARTS):  # most are easy to tell
            open_ = at
            for k in range(parts):
                along, width = (end - start)[open_], (largest - least)[open_]
                low, high = (least[open_] + width * share for share in (k / parts, (k + 1) / parts))
                best = start[open_] + np.minimum(along * low[:, None], along * high[:, None])
                open_ = open_[_dominated(best, self.values, self._margin)]
            all_of_it[open_] = True
            at = np.flatnonzero(~all_of_it)
        return all_of_it


def _twins(
    problem: Problem, names: list[str], peaks: Mapping[str, float], groups: list[tuple[npt.NDArray[np.bool_], int]]
) -> Ints:
    """For each type, the last one before it that it can be exchanged for without any difference; -1 if none."""
    (demand,) = problem.demand_by_name
    before = np.full(len(names), -1)
    last: dict[tuple[object, ...], int] = {}
    for k, i in enumerate(names):
        if problem.min_units.get(i, 0):
            continue
        same = tuple(bool(group[k]) for group, _ in groups)
        kind = problem.by_name[i].price_per_hour, peaks[i], problem.services[i, demand], same
        if kind in last and problem.unit_limits[names[last[kind]]] >= problem.unit_limits[i]:
            before[k] = last[kind]
        last[kind] = k
    return before


def _in_blocks(times: Ints, size: int) -> Iterator[tuple[Ints, Ints]]:
    """Each index k `times[k]` times, and 0 to `times[k]` - 1 beside it, in blocks of about a size."""
    splits = np.searchsorted(np.cumsum(times), np.arange(size, times.sum(), size))
    for part in np.split(np.arange(len(times)), splits):
        of = times[part]
        yield np.repeat(part, of), np.arange(of.sum()) - np.repeat(np.cumsum(of) - of, of)


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
