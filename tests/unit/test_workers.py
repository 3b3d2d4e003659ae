"""Several threads find the front that one finds, to the last bit."""

from concurrent.futures import ThreadPoolExecutor

import pyomo.environ as pyo
import pytest

import mopt


def covering(decimals: int) -> pyo.ConcreteModel:
    """A covering problem; with many decimals its values lie on no lattice coarse enough."""
    m = pyo.ConcreteModel()
    kinds = [(3, 17, 5), (5, 13, 7), (8, 11, 10), (13, 7, 14), (21, 5, 20), (34, 3, 28)]
    m.n = pyo.Var(range(len(kinds)), domain=pyo.NonNegativeIntegers, bounds=(0, 9))
    tail = 10.0 ** -decimals
    m.f1 = pyo.Objective(expr=sum((a + k * tail) * m.n[k] for k, (a, _, _) in enumerate(kinds)))
    m.f2 = pyo.Objective(expr=sum((b + k * k * tail) * m.n[k] for k, (_, b, _) in enumerate(kinds)))
    m.enough = pyo.Constraint(expr=sum(c * m.n[k] for k, (_, _, c) in enumerate(kinds)) >= 97)
    return m


@pytest.mark.parametrize("decimals", [1, 9])
def test_the_front_is_the_same_whatever_the_workers(decimals: int) -> None:
    m = covering(decimals)
    one = mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2))
    assert len(one) > 10
    with ThreadPoolExecutor(2) as pool:
        for workers in (2, 5, pool):
            several = mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), workers=workers)
            assert several.points == one.points
            assert several.complete


def test_a_point_limit_stops_all_workers() -> None:
    m = covering(1)
    whole = mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2))
    part = mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), workers=2, max_points=4)
    assert not part.complete
    assert part.points == whole.points[:4]


@pytest.mark.parametrize("workers", [0, -1, "two", None])
def test_workers_that_make_no_sense_are_refused(workers: object) -> None:
    m = covering(1)
    with pytest.raises(mopt.InputError, match="workers"):
        mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), workers=workers)


@pytest.mark.parametrize("options", [-1, "x", [1, 2], object(), {1: 2}, {"threads": [1]}, {"mip_rel_gap": object()}])
def test_solver_options_of_other_types_are_refused(options: object) -> None:
    m = covering(1)
    with pytest.raises(mopt.InputError, match="solver_options"):
        mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), solver_options=options)


def test_solver_options_are_checked_by_name_and_value() -> None:
    m = covering(1)
    with pytest.raises(mopt.InputError, match=r"solver_options\[no_such\]"):
        mopt.solve_epsilon_front(m, objectives=(m.f1, m.f2), solver_options={"no_such": 1})
