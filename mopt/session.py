"""A solver not trusted blindly: every answer is checked against what is known, and asked for again if they clash."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np

from mopt.errors import SolverError
from mopt.highs import Outcome, Settings, Status
from mopt.linear_model import Form, Vector

Exact = tuple[Fraction, ...]
Weights = tuple[float, ...]
Bound = Fraction | None  # None: no bound
Line = tuple[Weights, Fraction]  # weighted objectives, in steps, at most a bound

# Ways to ask again, one after the other.
RETRIES: tuple[Settings, ...] = (
    {"random_seed": 1, "mip_feasibility_tolerance": 1e-9, "primal_feasibility_tolerance": 1e-9},
    {"presolve": "off"},
    {"presolve": "off", "random_seed": 7, "mip_feasibility_tolerance": 1e-9, "primal_feasibility_tolerance": 1e-9},
    {"mip_feasibility_tolerance": 1e-9},
)


# Share of a step by which continuous values may miss a bound.
HAIR = Fraction(1, 1000)


class StoppedError(Exception):
    """The time that was given is over; caught by the driver, which returns what it has."""


def check_time(deadline: float) -> None:
    """Raises StoppedError after a deadline, as `time.perf_counter` tells it."""
    if time.perf_counter() > deadline:
        raise StoppedError


class CrashedError(Exception):
    """The solver itself broke down."""


class UnboundedError(Exception):
    """All settings say that there is no least value, or no solution."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A solution that was checked: x with whole integers, and the value of each form, in exact arithmetic."""

    x: Vector
    values: Exact


@dataclass(frozen=True)
class Answer:
    """A checked optimum: the candidate, the solver's bound and how far it falls short, and the settings."""

    candidate: Candidate
    bound: float
    gap: float
    settings: Settings


class Check(Protocol):
    """From a solver's x to a `Candidate` with whole integers; None if that is no solution."""

    def __call__(
        self, x: Vector, cost: Vector, upper: Sequence[float], lines: Sequence[tuple[Vector, float]]
    ) -> Candidate | None:
        """Given also what was solved for, so that continuous values can be found anew once the integers are whole."""

    def fork(self) -> Check:
        """One for another thread."""

    def again(self, x: Vector) -> Candidate | None:
        """The candidate of a solution that is known, without asking the solver."""

    def rescale(self, rows: tuple[Vector, ...]) -> None:
        """The objectives in the units that costs and bounds are in from now on."""


class Backend(Protocol):
    """What a session needs of a solver (`Highs` is one)."""

    def solve(
        self,
        cost: Vector,
        upper: Sequence[float],
        settings: Settings,
        *,
        time_limit: float | None = None,
        lines: Sequence[tuple[Vector, float]] = (),
    ) -> Outcome:
        """Minimise cost·x with the extra rows, which are the forms, at most `upper`, and further rows a·x ≤ b."""


