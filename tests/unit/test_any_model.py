"""Any bi-objective Pyomo MILP, as its author wrote it."""

import io
import itertools
import math

import numpy as np
import pyomo.environ as pyo
import pytest

import mopt


def text(m: pyo.ConcreteModel) -> str:
    """Everything that a model shows: components, bounds, values, what is active or fixed."""
    out = io.StringIO()
    m.pprint(ostream=out)
    return out.getvalue()


def plant() -> pyo.ConcreteModel:
    """Blocks, indexed variables, mutable and fixed data, equality, range and free rows, every kind of variable."""
    m = pyo.ConcreteModel()
    m.least = pyo.Param(initialize=5, mutable=True)
    m.site = pyo.Block(["east", "west"])
    for k, name in enumerate(m.site):
        b = m.site[name]
        b.open = pyo.Var(domain=pyo.Binary)
        b.units = pyo.Var([1, 2], domain=pyo.NonNegativeIntegers, bounds=(0, 4))
        b.slack = pyo.Var()  # free, unbounded
        b.room = pyo.Constraint(expr=b.units[1] + b.units[2] <= 5 * b.open)
        b.meter = pyo.Constraint(expr=b.slack == b.units[1] - (2 + k) * b.units[2])
    m.all = pyo.Constraint(expr=pyo.inequality(m.least, sum(b.units[j] for b in m.site.values() for j in (1, 2)), 8))
    m.nothing = pyo.Constraint(expr=(-math.inf, m.site["east"].units[1] + m.site["west"].units[1], math.inf))
    m.site["west"].units[2].fix(1)
    m.off = pyo.Constraint(expr=m.site["east"].units[1] >= 100)
    m.off.deactivate()
    east, west = m.site["east"], m.site["west"]
    m.cost = pyo.Objective(
        expr=3 * east.units[1] + 5 * east.units[2] + 4 * west.units[1] + 2 * west.units[2] + 2 * east.open + west.open
    )
    m.gain = pyo.Objective(
        expr=2 * east.units[1] + 7 * east.units[2] + 5 * west.units[1] + west.units[2] + 1, sense=pyo.maximize
    )
    m.gain.deactivate()
    return m


def plants() -> list[tuple[float, float]]:
    """The front of `plant` by enumeration; west's second units are fixed at 1."""
    values = set()
    for a, b, c in itertools.product(range(5), repeat=3):
        for east, west in itertools.product((0, 1), repeat=2):
            if a + b <= 5 * east and c + 1 <= 5 * west and 5 <= a + b + c + 1 <= 8:
                values.add((3 * a + 5 * b + 4 * c + 2 + 2 * east + west, 2 * a + 7 * b + 5 * c + 2))
    kept: list[tuple[float, float]] = []
    for cost, gain in sorted(values, key=lambda pair: (pair[0], -pair[1])):
        if not kept or gain > kept[-1][1]:
            kept.append((cost, gain))
    return kept


def test_every_kind_of_component_and_the_model_stays_as_it_was() -> None:
    m = plant()
    before = text(m)
    front = mopt.solve_epsilon_front(m, objectives=(m.cost, m.gain))
    assert text(m) == before
    assert [tuple(pair) for pair in front.values] == plants()
    assert front.names == ("cost", "gain")
    assert front.senses == (1, -1)
    assert front[0].values["site[west].units[2]"] == 1.0


def test_mutable_data_count_as_they_are_now() -> None:
    m = plant()
    m.least.set_value(8)
    assert all(sum(v for name, v in p.values.items() if "units" in name) == 8
               for p in mopt.solve_epsilon_front(m, objectives=(m.cost, m.gain)))


def test_a_point_loads_back() -> None:
    m = plant()
    front = mopt.solve_epsilon_front(m, objectives=(m.cost, m.gain))
    for point in front:
        point.load_into(m)
        assert (pyo.value(m.cost), pyo.value(m.gain)) == point.objectives


def test_what_is_not_linear_is_named() -> None:
    m = plant()
    m.bad = pyo.Constraint(expr=m.site["east"].units[1] * m.site["west"].units[1] <= 3)
    before = text(m)
    with pytest.raises(mopt.InputError, match=r"bad.*must be linear"):
        mopt.solve_epsilon_front(m, objectives=(m.cost, m.gain))
    assert text(m) == before


@pytest.mark.parametrize("first", [True, False])
def test_an_unbounded_objective_is_named(first: bool) -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(domain=pyo.NonNegativeIntegers)
    m.y = pyo.Var(domain=pyo.NonNegativeIntegers, bounds=(0, 3))
    m.low = pyo.Objective(expr=m.y)
    m.down = pyo.Objective(expr=-m.x)
    with pytest.raises(mopt.InputError, match=r"down.*best value"):
        mopt.solve_epsilon_front(m, objectives=(m.down, m.low) if first else (m.low, m.down))


def test_a_model_without_solutions_is_infeasible() -> None:
    m = plant()
    m.never = pyo.Constraint(expr=m.site["east"].units[1] + m.site["west"].units[1] >= 9)
    with pytest.raises(mopt.InfeasibleError):
        mopt.solve_epsilon_front(m, objectives=(m.cost, m.gain))


def test_a_constraint_without_variables_that_does_not_hold() -> None:
    m = plant()
    m.zero = pyo.Param(initialize=0, mutable=True)
    m.never = pyo.Constraint(expr=m.zero * m.site["east"].units[1] >= 1)
    with pytest.raises(mopt.InfeasibleError, match="never"):
        mopt.solve_epsilon_front(m, objectives=(m.cost, m.gain))


@pytest.mark.parametrize("objectives", [None, (), ("cost", "gain"), 3])
def test_objectives_that_are_none_are_refused(objectives: object) -> None:
    with pytest.raises(mopt.InputError, match="objectives"):
        mopt.solve_epsilon_front(plant(), objectives=objectives)


@pytest.mark.parametrize("target", [None, 3, "problem.toml"])
def test_targets_that_are_none_are_refused(target: object) -> None:
    with pytest.raises(mopt.InputError, match="target"):
        mopt.solve_epsilon_front(target)


@pytest.mark.parametrize("seed", range(4))
def test_large_close_coefficients(seed: int) -> None:
    """Values of 1e6 to 1e7 that differ by units: integers must be rounded before they are compared."""
    rng = np.random.default_rng(seed)
    n = 9
    first, second = (1_000_000 + rng.integers(0, 60, n)).tolist(), (1_000_000 + rng.integers(0, 60, n)).tolist()
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(n), domain=pyo.Binary)
    m.four = pyo.Constraint(expr=sum(m.x[k] for k in range(n)) >= 4)
    m.f1 = pyo.Objective(expr=sum(first[k] * m.x[k] for k in range(n)))
    m.f2 = pyo.Objective(expr=sum(second[k] * m.x[k] for k in range(n)))
    found = mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2))
    kept: list[tuple[int, int]] = []
    for pair in sorted({
        (sum(first[k] for k in chosen), sum(second[k] for k in chosen))
        for size in range(4, n + 1) for chosen in itertools.combinations(range(n), size)
    }):
        if not kept or pair[1] < kept[-1][1]:
            kept.append(pair)
    assert [tuple(pair) for pair in found.values] == kept
