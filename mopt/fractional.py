"""Fronts with ratio objectives N/D: an exact cut where N and D are whole numbers, else a step.

Each objective is a quotient of two forms (a linear one has D = 1). With N and D multiples of fixed steps, the next
better value than p/q, in lowest terms, satisfies p·D − q·N ≥ 1 step: no ε at all. Otherwise the sweep goes on a step δ
below the last value. The best value of a ratio is found by Dinkelbach's iteration (Management Science 13, 1967).
Exact for every bi-objective mixed-integer model whose ratios are of the first kind, else at the resolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from mopt.errors import SolverError
from mopt.session import Answer, Candidate, Line, Session

_MOST_ITERATIONS = 100


@dataclass(frozen=True)
class Quotient:
    """Where an objective's numerator and denominator stand among the session's forms, and how finely it is looked at.

    Attributes
    ----------
    numerator, denominator : int
        Indices of forms.
    steps : (Fraction, Fraction) or None
        Steps that numerator and denominator are whole multiples of; None where there are none.
    delta : Fraction
        Step of the value, if it isn't exact.
    slack : Fraction
        By how much a second stage may give way, if it isn't exact.
    """

    numerator: int
    denominator: int
    steps: tuple[Fraction, Fraction] | None
    delta: Fraction
    slack: Fraction

    @property
    def exact(self) -> bool:
        """Whether the value is a quotient of whole numbers of steps."""
        return self.steps is not None

    def value(self, candidate: Candidate) -> Fraction:
        """N/D at a solution."""
        n, d = candidate.values[self.numerator], candidate.values[self.denominator]
        if self.steps is None:
            return n / d
        # Where continuous variables stand beside the whole ones, sums are floating-point.
        return round(n / self.steps[0]) * self.steps[0] / (round(d / self.steps[1]) * self.steps[1])


class RatioSweep:
    """Sweeps the second of two quotients and minimises the first."""

    def __init__(self, session: Session, quotients: tuple[Quotient, Quotient]) -> None:
        self._session, self._quotients = session, quotients

    def lexicographic(self, order: tuple[int, int], lines: tuple[Line, ...] = ()) -> tuple[Candidate, Answer] | None:
        """The best of objective order[0] below the lines, then of order[1]; None if there is no solution."""
        first = self.best(order[0], lines)
        if first is None:
            return None
        candidate, _ = first
        keep = self._at_most(order[0], self._quotients[order[0]].value(candidate), strictly=False)
        return self.best(order[1], (*lines, keep), candidate)

    def below(self, candidate: Candidate) -> Line:
        """What the second objective must be to be better than a solution's by what counts."""
        return self._at_most(1, self._quotients[1].value(candidate), strictly=True)

    def best(self, k: int, lines: tuple[Line, ...], start: Candidate | None = None) -> tuple[Candidate, Answer] | None:
        """Dinkelbach: minimise N − q·D with q the last value of N/D, until it is 0."""
        quotient = self._quotients[k]
        if start is None:
            answer = self._session.minimize(self._weights(quotient, None), lines=lines)
            if answer is None:
                return None
            start = answer.candidate
            if self._session.is_constant(quotient.denominator):
                return start, answer
        for _ in range(_MOST_ITERATIONS):
            q = quotient.value(start)
            weights = self._weights(quotient, q)
            tolerance = 0.5 if quotient.exact else self._unit(quotient)
            answer = self._session.minimize(weights, lines=lines, tolerance=tolerance)
            if answer is None:
                raise SolverError("the solver finds no solution where one is known")
            better = quotient.value(answer.candidate)
            if better >= q if quotient.exact else better >= q - quotient.slack:
                return (start if better >= q else answer.candidate), answer
            start = answer.candidate
        raise SolverError("the iteration for the best ratio does not settle")

    def _at_most(self, k: int, value: Fraction, *, strictly: bool) -> Line:
        quotient = self._quotients[k]
        if quotient.exact:
            # q·N − p·D, in steps, is a whole number: at most −1, or at most 0.
            return self._weights(quotient, value), Fraction(-1 if strictly else 1, 2)
        limit = value - quotient.delta if strictly else value + quotient.slack
        return self._weights(quotient, limit), Fraction(0)

    def _weights(self, quotient: Quotient, value: Fraction | None) -> tuple[float, ...]:
        """Weights, in steps, of q·N − p·D for a value p/q (of N alone without one), whole numbers if exact."""
        steps = self._session.scale.steps
        weights = [0.0] * len(steps)
        s_n, s_d = steps[quotient.numerator], steps[quotient.denominator]
        if value is None:
            weights[quotient.numerator] = 1.0
            return tuple(weights)
        in_steps = value * s_d / s_n
        whole = in_steps.denominator if quotient.exact else 1
        weights[quotient.numerator] = float(whole)
        weights[quotient.denominator] = -float(in_steps * whole)
        return tuple(weights)

    def _unit(self, quotient: Quotient) -> float:
        """Half the slack of a value, in steps of the numerator, at a denominator of its usual size."""
        return 0.5 * float(
            quotient.slack * self._session.typical(quotient.denominator) / self._session.scale.steps[quotient.numerator]
        )


def ratio_sweep(
    sweep: RatioSweep, start: Candidate, end: Candidate, second: Quotient
) -> Iterator[tuple[Candidate, Answer]]:
    """The points strictly between two ends, from the best first objective on."""
    last = start
    goal = second.value(end)
    while True:
        here = second.value(last)
        if here <= goal or (not second.exact and here - second.delta < goal):
            return
        found = sweep.lexicographic((0, 1), (sweep.below(last),))
        if found is None:
            raise SolverError("the solver finds no solution within the range of the ends")
        candidate, answer = found
        if second.value(candidate) <= goal + (0 if second.exact else second.slack):
            return
        yield candidate, answer
        last = candidate
