"""Checking a solver's answer on any model: whole integers, and continuous values found anew for them (the slice)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from mopt.highs import Highs, Outcome, Settings, Status
from mopt.linear_model import Form, LinearModel, Vector
from mopt.session import Candidate

# An LP's solution is a vertex; it misses rows by rounding only, far less than a MIP's 1e-6. The tightest tolerances
# that the solver copes with are used.
SLICE_SETTINGS: tuple[Settings, ...] = (
    {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9, "presolve": "off"},
    {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9, "simplex_strategy": 4},
    {},
)
# Sums of whole numbers that are smaller are exact in floating point.
_EXACT = 2**53


class Slice:
    """The model with its integers fixed: linear programs over the continuous variables.

    Parameters
    ----------
    model : LinearModel
    rows : ndarrays of shape (n,)
        The forms in the sweep's units, as rows that each solve may bound.
    """

    def __init__(self, model: LinearModel, rows: tuple[Vector, ...]) -> None:
        self._highs = Highs(model, rows, relaxed=True)
        self.solves = 0

    def solve(
        self, integers: Vector, cost: Vector, upper: Sequence[float], lines: Sequence[tuple[Vector, float]] = ()
    ) -> Outcome:
        """Minimise cost·x with the integers as given, the rows at most `upper` and further rows."""
        self.solves += 1
        for settings in SLICE_SETTINGS:
            outcome = self._highs.solve(cost, upper, settings, fixed=integers, lines=lines)
            if outcome.status is not Status.FAILED:
                break
        return outcome


class GenericCheck:
    """Candidates of any model.

    Integers are rounded; if there are continuous variables, they are solved for anew with the integers fixed. Then
    every row is checked in exact arithmetic.
    """

    def __init__(self, model: LinearModel, forms: tuple[Form, ...]) -> None:
        self._model, self._forms = model, forms
        self._mixed = bool((~model.integer).any())
        self._whole = None if self._mixed else _in_whole_numbers(model, forms)
        self.slice: Slice | None = None

    def rescale(self, rows: tuple[Vector, ...]) -> None:
        """Use the sweep's units from now on."""
        if self._mixed:
            self.slice = Slice(self._model, rows)

    def __call__(
        self, x: Vector, cost: Vector, upper: Sequence[float], lines: Sequence[tuple[Vector, float]]
    ) -> Candidate | None:
        whole = np.rint(x) + 0.0  # no negative zeros
        if not self._mixed:
            return self.again(whole)
        assert self.slice is not None
        whole = np.where(self._model.integer, whole, x)
        return self.slice_candidate(whole, self.slice.solve(whole, cost, upper, lines))

    def fork(self) -> GenericCheck:
        """One with a slice of its own."""
        return GenericCheck(self._model, self._forms)

    def again(self, x: Vector) -> Candidate | None:
        """The candidate of a solution, without asking the solver."""
        return None if self._model.violations(x) else self.candidate(x)

    def slice_candidate(self, whole: Vector, outcome: Outcome) -> Candidate | None:
        """The candidate of a slice's linear program; None if it has no solution."""
        if outcome.status is not Status.OPTIMAL or outcome.x is None:
            return None
        x = np.clip(np.where(self._model.integer, whole, outcome.x), self._model.lower, self._model.upper)
        return None if self._model.violations(x) else self.candidate(x)

    def candidate(self, x: Vector) -> Candidate:
        """A checked solution with its values: exact where x is whole, else the floating-point sums as rationals."""
        if self._mixed:
            return Candidate(x, tuple(Fraction(form.at(x)) for form in self._forms))
        if self._whole is not None:
            sums = (self._whole @ x).tolist()
            constants = (form.constant for form in self._forms)
            return Candidate(x, tuple(Fraction(int(s)) + Fraction(c) for s, c in zip(sums, constants, strict=True)))
        return Candidate(x, tuple(form.exactly_at(x) for form in self._forms))


def _in_whole_numbers(model: LinearModel, forms: tuple[Form, ...]) -> Vector | None:
    """The forms' coefficients, of shape (forms, n), if floating-point sums of them are exact wherever x is whole."""
    coefficients = np.array([form.coefficients for form in forms])
    sizes = abs(coefficients) @ np.clip(np.maximum(abs(model.lower), abs(model.upper)), 0, _EXACT)
    return coefficients if (coefficients == np.rint(coefficients)).all() and (sizes < _EXACT).all() else None
