"""A Dask cluster as the executor, also when it loses a worker."""

import os
import signal

import pytest

import mopt
from mopt.scenarios import solve_fronts

distributed = pytest.importorskip("distributed")

WORKLOAD = mopt.Workload("net", "fp32", [mopt.Layer("all", flops=1e9, bytes_per_sample=1e6)], memory_per_sample=1e6)
RESOURCES = [
    mopt.Resource("small", 1e12, 1e12, 1e9, 1.0, max_units=6),
    mopt.Resource("large", {"fp32": 5e12}, 4e12, 4e9, 2.0, max_units=6),
]


def test_all_results_arrive_though_a_worker_is_killed():
    problems = [mopt.Problem(RESOURCES, WORKLOAD, samples=700 + 10 * k, time_limit=0.3) for k in range(30)]
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        results = solve_fronts(problems, client.get_executor(), in_flight=30)
        found = [next(results)]
        victim = next(iter(client.run(os.getpid).values()))
        os.kill(victim, signal.SIGKILL)
        found += results
    assert sorted(one.index for one in found) == list(range(30))
    for one in found:
        assert one.front.points == mopt.solve_epsilon_front(one.problem).points
