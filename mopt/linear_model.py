"""A bi-objective mixed-integer linear model as plain arrays: what the sweep works on."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

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
        return sum(
            (Fraction(float(self.coefficients[j])) * Fraction(float(x[j])) for j in used), Fraction(self.constant)
        )

    @property
    def is_constant(self) -> bool:
        """Whether no variable appears in it."""
        return not self.coefficients.any()

    def scaled(self, factor: float) -> Form:
        """The form times a factor."""
        return Form(self.coefficients * factor, self.constant * factor)


@dataclass(frozen=True)
class Objective:
    """An objective numerator/denominator; `denominator` is None for a linear one. `sense` is 1 for minimise, -1 for maximise."""

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
    names, row_names : tuple of str
        Of the n variables and the m rows.
    """

    matrix: sparse.csr_array
    row_lower: Vector
    row_upper: Vector
    lower: Vector
    upper: Vector
    integer: npt.NDArray[np.bool_]
    names: tuple[str, ...]
    row_names: tuple[str, ...]
    objectives: tuple[Objective, Objective]
    fixed: dict[str, float]

    @cached_property
    def exact_rows(self) -> list[list[tuple[int, Fraction]]]:
        """Each row's entries as exact rationals."""
        A = self.matrix
        return [
            [(int(A.indices[k]), Fraction(float(A.data[k]))) for k in range(A.indptr[i], A.indptr[i + 1])]
            for i in range(A.shape[0])
        ]

    def violations(self, x: Vector, tolerance: float = 1e-9) -> list[str]:
        """Names of the rows and variables whose bounds x misses, in exact arithmetic.

        A row holds if it misses its bound by at most `tolerance` times the sum of its terms' sizes and the bound's:
        coefficients are decimals rounded to binary.
        """
        exact = [Fraction(float(value)) for value in x]
        missed = []
        for j in np.flatnonzero((x < self.lower) | (x > self.upper)):
            if max(self.lower[j] - x[j], x[j] - self.upper[j]) > tolerance * max(1.0, abs(x[j])):
                missed.append(self.names[j])
        for i, entries in enumerate(self.exact_rows):
            terms = [coefficient * exact[j] for j, coefficient in entries]
            activity = sum(terms, Fraction(0))
            size = float(sum((abs(term) for term in terms), Fraction(0)))
            for bound, sign in ((self.row_lower[i], 1), (self.row_upper[i], -1)):
                if np.isfinite(bound) and sign * (Fraction(float(bound)) - activity) > tolerance * (size + abs(bound)):
                    missed.append(self.row_names[i])
        return missed
