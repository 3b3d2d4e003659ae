"""Bi-objective covering with one row: min (c1·n, c2·n), w·n ≥ B, 0 ≤ n ≤ N, n whole, by enumeration with bounds.

The two-phase idea of Ulungu and Tind/Visée (Visée, Teghem, Pirlot, Ulungu, J. Global Optimization 12, 1998), box by
box: two neighbours on the front span a box whose corner u a new point must beat. For weights λ and the multiplier y of
the row, what a cover costs beyond the linear relaxation is Σ_i |r_i|·d_i + y·(w·n − B), where r = λ·c − y·w and d_i is
how far n_i is from its better bound; all covers below λ·u are therefore found by listing the few deviations d that
stay within the gap. λ is chosen to make the gap smallest. Boxes with too many deviations are split at covers that a
beam search finds. Exact where weights are whole; costs that differ by less than 1e-12 of their size count as equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mopt.linear_model import Form, LinearModel, Vector

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Pair = tuple[float, float]

# Rounding of sums of costs, relative; what is told apart; what pruning leaves for rounding.
_EQUAL, _SLACK = 1e-12, 1e-11
# Deviations that a box is listed with at once, before it is split, and at most.
_FEW, _MOST = 200_000, 1_000_000
_BEAM = 3_000
# More partial covers than this are compared with each other, at so many levels of what they cover.
_COMPARED, _LEVELS = 10_000, 12
_MANY = 2**40
# So many of an item at most are tried to be exchanged for others.
_EXCHANGED = 16


class TooManyError(Exception):
    """More covers are to be listed than is sensible."""


class Cover(NamedTuple):
    """A cover: its costs and how many of each item."""

    costs: Pair
    counts: Ints


@dataclass(frozen=True)
class Covering:
    """min (c1·n, c2·n) subject to w·n ≥ demand, 0 ≤ n ≤ limits.

    Attributes
    ----------
    weights : int array of shape (m,)
        Positive.
    costs : array of shape (m, 2)
        At least 0, no row all 0.
    limits : int array of shape (m,)
    demand : int
    """

    weights: Ints
    costs: Floats
    limits: Ints
    demand: int

    def tightened(self) -> tuple[Covering, npt.NDArray[np.bool_]]:
        """The same with fewer of what others replace: if m of j cover no less than k of i and cost no more in either
        objective, and there is enough of j to cover the demand alone, fewer than k of i are needed.

        Also gives which items are left. Exchanges come to an end: each lowers a cost, or else covers more, or takes
        fewer, or moves to an earlier item.
        """
        weights, costs, limits = self.weights, self.costs, self.limits.copy()
        ample = np.flatnonzero(weights * limits >= self.demand)
        earlier = ample[None, :] < np.arange(len(weights))[:, None]
        itself = ample[None, :] == np.arange(len(weights))[:, None]
        for k in range(_EXCHANGED, 0, -1):
            m = -(-k * weights[:, None] // weights[ample])
            gains = k * costs[:, None, :] - m[:, :, None] * costs[ample]
            no_worse = (gains >= 0).all(axis=2) & ~itself
            better = (gains > 0).any(axis=2) | (m * weights[ample] > k * weights[:, None]) | (m < k)
            replaced = (no_worse & (better | ((m == k) & earlier))).any(axis=1)
            limits[replaced] = np.minimum(limits[replaced], k - 1)
        used = limits > 0
        return Covering(weights[used], costs[used], limits[used], self.demand), used

    @property
    def feasible(self) -> bool:
        """Whether all items together cover the demand."""
        return bool(self.weights @ self.limits >= self.demand)

    @cached_property
    def ends(self) -> tuple[Cover, Cover]:
        """The covers of least first cost and of least second cost."""
        anywhere = (math.inf, math.inf)
        found = []
        for k in (0, 1):
            weights = np.eye(2)[k]
            least = min(cover.costs[k] for cover in self._below(weights, anywhere, beam=_BEAM))
            box = (least, math.inf) if k == 0 else (math.inf, least)
            ties = self._below(weights, box, most=_MOST)
            best = min(cover.costs[k] for cover in ties)
            ties = [cover for cover in ties if cover.costs[k] <= best * (1 + _EQUAL)]
            found.append(min(ties, key=lambda cover: cover.costs[1 - k]))
        return found[0], found[1]

    def inside(self, a: Pair, b: Pair) -> tuple[list[Cover], bool]:
        """All nondominated covers right of a, below it, and not right of b; or else, and False, some covers between."""
        box = (b[0], a[1])
        weights = self._weights(box)
        try:
            return self._after(a, self._below(weights, box, most=_FEW)), True
        except TooManyError:
            some = self._after(a, self._below(weights, box, beam=_BEAM))
        if between := [cover for cover in some if _distinct(cover.costs, b)]:
            return between, False
        return self._after(a, self._below(weights, box, most=_MOST)), True

    @staticmethod
    def _after(a: Pair, covers: list[Cover]) -> list[Cover]:
        return [cover for cover in covers if _distinct(a, cover.costs)]

    def _multiplier(self, cost: Floats) -> tuple[float, int]:
        """The multiplier of the row in the linear relaxation, and the item that is rented in part."""
        ratio = cost / self.weights
        order = np.argsort(ratio, kind="stable")
        last = int(order[np.searchsorted(np.cumsum((self.weights * self.limits)[order]), self.demand)])
        return float(ratio[last]), last

    def _bound(self, weights: Floats) -> float:
        cost = self.costs @ weights
        y, _ = self._multiplier(cost)
        return y * self.demand + float(np.minimum(cost - y * self.weights, 0.0) @ self.limits)

    def _weights(self, box: Pair) -> Floats:
        """λ with λ·u = 1 at the corner u of a box and the largest bound: golden section, as the bound is concave."""

        def weights(t: float) -> Floats:
            return np.array([t / box[0], (1 - t) / box[1]])

        golden = (math.sqrt(5) - 1) / 2
        low, high = 0.0, 1.0
        left, right = 1 - golden, golden
        at_left, at_right = self._bound(weights(left)), self._bound(weights(right))
        for _ in range(20):
            if at_left < at_right:
                low, left, at_left = left, right, at_right
                right = low + golden * (high - low)
                at_right = self._bound(weights(right))
            else:
                high, right, at_right = right, left, at_left
                left = high - golden * (high - low)
                at_left = self._bound(weights(left))
        return weights((low + high) / 2)

    def _below(self, weights: Floats, box: Pair, *, most: int = 0, beam: int = 0) -> list[Cover]:
        """The nondominated among all covers in a box (among some, with a beam), first cost rising.

        Raises
        ------
        TooManyError
            If more than `most` deviations are to be listed.
        """
        listing = _Listing(self, weights, box)
        listed = 0
        for k in range(len(listing.items)):
            least, largest = listing.range_of(k)
            times = np.maximum(largest - least + 1, 0)
            listed += int(times.sum())
            if most and listed > most:
                raise TooManyError
            listing.extend(k, least, times, beam)
        return listing.covers()


class Search:
    """The front from left to right, box by box.

    Parameters
    ----------
    problem : Covering
        A feasible one.
    last : pair of float
        Costs of a nondominated cover: what comes after it is searched.
    """

    def __init__(self, problem: Covering, last: Pair) -> None:
        self._problem, self._last = problem, last
        # Covers that are right of the last; those that a beam found may turn out to be dominated.
        self._targets = [problem.ends[1].costs]

    @property
    def over(self) -> bool:
        """Whether the last point is the end."""
        while self._targets and not _distinct(self._last, self._targets[-1]):
            self._targets.pop()
        return not self._targets

    def step(self) -> list[Cover]:
        """The nondominated covers of the next box; none if it was split.

        Raises
        ------
        TooManyError
            If the box has too many to list; `move` past a point found otherwise, then.
        """
        found, all_of_them = self._problem.inside(self._last, self._targets[-1])
        if not all_of_them:
            self._targets += [cover.costs for cover in reversed(found)]
            return []
        if found:
            self.move(found[-1].costs)
        return found

    def move(self, last: Pair) -> None:
        """Go on after a nondominated point."""
        self._last = last


def _distinct(a: Pair, b: Pair) -> bool:
    """Whether b is to the right of and below a, by more than rounding."""
    return b[0] > a[0] * (1 + _EQUAL) and b[1] < a[1] * (1 - _EQUAL)


class _Listing:
    """Partial covers, item by item, in the order of falling reduced costs; the item rented in part comes last."""

    def __init__(self, problem: Covering, weights: Floats, box: Pair) -> None:
        self._problem, self._box = problem, box
        cost = problem.costs @ weights
        self._y, self._last = problem._multiplier(cost)
        reduced = cost - self._y * problem.weights
        reduced[self._last] = 0.0
        self._full = reduced < 0
        self._size = abs(reduced)
        base = np.where(self._full, problem.limits, 0)
        base[self._last] = 0
        bound = self._y * problem.demand + float(reduced @ base)
        corner = float(sum(weight * side for weight, side in zip(weights, box, strict=True) if weight))
        self._gap = corner - bound + _SLACK * (abs(bound) + float(self._size @ base))
        movable = (self._size <= self._gap) & (problem.limits > 0)
        movable[self._last] = False
        order = np.argsort(-self._size, kind="stable")
        self.items = order[movable[order]]
        self._base = base
        self._spent = np.zeros(1)
        self._covered = np.array([problem.weights @ base], dtype=np.int64)
        self._costs = (base @ problem.costs)[None, :]
        self._steps: list[tuple[int, int, Ints, Ints]] = []
        if self._gap < 0:
            self._spent, self._covered, self._costs = self._spent[:0], self._covered[:0], self._costs[:0]
        self._look_ahead()

    def _look_ahead(self) -> None:
        """After each item, of those that are left: what they can add and take, and bounds on either cost."""
        problem, items, full = self._problem, self.items, self._full[self.items]
        capacity = problem.weights[items] * problem.limits[items]
        own = problem.weights[self._last] * problem.limits[self._last]
        self._can_add = own + np.append(np.cumsum(np.where(full, 0, capacity)[::-1])[::-1], 0)
        self._can_take = np.append(np.cumsum(np.where(full, capacity, 0)[::-1])[::-1], 0)
        self._rate = np.empty((len(items) + 1, 2))
        self._refund = np.zeros((len(items) + 1, 2))
        rates = problem.costs / problem.weights[:, None]
        for k in range(len(items) + 1):
            left = items[k:]
            up, down = np.append(left[~full[k:]], self._last), left[full[k:]]
            self._rate[k] = rates[up].min(axis=0)
            saved = self._rate[k] * problem.weights[down, None] - problem.costs[down]
            self._refund[k] = problem.limits[down] @ np.minimum(saved, 0.0)

    def range_of(self, k: int) -> tuple[Ints, Ints]:
        """Least and largest deviation of item k, for each partial cover."""
        problem, i = self._problem, self.items[k]
        sign = -1 if self._full[i] else 1
        largest = np.full(len(self._spent), problem.limits[i])
        if self._size[i] > 0:
            room = np.minimum((self._gap - self._spent) / self._size[i], _MANY)
            largest = np.minimum(largest, np.floor(room).astype(np.int64))
        least = np.zeros_like(largest)
        missing = problem.demand - self._covered
        for q in (0, 1):
            if math.isinf(self._box[q]):
                continue
            # Either cost, with the rest of the demand at the best rate of what is left, must stay in the box.
            rate = self._rate[k + 1, q]
            room = self._box[q] * (1 + _SLACK) - self._refund[k + 1, q] - rate * missing - self._costs[:, q]
            slope = sign * (problem.costs[i, q] - rate * problem.weights[i])
            if slope > _EQUAL * problem.costs[i, q]:
                allowed = np.floor(np.clip(room / slope + 1e-9, -1, _MANY)).astype(np.int64)
                largest = np.minimum(largest, allowed)
            elif slope < -_EQUAL * problem.costs[i, q]:
                needed = np.ceil(np.clip(room / slope - 1e-9, 0, _MANY)).astype(np.int64)
                least = np.maximum(least, needed)
        spare = self._covered + self._can_add[k + 1] - problem.demand
        if sign > 0:
            return np.maximum(least, -(spare // problem.weights[i])), largest
        return least, np.minimum(largest, spare // problem.weights[i])

    def extend(self, k: int, least: Ints, times: Ints, beam: int) -> None:
        """Every partial cover with each deviation of item k."""
        problem, i = self._problem, int(self.items[k])
        sign = -1 if self._full[i] else 1
        parent = np.repeat(np.arange(len(times)), times)
        deviation = np.arange(len(parent)) - np.repeat(np.cumsum(times) - times - least, times)
        spent = self._spent[parent] + self._size[i] * deviation
        covered = self._covered[parent] + sign * problem.weights[i] * deviation
        costs = self._costs[parent] + sign * deviation[:, None] * problem.costs[i]
        keep: npt.NDArray[np.intp] | None = None
        if beam and len(spent) > beam:
            keep = np.argpartition(spent, beam)[:beam]
        elif len(spent) > _COMPARED:
            keep = _undominated(costs, np.minimum(covered, problem.demand + self._can_take[k + 1]))
        if keep is not None:
            parent, deviation, spent = parent[keep], deviation[keep], spent[keep]
            covered, costs = covered[keep], costs[keep]
        self._spent, self._covered, self._costs = spent, covered, costs
        self._steps.append((i, sign, parent, deviation))

    def covers(self) -> list[Cover]:
        """The covers, with as many of the last item as are missing, the nondominated of them."""
        problem, last = self._problem, self._last
        missing = problem.demand - self._covered
        counts = np.maximum(-(-missing // problem.weights[last]), 0)
        excess = counts * problem.weights[last] - missing
        costs = self._costs + counts[:, None] * problem.costs[last]
        inside = (counts <= problem.limits[last]) & (self._spent + self._y * excess <= self._gap)
        inside &= np.all(costs <= np.array(self._box) * (1 + _SLACK), axis=1)
        at = np.flatnonzero(inside)
        at = at[np.lexsort((costs[at, 1], costs[at, 0]))]
        second = costs[at, 1]
        before = np.append(math.inf, np.minimum.accumulate(second)[:-1])[: len(at)]
        at = at[second < before * (1 - _EQUAL)]
        made = np.tile(self._base, (len(at), 1))
        made[:, last] = counts[at]
        where = at
        for i, sign, parent, deviation in reversed(self._steps):
            made[:, i] += sign * deviation[where]
            where = parent[where]
        return [Cover((float(c), float(d)), n) for (c, d), n in zip(costs[at], made, strict=True)]


def _undominated(costs: Floats, covered: Ints) -> npt.NDArray[np.intp]:
    """Indices of rows that no row found at these levels beats: costs no less and covered no more."""
    order = np.lexsort((-covered, costs[:, 1], costs[:, 0]))
    second, amount = costs[order, 1], covered[order]
    dominated = np.zeros(len(order), dtype=bool)
    for level in np.unique(np.quantile(amount, np.linspace(0, 1, _LEVELS), method="nearest")):
        least = np.minimum.accumulate(np.where(amount >= level, second, math.inf))
        dominated[1:] |= (amount[1:] <= level) & (least[:-1] <= second[1:])
    kept: npt.NDArray[np.intp] = order[~dominated]
    return kept


# -- From a linear model ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CoveringView:
    """A linear model seen as a covering problem.

    Attributes
    ----------
    columns : int array
        The model's column of each item.
    signs, offset : arrays
        x = offset, and x[columns] += signs·n.
    constants : pair of float
        What either objective is at n = 0.
    """

    covering: Covering
    columns: Ints
    signs: Ints
    offset: Vector
    constants: Pair

    def solution(self, cover: Cover) -> Vector:
        """The model's solution of a cover."""
        x = self.offset.copy()
        x[self.columns] += self.signs * cover.counts
        return x

    def costs(self, values: tuple[float, float]) -> Pair:
        """Costs of a cover from the values of the two objectives."""
        return values[0] - self.constants[0], values[1] - self.constants[1]


