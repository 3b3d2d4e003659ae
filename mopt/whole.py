"""Bi-objective programs in whole numbers with few rows: min (c1·n, c2·n), W·n ≥ b, 0 ≤ n ≤ N, costs at least 0.

Covering problems, knapsacks (in what is left out), and `reserved` problems with their quotas and budgets are of this kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from mopt.lattice import lattice_step
from mopt.linear_model import Form, LinearModel, Vector

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Pair = tuple[float, float]

# Larger programs are the solver's.
_ROWS, _ITEMS = 40, 600
# So many of an item at most are tried to be exchanged for others.
_EXCHANGED = 16
# Relative room for a row whose coefficients are decimals rounded to binary, as the check of solutions has it.
_ROUNDED = 1e-9


@dataclass(frozen=True)
class WholeProgram:
    """min (c1·n, c2·n) subject to W·n ≥ b, 0 ≤ n ≤ N, n whole.

    Attributes
    ----------
    weights : int array of shape (rows, items)
    costs : array of shape (items, 2)
        At least 0.
    limits : int array of shape (items,)
    demands : int array of shape (rows,)
    """

    weights: Ints
    costs: Floats
    limits: Ints
    demands: Ints

    @property
    def covering(self) -> bool:
        """Whether more of an item never breaks a row."""
        return bool((self.weights >= 0).all())

    @property
    def feasible(self) -> bool:
        """Whether every row by itself can be kept; for covering rows, whether there is a solution."""
        return bool((np.maximum(self.weights, 0) @ self.limits >= self.demands).all())

    def tightened(self) -> tuple[WholeProgram, npt.NDArray[np.bool_]]:
        """The same with fewer of what others replace: if m of j cover no less than k of i and cost no more in either
        objective, and there is enough of j to cover the demands alone, fewer than k of i are needed.

        Also gives which items are left. Exchanges come to an end: each lowers a cost, or else covers more, or takes
        fewer, or moves to an earlier item. For covering rows only; other programs stay as they are.
        """
        weights, costs, limits = self.weights, self.costs, self.limits.copy()
        if not self.covering:
            return self, limits > 0
        ample = np.flatnonzero((weights * limits >= self.demands[:, None]).all(axis=0))
        earlier = ample[None, :] < np.arange(len(limits))[:, None]
        itself = ample[None, :] == np.arange(len(limits))[:, None]
        for k in range(_EXCHANGED, 0, -1):
            m = (-(-k * weights[:, :, None] // weights[:, None, ample])).max(axis=0)
            gains = k * costs[:, None, :] - m[:, :, None] * costs[ample]
            no_worse = (gains >= 0).all(axis=2) & ~itself
            more = (m * weights[:, None, ample] > k * weights[:, :, None]).any(axis=0)
            better = (gains > 0).any(axis=2) | more | (m < k)
            replaced = (no_worse & (better | ((m == k) & earlier))).any(axis=1)
            limits[replaced] = np.minimum(limits[replaced], k - 1)
        used = limits > 0
        return WholeProgram(weights[:, used], costs[used], limits[used], self.demands), used


def along(directions: Floats, costs: Floats) -> Floats:
    """Costs of shape (2, n) in directions of shape (directions, 2): of shape (directions, n).

    Not as a product of matrices: for large ones BLAS wakes threads that wait in a loop, and take cores from helpers.
    """
    sums: Floats = directions[:, :1] * costs[0]
    sums += directions[:, 1:] * costs[1]
    return sums


@dataclass(frozen=True)
class WholeView:
    """A linear model seen as a whole program.

    Attributes
    ----------
    columns : int array
        The model's column of each item.
    signs, offset : arrays
        x = offset, and x[columns] += signs·n.
    constants : pair of float
        What either objective is at n = 0.
    """

    program: WholeProgram
    columns: Ints
    signs: Ints
    offset: Vector
    constants: Pair

    def solution(self, counts: Ints) -> Vector:
        """The model's solution."""
        x = self.offset.copy()
        x[self.columns] += self.signs * counts
        return x

    def costs(self, values: Pair) -> Pair:
        """Costs from the values of the two objectives."""
        return values[0] - self.constants[0], values[1] - self.constants[1]


def whole_view(model: LinearModel, forms: tuple[Form, ...]) -> WholeView | None:
    """The model as a whole program. None if it isn't of this kind.

    It is if its variables are whole and bounded, the coefficients of each row share a step, no variable makes one
    objective better and the other worse, and it is small.
    """
    m, n = model.matrix.shape
    bounded = np.isfinite(model.lower).all() and np.isfinite(model.upper).all()
    if not 0 < m <= _ROWS or not 0 < n <= _ITEMS or len(forms) != 2 or not model.integer.all() or not bounded:
        return None
    slopes = np.column_stack([form.coefficients for form in forms])
    rising, falling = (slopes > 0).any(axis=1), (slopes < 0).any(axis=1)
    if (rising & falling).any():
        return None
    found = _rows(model)
    if found is None:
        return None
    weights, demands = found
    # Each variable counts from where it costs least; one that costs nothing, from where it breaks most rows.
    signs = np.where(falling | (~rising & (weights <= 0).all(axis=0)), -1, 1)
    offset = np.where(signs > 0, model.lower, model.upper)
    free = ~rising & ~falling & ((weights * signs >= 0).all(axis=0))
    offset[free] = np.where(signs > 0, model.upper, model.lower)[free]
    limits = np.where(free, 0.0, model.upper - model.lower)
    moved = offset.astype(np.int64)
    if float((abs(weights) @ np.maximum(abs(offset), 1)).max() + (abs(weights) @ limits).max()) >= 2**53:
        return None
    demands = demands - weights @ moved
    weights = weights * signs
    needed = np.minimum(weights, 0) @ limits < demands
    weights, demands = weights[needed], demands[needed]
    items = np.flatnonzero((weights != 0).any(axis=0) & (limits > 0))
    if not len(items):
        return None
    constants = tuple(form.at(offset) for form in forms)
    program, used = WholeProgram(
        weights[:, items], (slopes * signs[:, None])[items], limits[items].astype(np.int64), demands
    ).tightened()
    items = items[used]
    return WholeView(program, items, signs[items], offset, (constants[0], constants[1]))


def _rows(model: LinearModel) -> tuple[Ints, Ints] | None:
    """All rows as W·x ≥ b in whole numbers."""
    weights, demands = [], []
    for row, low, high in zip(model.matrix.toarray(), model.row_lower, model.row_upper, strict=True):
        step = lattice_step(Form(row, 0.0), model)
        if step is None:
            return None
        whole = row / float(step)
        if abs(whole).max() >= 2**50 or (abs(whole - np.rint(whole)) > _ROUNDED * np.maximum(abs(whole), 1)).any():
            return None
        exact = np.array_equal(row, np.rint(row))
        whole = np.rint(whole).astype(np.int64)
        for bound, sign in ((low, 1), (-high, -1)):
            if np.isfinite(bound):
                least = Fraction(float(bound)) / step
                room = Fraction(0) if exact else Fraction(_ROUNDED) * max(abs(least), Fraction(1))
                weights.append(sign * whole)
                demands.append(math.ceil(least - room))
    if not demands or max(map(abs, demands)) >= 2**53:
        return None
    return np.array(weights, dtype=np.int64), np.array(demands, dtype=np.int64)
