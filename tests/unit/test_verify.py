"""Verification catches what is wrong with a front, and passes what is right."""

import dataclasses

import pyomo.environ as pyo
import pytest

import mopt


def knapsack() -> pyo.ConcreteModel:
    m = pyo.ConcreteModel()
    gains = [(9, 2, 5), (7, 4, 4), (5, 6, 5), (3, 8, 4), (6, 5, 6), (4, 9, 7), (8, 3, 6), (2, 7, 3)]
    m.x = pyo.Var(range(len(gains)), domain=pyo.Binary)
    m.f1 = pyo.Objective(expr=sum(g[0] * m.x[k] for k, g in enumerate(gains)), sense=pyo.maximize)
    m.f2 = pyo.Objective(expr=sum(g[1] * m.x[k] for k, g in enumerate(gains)), sense=pyo.maximize)
    m.room = pyo.Constraint(expr=sum(g[2] * m.x[k] for k, g in enumerate(gains)) <= 17)
    return m


def mixed() -> pyo.ConcreteModel:
    """Two machines, a fixed charge each: the front has segments."""
    m = pyo.ConcreteModel()
    m.y = pyo.Var([0, 1], domain=pyo.Binary)
    m.x = pyo.Var([0, 1], bounds=(0, 4))
    m.made = pyo.Constraint(expr=m.x[0] + m.x[1] >= 3)
    m.on = pyo.Constraint([0, 1], rule=lambda m, k: m.x[k] <= 4 * m.y[k])
    m.cost = pyo.Objective(expr=m.x[0] + 2 * m.x[1] + 2 * m.y[1])
    m.dirt = pyo.Objective(expr=3 * m.x[0] + m.x[1])
    return m


@pytest.fixture(scope="module")
def solved() -> tuple[pyo.ConcreteModel, mopt.ParetoFront]:
    m = knapsack()
    return m, mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2))


def test_a_right_front_passes_with_no_target_given_again(solved: tuple[pyo.ConcreteModel, mopt.ParetoFront]) -> None:
    found = solved[1].verify()
    assert found.ok
    assert found.attained == len(solved[1])
    assert found.compared == 2 * len(solved[1])


def test_a_missing_point_is_noticed(solved: tuple[pyo.ConcreteModel, mopt.ParetoFront]) -> None:
    m, front = solved
    for k in range(len(front)):
        cut = dataclasses.replace(front, points=front.points[:k] + front.points[k + 1 :])
        found = cut.verify(m, (m.f1, m.f2))
        assert not found
        assert any(f"{front[k].objectives[0]:g}" in failure for failure in found.failures)


def test_a_solution_that_breaks_a_row_is_noticed(solved: tuple[pyo.ConcreteModel, mopt.ParetoFront]) -> None:
    m, front = solved
    first = front[0]
    all_taken = dict.fromkeys(first.variables, 1.0)
    lying = dataclasses.replace(front, points=(dataclasses.replace(first, variables=all_taken), *front.points[1:]))
    assert any("breaks constraints" in failure for failure in lying.verify(m, (m.f1, m.f2)).failures)


def test_a_wrong_value_is_noticed(solved: tuple[pyo.ConcreteModel, mopt.ParetoFront]) -> None:
    m, front = solved
    better = (front[0].objectives[0] + 1, front[0].objectives[1])
    lying = dataclasses.replace(
        front, points=(dataclasses.replace(front[0], objectives=better, exact=None), *front.points[1:])
    )
    assert any("has a solution worth" in failure for failure in lying.verify(m, (m.f1, m.f2)).failures)


def test_segments_pass_and_a_cut_one_does_not() -> None:
    m = mixed()
    front = mopt.solve_epsilon_front(m, objectives=(m.cost, m.dirt))
    assert front.segments
    assert front.verify().ok
    without = dataclasses.replace(front, points=front.points[:1], segments=())
    assert not without.verify(m, (m.cost, m.dirt))


def test_a_front_from_a_file_needs_its_target(
    solved: tuple[pyo.ConcreteModel, mopt.ParetoFront], tmp_path: pytest.TempPathFactory
) -> None:
    m, front = solved
    front.save(tmp_path / "front.json")
    loaded = mopt.load_front(tmp_path / "front.json")
    with pytest.raises(mopt.InputError, match="give verify"):
        loaded.verify()
    assert loaded.verify(m, (m.f1, m.f2)).ok


def test_a_point_loads_into_its_model_and_no_other(solved: tuple[pyo.ConcreteModel, mopt.ParetoFront]) -> None:
    m, front = solved
    front[2].load_into(m)
    assert (pyo.value(m.f1), pyo.value(m.f2)) == front[2].objectives
    with pytest.raises(mopt.InputError, match="another model"):
        front[2].load_into(mixed())
