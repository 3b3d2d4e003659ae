"""Verification of a front: attainment without the solver, non-domination by a second proof on a disguised model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse

from mopt import geometry
from mopt.epsilon import trace_again
from mopt.errors import InputError
from mopt.front import ParetoFront
from mopt.highs import Highs, Outcome, Settings
from mopt.linear_model import LinearModel, Vector
from mopt.point import Point
from mopt.task import Task, task_of


@dataclass(frozen=True)
class Verification:
    """What a verification found.

    Attributes
    ----------
    attained : int
        Points and segment ends whose solutions satisfy every constraint and have the objectives that the front says.
    compared : int
        Points, segment ends and midpoints that were compared with the second proof.
    failures : tuple of str
        What doesn't hold; empty if all does.
    unchecked : tuple of (float, float)
        Ranges of the second objective that the second proof didn't reach.
    """

    attained: int
    compared: int
    failures: tuple[str, ...]
    unchecked: tuple[tuple[float, float], ...]

    @property
    def ok(self) -> bool:
        """Whether all holds and nothing is unchecked."""
        return not self.failures and not self.unchecked

    def __bool__(self) -> bool:
        return self.ok


class Disguised:
    """HiGHS on the same model in another shape: rows and columns shuffled, rows scaled, another seed."""

    def __init__(self, model: LinearModel, rows: Sequence[Vector], *, seed: int = 2026) -> None:
        rng = np.random.default_rng(seed)
        m, n = model.matrix.shape
        self._columns, self._seed = rng.permutation(n), seed % 1000
        order = rng.permutation(m)
        factors = np.exp2(rng.integers(-2, 3, size=m))
        matrix = sparse.csr_array((sparse.diags_array(factors) @ model.matrix)[order][:, self._columns])
        columns = self._columns
        shuffled = dataclasses.replace(
            model,
            matrix=matrix,
            row_lower=(model.row_lower * factors)[order],
            row_upper=(model.row_upper * factors)[order],
            lower=model.lower[columns],
            upper=model.upper[columns],
            integer=model.integer[columns],
            column_name=lambda k: model.column_name(columns[k]),
            row_name=lambda k: model.row_name(order[k]),
        )
        self._highs = Highs(shuffled, [row[columns] for row in rows])

    def solve(
        self,
        cost: Vector,
        upper: Sequence[float],
        settings: Settings,
        *,
        time_limit: float | None = None,
        lines: Sequence[tuple[Vector, float]] = (),
    ) -> Outcome:
        """As `Highs.solve`, in the original order of columns."""
        mixed = [(row[self._columns], bound) for row, bound in lines]
        seeded = {"random_seed": self._seed, **settings}
        outcome = self._highs.solve(cost[self._columns], upper, seeded, time_limit=time_limit, lines=mixed)
        if outcome.x is None:
            return outcome
        x = np.empty_like(outcome.x)
        x[self._columns] = outcome.x
        return dataclasses.replace(outcome, x=x)


def verify(
    front: ParetoFront, target: Any, objectives: tuple[Any, Any] | None, time_limit: float | None
) -> Verification:
    """Check a front against its problem or model; see `ParetoFront.verify`."""
    task = task_of(target, objectives)
    ends = [end for segment in front.segments for end in (segment.start, segment.end)]
    failures = [failure for point in (*front.points, *ends) if (failure := _not_attained(task, point))]
    attained = len(front.points) + len(ends) - len(failures)
    first, second = (Fraction(step) if step else None for step in front.resolution)
    again = trace_again(task, (first, second), Disguised, time_limit)
    # On a lattice half a step tells neighbours apart; else two fronts may differ by the step that each is exact at.
    share = 0.5 if front.certificate.exact else 1.001
    close = tuple(
        max(share * step, 1e-9 * float(np.ptp(front.values[:, k])) if len(front) else 0.0)
        for k, step in enumerate(front.resolution)
    )
    compared = 0
    for here, there, text in ((front, again, "the second proof finds nothing as good as"), (again, front, "misses")):
        if not there.points:
            continue
        for values in _probes(here):
            if any(low <= values[1] <= high for low, high in (*again.unexplored, *front.unexplored)):
                continue
            compared += 1
            if not _covered(there, values, close):
                failures.append(f"{text} {values[0]:.12g}, {values[1]:.12g}")
    unchecked = () if again.complete else again.unexplored
    return Verification(attained, compared, tuple(failures), unchecked)


def _not_attained(task: Task, point: Point) -> str:
    try:
        candidate = task.candidate(point)
    except InputError as error:
        return str(error)
    own = task.own(candidate)
    if np.allclose(own, point.objectives, rtol=1e-9, atol=0.0):
        return ""
    return f"the point {point.objectives} has a solution worth {own}"


def _probes(front: ParetoFront) -> list[tuple[float, float]]:
    """The points, and the middle of each segment."""
    return [point.objectives for point in front.points] + [segment.at(0.5).objectives for segment in front.segments]


def _covered(front: ParetoFront, values: tuple[float, float], close: tuple[float, ...]) -> bool:
    """Whether the front has a point no worse than these values, by more than what is close, in both objectives."""
    s0, s1 = front.senses
    found = geometry.locate(front.pieces, front.senses, 1, values[1] + s1 * close[1])
    return found is not None and s0 * found.objectives[0] <= s0 * values[0] + close[0] + 1e-12 * abs(values[0])
