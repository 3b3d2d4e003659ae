"""A bi-objective mixed-integer linear model as plain arrays: what the sweep works on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy import sparse

# Relative error of a floating-point row sum, with room to spare.
_ROUNDING = 1e-12
# Matrices of no more entries than this are multiplied as dense ones.
_DENSE = 4096

Vector = npt.NDArray[np.float64]


class Form(NamedTuple):
    """A linear form coefficients·x + constant."""

    coefficients: Vector
    constant: float

    def at(self, x: Vector) -> float:
        """Its value at x."""
        return float(self.coefficients @ x) + self.constant

    def exactly_at(self, x: Vector) -> Fraction:
        """Its value at x in exact arithmetic."""
        used = np.flatnonzero((self.coefficients != 0) & (x != 0))
        ratios = [
            (a.as_integer_ratio(), b.as_integer_ratio())
            for a, b in zip(self.coefficients[used].tolist(), x[used].tolist(), strict=True)
        ]
        # Denominators are powers of two, so the largest is common to all: one fraction instead of one a term.
        common = max((p[1] * q[1] for p, q in ratios), default=1)
        total = sum(p[0] * q[0] * (common // (p[1] * q[1])) for p, q in ratios)
        return Fraction(total, common) + Fraction(self.constant)

    @property
    def is_constant(self) -> bool:
        """Whether no variable appears in it."""
        return not self.coefficients.any()

    def scaled(self, factor: float) -> Form:
        """The form times a factor."""
        return Form(self.coefficients * factor, self.constant * factor)


@dataclass(frozen=True)
class Objective:
    """An objective N/D, where D is None for a linear one; `sense` is 1 for minimise, -1 for maximise."""

    name: str
    sense: int
    numerator: Form
    denominator: Form | None = None


@dataclass(frozen=True)
class LinearModel:
    """row_lower ≤ A·x ≤ row_upper, lower ≤ x ≤ upper, x_j integer where `integer` says so, and two objectives.

    Attributes
    ----------
    matrix : csr_array of shape (m, n)
    column_name, row_name : callable
        The names of variables and rows, by their places: to work all of them out takes as long as the rest of compiling.
    """

    matrix: sparse.csr_array
    row_lower: Vector
    row_upper: Vector
    lower: Vector
    upper: Vector
    integer: npt.NDArray[np.bool_]
    column_name: Callable[[int], str]
    row_name: Callable[[int], str]
    objectives: tuple[Objective, Objective]
    fixed: dict[str, float]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the n variables."""
        return tuple(map(self.column_name, range(len(self.lower))))

    @cached_property
    def _rows(self) -> sparse.csr_array | Vector:
        """The matrix, dense if it is small: a product then takes a tenth of the time."""
        return self.matrix.toarray() if math.prod(self.matrix.shape) <= _DENSE else self.matrix

    @cached_property
    def _sizes(self) -> sparse.csr_array:
        """The sizes of all coefficients."""
        return abs(self.matrix)

    @cached_property
    def _largest(self) -> Vector:
        """The size of each row's largest coefficient."""
        return (
            np.asarray(self._sizes.max(axis=1).toarray()).ravel()
            if self.matrix.nnz
            else np.zeros(len(self.row_lower))
        )

    @cached_property
    def _bounds(self) -> tuple[tuple[Vector, int, Vector], ...]:
        """Both bounds of the rows, their signs, and their sizes with the rows' largest coefficients."""
        return tuple(
            (bound, sign, self._largest + np.where(np.isfinite(bound), abs(bound), 0.0))
            for bound, sign in ((self.row_lower, 1), (self.row_upper, -1))
        )

    def violations(self, x: Vector, tolerance: float = 1e-9) -> list[str]:
        """Names of the rows and variables whose bounds x misses, in exact arithmetic.

        A row holds if it misses its bound by at most `tolerance` times the sizes of its terms, its bound and its
        largest coefficient: coefficients are decimals rounded to binary.
        """
        activity = self._rows @ x
        if _within(x, self.lower, self.upper) and _within(activity, self.row_lower, self.row_upper):
            return []
        outside = np.maximum(self.lower - x, x - self.upper) > tolerance * np.maximum(1.0, abs(x))
        missed = [self.column_name(int(j)) for j in np.flatnonzero(outside)]
        size = self._sizes @ abs(x)
        for bound, sign, own in self._bounds:
            scale, excess = size + own, sign * (bound - activity)
            # Floating-point sums settle all rows but those that are within their own rounding of the tolerance.
            missed += [
                self.row_name(int(i))
                for i in np.flatnonzero(excess > (tolerance - _ROUNDING) * scale)
                if excess[i] > (tolerance + _ROUNDING) * scale[i] or self._misses(int(i), x, bound[i], sign, tolerance)
            ]
        return missed

    def _misses(self, i: int, x: Vector, bound: float, sign: int, tolerance: float) -> bool:
        """Whether x misses a bound of row i, in exact arithmetic."""
        entries = range(self.matrix.indptr[i], self.matrix.indptr[i + 1])
        terms = [Fraction(float(self.matrix.data[k])) * Fraction(float(x[self.matrix.indices[k]])) for k in entries]
        size = sum((abs(term) for term in terms), Fraction(abs(bound)) + Fraction(float(self._largest[i])))
        return sign * (Fraction(float(bound)) - sum(terms, Fraction(0))) > Fraction(tolerance) * size


def _within(values: Vector, lower: Vector, upper: Vector) -> bool:
    return bool((lower <= values).all() and (values <= upper).all())
