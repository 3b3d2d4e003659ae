"""The same front by others, in the same run."""

import instances
import pytest
from rivals import augmecon, naive, whole_reserved

import mopt


def reserved():
    catalog = mopt.load_catalog().where(provider="AWS", region="us-east-1")
    return mopt.Problem(catalog, mopt.load_workload("resnet50-train"), samples=16_384, time_limit=1.0)


@pytest.mark.parametrize("name", ["2kp50", "2kp100"])
def test_augmecon_on_knapsacks(measure, tmp_path, name):
    pytest.importorskip("pyaugmecon")
    model, _ = instances.pyaugmecon_knapsack(name)
    other, _ = instances.pyaugmecon_knapsack(name)
    measure(lambda: mopt.solve_epsilon_front(model, (model.f1, model.f2)), lambda: augmecon(other, tmp_path))


@pytest.mark.parametrize("method", ["auto", "solver"])
def test_augmecon_on_reserved(measure, tmp_path, method):
    pytest.importorskip("pyaugmecon")
    model, other = whole_reserved(reserved()), whole_reserved(reserved())
    measure(
        lambda: mopt.solve_epsilon_front(model, (model.f1, model.f2), method=method), lambda: augmecon(other, tmp_path)
    )


@pytest.mark.parametrize("method", ["auto", "solver"])
def test_naive_loop_on_reserved(measure, method):
    model, other = whole_reserved(reserved()), whole_reserved(reserved())
    measure(lambda: mopt.solve_epsilon_front(model, (model.f1, model.f2), method=method), lambda: naive(other))
