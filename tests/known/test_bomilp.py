"""Mixed-integer fronts, segments and open ends included, against enumeration of the integers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pyomo.environ as pyo
import pytest
from envelopes import Component, Slice, differences, enumerated

from mopt import ParetoFront, solve_epsilon_front

SEEDS = range(50)
FEW = {1, 3, 7}


@dataclass(frozen=True)
class Bomilp:
    """max (c_k·x + f_k·y, k = 1, 2): A·x + diag(a)·y ≤ b, Σ y ≤ ⌊n/3⌋, x ≥ 0, y binary, n of each.

    The classes of Boland, Charkhgard and Savelsbergh (INFORMS Journal on Computing 27, 2015), after Mavrotas and
    Diakoulaki (2005): rows − 1 rows over all continuous variables, each with at most one binary, and one that limits
    the number of binaries; c in [−10, 10], f in [−200, 200], A and a in [−1, 20], b in [50, 100], uniform integers.
    """

    c: np.ndarray
    f: np.ndarray
    A: np.ndarray
    a: np.ndarray
    b: np.ndarray

    @classmethod
    def random(cls, seed: int, rows: int = 20) -> Bomilp:
        draw, n = np.random.default_rng(seed).integers, rows // 2
        return cls(
            c=draw(-10, 11, (2, n)), f=draw(-200, 201, (2, n)), A=draw(-1, 21, (rows - 1, n)), a=draw(-1, 21, n),
            b=draw(50, 101, rows - 1),
        )

    def model(self) -> pyo.ConcreteModel:
        m, n = pyo.ConcreteModel(), len(self.a)
        m.x, m.y = pyo.Var(range(n), bounds=(0, None)), pyo.Var(range(n), domain=pyo.Binary)
        m.f1, m.f2 = (
            pyo.Objective(
                expr=sum(int(self.c[k, j]) * m.x[j] + int(self.f[k, j]) * m.y[j] for j in range(n)), sense=pyo.maximize
            )
            for k in (0, 1)
        )
        m.row = pyo.Constraint(
            range(len(self.b)),
            rule=lambda m, i: sum(int(self.A[i, j]) * m.x[j] for j in range(n))
            + (int(self.a[i]) * m.y[i] if i < n else 0) <= int(self.b[i]),
        )
        m.few = pyo.Constraint(expr=sum(m.y[j] for j in range(n)) <= n // 3)
        return m

    def front(self) -> list[Component]:
        """In minimised objectives."""
        n, slices = len(self.a), []
        for y in map(np.array, product((0, 1), repeat=n)):
            if y.sum() <= n // 3:
                b = self.b.astype(float)
                b[:n] -= self.a * y
                gained = -self.f @ y
                slices.append(Slice(-self.c.astype(float), (gained[0], gained[1]), {"A_ub": self.A, "b_ub": b}))
        return enumerated(slices)


def components(front: ParetoFront) -> list[Component]:
    """The connected parts of a front, in minimised objectives."""
    found: list[Component] = []
    for piece in front.pieces:
        ends = (piece.start, piece.end) if hasattr(piece, "start") else (piece,)
        chain = tuple((front.senses[0] * p.objectives[0], front.senses[1] * p.objectives[1]) for p in ends)
        closed = (getattr(piece, "start_closed", True), getattr(piece, "end_closed", True))
        last = found[-1] if found else None
        if last and last.vertices[-1] == pytest.approx(chain[0], abs=1e-5) and (last.end_closed or closed[0]):
            found[-1] = Component((*last.vertices, *chain[1:]), last.start_closed, closed[1])
        else:
            found.append(Component(chain, *closed))
    return found


@pytest.mark.parametrize("seed", [seed if seed in FEW else pytest.param(seed, marks=pytest.mark.long) for seed in SEEDS])
def test_front_of_20_rows_class(seed):
    instance = Bomilp.random(seed)
    model = instance.model()
    front = solve_epsilon_front(model, objectives=(model.f1, model.f2))
    assert front.complete
    assert differences(components(front), instance.front(), (2e-5, 2e-5)) == []
