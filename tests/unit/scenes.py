"""What the pictures of the tests show: fronts, resources and workloads of their own, so that no shipped figure counts."""

import functools
from dataclasses import replace

import numpy as np
import pyomo.environ as pyo

import mopt
from mopt.front import Certificate, ParetoFront
from mopt.point import Plan, Point, Segment

CERTIFICATE = Certificate(method="given", reason="a test", exactness="as given", solves=0, resolution=(0.0, 0.0))

# One layer that leaves the memory roof at a batch, one that never does.
NET = mopt.Workload(
    "convnet-train",
    "fp16",
    [mopt.Layer("convolutions", 12e9, 50e6, 60e6), mopt.Layer("classifier", 4e6, 8e6, 1e4)],
    memory_fixed=0.5e9,
    memory_per_sample=80e6,
)
DECODER = mopt.Workload(
    "decoder-8b", "bf16", [mopt.Layer("blocks", 16e9, 16e9, 4e6)], memory_fixed=16e9, memory_per_sample=0.2e9
)
ENCODER = mopt.Workload(
    "encoder", "fp16", [mopt.Layer("blocks", 80e9, 0.7e9, 90e6)], memory_fixed=1e9, memory_per_sample=30e6
)
DOUBLE = mopt.Workload("double", "fp32", [mopt.Layer("all", 12e9, 1e8, 120e6)], memory_per_sample=160e6)
WITHOUT_MEMORY = mopt.Workload("counter", "fp32", [mopt.Layer(f"l{k}", 1e9, 4.0**k * 1e6, 1e6) for k in range(8)])
# A mixture of experts, say: what a launch costs isn't affine in its batch. And launches measured on one accelerator.
TABLE = mopt.Workload(
    "mixture", "fp16",
    points=[mopt.OperatingPoint(b, flops=20e9 * b, bytes=min(4e9 * b, 20e9), memory=8e9 + 0.2e9 * b)
            for b in (1, 2, 4, 8, 16, 32)],
)  # fmt: skip
MEASURED_TABLE = mopt.Workload(
    "measured", "fp16",
    points=[mopt.OperatingPoint(b, flops=1e10 * b, time=1e-3 * (5 + b), resource="cloud/region-1/t4.large")
            for b in (1, 4, 16)],
)  # fmt: skip


def machine(name, tflops, gb_s, gb, price, reached=1.0, **details):
    peaks = {"fp16": tflops * 1e12, "fp32": tflops * 0.25e12}
    return mopt.Resource(f"cloud/region-1/{name}", peaks, gb_s * 1e9, gb * 1e9, price, compute_efficiency=reached,
                         **details)  # fmt: skip


MACHINES = (
    machine("t4.large", 65.0, 320.0, 16.0, 0.53, 0.35),
    machine("a10.large", 125.0, 600.0, 24.0, 1.0, 0.45),
    machine("l4.large", 121.0, 300.0, 24.0, 0.8, 0.5),
    machine("v100.large", 125.0, 900.0, 16.0, 3.06, 0.6),
    machine("a100-40.large", 312.0, 1555.0, 40.0, 3.7, 0.7),
    machine("a100-80.large", 312.0, 2039.0, 80.0, 4.1, 0.75),
    machine("a100-80.8xlarge", 2496.0, 16312.0, 640.0, 32.8, 0.75, accelerator_count=8),
    machine("h100.large", 990.0, 3350.0, 80.0, 9.0, 0.55),
)
MEASURED = machine(
    "a10.measured", 125.0, 600.0, 24.0, 1.0, 0.6, bandwidth_efficiency=0.8, launch_floor=0.02
)


@functools.cache
def stopped():
    return mopt.solve_epsilon_front(mopt.Problem(MACHINES, NET, samples=200000, time_limit=1.0), max_points=12)


@functools.cache
def robust():
    problem = mopt.Problem(MACHINES[:5], NET, samples=40000, time_limit=1.0)
    return mopt.robust_front(problem, price=(0.8, 1.2), efficiency=(0.9, 1.2), scenarios=12)


def forty_machines():
    return [machine(f"box-{k}", 10.0 * 1.1**k, 100.0, 24.0, 1.0) for k in range(40)]


