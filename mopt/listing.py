"""Fronts of whole programs by listing, within bounds, all that lies between two points.

The two-phase idea of Ulungu and Tind/Visée (Visée, Teghem, Pirlot, Ulungu, J. Global Optimization 12, 1998), box by
box: two neighbours on the front span a box whose corner u a new point must beat. For weights λ and multipliers y of
the rows, what a solution costs beyond the linear relaxation is Σ_i |r_i|·d_i + y·(W·n − b), where r = λ·c − y·W and
d_i is how far n_i is from its better bound; all solutions below λ·u are therefore found by listing the few deviations
d that stay within the gap. λ makes the gap smallest. Boxes with too many deviations are split at solutions that a beam
search finds. Exact as the rows are whole; costs that differ by less than 1e-12 of their size count as equal.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mopt.relaxation import Relaxation
from mopt.whole import Floats, Ints, Pair, WholeProgram

# Rounding of sums of costs, relative; what is told apart; what pruning leaves for rounding.
_EQUAL, _SLACK = 1e-12, 1e-11
# Deviations that a box is listed with at once, before it is split, and at most.
_FEW, _MOST = 200_000, 4_000_000
_BEAM = 3_000
# More partial solutions than this are compared with each other, and again once they are so many times as many.
_COMPARED, _GROWN = 500, 2.0
# Rows are compared with each other if this many share what they do in all rows of the program but one, on average.
_SHARED = 8
# How much an item's cost counts in the order of items, beside its reduced cost.
_COARSE = 0.1
_MANY = 2**40


class TooManyError(Exception):
    """More solutions are to be listed than is sensible."""


class Listed(NamedTuple):
    """A solution: its costs and how many of each item."""

    costs: Pair
    counts: Ints


class Boxes:
    """A whole program, box by box."""

    def __init__(self, program: WholeProgram) -> None:
        self.program = program
        self._relaxation = Relaxation(program)

    @cached_property
    def ends(self) -> tuple[Listed, Listed]:
        """The solutions of least first cost and of least second cost.

        Raises
        ------
        TooManyError
            If there is too much to list, or a beam finds no solution.
        """
        found = []
        for k in (0, 1):
            direction = (1.0, math.inf) if k == 0 else (math.inf, 1.0)
            some = self._below(direction, (math.inf, math.inf), beam=_BEAM)
            if not some:
                raise TooManyError
            least = min(one.costs[k] for one in some)
            box = (least, math.inf) if k == 0 else (math.inf, least)
            ties = self._below(direction, box, most=_MOST)
            best = min(one.costs[k] for one in ties)
            ties = [one for one in ties if one.costs[k] <= best * (1 + _EQUAL)]
            found.append(min(ties, key=lambda one: one.costs[1 - k]))
        return found[0], found[1]

    def inside(self, a: Pair, b: Pair) -> tuple[list[Listed], bool]:
        """All nondominated solutions right of a, below it, and not right of b; or else, and False, some of them.

        Raises
        ------
        TooManyError
            If there are too many, and a beam finds none but b.
        """
        box = (b[0], a[1])
        try:
            return self._after(a, self._below(box, box, most=_FEW)), True
        except TooManyError:
            some = self._after(a, self._below(box, box, beam=_BEAM))
        if better := [one for one in some if any(x < y * (1 - _EQUAL) for x, y in zip(one.costs, b, strict=True))]:
            return better, False
        return self._after(a, self._below(box, box, most=_MOST)), True

    @staticmethod
    def _after(a: Pair, some: list[Listed]) -> list[Listed]:
        return [one for one in some if _distinct(a, one.costs)]

    def _below(self, towards: Pair, box: Pair, *, most: int = 0, beam: int = 0) -> list[Listed]:
        """The nondominated among all solutions in a box (among some, with a beam), first cost rising.

        `towards` is the corner whose multipliers bound them.

        Raises
        ------
        TooManyError
            If more than `most` deviations are to be listed.
        """
        found = self._relaxation.multipliers(towards)
        if found is None:
            raise TooManyError
        listing = _Listing(self.program, *found, box)
        listed = 0
        for k in range(len(listing.items)):
            least, largest = listing.range_of(k)
            times = np.maximum(largest - least + 1, 0)
            listed += int(times.sum())
            if most and listed > most:
                raise TooManyError
            listing.extend(k, least, times, beam)
        return listing.solutions()


class Search:
    """The front from left to right, box by box.

    Parameters
    ----------
    boxes : Boxes
        Of a feasible program.
    last, end : pair of float
        Costs of nondominated solutions: what comes after the last, up to the end, is searched.
    """

    def __init__(self, boxes: Boxes, last: Pair, end: Pair) -> None:
        self._boxes, self._last = boxes, last
        # Solutions that are right of the last; those that a beam found may turn out to be dominated.
        self._targets = [end]

    @property
    def over(self) -> bool:
        """Whether the last point is the end."""
        while self._targets and not _distinct(self._last, self._targets[-1]):
            self._targets.pop()
        return not self._targets

    def step(self) -> list[Listed]:
        """The nondominated solutions of the next box; none if it was split.

        Raises
        ------
        TooManyError
            If the box has too many to list; `move` past a point found otherwise, then.
        """
        found, all_of_them = self._boxes.inside(self._last, self._targets[-1])
        if not all_of_them:
            while self._targets and not _distinct(found[-1].costs, self._targets[-1]):
                self._targets.pop()  # a beam's, and dominated
            self._targets += [one.costs for one in reversed(found)]
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
    """Partial solutions, item by item, in the order of falling reduced costs and costs.

    The last item, the cheapest of reduced cost 0 (as those have that the relaxation takes in part), is left out until
    the end: of it, as few are taken as the rows ask for.
    """

    def __init__(self, program: WholeProgram, weights: Floats, y: Floats, box: Pair) -> None:
        self._program, self._box = program, box
        cost = program.costs @ weights
        reduced = cost - y @ program.weights
        reduced[abs(reduced) <= _EQUAL * cost] = 0.0  # what the relaxation takes in part
        nothing = reduced == 0
        last = int(np.argmin(np.where(nothing, cost, math.inf) if nothing.any() else abs(reduced)))
        self._last = last
        self._full = reduced < 0
        self._full[last] = False
        self._size = abs(reduced)
        base = np.where(self._full, program.limits, 0)
        bound = float(y @ program.demands) + float(np.minimum(reduced, 0.0) @ program.limits)
        corner = float(sum(weight * side for weight, side in zip(weights, box, strict=True) if weight))
        size = float((cost + self._size) @ program.limits + y @ abs(program.demands))
        self._gap = corner - bound + _SLACK * size
        movable = (self._size <= self._gap) & (program.limits > 0)
        movable[last] = False
        # Cheap items last as well: what is left to cover is then bounded well.
        order = np.argsort(-(self._size + _COARSE * cost), kind="stable")
        self.items = order[movable[order]]
        self._base = base
        some = 1 if self._gap >= 0 else 0
        self._spent = np.zeros(some)
        self._compared = 0
        self._covered = np.tile(program.weights @ base, (some, 1))
        self._costs = np.tile(base @ program.costs, (some, 1))
        self._steps: list[tuple[int, int, Ints, Ints]] = []
        self._surrogate = y / y.max() if y.any() else y
        self._look_ahead()

    def _look_ahead(self) -> None:
        """After each item, of those that are left: what they can add to a row, and bounds on either cost.

        Either cost is at least rate·(what one surrogate row misses) + refund: a bound by a Lagrangean multiplier.
        """
        program, last = self._program, self._last
        left = np.append(self.items, last)
        signs = np.where(self._full[left], -1, 1)
        steps = program.weights[:, left] * signs
        reach = np.maximum(steps, 0) * program.limits[left]
        self._can_add = np.cumsum(reach[:, ::-1], axis=1)[:, ::-1]
        taken = np.maximum(-steps, 0) * program.limits[left]
        self._can_take = np.cumsum(taken[:, ::-1], axis=1)[:, ::-1]
        surrogate = (self._surrogate @ program.weights)[left] * signs
        self._surrogate_step = surrogate
        costs = program.costs[left] * signs[:, None]
        up = (signs > 0) & (surrogate > 0)
        rates = np.where(up[:, None], costs / np.where(up, surrogate, 1.0)[:, None], math.inf)
        rate = np.minimum.accumulate(rates[::-1], axis=0)[::-1]
        self._rate = np.where(np.isfinite(rate), rate, 0.0)
        self._refund = np.zeros_like(self._rate)
        for k in range(len(left)):
            gains = np.minimum(costs[k:] - self._rate[k] * surrogate[k:, None], 0.0)
            self._refund[k] = program.limits[left[k:]] @ np.where(signs[k:, None] < 0, gains, 0.0)

    def range_of(self, k: int) -> tuple[Ints, Ints]:
        """Least and largest deviation of item k, for each partial solution."""
        program, i = self._program, self.items[k]
        sign = -1 if self._full[i] else 1
        largest = np.full(len(self._spent), program.limits[i])
        if self._size[i] > 0:
            room = np.minimum((self._gap - self._spent) / self._size[i], _MANY)
            largest = np.minimum(largest, np.floor(room).astype(np.int64))
        least = np.zeros_like(largest)
        missing = self._surrogate @ program.demands - self._covered @ self._surrogate
        for q in (0, 1):
            if math.isinf(self._box[q]):
                continue
            # Either cost, with the rest of the demand at the best rate of what is left, must stay in the box.
            rate = self._rate[k + 1, q]
            room = self._box[q] * (1 + _SLACK) - self._refund[k + 1, q] - rate * missing - self._costs[:, q]
            slope = sign * program.costs[i, q] - rate * self._surrogate_step[k]
            if slope > _EQUAL * program.costs[i, q]:
                allowed = np.floor(np.clip(room / slope + 1e-9, -1, _MANY)).astype(np.int64)
                largest = np.minimum(largest, allowed)
            elif slope < -_EQUAL * program.costs[i, q]:
                needed = np.ceil(np.clip(room / slope - 1e-9, 0, _MANY)).astype(np.int64)
                least = np.maximum(least, needed)
        for row in np.flatnonzero(program.weights[:, i]):
            weight = sign * program.weights[row, i]
            spare = self._covered[:, row] + self._can_add[row, k + 1] - program.demands[row]
            if weight > 0:
                least = np.maximum(least, -(spare // weight))
            else:
                largest = np.minimum(largest, spare // -weight)
        return least, largest

    def extend(self, k: int, least: Ints, times: Ints, beam: int) -> None:
        """Every partial solution with each deviation of item k."""
        program, i = self._program, int(self.items[k])
        sign = -1 if self._full[i] else 1
        parent = np.repeat(np.arange(len(times)), times)
        deviation = np.arange(len(parent)) - np.repeat(np.cumsum(times) - times - least, times)
        spent = self._spent[parent] + self._size[i] * deviation
        covered = self._covered[parent] + sign * deviation[:, None] * program.weights[:, i]
        costs = self._costs[parent] + sign * deviation[:, None] * program.costs[i]
        keep: npt.NDArray[np.intp] | None = None
        if beam and len(spent) > beam:
            keep = np.argpartition(spent, beam)[:beam]
        elif len(spent) > max(_COMPARED, _GROWN * self._compared):
            # More than the demand and all that can still be taken away counts for nothing.
            keep = _undominated(costs, np.minimum(covered, program.demands + self._can_take[:, k + 1]))
            self._compared = len(spent if keep is None else keep)
        if keep is not None:
            parent, deviation, spent = parent[keep], deviation[keep], spent[keep]
            covered, costs = covered[keep], costs[keep]
        self._spent, self._covered, self._costs = spent, covered, costs
        self._steps.append((i, sign, parent, deviation))

    def solutions(self) -> list[Listed]:
        """The solutions, with as many of the last item as are missing, the nondominated of them."""
        program, last = self._program, self._last
        counts = np.zeros(len(self._spent), dtype=np.int64)
        most = np.full_like(counts, program.limits[last])
        for row, weight in enumerate(program.weights[:, last]):
            missing = program.demands[row] - self._covered[:, row]
            if weight > 0:
                counts = np.maximum(counts, -(-missing // weight))
            elif weight < 0:
                most = np.minimum(most, -missing // -weight)
            else:
                most[missing > 0] = -1
        costs = self._costs + counts[:, None] * program.costs[last]
        inside = (counts <= most) & np.all(costs <= np.array(self._box) * (1 + _SLACK), axis=1)
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
        return [Listed((float(c), float(d)), n) for (c, d), n in zip(costs[at], made, strict=True)]


def _undominated(costs: Floats, covered: Ints) -> npt.NDArray[np.intp] | None:
    """Indices of rows that no other row beats: costs no less, covered no more in one column and the same in the others.

    Of equal rows, one is left. None if rows that share all columns but one are too few for that to be worth while.

    By halves (Kung, Luccio, Preparata, J. ACM 22, 1975): with rows in the order of first cost, those of the left half of
    a block beat those of its right half that have no less second cost and no more covered; all blocks of a size at once.
    """
    group = np.zeros(len(costs), dtype=np.int64)
    varied = np.flatnonzero((covered != covered[0]).any(axis=0))
    amount = covered[:, varied[0] if len(varied) else 0]
    for column in varied[1:]:
        values, place = np.unique(covered[:, column], return_inverse=True)
        group = np.unique(group * len(values) + place, return_inverse=True)[1]
    sizes = np.bincount(group)
    if len(sizes) * _SHARED > len(group):
        return None
    order = np.lexsort((-amount, costs[:, 1], costs[:, 0], group))
    # Places by first cost; those of a group fill blocks of their own.
    bits = int(sizes.max()).bit_length()
    first = np.cumsum(sizes) - sizes
    place = (group[order] << bits) + np.arange(len(order)) - first[group[order]]
    at = np.lexsort((costs[order, 1], group[order]))
    index, place = order[at], place[at]
    rank = np.unique(amount, return_inverse=True)[1][index] + 1
    many = len(order) + 1
    for shift in reversed(range(bits)):
        # In each block, by second cost; blocks come one after another, so the running maximum needs no reset.
        block, right = place >> (shift + 1), (place >> shift) & 1 == 1
        key = block * many + rank
        keep = ~right | (np.maximum.accumulate(np.where(right, 0, key)) < key)
        index, place, rank = index[keep], place[keep], rank[keep]
        half = place >> shift
        by = np.argsort(half.astype(np.uint16) if (half[-1] | 1) < 2**16 else half, kind="stable")
        index, place, rank = index[by], place[by], rank[by]
    return index
