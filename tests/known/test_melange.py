"""Throughput tables in Mélange's layout, among them its published examples, against a plain enumeration."""

import itertools
import json
import math

import numpy as np
import pytest

import mopt
from mopt import InputError, load_melange

# melange/config/example.json and melange/main.py of github.com/tyler-griggs/melange-release (at ebba701 and 1fc682c)
PUBLISHED = {
    "config": {
        "gpu_info": {
            "A10G": {"cost": 1.01, "tputs": [[2, 1], [5, 2]]},
            "A100-80GB": {"cost": 3.67, "tputs": [[20, 20], [40, 20]]},
        },
        "workload_distribution": [[0.2, 0.1], [0.5, 0.2]],
        "total_request_rate": 30.0,
        "slice_factor": 1,
    },
    "script": {
        "gpu_info": {
            "A10G": {"cost": 1.01, "tputs": [[5, 1], [10, 5]]},
            "A100": {"cost": 3.67, "tputs": [[20, 2], [50, 20]]},
        },
        "workload_distribution": [[0.25, 0.125], [0.375, 0.25]],
        "total_request_rate": 16.0,
        "slice_factor": 1,
    },
}
PEAK = {"A10G": 70e12, "A100-80GB": 312e12, "A100": 312e12}


def cells(config):
    """(requests/s, throughput of each GPU) of each pair of lengths."""
    for i, row in enumerate(config["workload_distribution"]):
        for j, share in enumerate(row):
            yield share * config["total_request_rate"], [gpu["tputs"][i][j] for gpu in config["gpu_info"].values()]


def enumerated(config):
    """All nondominated ($/h, rented FLOP/s) of units that are dedicated to one pair of lengths each."""
    price = [gpu["cost"] for gpu in config["gpu_info"].values()]
    peak = [PEAK[name] for name in config["gpu_info"]]
    front = {(0.0, 0.0)}
    for rate, throughput in cells(config):
        most = [math.ceil(rate / t - 1e-12) for t in throughput]
        choices = [
            counts
            for counts in itertools.product(*(range(k + 1) for k in most))
            if np.dot(counts, throughput) >= rate * (1 - 1e-12)
        ]
        sums = {
            (round(cost + np.dot(counts, price), 9), rented + np.dot(counts, peak))
            for cost, rented in front
            for counts in choices
        }
        front = {p for p in sums if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in sums)}
    return sorted(front)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("times", [1, 4])
def test_published_examples_equal_enumeration(name, times):
    config = PUBLISHED[name]
    config = config | {"total_request_rate": config["total_request_rate"] * times}
    front = mopt.solve_epsilon_front(load_melange(config))
    expected = enumerated(config)
    assert front.complete
    work = sum(rate * min(peak / t for peak, t in zip([PEAK[g] for g in config["gpu_info"]], throughput, strict=True))
               for rate, throughput in cells(config))  # fmt: skip
    found = [(cost, work / utilization) for cost, utilization in front.values]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_the_cheapest_plan_of_the_published_configuration():
    """6, 3, 15 and 6 requests/s at 2, 1, 5 and 2 by an A10G: three each, 12.12 $/h; an A100 each costs 14.68 $/h."""
    front = mopt.solve_epsilon_front(load_melange(PUBLISHED["config"]))
    assert front[0].plan.units == {"A10G": 12}
    assert front[0].objectives[0] == pytest.approx(12.12)
    # 210, 210 and 210 TFLOP/s against 312 at 20, and 14 of 15 by 40
    assert front[0].objectives[1] == pytest.approx((6 / 20 + 3 / 20 + 15 / 40 + 6 / 20) * 312 / (12 * 70))


def test_what_is_read():
    problem = load_melange(PUBLISHED["config"], total_rate=10.0, flops=[[1e12, 2e12], [3e12, 4e12]])
    assert [(d.name, d.samples) for d in problem.demands] == [
        ("input 0, output 0", 7200), ("input 0, output 1", 3600), ("input 1, output 0", 18000),
        ("input 1, output 1", 7200),
    ]  # fmt: skip
    assert [d.workload.flops_per_sample for d in problem.demands] == [1e12, 2e12, 3e12, 4e12]
    assert [(r.name, r.price_per_hour, r.peak("fp16")) for r in problem.resources] == [
        ("A10G", 1.01, 70e12), ("A100-80GB", 3.67, 312e12),
    ]  # fmt: skip
    assert problem.services["A10G", "input 1, output 0"].capacity == pytest.approx(5 * 3600)


def test_a_gpu_that_cannot_serve_a_length_is_not_used_for_it():
    config = PUBLISHED["config"] | {
        "gpu_info": {
            "A10G": {"cost": 1.01, "tputs": [[2, 0], [5, 2]]},
            "mine": {"cost": 2.0, "tputs": [[20, 20], [40, 20]]},
        }
    }
    mine = mopt.Resource("x", 312e12, 2e12, 80e9, 9.0)
    problem = load_melange(config, resources={"mine": mine})
    assert problem.by_name["mine"].price_per_hour == 2.0
    assert problem.refusals["A10G", "input 0, output 1"].limit == "table"
    front = mopt.solve_epsilon_front(problem)
    assert all(("A10G", "input 0, output 1") not in point.plan.dedicated for point in front)


def test_files(tmp_path):
    path = tmp_path / "melange.json"
    path.write_text(json.dumps(PUBLISHED["script"]))
    problem = load_melange(path)
    assert problem == load_melange(PUBLISHED["script"])
    mopt.save_problem(problem, tmp_path / "problem.toml")
    assert mopt.load_problem(tmp_path / "problem.toml") == problem


def test_all_faults_at_once(tmp_path):
    config = {
        "gpu_info": {"A10G": {"cost": 1.01, "tputs": [[2, 1]]}, "XPU": {"cost": 1.0, "tputs": [[1, 1], [0, 1]]}},
        "workload_distribution": [[0.2, 0.1], [0.5, 0.2]],
    }
    with pytest.raises(InputError) as caught:
        load_melange(config, total_rate=1.0, flops=[[1.0]])
    assert [(f.record, f.field) for f in caught.value.faults] == [
        ("gpu_info 'A10G'", "numbers a row"), ("flops", "numbers a row"), ("configuration", "gpu_info"),
    ]  # fmt: skip
    with pytest.raises(InputError, match="total_request_rate: missing"):
        load_melange(config)
    config["gpu_info"] = {"A10G": {"cost": -1.0, "tputs": [[2, -1], [0, 1]], "price": 1.0}}
    with pytest.raises(InputError) as caught:
        load_melange(config, total_rate=1.0)
    assert [f.field for f in caught.value.faults] == ["cost", "tputs[0][1]", "price"]
    config["gpu_info"] = {"A10G": {"cost": 1.0, "tputs": [[2, 1], [0, 1]]}}
    with pytest.raises(InputError, match="input 1, output 0: tputs = 0: must be above 0 on some GPU"):
        load_melange(config, total_rate=1.0)
    with pytest.raises(InputError, match="can't be read"):
        load_melange(tmp_path / "missing.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        load_melange(tmp_path / "bad.json")