@dataclass
class Statistics:
    """What a run took: in the solver, and in listing and evaluating choices."""

    solves: int = 0
    solver_seconds: float = 0.0
    listing_seconds: float = 0.0
    retried: list[str] = field(default_factory=list)

    def add(self, other: Statistics) -> None:
        """Count another session's work in."""
        self.solves += other.solves
        self.solver_seconds += other.solver_seconds
        self.listing_seconds += other.listing_seconds
        self.retried += other.retried

    @contextmanager
    def listing(self) -> Iterator[None]:
        """Count the time until the end of the block."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.listing_seconds += time.perf_counter() - began


@dataclass(frozen=True)
class Scale:
    """Units in which the solver sees the forms, and the differences in them that matter."""

    units: Exact
    steps: Exact


@dataclass(frozen=True)
class Question:
    """Minimise weights·forms, in steps, with forms ≤ upper and below lines; smaller differences count as none."""

    weights: Weights
    upper: tuple[Bound, ...]
    lines: tuple[Line, ...]
    tolerance: float

    def __str__(self) -> str:
        terms = " + ".join(f"{weight:g}·f{k}" for k, weight in enumerate(self.weights, start=1) if weight)
        limits = [f"f{k} ≤ {float(b):.12g}" for k, b in enumerate(self.upper, start=1) if b is not None]
        if self.lines:
            limits.append(f"under {len(self.lines)} lines")
        return f"minimising {terms} (in steps)" + (f" with {', '.join(limits)}" if limits else "")


class Session:
    """Minimises weighted sums of linear forms (the objectives, or their numerators and denominators) under bounds on
    them, and checks every answer.

    Parameters
    ----------
    make_backend : callable
        From the forms' coefficients, scaled, to a `Backend` that has them as extra rows.
    forms : Form
    check : Check
    scale : Scale
    settings : mapping, optional
        Solver settings to ask with first.
    """

    def __init__(
        self,
        make_backend: Callable[[tuple[Vector, ...]], Backend],
        forms: tuple[Form, ...],
        check: Check,
        scale: Scale,
        settings: Settings | None = None,
    ) -> None:
        self._make_backend, self._forms, self._check = make_backend, forms, check
        self._tried: tuple[Settings, ...] = (settings or {}, *RETRIES)
        self.known: list[Candidate] = []
        # Values in floating point of so many of them, one in a column; the others are nan.
        self._rough, self._compared = np.full((len(forms), 64), math.nan), 0
        self.statistics = Statistics()
        self.bounded = False  # whether both objectives are known to have a best value
        self.deadline = math.inf
        self.rescale(scale)

    def rescale(self, scale: Scale) -> None:
        """Work in other units from now on."""
        self.scale = scale
        pairs = list(zip(self._forms, map(float, scale.units), strict=True))
        self._rows = tuple(form.coefficients / unit for form, unit in pairs)
        self._constants = tuple(form.constant / unit for form, unit in pairs)
        self._backend = self._make_backend(self._rows)
        self._check.rescale(self._rows)

    def fork(self) -> Session:
        """Another session with a solver of its own, which knows what this one knows."""
        made = Session(self._make_backend, self._forms, self._check.fork(), self.scale, self._tried[0])
        made.known, made.deadline, made.bounded = list(self.known), self.deadline, self.bounded
        return made

    def minimize(
        self,
        weights: Weights,
        upper: tuple[Bound, ...] | None = None,
        tolerance: float | None = None,
        lines: tuple[Line, ...] = (),
    ) -> Answer | None:
        """The checked minimum of the forms weighted step by step, with forms ≤ upper and below the lines.

        Parameters
        ----------
        weights : float for each form
            Worth of one step of it.
        upper : Fraction or None for each form
            In its own unit.
        tolerance : float, optional
            Weighted difference that counts as none. Default: half the smallest weight.

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
        if tolerance is None:
            tolerance = 0.5 * min(abs(weight) for weight in weights if weight)
        if upper is None:
            upper = (None,) * len(weights)
        question = Question(weights, upper, lines, tolerance)
        objections: list[str] = []
        refused = unbounded = 0
        for settings in self._tried:
            outcome, cost, limits, rows = self._solve(question, settings)
            if outcome.status is Status.INFEASIBLE and self._best_known(question) is None:
                refused += 1
                continue
            unbounded += outcome.status in (Status.UNBOUNDED, Status.UNBOUNDED_OR_INFEASIBLE)
            candidate = None if outcome.x is None else self._check(outcome.x, cost, limits, rows)
            answer, objection = self._examine(outcome, candidate, question)
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
        if unbounded == len(self._tried) and not self.bounded:
            raise UnboundedError
        raise SolverError(
            f"{question}: {objections[-1]}; so with {len(objections)} of {len(self._tried)} settings of the solver"
        )

    def _solve(
        self, question: Question, settings: Settings
    ) -> tuple[Outcome, Vector, list[float], list[tuple[Vector, float]]]:
        cost, limits = self.in_units(question.weights, question.upper)
        lines = [self.line_in_units(line) for line in question.lines]
        remaining = None if math.isinf(self.deadline) else self.deadline - time.perf_counter()
        if remaining is not None and remaining <= 0:
            raise StoppedError
        try:
            outcome = self._backend.solve(cost, limits, settings, time_limit=remaining, lines=lines)
        except Exception as error:  # whatever it is, what was found before stands
            raise CrashedError(f"the solver broke down: {error!r}") from error
        self.statistics.solves += 1
        self.statistics.solver_seconds += outcome.seconds
        if outcome.status is Status.STOPPED:
            raise StoppedError
        return outcome, cost, limits, lines

    def in_units(self, weights: Weights, upper: tuple[Bound, ...]) -> tuple[Vector, list[float]]:
        """Cost vector and bounds on the two rows, as the solver sees them."""
        scaled = self._scaled_weights(weights)
        limits = [
            math.inf if bound is None else float(bound / unit) - constant
            for bound, unit, constant in zip(upper, self.scale.units, self._constants, strict=True)
        ]
        cost = sum(
            (weight * row for weight, row in zip(scaled, self._rows, strict=True) if weight), 0.0 * self._rows[0]
        )
        return cost, limits

    def is_constant(self, k: int) -> bool:
        """Whether form k has no variables."""
        return self._forms[k].is_constant

    def typical(self, k: int) -> Fraction:
        """The size of form k at the last solution."""
        return abs(self.known[-1].values[k])

    def line_in_units(self, line: Line) -> tuple[Vector, float]:
        """A line as a row a·x ≤ b, as the solver sees it."""
        weights, bound = line
        row, _ = self.in_units(weights, (None,) * len(weights))
        return row, float(bound) - self.constant_worth(weights)

    def constant_worth(self, weights: Weights) -> float:
        """What the objectives' constants add to a weighted sum."""
        return float(np.dot(self._scaled_weights(weights), self._constants))

    def _scaled_weights(self, weights: Weights) -> Weights:
        scale = self.scale
        return tuple(w * float(u / s) for w, u, s in zip(weights, scale.units, scale.steps, strict=True))

    def _examine(
        self,
        outcome: Outcome,
        candidate: Candidate | None,
        question: Question,
    ) -> tuple[Answer | None, str]:
        """An answer, or what is wrong with it."""
        if outcome.status is not Status.OPTIMAL or outcome.x is None:
            known = ", but a solution is known" if outcome.status is Status.INFEASIBLE else ""
            return None, f"the solver says {outcome.status.value} ({outcome.message}){known}"
        if candidate is None:
            return None, "the solver's solution breaks a constraint once its integers are rounded"
        if not self._allowed(candidate, question, HAIR):
            return None, "the solver's solution exceeds a bound once its integers are rounded"
        value = self.worth(question.weights, candidate)
        bound = outcome.bound + self.constant_worth(question.weights)
        if float(value) > bound + question.tolerance:
            return None, f"the solver's solution is worth {float(value):.12g} steps, its bound is {bound:.12g}"
        better = self._best_known(question)
        if better is not None and float(value - better) > question.tolerance:
            return None, "the solver calls a solution optimal that is worse than a known one"
        return Answer(candidate, bound, float(value) - bound, outcome.settings), ""

    def worth(self, weights: Weights, candidate: Candidate) -> Fraction:
        """The weighted objectives of a candidate, in steps, in exact arithmetic."""
        return sum(
            (Fraction(w) * v / s for w, v, s in zip(weights, candidate.values, self.scale.steps, strict=True) if w),
            Fraction(0),
        )

    def _best_known(self, question: Question) -> Fraction | None:
        """The least worth among known solutions within the bounds; None if there are none."""
        while self._compared < len(self.known):
            if self._compared == self._rough.shape[1]:
                self._rough = np.hstack([self._rough, np.full_like(self._rough, math.nan)])
            self._rough[:, self._compared] = [float(value) for value in self.known[self._compared].values]
            self._compared += 1
        # Floats rule out most: rounding keeps the order.
        near = self._rough[0] == self._rough[0]
        for values, bound in zip(self._rough, question.upper, strict=True):
            if bound is not None:
                near &= values <= float(bound)
        known = (self.known[k] for k in near.nonzero()[0].tolist())
        allowed = (candidate for candidate in known if self._allowed(candidate, question, Fraction(0)))
        return min((self.worth(question.weights, candidate) for candidate in allowed), default=None)

    def _allowed(self, candidate: Candidate, question: Question, hair: Fraction) -> bool:
        return all(
            bound is None or v <= bound or v <= bound + step * hair
            for v, bound, step in zip(candidate.values, question.upper, self.scale.steps, strict=True)
        ) and all(self.worth(weights, candidate) <= bound + hair for weights, bound in question.lines)
