"""The model that a user gets: its public names, and how well it is scaled on the shipped catalog."""

import pyomo.environ as pyo
import pytest
from scipy import sparse

import mopt
from mopt.compile import compile_model
from mopt.highs import scaling

BILLINGS = ["reserved", "per_use", "elapsed"]


def shipped(billing: str) -> mopt.Problem:
    catalog = mopt.load_catalog().where(provider="AWS") if billing == "elapsed" else mopt.load_catalog()
    return mopt.Problem(catalog, mopt.load_workload("resnet50-train"), samples=2048, time_limit=1.0, billing=billing)


@pytest.mark.parametrize("billing", BILLINGS)
def test_scaled_coefficients_are_of_order_one(billing: str) -> None:
    m = mopt.build_model(shipped(billing))
    model, _ = compile_model(m, (m.cost, m.utilization))
    rows, columns = scaling(model)
    scaled = abs(sparse.diags_array(rows) @ model.matrix @ sparse.diags_array(columns)).tocsr().data
    assert scaled.min() >= 1e-3
    assert scaled.max() <= 1e4


@pytest.mark.parametrize("billing", BILLINGS)
def test_public_names_are_there_and_a_users_constraint_is_honoured(billing: str) -> None:
    resources = [
        mopt.Resource(name, peak, 1e12, 16e9, price, max_units=3, compute_efficiency=reached)
        for name, peak, price, reached in (("a", 60e12, 1.0, 0.4), ("b", 90e12, 2.5, 0.8))
    ]
    workload = mopt.load_workload("resnet50-train")
    m = mopt.build_model(mopt.Problem(resources, workload, samples=2000, time_limit=1.0, billing=billing))
    for name in ("units", "billed"):
        assert set(getattr(m, name)) == {"a", "b"}
    for name in ("dedicated", "samples", "launches", "busy"):
        assert set(getattr(m, name)) == {("a", workload.name), ("b", workload.name)}
    assert any(point.units.get("a") for point in mopt.solve_epsilon_front(m))
    m.without = pyo.Constraint(expr=m.units["a"] <= 0)
    front = mopt.solve_epsilon_front(m)
    assert front.complete
    assert all(set(point.units) == {"b"} and sum(point.samples.values()) == pytest.approx(2000) for point in front)
