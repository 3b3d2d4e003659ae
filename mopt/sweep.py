"""The sweep over finite fronts: both lexicographic ends first, then point by point by bounds on the second objective.

Exact for every bi-objective model whose objectives take finitely many values: on a lattice with the solver's gap at 0,
otherwise at a resolution. The loop is the ε-constraint method of Haimes, Lasdon and Wismer (IEEE Trans. SMC 1, 1971);
one solve a point by exact weights as in Hamacher, Pedersen and Ruzika (Operations Research Letters 35, 2007).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from mopt.errors import SolverError
from mopt.session import Answer, Candidate, Exact, Session

# Beyond this size a weighted objective has too few digits left to tell neighbours apart.
LARGEST_WEIGHTED = 10**9


@dataclass(frozen=True)
class Grid:
    """How finely a sweep looks.

    Attributes
    ----------
    steps : two Fraction
        Difference in each objective that counts.
    skip : two Fraction
        A bound below a found value is that value less this: half a step on a lattice, the whole step otherwise.
    slack : two Fraction
        How far the second stage of a lexicographic solve may give way in the first objective.
    weight : float or None
        Worth of one step of the first objective in steps of the second, where one weighted solve settles a point.
    """

    steps: Exact
    skip: Exact
    slack: Exact
    weight: float | None


@dataclass(frozen=True)
class Found:
    """A point of the front as the sweep knows it: the solution, and the answer that proved it."""

    candidate: Candidate
    answer: Answer
    weighted: bool

    @property
    def values(self) -> Exact:
        """Both objectives, minimised."""
        return self.candidate.values


class Contradiction(Exception):
    """A point that was called nondominated is dominated by a later one."""


def lexicographic(session: Session, grid: Grid, order: tuple[int, int], bound: Fraction | None = None) -> Found | None:
    """The best value of objective order[0], and the best of order[1] among those; None if there is no solution.

    `bound` limits the second objective.
    """
    first = (1.0, 0.0) if order[0] == 0 else (0.0, 1.0)
    second = (first[1], first[0])
    answer = session.minimize(first, (None, bound))
    if answer is None:
        return None
    best = answer.candidate.values[order[0]] + grid.slack[order[0]]
    upper = (best, bound) if order[0] == 0 else (None, best)
    refined = session.minimize(second, upper)
    if refined is None:
        raise SolverError("the solver finds no solution where it has just given one")
    return Found(refined.candidate, refined, weighted=False)


def sweep(session: Session, grid: Grid, start: Found, end: Found) -> Iterator[Found]:
    """The points strictly between two lexicographic ends, from the best first objective on.

    Every step asks for the best point with the second objective below the last one's; the end's own solution is known,
    so that an 'infeasible' is a contradiction and only reaching the end again ends the sweep.

    Raises
    ------
    Contradiction
        If a new point dominates the last one.
    """
    last: Found | None = start
    while last is not None and (last := step_on(session, grid, last, end)) is not None:
        yield last


def step_on(session: Session, grid: Grid, last: Found, end: Found) -> Found | None:
    """The point after another; None if that is the end.

    Raises
    ------
    Contradiction
        If it dominates the last one.
    """
    bound = last.values[1] - grid.skip[1]
    if bound < end.values[1]:
        return None
    found = advance(session, grid, bound, end)
    if found is not None and found.values[0] <= last.values[0] - 2 * grid.slack[0]:
        raise Contradiction
    return found


def advance(session: Session, grid: Grid, bound: Fraction, end: Found) -> Found | None:
    """The best point with the second objective at most a bound; None if that is the end."""
    if grid.weight is None:
        found = lexicographic(session, grid, (0, 1), bound)
    else:
        answer = session.minimize((grid.weight, 1.0), (None, bound))
        found = None if answer is None else Found(answer.candidate, answer, weighted=True)
    if found is None:
        raise SolverError("the solver finds no solution within the range of the ends")
    reached = found.values[1] <= end.values[1] + grid.slack[1] and found.values[0] >= end.values[0] - grid.slack[0]
    return None if reached else found
