"""Mixed-integer fronts, segments and open ends included, against enumeration of the integers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pyomo.environ as pyo
import pytest
from envelopes import Component, Slice, differences, enumerated

from mopt import Demand, Layer, ParetoFront, Problem, Resource, Workload, solve_epsilon_front


@dataclass(frozen=True)
class Bomilp:
    """max (c_k·x + f_k·y, k = 1, 2): A·x + diag(a)·y ≤ b, Σ y ≤ ⌊n/3⌋, x ≥ 0, y binary, n of each.

    The classes of Boland, Charkhgard and Savelsbergh (INFORMS Journal on Computing 27, 2015), after Mavrotas and
    Diakoulaki (2005): rows − 1 rows over all continuous variables, each with at most one binary, and one that limits
    the number of binaries; c in [−10, 10], f in [−200, 200], A and a in [−1, 20], b in [50, 100], uniform integers.
    """

    c: np.ndarray
    f: np.ndarray
    A: np.ndarray
    a: np.ndarray
    b: np.ndarray

    @classmethod
    def random(cls, seed: int, rows: int = 20) -> Bomilp:
        draw, n = np.random.default_rng(seed).integers, rows // 2
        return cls(
            c=draw(-10, 11, (2, n)), f=draw(-200, 201, (2, n)), A=draw(-1, 21, (rows - 1, n)), a=draw(-1, 21, n),
            b=draw(50, 101, rows - 1),
        )

    def model(self) -> pyo.ConcreteModel:
        m, n = pyo.ConcreteModel(), len(self.a)
        m.x, m.y = pyo.Var(range(n), bounds=(0, None)), pyo.Var(range(n), domain=pyo.Binary)
        m.f1, m.f2 = (
            pyo.Objective(
                expr=sum(int(self.c[k, j]) * m.x[j] + int(self.f[k, j]) * m.y[j] for j in range(n)), sense=pyo.maximize
            )
            for k in (0, 1)
        )
        m.row = pyo.Constraint(
            range(len(self.b)),
            rule=lambda m, i: sum(int(self.A[i, j]) * m.x[j] for j in range(n))
            + (int(self.a[i]) * m.y[i] if i < n else 0) <= int(self.b[i]),
        )
        m.few = pyo.Constraint(expr=sum(m.y[j] for j in range(n)) <= n // 3)
        return m

    def front(self) -> list[Component]:
        """In minimised objectives."""
        n, slices = len(self.a), []
        for y in map(np.array, product((0, 1), repeat=n)):
            if y.sum() <= n // 3:
                b = self.b.astype(float)
                b[:n] -= self.a * y
                gained = -self.f @ y
                slices.append(Slice(-self.c.astype(float), (gained[0], gained[1]), {"A_ub": self.A, "b_ub": b}))
        return enumerated(slices)


def components(front: ParetoFront) -> list[Component]:
    """The connected parts of a front, in minimised objectives."""
    found: list[Component] = []
    for piece in front.pieces:
        ends = (piece.start, piece.end) if hasattr(piece, "start") else (piece,)
        chain = tuple((front.senses[0] * p.objectives[0], front.senses[1] * p.objectives[1]) for p in ends)
        closed = (getattr(piece, "start_closed", True), getattr(piece, "end_closed", True))
        last = found[-1] if found else None
        if last and last.vertices[-1] == pytest.approx(chain[0], abs=1e-5) and (last.end_closed or closed[0]):
            found[-1] = Component((*last.vertices, *chain[1:]), last.start_closed, closed[1])
        else:
            found.append(Component(chain, *closed))
    return found


def seeds(few: set[int]) -> list[object]:
    """All seeds, of which a few run by default."""
    return [seed if seed in few else pytest.param(seed, marks=pytest.mark.long) for seed in range(50)]


@pytest.mark.parametrize("seed", seeds({1, 3, 7, 21}))
def test_front_of_20_rows_class(seed):
    instance = Bomilp.random(seed)
    model = instance.model()
    front = solve_epsilon_front(model, objectives=(model.f1, model.f2))
    assert front.complete
    assert differences(components(front), instance.front(), (2e-5, 2e-5)) == []


def per_use_problem(seed: int) -> Problem:
    """Three resources of at most three units and one demand, or two of two and two, paid while they compute."""
    draw = np.random.default_rng(1000 + seed)
    demands = 1 + seed % 2
    workloads = [
        Workload(
            f"w{k}", "fp16", memory_fixed=2.0, memory_per_sample=float(draw.integers(1, 4)),
            layers=[
                Layer(f"l{j}", flops=float(draw.integers(1, 6)), bytes_fixed=float(draw.integers(0, 9)),
                      bytes_per_sample=float(draw.integers(1, 6)))
                for j in range(2)
            ],
        )
        for k in range(demands)
    ]
    resources = []
    for k in range(4 - demands):
        resource = Resource(
            f"r{k}", peak_flops=float(draw.integers(1, 9)), memory_bandwidth=float(draw.integers(2, 20)),
            memory=float(draw.integers(20, 60)), price_per_hour=1.0, unit_overhead=float(draw.integers(1, 12)) / 4,
            launch_floor=float(draw.integers(0, 3)), max_units=int(draw.integers(1, 4)) if demands == 1 else 2,
        )
        # What wastes more is cheaper, so that there is something to choose.
        pace = _pace(resource, workloads[0])
        price = round(draw.uniform(700, 900) / (resource.peak_flops * pace**2), 2)
        resources.append(Resource(**{**vars(resource), "price_per_hour": price}))
    room = sum(min(r.max_units * (30 - r.unit_overhead) / _pace(r, w) for w in workloads) for r in resources)
    samples = np.ceil(room * draw.uniform(0.4, 0.8) / demands)
    return Problem(resources, demands=[Demand(w, samples) for w in workloads], time_limit=30.0, billing="per_use")


def _pace(resource: Resource, workload: Workload) -> float:
    """Seconds a sample at the largest batch that the memory holds, from the roofline's definition."""
    batch = (resource.memory - workload.memory_fixed) // workload.memory_per_sample
    layers = (
        max(layer.flops * batch / resource.peak_flops,
            (layer.bytes_fixed + layer.bytes_per_sample * batch) / resource.memory_bandwidth)
        for layer in workload.layers
    )
    return max(resource.launch_floor, sum(layers)) / batch


