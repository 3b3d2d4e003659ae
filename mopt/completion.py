"""What it costs at least to complete partial solutions: knapsacks in one covering row each, by dynamic programming."""

from __future__ import annotations

import math

import numpy as np

from mopt.whole import Floats, Ints, WholeProgram, along

# Entries of a row's tables, at most; larger ones are rounded.
_ENTRIES = 8_000_000


class Completions:
    """Of a covering row: the least costs, in some directions, of what the last items can add to it.

    Exact for programs with this row alone, unless the tables would be too large: what is missing is then rounded down
    to a coarser unit, and what an item covers up, so that all remain bounds. Source: the recursion for the bounded
    knapsack (Bellman, 1957), over powers of two of an item (Martello, Toth, Knapsack Problems, 1990, section 3.2).

    Parameters
    ----------
    program : WholeProgram
    row : int
        One whose weights are at least 0.
    items : int array
        The last items, in order; nothing else changes.
    base : int array of shape (items of the program,)
        How many there are of each as long as they aren't chosen.
    missing : int
        How much of the row can be missing, at most, with the base of these items.
    directions : array of shape (directions, 2)
        At least 0.
    """

    def __init__(
        self, program: WholeProgram, row: int, items: Ints, base: Ints, missing: int, directions: Floats
    ) -> None:
        self._directions, self._demand, self._row = directions, int(program.demands[row]), row
        weights, limits = program.weights[row, items], program.limits[items]
        # What the base of each item and those after it covers and costs: the tables choose these items anew.
        covered = np.append(np.cumsum((weights * base[items])[::-1])[::-1], 0)
        costs = program.costs[items] * base[items, None]
        self._covered, self._costs = covered, np.vstack([np.cumsum(costs[::-1], axis=0)[::-1], np.zeros(2)])
        size = max(missing + int(covered[0]), 0)
        self._unit = math.ceil((size + 1) * len(directions) * (len(items) + 1) / _ENTRIES)
        self._size = size = size // self._unit
        table = np.full((len(directions), size + 1), math.inf)
        table[:, 0] = 0.0
        tables = [table]
        prices = along(directions, program.costs[items].T)
        for price, weight, limit in zip(prices.T[::-1], -(-weights[::-1] // self._unit), limits[::-1], strict=True):
            # More than all that is missing is never needed.
            left, some = min(int(limit), -(-size // max(int(weight), 1))), 1
            while left > 0:
                some = min(some, left)
                table = _taken(table, min(some * int(weight), size), some * price[:, None])
                left, some = left - some, 2 * some
            tables.append(table)
        self._tables = tables[::-1]

    def bounds(self, k: int, costs: Floats, covered: Ints) -> Floats:
        """What solutions cost at least, of shape (directions, n), if items from the k-th of the last on are chosen.

        Parameters
        ----------
        k : int
        costs : array of shape (2, n)
            Of partial solutions with the base of those items.
        covered : int array of shape (rows, n)
            What they cover.
        """
        missing = self._demand - covered[self._row] + self._covered[k]
        place = np.clip(missing // self._unit, 0, self._size)
        bounds: Floats = along(self._directions, costs - self._costs[k][:, None]) + self._tables[k][:, place]
        return bounds


def _taken(table: Floats, step: int, cost: Floats) -> Floats:
    """The least costs of covering each amount, if something that covers so much may be taken."""
    better = table.copy()
    np.minimum(table[:, step:], table[:, : table.shape[1] - step] + cost, out=better[:, step:])
    np.minimum(table[:, :step], table[:, :1] + cost, out=better[:, :step])
    return better
