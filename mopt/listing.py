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
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mopt.relaxation import Relaxation
from mopt.whole import Floats, Ints, Pair, WholeProgram

# Rounding of sums of costs, relative; what is told apart; what pruning leaves for rounding.
_EQUAL, _SLACK = 1e-12, 1e-11
# Deviations that a box is listed with at once, before it is split.
_FEW = 200_000
# And at most, in programs with one row and with several, whose partial solutions are compared at greater cost.
_MOST, _MOST_ROWS = 16_000_000, 1_000_000
# And to prove a known solution nondominated, or find a better one.
_PROOF = 20_000
_BEAM = 1_500
# Ends are mostly found with fewer partial solutions.
_NARROW = 300
# More partial solutions than this are compared with each other, and again once they are so many times as many.
_COMPARED, _GROWN = 500, 3.0
# More than this are compared roughly with each new item, in a grid of so many cells each.
_ROUGHLY, _CELLS = 2_000, 8
# Rows are compared with each other if this many share what they do in all rows of the program but one, on average.
_SHARED = 8
# How much an item's cost counts in the order of items, beside its reduced cost.
_COARSE = 0.1
# Partial solutions are bounded in the box's direction, along both axes, and in this direction between and its mirror.
_TILT = 0.7
_MANY = 2**40


class TooManyError(Exception):
    """More solutions are to be listed than is sensible."""


class Listed(NamedTuple):
    """A solution: its costs and how many of each item."""

    costs: Pair
    counts: Ints


class Boxes:
    """A whole program, box by box.

    Parameters
    ----------
    program : WholeProgram
    check_time : callable
        Called now and then; what it raises ends the listing.
    """

    def __init__(self, program: WholeProgram, check_time: Callable[[], None] = lambda: None) -> None:
        self.program, self._check_time = program, check_time
        self._most = _MOST if len(program.weights) == 1 else _MOST_ROWS
        self._relaxation = Relaxation(program)

    @cached_property
    def ends(self) -> tuple[Listed, Listed]:
        """The solutions of least first cost and of least second cost.

        Raises
        ------
        TooManyError
            If there is too much to list, or a beam finds no solution.
        """
        return self._end(0), self._end(1)

    def _end(self, k: int) -> Listed:
        direction = (1.0, math.inf) if k == 0 else (math.inf, 1.0)
        for beam, most in ((_NARROW, _FEW), (_BEAM, self._most)):
            some = self._below(direction, (math.inf, math.inf), beam=beam)
            if not some:
                continue
            least = min(one.costs[k] for one in some)
            box = (least, math.inf) if k == 0 else (math.inf, least)
            try:
                ties = self._below(direction, box, most=most)
            except TooManyError:
                continue
            best = min(one.costs[k] for one in ties)
            ties = [one for one in ties if one.costs[k] <= best * (1 + _EQUAL)]
            return min(ties, key=lambda one: one.costs[1 - k])
        raise TooManyError

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
        return self._after(a, self._below(box, box, most=self._most)), True

    def nondominated(self, costs: Pair) -> Listed:
        """A nondominated solution no worse than a known one of these costs.

        Raises
        ------
        TooManyError
            If there is too much to list.
        """
        some = self._below(costs, costs, most=_PROOF)
        if not some:  # numerically
            raise TooManyError
        return some[-1]

    @staticmethod
    def _after(a: Pair, some: list[Listed]) -> list[Listed]:
        return [one for one in some if distinct(a, one.costs)]

    def _below(self, towards: Pair, box: Pair, *, most: int = 0, beam: int = 0) -> list[Listed]:
        """The nondominated among all solutions in a box (among some, with a beam), first cost rising.

        `towards` is the corner whose multipliers bound them.

        Raises
        ------
        TooManyError
            If more than `most` deviations are to be listed.
        """
        self._check_time()
        found = self._relaxation.multipliers(towards)
        if found is None:
            raise TooManyError
        listing = _Listing(self.program, *found, box)
        listed = 0
        for k in range(len(listing.items)):
            self._check_time()
            least, largest = listing.range_of(k)
            times = np.maximum(largest - least + 1, 0)
            listed += int(times.sum())
            if most and listed > most:
                raise TooManyError
            listing.extend(k, least, times, beam)
        return listing.solutions()


class Search:
    """The front from left to right, box by box: where it stands.

    Parameters
    ----------
    last, end : pair of float
        Costs of nondominated solutions: what comes after the last, up to the end, is searched.
    between : sequence of pair of float
        Costs of solutions between them that no other of them dominates, the first cost rising.
    """

    def __init__(self, last: Pair, end: Pair, between: Sequence[Pair] = ()) -> None:
        self.last = last
        # Solutions that are right of the last; those that a beam found may turn out to be dominated.
        self._targets = [end, *reversed(between)]

    @property
    def over(self) -> bool:
        """Whether the last point is the end."""
        while self._targets and not distinct(self.last, self._targets[-1]):
            self._targets.pop()
        return not self._targets

    @property
    def between(self) -> list[Pair]:
        """Costs of solutions between the last point and the end, the first cost rising."""
        return self._targets[:0:-1]

    def step(self, boxes: Boxes) -> list[Listed]:
        """The nondominated solutions of the next box; none if it was split.

        Parameters
        ----------
        boxes : Boxes
            Of a feasible program.

        Raises
        ------
        TooManyError
            If the box has too many to list; `move` past a point found otherwise, then.
        """
        found, all_of_them = boxes.inside(self.last, self._targets[-1])
        if not all_of_them:
            while self._targets and not distinct(found[-1].costs, self._targets[-1]):
                self._targets.pop()  # a beam's, and dominated
            self._targets += [one.costs for one in reversed(found)]
            return []
        if found:
            self.move(found[-1].costs)
        return found

    def move(self, last: Pair) -> None:
        """Go on after a nondominated point."""
        self.last = last


