"""On which lattice the values of an objective lie: exact rationals from floating-point coefficients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from mopt.linear_model import Form, LinearModel

# Ratios of coefficients count as rational if a denominator up to this reproduces them to the last bits.
_LARGEST_DENOMINATOR = 10**6
_LAST_BITS = 4e-15


def lattice_step(form: Form, model: LinearModel, *, with_constant: bool = False) -> Fraction | None:
    """The largest step of which every coefficient of a form is a multiple, so that its values are an integer grid.

    None if a continuous variable appears in it, or if the coefficients share no step. Coefficients are read as the
    decimals they print as, or else as rational multiples of the smallest of them, whichever gives the larger step.
    With the constant, the values themselves are multiples of the step, not just their differences.
    """
    used = form.coefficients != 0
    if np.any(used & ~model.integer):
        return None
    values = np.unique(np.abs(form.coefficients[used]))
    if with_constant and form.constant:
        values = np.unique(np.append(values, abs(form.constant)))
    if not values.size:
        return Fraction(1)
    decimal = _common_step(Fraction(repr(float(value))) for value in values)
    smallest = float(values[0])
    if smallest <= decimal * _LARGEST_DENOMINATOR:  # then the ratios' denominators are small enough, and give the same
        return decimal
    ratios = [Fraction(float(value) / smallest).limit_denominator(_LARGEST_DENOMINATOR) for value in values]
    for value, ratio in zip(values, ratios, strict=True):
        if abs(float(value) / smallest - float(ratio)) > _LAST_BITS * float(ratio):
            return decimal
    return max(decimal, Fraction(repr(smallest)) * _common_step(ratios))


def _common_step(values: Iterable[Fraction]) -> Fraction:
    numerator, denominator = 0, 1
    for value in values:
        numerator = math.gcd(numerator * value.denominator, value.numerator * denominator)
        denominator *= value.denominator
        common = math.gcd(numerator, denominator)
        numerator, denominator = numerator // common, denominator // common
    return Fraction(numerator, denominator)
