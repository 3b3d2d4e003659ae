"""A solver that is not trusted blindly: every answer is checked against what is known, and asked again if they clash."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np

from mopt.errors import SolverError
from mopt.highs import Outcome, Settings, Status
from mopt.linear_model import Form, Vector

Exact = tuple[Fraction, Fraction]
Bound = Fraction | None  # None: no bound

# Ways to ask again, one after the other.
RETRIES: tuple[Settings, ...] = (
    {"random_seed": 1, "mip_feasibility_tolerance": 1e-9, "primal_feasibility_tolerance": 1e-9},
    {"presolve": "off"},
    {"presolve": "off", "random_seed": 7, "mip_feasibility_tolerance": 1e-9, "primal_feasibility_tolerance": 1e-9},
    {"mip_feasibility_tolerance": 1e-9},
)


class StoppedError(Exception):
    """The time that was given is over; caught by the driver, which returns what it has."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A solution that was checked: x with whole integers, and both objectives, minimised, in exact arithmetic."""

    x: Vector
    values: Exact


@dataclass(frozen=True)
class Answer:
    """A checked optimum: the candidate, by how much the solver's bound falls short of it, and the settings that gave it."""

    candidate: Candidate
    bound: float
    gap: float
    settings: Settings


class Backend(Protocol):
    """What a session needs of a solver (`Highs` is one)."""

    def solve(
        self, cost: Vector, upper: Sequence[float], settings: Settings, *, time_limit: float | None = None
    ) -> Outcome:
        """Minimise cost·x with the extra rows, which are the two objectives, at most `upper`."""


@dataclass
class Statistics:
    """What a run took."""

    solves: int = 0
    solver_seconds: float = 0.0
    retried: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Scale:
    """Units in which the solver sees the two objectives, and the differences in them that matter."""

    units: Exact
    steps: Exact