def distinct(a: Pair, b: Pair) -> bool:
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
        directions = [axis for axis, side in zip(np.eye(2), box, strict=True) if math.isfinite(side)]
        if weights.all():
            directions += [weights * (_TILT, 1 / _TILT), weights / (_TILT, 1 / _TILT)]
        self._directions = np.reshape(directions, (-1, 2))
        self._corners = self._directions @ np.where(np.isfinite(box), box, 0.0) * (1 + _SLACK)
        self._look_ahead()

    def _look_ahead(self) -> None:
        """After each item, of those that are left: what they can add to a row, and bounds on costs in all directions.

        A cost is at least rate·(what one surrogate row misses) + refund: a bound by a Lagrangean multiplier.
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
        costs = program.costs[left] @ self._directions.T * signs[:, None]
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
        bounds = zip(self._directions, self._corners, self._rate[k + 1], self._refund[k + 1], strict=True)
        for direction, corner, rate, refund in bounds:
            # The cost, with the rest of the demand at the best rate of what is left, must stay in the box.
            room = corner - refund - rate * missing - self._costs @ direction
            cost = direction @ program.costs[i]
            slope = sign * cost - rate * self._surrogate_step[k]
            if slope > _EQUAL * cost:
                allowed = np.floor(np.clip(room / slope + 1e-9, -1, _MANY)).astype(np.int64)
                largest = np.minimum(largest, allowed)
            elif slope < -_EQUAL * cost:
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
        self._spent = self._spent[parent] + self._size[i] * deviation
        self._covered = self._covered[parent] + sign * deviation[:, None] * program.weights[:, i]
        self._costs = self._costs[parent] + sign * deviation[:, None] * program.costs[i]
        self._steps.append((i, sign, parent, deviation))
        if beam:
            if len(parent) > beam:
                self._keep(np.argpartition(self._spent, beam)[:beam])
            return
        # More than the demand and all that can still be taken away counts for nothing.
        enough = program.demands + self._can_take[:, k + 1]
        if len(self._spent) > _ROUGHLY:
            self._keep(_roughly_undominated(self._costs, np.minimum(self._covered, enough)))
        if len(self._spent) > max(_COMPARED, _GROWN * self._compared):
            self._keep(_undominated(self._costs, np.minimum(self._covered, enough)))
            self._compared = len(self._spent)

    def _keep(self, kept: npt.NDArray[np.intp] | None) -> None:
        """Go on with some of the partial solutions; None: with all."""
        if kept is not None:
            i, sign, parent, deviation = self._steps[-1]
            self._steps[-1] = (i, sign, parent[kept], deviation[kept])
            self._spent, self._covered, self._costs = self._spent[kept], self._covered[kept], self._costs[kept]

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


def _varied(covered: Ints) -> npt.NDArray[np.intp]:
    """Columns in which rows differ."""
    return np.flatnonzero((covered != covered[0]).any(axis=0))


def _roughly_undominated(costs: Floats, covered: Ints) -> npt.NDArray[np.intp] | None:
    """Indices of all rows but those with lower costs in another cell of a grid, both, and no less covered there.

    None if more than one column differs.
    """
    varied = _varied(covered)
    if len(varied) != 1:
        return None
    amount = covered[:, varied[0]]
    side = math.isqrt(_CELLS * len(costs))
    low, high = costs.min(axis=0), costs.max(axis=0)
    cells = ((costs - low) * ((side - 1) / np.where(high > low, high - low, 1.0))).astype(np.int64)
    # Shifted by a cell, so that the largest amount up to a row's place is of lower costs.
    most = np.full((side + 1, side + 1), np.iinfo(np.int64).min)
    np.maximum.at(most, (cells[:, 0] + 1, cells[:, 1] + 1), amount)
    np.maximum.accumulate(most, axis=0, out=most)
    np.maximum.accumulate(most, axis=1, out=most)
    return np.flatnonzero(most[cells[:, 0], cells[:, 1]] < amount)


def _undominated(costs: Floats, covered: Ints) -> npt.NDArray[np.intp] | None:
    """Indices of rows that no other row beats: costs no less, covered no more in one column and the same in the others.

    Of equal rows, one is left. None if rows that share all columns but one are too few for that to be worth while.

    By halves (Kung, Luccio, Preparata, J. ACM 22, 1975): with rows in the order of first cost, those of the left half of
    a block beat those of its right half that have no less second cost and no more covered; all blocks of a size at once.
    """
    group = np.zeros(len(costs), dtype=np.int64)
    varied = _varied(covered)
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
