"""How fronts scale: with the offers, with workers, and many fronts with processes."""

import dataclasses
import multiprocessing
import random
import time
from concurrent.futures import ProcessPoolExecutor

import instances
import pytest
from test_fronts import WORKLOADS, shipped

import mopt
from mopt.exchange import exchanged
from mopt.reduction import reduced


def efficient(count):
    """Offers of which `count` are left when those that others replace are gone: the catalog's, and copies of these with
    other prices and peaks."""
    workload = mopt.load_workload("resnet50-train")
    limits = {"samples": 2048, "time_limit": 1.0}
    rng = random.Random(1)
    kept = list(reduced(mopt.Problem(mopt.load_catalog(spot=True), workload, **limits))[0].resources)
    pool = list(kept)
    for k in range(10 * len(kept)):
        offer = kept[k % len(kept)]
        peaks = {precision: peak * rng.uniform(0.9, 1.1) for precision, peak in offer.peak_flops.items()}
        price = round(offer.price_per_hour * rng.uniform(0.9, 1.1), 4)
        pool.append(dataclasses.replace(offer, name=f"{offer.name}~{k}", price_per_hour=price, peak_flops=peaks))
    rng.shuffle(pool)
    offered = []
    while (left := left_of(offered, workload, limits)) < count:
        offered, pool = offered + pool[: count - left], pool[count - left :]
    return mopt.Problem(offered, workload, **limits)


def left_of(offered, workload, limits):
    return len(exchanged(reduced(mopt.Problem(offered, workload, **limits))[0])[0].resources) if offered else 0


@pytest.mark.parametrize("count", [10, 20, 40, 80, 160])
def test_offers(measure, count):
    problem = efficient(count)
    front = measure(lambda: mopt.solve_epsilon_front(problem))
    print(f"{front.statistics['resources']} offers left, {front.statistics['seconds'] / len(front) * 1e3:.2f} ms a point")


def elapsed(workload, units):
    samples, seconds = WORKLOADS[workload]
    offers = [dataclasses.replace(offer, max_units=units) for offer in mopt.load_catalog()]
    limits = {"samples": samples, "time_limit": seconds, "max_types": 3, "max_launches": 2}
    return mopt.Problem(offers, mopt.load_workload(workload), billing="elapsed", **limits)


SHARED = {
    "bert-large-infer, AWS": lambda: shipped("bert-large-infer", "reserved", "AWS"),
    "bert-large-infer, all": lambda: shipped("bert-large-infer", "reserved", "all"),
    "llama3-8b-decode, AWS": lambda: shipped("llama3-8b-decode", "reserved", "AWS"),
    "llama3-8b-decode, all": lambda: shipped("llama3-8b-decode", "reserved", "all"),
    "160 offers": lambda: efficient(160),
    "resnet50-train, elapsed": lambda: elapsed("resnet50-train", 8),
    "llama3-8b-decode, elapsed": lambda: elapsed("llama3-8b-decode", 8),
    "2kp100": lambda: instances.pyaugmecon_knapsack("2kp100")[0],
}


@pytest.mark.parametrize("name", SHARED)
def test_workers(measure, name):
    target = SHARED[name]()
    objectives = (target.f1, target.f2) if name == "2kp100" else None
    fronts = {}

    def front(workers):
        fronts[workers] = mopt.solve_epsilon_front(target, objectives, workers=workers)
        return fronts[workers].values.tolist()

    measure(lambda: front(2) and fronts[2], lambda: front(1))
    assert fronts[1].points == fronts[2].points


def test_processes():
    catalog = mopt.load_catalog().where(provider="AWS", region="us-east-1")
    workload = mopt.load_workload("resnet50-train")
    problems = [
        mopt.Problem(catalog, workload, samples=2048 + 16 * k, time_limit=1.0) for k in range(200)
    ]
    seconds = []
    for processes in (1, 2):
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as executor:
            list(mopt.solve_fronts(problems[:processes * 2], executor))  # imports
            began = time.perf_counter()
            solved = list(mopt.solve_fronts(problems, executor))
            seconds.append(time.perf_counter() - began)
        assert len(solved) == 200
        assert all(one.front is not None and one.front.complete for one in solved)
    print(f"200 scenarios: {seconds[0]:.1f} s with 1 process, {seconds[1]:.1f} s with 2, {seconds[0] / seconds[1]:.2f} times")
