"""Fronts of whole programs by listing, within bounds, all that lies below known solutions.

The two-phase idea of Ulungu and Tind/Visée (Visée, Teghem, Pirlot, Ulungu, J. Global Optimization 12, 1998), box by
box: two neighbours on the front span a box whose corner u a new point must beat, and known solutions between them leave
a staircase of such corners. For weights λ and multipliers y of the rows, what a solution costs beyond the linear
relaxation is Σ_i |r_i|·d_i + y·(W·n − b), where r = λ·c − y·W and d_i is how far n_i is from its better bound; all
solutions below λ·u are therefore found by listing the few deviations d that stay within the gap. λ makes the gap of the
box smallest. Partial solutions that no completion takes below a corner are dropped (bound sets: Ehrgott, Gandibleux,
Computers & Operations Research 34, 2007), and those that another one beats. Exact as the rows are whole; costs that
differ by less than 1e-12 of their size count as equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mopt.completion import Completions
from mopt.dominance import roughly_undominated, undominated
from mopt.relaxation import Relaxation
from mopt.staircase import Staircase
from mopt.whole import Floats, Ints, Pair, WholeProgram, along

# Rounding of sums of costs, relative; what is told apart; what pruning leaves for rounding.
EQUAL, _SLACK = 1e-12, 1e-11
_ROUNDING = 1e-14
# An end is searched with a beam of so many partial solutions, then all as good are listed, with so many deviations; and
# with more of them where that doesn't do, in programs with one row and with several, where they cost more to compare.
_ENDS = ((300, 200_000, 200_000), (1_500, 16_000_000, 1_000_000))
# Deviations that are listed to prove a known solution nondominated, or find a better one.
_PROOF = 20_000
# More partial solutions than this are compared with each other, and again once they are so many times as many.
_COMPARED, _GROWN = 500, 3.0
# More than this are compared roughly with each new item.
_ROUGHLY = 2_000
# Deviations that are listed without more ado. After that there may be a beam, and if there are more partial solutions
# than this, tables tell what completing them costs.
_FREE, _TABLED = 50_000, 2_000
# Bounds against a staircase of several corners are worked out for no fewer than this.
_BOUNDED = 100
# How much an item's cost counts in the order of items, beside its reduced cost.
_COARSE = 0.1
# Partial solutions are bounded along both axes, in the box's direction, and in these between, as multiples of its weights.
_TILTS = ((0.7, 1 / 0.7), (1 / 0.7, 0.7))
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
        self._relaxation = Relaxation(program)

    @property
    def rows(self) -> int:
        """How many rows the program has."""
        return len(self.program.weights)

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
        for beam, most, most_rows in _ENDS:
            some, _ = self._listed(direction, [(math.inf, math.inf)], beam=beam)
            if not some:
                continue
            least = min(one.costs[k] for one in some)
            box = (least, math.inf) if k == 0 else (math.inf, least)
            try:
                ties, _ = self._listed(direction, [box], most=most if self.rows == 1 else most_rows)
            except TooManyError:
                continue
            best = min(one.costs[k] for one in ties)
            ties = [one for one in ties if one.costs[k] <= best * (1 + EQUAL)]
            return min(ties, key=lambda one: one.costs[1 - k])
        raise TooManyError

    def below(
        self, a: Pair, known: Sequence[Pair], beam: int, around: Pair | None = None
    ) -> tuple[list[Listed], bool]:
        """The nondominated solutions right of a, up to the last of known solutions; or else, and False, some good ones.

        Parameters
        ----------
        a : pair of float
            Costs of a nondominated solution.
        known : sequence of pair of float
            Costs of solutions right of it, the first cost rising and the second falling.
        beam : int
            How many partial solutions are kept, at most; if more would have to be, not all solutions are found.
        around : pair of float, optional
            A corner whose multipliers bound them instead of this box's own.

        Raises
        ------
        TooManyError
            If none are found, or there are no multipliers.
        """
        sides = [a[1], *(costs[1] for costs in known[:-1])]
        corners = [(costs[0], side) for costs, side in zip(known, sides, strict=True)]
        found, all_of_them = self._listed(around or (known[-1][0], a[1]), corners, beam=beam)
        found = [one for one in found if distinct(a, one.costs)]
        if all_of_them and not found:  # numerically
            raise TooManyError
        return found, all_of_them

    def nondominated(self, costs: Pair) -> Listed:
        """A nondominated solution no worse than a known one of these costs.

        Raises
        ------
        TooManyError
            If there is too much to list.
        """
        some, _ = self._listed(costs, [costs], most=_PROOF)
        if not some:  # numerically
            raise TooManyError
        return some[-1]

    def _listed(
        self, towards: Pair, corners: Sequence[Pair], *, most: int = 0, beam: int = 0
    ) -> tuple[list[Listed], bool]:
        """The nondominated among all solutions below a staircase, first cost rising; and whether a beam kept all.

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
        listing = _Listing(self.program, *found, corners)
        for k in range(len(listing.items)):
            self._check_time()
            least, largest = listing.range_of(k)
            times = np.maximum(largest - least + 1, 0)
            if most and listing.listed + int(times.sum()) > most:
                raise TooManyError
            listing.extend(k, least, times, beam)
        return listing.solutions(), listing.complete