class Session:
    """Minimises weighted sums of two objectives under bounds on both, and checks every answer.

    Parameters
    ----------
    make_backend : callable
        From the two objectives' coefficients, scaled, to a `Backend` that has them as extra rows.
    forms : two Form
        The objectives, minimised.
    check : callable
        From the solver's x to a `Candidate`; None if it is no solution after rounding.
    scale : Scale
    """

    def __init__(
        self,
        make_backend: Callable[[tuple[Vector, Vector]], Backend],
        forms: tuple[Form, Form],
        check: Callable[[Vector], Candidate | None],
        scale: Scale,
    ) -> None:
        self._make_backend, self._forms, self._check = make_backend, forms, check
        self.known: list[Candidate] = []
        self.statistics = Statistics()
        self.deadline = math.inf
        self.rescale(scale)

    def rescale(self, scale: Scale) -> None:
        """Work in other units from now on."""
        self.scale = scale
        first, second = (float(unit) for unit in scale.units)
        self._rows = (self._forms[0].coefficients / first, self._forms[1].coefficients / second)
        self._constants = (self._forms[0].constant / first, self._forms[1].constant / second)
        self._backend = self._make_backend(self._rows)

    def minimize(self, weights: tuple[float, float], upper: tuple[Bound, Bound] = (None, None)) -> Answer | None:
        """The checked minimum of the objectives weighted step by step, with objectives ≤ upper.

        Parameters
        ----------
        weights : two floats
            Worth of one step of each objective.
        upper : two Fraction or None
            In the objectives' own units.

        Returns
        -------
        Answer or None
            None if there is no solution; believed only if all settings say so and none is known.

        Raises
        ------
        SolverError
            If the answers contradict a known solution, or themselves, with every setting.
        StoppedError
            If the deadline passes.
        """
        objections: list[str] = []
        refused = 0
        tried: tuple[Settings, ...] = ({}, *RETRIES)
        for settings in tried:
            outcome = self._solve(weights, upper, settings)
            if outcome.status is Status.INFEASIBLE and self._best_known(weights, upper) is None:
                refused += 1
                continue
            answer, objection = self._examine(outcome, weights, upper)
            if answer is None:
                objections.append(objection)
                continue
            self.known.append(answer.candidate)
            if objections or refused:
                what = objections[-1] if objections else "the solver called infeasible what has a solution"
                self.statistics.retried.append(f"{what}; settled with {dict(settings)}")
            return answer
        if not objections:
            return None
        raise SolverError(
            f"minimising {weights[0]:g}·f1 + {weights[1]:g}·f2 (in steps) with f1 ≤ {_text(upper[0])}, "
            f"f2 ≤ {_text(upper[1])}: {objections[-1]}; so with {len(objections)} of {len(tried)} settings"
        )

    def _solve(self, weights: tuple[float, float], upper: tuple[Bound, Bound], settings: Settings) -> Outcome:
        scaled = self._scaled_weights(weights)
        cost = scaled[0] * self._rows[0] + scaled[1] * self._rows[1]
        limits = [
            math.inf if bound is None else float(bound / unit) - constant
            for bound, unit, constant in zip(upper, self.scale.units, self._constants, strict=True)
        ]
        remaining = None if math.isinf(self.deadline) else self.deadline - time.perf_counter()
        if remaining is not None and remaining <= 0:
            raise StoppedError
        outcome = self._backend.solve(cost, limits, settings, time_limit=remaining)
        self.statistics.solves += 1
        self.statistics.solver_seconds += outcome.seconds
        if outcome.status is Status.STOPPED:
            raise StoppedError
        return outcome

    def _scaled_weights(self, weights: tuple[float, float]) -> tuple[float, float]:
        (u1, u2), (s1, s2) = self.scale.units, self.scale.steps
        return weights[0] * float(u1 / s1), weights[1] * float(u2 / s2)

    def _examine(
        self, outcome: Outcome, weights: tuple[float, float], upper: tuple[Bound, Bound]
    ) -> tuple[Answer | None, str]:
        """An answer, or what is wrong with it."""
        if outcome.status is not Status.OPTIMAL or outcome.x is None:
            known = ", but a solution is known" if outcome.status is Status.INFEASIBLE else ""
            return None, f"the solver says {outcome.status.value} ({outcome.message}){known}"
        candidate = self._check(outcome.x)
        if candidate is None:
            return None, "the solver's solution breaks a constraint once its integers are rounded"
        if any(bound is not None and v > bound for v, bound in zip(candidate.values, upper, strict=True)):
            return None, "the solver's solution exceeds a bound once its integers are rounded"
        value = self.worth(weights, candidate)
        bound = outcome.bound + float(np.dot(self._scaled_weights(weights), self._constants))
        tolerance = 0.5 * min(weight for weight in weights if weight > 0)
        if float(value) > bound + tolerance:
            return None, f"the solver's solution is worth {float(value):.12g} steps, its bound is {bound:.12g}"
        better = self._best_known(weights, upper)
        if better is not None and float(value - self.worth(weights, better)) > tolerance:
            return None, "the solver calls a solution optimal that is worse than a known one"
        return Answer(candidate, bound, float(value) - bound, outcome.settings), ""

    def worth(self, weights: tuple[float, float], candidate: Candidate) -> Fraction:
        """The weighted objectives of a candidate, in steps, in exact arithmetic."""
        return sum(
            (Fraction(w) * v / s for w, v, s in zip(weights, candidate.values, self.scale.steps, strict=True) if w),
            Fraction(0),
        )

    def _best_known(self, weights: tuple[float, float], upper: tuple[Bound, Bound]) -> Candidate | None:
        allowed = [
            c for c in self.known
            if all(bound is None or v <= bound for v, bound in zip(c.values, upper, strict=True))
        ]
        return min(allowed, key=lambda candidate: self.worth(weights, candidate), default=None)


def _text(bound: Bound) -> str:
    return "∞" if bound is None else f"{float(bound):.12g}"
