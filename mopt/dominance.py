"""Of many partial solutions, those that no other one beats: at lower costs, with no less covered."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from mopt.whole import Floats, Ints

# A grid has so many cells for each solution.
_CELLS = 8
# Rows are compared with each other if this many share what they do in all rows of the program but one, on average.
_SHARED = 8


def _varied(covered: Ints) -> npt.NDArray[np.intp]:
    """Rows of the program that not all cover as much of."""
    return np.flatnonzero((covered != covered[:, :1]).any(axis=1))


def roughly_undominated(costs: Floats, covered: Ints) -> npt.NDArray[np.intp] | None:
    """Indices of all but those with lower costs in another cell of a grid, both, and no less covered there.

    None if they differ in more than one row.

    Parameters
    ----------
    costs : array of shape (2, n)
    covered : int array of shape (rows, n)
    """
    varied = _varied(covered)
    if len(varied) != 1:
        return None
    amount = covered[varied[0]]
    side = math.isqrt(_CELLS * len(amount))
    low, high = costs.min(axis=1), costs.max(axis=1)
    scale = (side - 1) / np.where(high > low, high - low, 1.0)
    cells = ((costs - low[:, None]) * scale[:, None]).astype(np.int64)
    # Shifted by a cell, so that the largest amount up to a row's place is of lower costs.
    most = np.full((side + 1, side + 1), np.iinfo(np.int64).min)
    np.maximum.at(most, (cells[0] + 1, cells[1] + 1), amount)
    np.maximum.accumulate(most, axis=0, out=most)
    np.maximum.accumulate(most, axis=1, out=most)
    return np.flatnonzero(most[cells[0], cells[1]] < amount)


def undominated(costs: Floats, covered: Ints) -> npt.NDArray[np.intp] | None:
    """Indices of those that no other beats: at costs no less, with no more covered of one row and the same of the others.

    Of equal ones, one is left. None if those that share all rows but one are too few for that to be worth while.

    By halves (Kung, Luccio, Preparata, J. ACM 22, 1975): in the order of first cost, those of the left half of
    a block beat those of its right half that have no less second cost and no more covered; all blocks of a size at once.
    """
    group = np.zeros(costs.shape[1], dtype=np.int64)
    varied = _varied(covered)
    amount = covered[varied[0] if len(varied) else 0]
    for row in varied[1:]:
        values, place = np.unique(covered[row], return_inverse=True)
        group = np.unique(group * len(values) + place, return_inverse=True)[1]
    sizes = np.bincount(group)
    if len(sizes) * _SHARED > len(group):
        return None
    order = np.lexsort((-amount, costs[1], costs[0], group))
    # Places by first cost; those of a group fill blocks of their own.
    bits = int(sizes.max()).bit_length()
    first = np.cumsum(sizes) - sizes
    place = (group[order] << bits) + np.arange(len(order)) - first[group[order]]
    at = np.lexsort((costs[1, order], group[order]))
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
