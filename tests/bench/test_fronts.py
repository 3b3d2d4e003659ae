"""Fronts of the shipped problems and of known instances."""

import instances
import pytest

import mopt
from mopt.compile import compile_model
from mopt.formulation import build_model
from mopt.task import task_of

WORKLOADS = {  # samples and seconds of a period
    "resnet50-train": (2048, 1.0),
    "bert-large-infer": (10_000, 1.0),
    "llama3-8b-decode": (20_000, 1.0),
}


def shipped(workload, billing, provider):
    catalog = mopt.load_catalog()
    if provider != "all":
        catalog = catalog.where(provider=provider)
    samples, seconds = WORKLOADS[workload]
    limits = {"max_types": 3, "max_launches": 2} if billing == "elapsed" else {}
    return mopt.Problem(catalog, mopt.load_workload(workload), samples=samples, time_limit=seconds, billing=billing,
                        **limits)


@pytest.mark.parametrize("provider", ["AWS", "GCP", "all"])
@pytest.mark.parametrize("billing", ["reserved", "per_use", "elapsed"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_shipped(measure, workload, billing, provider):
    problem = shipped(workload, billing, provider)
    # A front that takes longer is cut short; its points a second still compare.
    measure(lambda: mopt.solve_epsilon_front(problem, time_limit=60.0))


@pytest.mark.parametrize("name", ["2kp50"])
def test_knapsack(measure, name):
    model, _ = instances.pyaugmecon_knapsack(name)
    measure(lambda: mopt.solve_epsilon_front(model, (model.f1, model.f2)))


@pytest.mark.parametrize("name", ["nw19", "nw40"])
def test_set_partitioning(measure, name):
    model, _ = instances.set_partitioning(name)
    measure(lambda: mopt.solve_epsilon_front(model, (model.f1, model.f2)))


@pytest.mark.parametrize("billing", ["reserved", "per_use", "elapsed"])
@pytest.mark.parametrize("reduced", [False, True])
def test_model_and_compile(benchmark, billing, reduced):
    catalog = mopt.load_catalog()
    workload = mopt.load_workload("resnet50-train")

    def build():  # a new problem each time, as what it works out is kept
        limits = {"max_types": 3, "max_launches": 2} if billing == "elapsed" else {}
        problem = mopt.Problem(catalog, workload, samples=2048, time_limit=1.0, billing=billing, **limits)
        if reduced:  # as fronts do it
            return task_of(problem, None)
        model = build_model(problem)
        return compile_model(model, (model.cost, model.utilization))

    benchmark.extra_info["offers"] = len(catalog)
    benchmark.pedantic(build, rounds=3, warmup_rounds=1)