def distinct(a: Pair, b: Pair) -> bool:
    """Whether b is to the right of and below a, by more than rounding."""
    return b[0] > a[0] * (1 + EQUAL) and b[1] < a[1] * (1 - EQUAL)


class _Listing:
    """Partial solutions, item by item, in the order of falling reduced costs and costs.

    The last item, the cheapest of reduced cost 0 (as those have that the relaxation takes in part), is left out until
    the end: of it, as few are taken as the rows ask for.
    """

    def __init__(self, program: WholeProgram, weights: Floats, y: Floats, corners: Sequence[Pair]) -> None:
        self._program = program
        self._box = corners[-1][0], corners[0][1]
        directions = [*np.eye(2), weights]
        if weights.all():
            directions += [weights * tilt for tilt in _TILTS]
        self._directions = np.array(directions)
        # Costs are summed up and taken away again: they are out by a rounding of all that there can be.
        rounding = _ROUNDING * (program.limits @ program.costs)
        self._stairs = Staircase(np.array(corners) * (1 + _SLACK) + rounding, self._directions)
        cost = program.costs @ weights
        reduced = cost - y @ program.weights
        reduced[abs(reduced) <= EQUAL * cost] = 0.0  # what the relaxation takes in part
        nothing = reduced == 0
        last = int(np.argmin(np.where(nothing, cost, math.inf) if nothing.any() else abs(reduced)))
        self._last = last
        self._full = reduced < 0
        self._full[last] = False
        self._size = abs(reduced)
        base = np.where(self._full, program.limits, 0)
        bound = float(y @ program.demands) + float(np.minimum(reduced, 0.0) @ program.limits)
        size = float((cost + self._size) @ program.limits + y @ abs(program.demands))
        self._gap = float(self._stairs.furthest[2]) - bound + _SLACK * size
        movable = (self._size <= self._gap) & (program.limits > 0)
        movable[last] = False
        # Cheap items last as well: what is left to cover is then bounded well.
        order = np.argsort(-(self._size + _COARSE * cost), kind="stable")
        self.items = order[movable[order]]
        self._base = base
        some = 1 if self._gap >= 0 else 0
        self._spent = np.zeros(some)
        self._compared = 0
        self._covered = np.tile((program.weights @ base)[:, None], some)
        self._costs = np.tile((base @ program.costs)[:, None], some)
        self._steps: list[tuple[int, int, Ints, Ints]] = []
        self._surrogate = y / y.max() if y.any() else y
        self._room = np.zeros(some)
        # With an end's infinite sides there is nothing to be below.
        self._bounded = math.isfinite(sum(self._box))
        self._completions: list[Completions] | None = None
        #: How many deviations were listed; whether the beam had room for all partial solutions.
        self.listed, self.complete = 0, True
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
        costs = along(self._directions, program.costs[left].T).T * signs[:, None]
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
        bounds = zip(self._directions, self._stairs.furthest, self._rate[k + 1], self._linear_bounds(k + 1), strict=True)
        for direction, corner, rate, bound in bounds:
            if not math.isfinite(corner):
                continue
            # The cost, with the rest of the demand at the best rate of what is left, must stay in the box.
            room = corner - bound
            cost = direction @ program.costs[i]
            slope = sign * cost - rate * self._surrogate_step[k]
            if slope > EQUAL * cost:
                allowed = np.floor(np.clip(room / slope + 1e-9, -1, _MANY)).astype(np.int64)
                largest = np.minimum(largest, allowed)
            elif slope < -EQUAL * cost:
                needed = np.ceil(np.clip(room / slope - 1e-9, 0, _MANY)).astype(np.int64)
                least = np.maximum(least, needed)
        for row in np.flatnonzero(program.weights[:, i]):
            weight = sign * program.weights[row, i]
            spare = self._covered[row] + self._can_add[row, k + 1] - program.demands[row]
            if weight > 0:
                least = np.maximum(least, -(spare // weight))
            else:
                largest = np.minimum(largest, spare // -weight)
        return least, largest

    def extend(self, k: int, least: Ints, times: Ints, beam: int) -> None:
        """Every partial solution with each deviation of item k; if there is a beam, and many were listed, the best of them."""
        program, i = self._program, int(self.items[k])
        sign = -1 if self._full[i] else 1
        parent = np.repeat(np.arange(len(times)), times)
        deviation = np.arange(len(parent)) - np.repeat(np.cumsum(times) - times - least, times)
        self._spent = self._spent[parent] + self._size[i] * deviation
        self._covered = self._covered[:, parent] + sign * program.weights[:, i, None] * deviation
        self._costs = self._costs[:, parent] + sign * program.costs[i, :, None] * deviation
        self._room = self._room[parent]
        self._steps.append((i, sign, parent, deviation))
        self.listed += len(parent)
        if self._bounded:
            beam = beam if self.listed > _FREE else 0
            self._keep_below(k, beam or len(parent))
        elif beam:
            self._keep_best(beam, self._spent)
            return
        # More than the demand and all that can still be taken away counts for nothing.
        enough = (program.demands + self._can_take[:, k + 1])[:, None]
        if len(self._spent) > _ROUGHLY:
            self._keep(roughly_undominated(self._costs, np.minimum(self._covered, enough)))
        if len(self._spent) > max(_COMPARED, _GROWN * self._compared):
            self._keep(undominated(self._costs, np.minimum(self._covered, enough)))
            self._compared = len(self._spent)
        if beam:
            self._keep_best(beam, -self._room)

    def _keep_below(self, k: int, few: int) -> None:
        """Keep what items after k can complete to a solution below the staircase, where that is worth looking at."""
        many = len(self._spent)
        if self._completions is None and self.listed > _FREE and many > _TABLED:
            self._completions = self._completions_after(k)
        if self._completions or many > few or (len(self._stairs) > 1 and many > _BOUNDED):
            reached, room = self._stairs.reached(self._bounds(k + 1))
            self._keep(reached)
            self._room = room

    def _completions_after(self, k: int) -> list[Completions]:
        """Of every covering row, for the items after k."""
        program, left = self._program, np.append(self.items[k + 1 :], self._last)
        missing = (program.demands[:, None] - self._covered).max(axis=1)
        self._tabled = k + 1
        return [
            Completions(program, row, left, self._base, int(missing[row]), self._directions)
            for row in np.flatnonzero((program.weights >= 0).all(axis=1)).tolist()
        ]

    def _linear_bounds(self, k: int) -> Floats:
        """What solutions cost at least, of shape (directions, n), with what is missing at the best rate of items from k on."""
        missing = self._surrogate @ self._program.demands - (self._surrogate[:, None] * self._covered).sum(axis=0)
        bounds = along(self._directions, self._costs)
        bounds += self._rate[k, :, None] * missing + self._refund[k, :, None]
        return bounds

    def _bounds(self, k: int) -> Floats:
        """What solutions cost at least, of shape (directions, n), if items from k on are chosen."""
        bounds = self._linear_bounds(k)
        for completions in self._completions or ():
            np.maximum(bounds, completions.bounds(k - self._tabled, self._costs, self._covered), out=bounds)
        return bounds

    def _keep_best(self, many: int, rank: Floats) -> None:
        """Go on with so many of the partial solutions, those of least rank."""
        if len(rank) > many:
            self._keep(np.argpartition(rank, many)[:many])
            self.complete = False

    def _keep(self, kept: npt.NDArray[np.intp] | None) -> None:
        """Go on with some of the partial solutions; None: with all."""
        if kept is not None:
            i, sign, parent, deviation = self._steps[-1]
            self._steps[-1] = (i, sign, parent[kept], deviation[kept])
            self._spent, self._covered, self._costs = self._spent[kept], self._covered[:, kept], self._costs[:, kept]
            self._room = self._room[kept]

    def solutions(self) -> list[Listed]:
        """The solutions, with as many of the last item as are missing, the nondominated of them."""
        program, last = self._program, self._last
        counts = np.zeros(len(self._spent), dtype=np.int64)
        most = np.full_like(counts, program.limits[last])
        for row, weight in enumerate(program.weights[:, last]):
            missing = program.demands[row] - self._covered[row]
            if weight > 0:
                counts = np.maximum(counts, -(-missing // weight))
            elif weight < 0:
                most = np.minimum(most, -missing // -weight)
            else:
                most[missing > 0] = -1
        costs = self._costs + program.costs[last, :, None] * counts
        where = np.flatnonzero((counts <= most) & np.all(costs <= self._stairs.furthest[:2, None], axis=0))
        made = np.tile(self._base, (len(where), 1))
        made[:, last] = counts[where]
        for i, sign, parent, deviation in reversed(self._steps):
            made[:, i] += sign * deviation[where]
            where = parent[where]
        costs = np.einsum("ni,ik->kn", made, program.costs)
        at = np.flatnonzero((costs[0] <= self._box[0] * (1 + _SLACK)) & (costs[1] <= self._box[1] * (1 + _SLACK)))
        at = at[np.lexsort(costs[::-1, at])]
        second = costs[1, at]
        before = np.append(math.inf, np.minimum.accumulate(second)[:-1])[: len(at)]
        at = at[second < before * (1 - EQUAL)]
        # Of two whose first cost is the same but for rounding, the later costs less.
        after = np.append(costs[0, at[1:]], math.inf)[: len(at)]
        at = at[costs[0, at] * (1 + EQUAL) < after]
        return [Listed((float(c), float(d)), n) for c, d, n in zip(*costs[:, at], made[at], strict=True)]