def per_use_front(problem: Problem) -> list[Component]:
    """In $ and rented FLOP: for each choice of units, samples are served at the pace of the largest batch."""
    pairs = list(product(problem.resources, problem.demands))
    pace = np.array([_pace(resource, demand.workload) for resource, demand in pairs])
    overhead = np.array([resource.unit_overhead for resource, _ in pairs])
    rates = np.array([[r.price_per_hour / 3600 for r, _ in pairs], [r.peak_flops for r, _ in pairs]])
    served = np.array([[float(demand is d) for _, demand in pairs] for d in problem.demands])
    slices = []
    for units in map(np.array, product(*(range(resource.max_units + 1) for resource, _ in pairs))):
        used = {r.name: sum(n for (q, _), n in zip(pairs, units, strict=True) if q is r) for r in problem.resources}
        if all(used[r.name] <= r.max_units for r in problem.resources):
            fixed = rates @ (overhead * units)
            room = (problem.time_limit - overhead) * units / pace
            polyhedron = {
                "A_eq": served,
                "b_eq": [d.samples for d in problem.demands],
                "bounds": list(zip(0 * room, room, strict=True)),
            }
            slices.append(Slice(rates * pace, (fixed[0], fixed[1]), polyhedron))
    return enumerated(slices)


@pytest.mark.parametrize("seed", seeds({4, 5, 6, 7, 8, 10, 12, 14, 16, 19}))
def test_front_of_per_use(seed):
    problem = per_use_problem(seed)
    front = solve_epsilon_front(problem)
    work = sum(d.samples * layer.flops for d in problem.demands for layer in d.workload.layers)
    found = [
        replace(part, vertices=tuple((cost, -work / utilization) for cost, utilization in part.vertices))
        for part in components(front)
    ]
    known = per_use_front(problem)
    values = np.array([vertex for part in known for vertex in part.vertices])
    tolerance = 2e-5 * np.ptp(values, axis=0) + 1e-9 * np.max(np.abs(values), axis=0)
    assert front.complete
    assert differences(found, known, tuple(tolerance)) == []
