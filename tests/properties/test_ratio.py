"""Fronts with ratio objectives against enumeration of the integers."""

import itertools
from fractions import Fraction

import numpy as np
import pyomo.environ as pyo
import pytest

import mopt

Pair = tuple[Fraction, Fraction]


def nondominated(values: set[Pair]) -> list[Pair]:
    """Both minimised; ascending in the first."""
    kept: list[Pair] = []
    for pair in sorted(values):
        if not kept or pair[1] < kept[-1][1]:
            kept.append(pair)
    return kept


@pytest.mark.parametrize("seed", range(100))
def test_whole_numbers(seed: int) -> None:
    """The ratio first or second, best large or small, its parts with constants; sometimes both are ratios."""
    rng = np.random.default_rng(seed)
    n = 4
    linear, top, bottom, other = (rng.integers(low, 15, n).tolist() for low in (1, -5, 0, 0))
    c, d, least = int(rng.integers(0, 4)), int(rng.integers(1, 6)), int(rng.integers(1, 5))
    ratio_sense, both, ratio_first = rng.choice([-1, 1]), seed % 4 == 0, seed % 2 == 1
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(n), domain=pyo.Integers, bounds=(0, 3))
    m.some = pyo.Constraint(expr=sum(m.x[k] for k in range(n)) >= least)

    def form(coefficients: list[int], constant: int) -> object:
        return sum(a * m.x[k] for k, a in enumerate(coefficients)) + constant

    m.cost = pyo.Objective(expr=form(linear, 0))
    sense = "minimize" if ratio_sense > 0 else "maximize"
    ratio = mopt.Ratio(form(top, c), form(bottom, d), sense, name="ratio")
    first = mopt.Ratio(form(linear, 0), form(other, 1), "minimize", name="price") if both else m.cost
    objectives = (ratio, first) if ratio_first else (first, ratio)
    found = mopt.solve_epsilon_front(m, objectives=objectives)

    values = set()
    for x in itertools.product(range(4), repeat=n):
        if sum(x) < least:
            continue
        at = [sum(a * v for a, v in zip(part, x, strict=True)) for part in (linear, top, bottom, other)]
        price = Fraction(at[0], at[3] + 1) if both else Fraction(at[0])
        quotient = int(ratio_sense) * Fraction(at[1] + c, at[2] + d)
        values.add((quotient, price) if ratio_first else (price, quotient))
    expected = nondominated(values)
    signs = (ratio_sense, 1) if ratio_first else (1, ratio_sense)
    assert found.complete
    assert found.values == pytest.approx(np.array([[float(a), float(b)] for a, b in expected]) * signs, abs=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_a_number_over_a_form(seed: int) -> None:
    """A constant numerator of either sign, maximised or minimised: a bound on the denominator."""
    rng = np.random.default_rng(1000 + seed)
    n = 4
    linear, bottom = rng.integers(1, 15, n).tolist(), rng.integers(1, 15, n).tolist()
    numerator, sense = int(rng.choice([-3, 5])), int(rng.choice([-1, 1]))
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(n), domain=pyo.Integers, bounds=(0, 3))
    m.some = pyo.Constraint(expr=sum(m.x[k] for k in range(n)) >= 3)
    m.cost = pyo.Objective(expr=sum(a * m.x[k] for k, a in enumerate(linear)))
    below = sum(a * m.x[k] for k, a in enumerate(bottom)) + 1
    ratio = mopt.Ratio(numerator, below, pyo.maximize if sense < 0 else pyo.minimize)
    found = mopt.solve_epsilon_front(m, objectives=(m.cost, ratio))
    values = {
        (Fraction(sum(a * v for a, v in zip(linear, x, strict=True))),
         sense * Fraction(numerator, 1 + sum(a * v for a, v in zip(bottom, x, strict=True))))
        for x in itertools.product(range(4), repeat=n) if sum(x) >= 3
    }
    expected = np.array([[float(a), float(b)] for a, b in nondominated(values)]) * (1, sense)
    assert found.values == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_continuous_numerator(seed: int) -> None:
    """Whole units decide cost and denominator, a continuous load the numerator."""
    rng = np.random.default_rng(2000 + seed)
    n = 3
    price, size, room = (rng.integers(1, 12, n).tolist() for _ in range(3))
    gain = rng.uniform(0.5, 2.0, n).round(3).tolist()
    m = pyo.ConcreteModel()
    m.n = pyo.Var(range(n), domain=pyo.Integers, bounds=(0, 3))
    m.taken = pyo.Var(range(n), bounds=(0, None))
    m.some = pyo.Constraint(expr=sum(m.n[k] for k in range(n)) >= 1)
    m.fits = pyo.Constraint(range(n), rule=lambda m, k: m.taken[k] <= room[k] * m.n[k])
    m.work = pyo.Constraint(expr=sum(m.taken[k] for k in range(n)) <= 20)
    m.cost = pyo.Objective(expr=sum(price[k] * m.n[k] for k in range(n)))
    used = mopt.Ratio(sum(gain[k] * m.taken[k] for k in range(n)), sum(size[k] * m.n[k] for k in range(n)))
    found = mopt.solve_epsilon_front(m, objectives=(m.cost, used))

    values = set()
    for units in itertools.product(range(4), repeat=n):
        if not any(units):
            continue
        left, done = Fraction(20), Fraction(0)
        for k in sorted(range(n), key=lambda k: -gain[k]):
            load = min(left, Fraction(room[k] * units[k]))
            done += Fraction(repr(gain[k])) * load
            left -= load
        values.add((Fraction(sum(p * u for p, u in zip(price, units, strict=True))),
                    -done / sum(s * u for s, u in zip(size, units, strict=True))))
    expected = np.array([[float(a), -float(b)] for a, b in nondominated(values)])
    # At a resolution: each nondominated pair has a returned one no worse by more than a step, and none is dominated.
    step = found.resolution[1]
    for cost, ratio in expected:
        assert any(c <= cost + 1e-9 and r >= ratio - 1.001 * step for c, r in found.values)
    for cost, ratio in found.values:
        assert any(abs(c - cost) < 1e-9 and abs(r - ratio) < 1e-6 for c, r in expected)