def covering_view(model: LinearModel, forms: tuple[Form, ...]) -> CoveringView | None:
    """The model as a covering problem: whole, bounded variables, one row with whole coefficients, and objectives that
    any step towards covering makes worse. None if it isn't of this kind."""
    m, n = model.matrix.shape
    bounded = np.isfinite(model.lower).all() and np.isfinite(model.upper).all()
    if m != 1 or len(forms) != 2 or not n or not model.integer.all() or not bounded:
        return None
    row = model.matrix.toarray()[0]
    low, high = float(model.row_lower[0]), float(model.row_upper[0])
    if np.isfinite(low) == np.isfinite(high):
        return None
    demand, row = (low, row) if np.isfinite(low) else (-high, -row)
    slopes = np.column_stack([form.coefficients for form in forms])
    signs = np.where(row < 0, -1, 1)
    costs = slopes * signs[:, None]
    if (costs < 0).any():
        return None
    idle = row == 0
    free = ~idle & ~costs.any(axis=1)
    offset = np.where(signs > 0, model.lower, model.upper)
    offset[free] = np.where(signs > 0, model.upper, model.lower)[free]
    demand -= float(row @ offset)
    sums = abs(row) @ np.maximum(abs(model.lower), abs(model.upper)) + abs(demand)
    if demand <= 0 or sums >= 2**53 or not np.array_equal(row, np.rint(row)) or demand != round(demand):
        return None
    items = np.flatnonzero(~idle & ~free & (model.upper > model.lower))
    limits = (model.upper - model.lower)[items].astype(np.int64)
    weights = abs(row[items]).astype(np.int64)
    constants = tuple(form.at(offset) for form in forms)
    covering, used = Covering(weights, costs[items], limits, int(demand)).tightened()
    items = items[used]
    return CoveringView(covering, items, signs[items], offset, (constants[0], constants[1]))