@functools.cache
def solved(samples=40000):
    return mopt.solve_epsilon_front(mopt.Problem(MACHINES[:5], NET, samples=samples, time_limit=1.0))


@functools.cache
def billed(billing):
    """One problem under each billing."""
    few = [replace(MACHINES[k], max_units=5) for k in (1, 4, 7)]
    return mopt.solve_epsilon_front(mopt.Problem(few, NET, samples=12000, time_limit=1.0, billing=billing))


@functools.cache
def many_points():
    """A problem of many plans that use many resources."""
    return mopt.solve_epsilon_front(mopt.Problem(MACHINES, NET, samples=200000, time_limit=1.0))


def plan(cost, utilization, units):
    return Plan(
        units=units,
        dedicated={(name, "net"): n for name, n in units.items()},
        samples=dict.fromkeys(units, 64),
        launches={(name, "net"): 2.0 for name in units},
        batch={(name, "net"): 32.0 for name in units},
        busy={(name, "net"): 0.5 for name in units},
        billed={name: float(n) for name, n in units.items()},
        memory={(name, "net"): 1e9 for name in units},
        cost=cost,
        cost_per_hour=3600.0 * cost,
        utilization=utilization,
        time_limit=1.0,
    )


def rented(cost, utilization, work=4.0, **units):
    """A point of a ratio `work`/capacity."""
    fleet = units or {"a100": round(cost)}
    return Point((cost, utilization), {}, plan=plan(cost, utilization, fleet), denominators=(1.0, work / utilization))


def front(points, **given):
    given = {"complete": True, "certificate": CERTIFICATE, "time_limit": 1.0} | given
    return ParetoFront(points=tuple(points), **given)


def segments():
    """Closed, half-open and open ends, and points between."""
    a, b = rented(1.0, 0.10), rented(3.0, 0.25)
    c, d = rented(3.5, 0.25, a100=2), rented(5.0, 0.38, a100=2)
    e, f = rented(5.5, 0.40, a100=2, t4=1), rented(6.5, 0.42, a100=2, t4=1)
    g = rented(6.5, 0.5, a100=3)
    return front([a, b, d, g], segments=(Segment(a, b), Segment(c, d, start_closed=False),
                                         Segment(e, f, start_closed=False, end_closed=False)))  # fmt: skip


def cut_short(unexplored=((0.3, 0.42),)):
    points = [rented(1.0, 0.1), rented(1.6, 0.2), rented(2.2, 0.3), rented(4.0, 0.42), rented(5.0, 0.45)]
    return front(points, complete=False, unexplored=unexplored, why_incomplete="time limit")


def long_names():
    """Fleets of many types with long names, at both ends."""
    names = [f"North-Western-Europe-{k}/Standard_NC{24 * k}ads_A100_v{k}" for k in range(1, 6)]
    fleets = [dict.fromkeys(names, 1), dict(zip(names, (3, 1, 40, 7, 11), strict=True)), {names[0]: 128, names[1]: 1}]
    return front([rented(1.0 + k, 0.2 + 0.1 * k, **fleet) for k, fleet in enumerate(fleets)])


def many_types():
    """More resources along the front than there are greys."""
    fleets = [{f"type-{k}": 2, f"type-{k + 1}": 1 + k} for k in range(10)]
    return front([rented(1.0 + k, 0.1 + 0.05 * k, **fleet) for k, fleet in enumerate(fleets)])


def one_point():
    return front([rented(1.0, 0.4, a100=4, t4=1)])


@functools.cache
def knapsack(seed=5, n=14):
    """A front without plans, both objectives maximised."""
    rng = np.random.default_rng(seed)
    first, second, weight = rng.integers(10, 100, (3, n)).tolist()
    m = pyo.ConcreteModel()
    m.item = pyo.Var(range(n), domain=pyo.Binary)
    m.room = pyo.Constraint(expr=sum(weight[k] * m.item[k] for k in range(n)) <= sum(weight) // 2)
    m.value = pyo.Objective(expr=sum(first[k] * m.item[k] for k in range(n)), sense=pyo.maximize)
    m.safety = pyo.Objective(expr=sum(second[k] * m.item[k] for k in range(n)), sense=pyo.maximize)
    return mopt.solve_epsilon_front(m, objectives=(m.value, m.safety))
