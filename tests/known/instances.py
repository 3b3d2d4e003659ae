"""Readers of the instances in `data/`: Pyomo models with objectives f1 and f2, and the known fronts if any."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path

import highspy
import numpy as np
import pyomo.environ as pyo

DATA = Path(__file__).parent / "data"

Front = list[tuple[float, float]]


def knapsack(
    profits: Sequence[Sequence[float]], weights: Sequence[Sequence[float]], capacities: Sequence[float]
) -> pyo.ConcreteModel:
    """A 0/1 knapsack with one row a capacity; both profits are maximised."""
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(len(profits[0])), domain=pyo.Binary)
    m.f1, m.f2 = (
        pyo.Objective(expr=sum(c * m.x[j] for j, c in enumerate(profit)), sense=pyo.maximize) for profit in profits
    )
    m.capacity = pyo.Constraint(
        range(len(capacities)), rule=lambda m, r: sum(w * m.x[j] for j, w in enumerate(weights[r])) <= capacities[r]
    )
    return m


def voptlib_knapsack(name: str) -> tuple[pyo.ConcreteModel, Front]:
    """n, the numbers of objectives and of rows, then profits, weights and capacity."""
    lines = (DATA / "voptlib" / f"{name}.dat").read_text().splitlines()
    numbers = [float(line) for line in lines if line.strip() and not line.startswith("#")]
    n = int(numbers[0])
    first, second, weights = (numbers[3 + k * n : 3 + (k + 1) * n] for k in range(3))
    return knapsack((first, second), [weights], [numbers[3 + 3 * n]]), _pairs(DATA / "voptlib" / f"{name}.Y.txt")


def mokp(number: int) -> pyo.ConcreteModel:
    """The number of objectives, n, the capacity, the profits and the weights."""
    text = (DATA / "mokp" / f"MOKP_p-2_n-200_{number}.dat").read_text()
    _, _, capacity, rest = text.split("\n", 3)
    first, second, weights = (json.loads(row) for row in re.findall(r"\[[\d.,\s]+\]", rest))
    return knapsack((first, second), [weights], [float(capacity)])


def pyaugmecon_knapsack(name: str) -> tuple[pyo.ConcreteModel, Front]:
    """Tables with a header row and an index column."""

    def table(part: str) -> list[list[float]]:
        with open(DATA / "pyaugmecon" / name / f"{part}.csv", newline="") as file:
            return [[float(value) for value in row[1:]] for row in list(csv.reader(file))[1:]]

    model = knapsack(table("c"), table("a"), [row[0] for row in table("b")])
    return model, sorted((row[0], row[1]) for row in table("pareto_sols"))


def set_partitioning(name: str) -> tuple[pyo.ConcreteModel, Front]:
    """Rows and columns; then for each column both costs, the number of its rows, and the rows."""
    numbers = iter(map(int, (DATA / "voptlib" / f"biospp{name}.txt").read_text().split()))
    rows, columns = next(numbers), next(numbers)
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(columns), domain=pyo.Binary)
    costs: list[tuple[int, int]] = []
    covering: list[list[int]] = [[] for _ in range(rows)]
    for j in range(columns):
        costs.append((next(numbers), next(numbers)))
        for _ in range(next(numbers)):
            covering[next(numbers) - 1].append(j)
    m.f1, m.f2 = (pyo.Objective(expr=sum(cost[k] * m.x[j] for j, cost in enumerate(costs))) for k in (0, 1))
    m.row = pyo.Constraint(range(rows), rule=lambda m, r: sum(m.x[j] for j in covering[r]) == 1)
    return m, _pairs(DATA / "voptlib" / f"Y_N_spp{name}.txt", skip=2)


def facility_location(name: str) -> pyo.ConcreteModel:
    """Users and sites, two matrices of assignment costs, two vectors of opening costs."""
    numbers = np.array((DATA / "voptlib" / f"{name}.txt").read_text().split(), dtype=int)
    users, sites = int(numbers[0]), int(numbers[1])
    assign = numbers[2 : 2 + 2 * users * sites].reshape(2, users, sites)
    opening = numbers[2 + 2 * users * sites :].reshape(2, sites)
    m = pyo.ConcreteModel()
    m.U, m.S = pyo.RangeSet(0, users - 1), pyo.RangeSet(0, sites - 1)
    m.x, m.open = pyo.Var(m.U, m.S, domain=pyo.Binary), pyo.Var(m.S, domain=pyo.Binary)
    m.f1, m.f2 = (
        pyo.Objective(
            expr=sum(int(assign[k, i, j]) * m.x[i, j] for i in m.U for j in m.S)
            + sum(int(opening[k, j]) * m.open[j] for j in m.S)
        )
        for k in (0, 1)
    )
    m.served = pyo.Constraint(m.U, rule=lambda m, i: sum(m.x[i, j] for j in m.S) == 1)
    m.only_open = pyo.Constraint(m.U, m.S, rule=lambda m, i, j: m.x[i, j] <= m.open[j])
    return m


def from_mps(name: str) -> pyo.ConcreteModel:
    """An MPS file as a Pyomo model with variables x[0..n-1]; its objective is f1."""
    highs = highspy.Highs()
    highs.silent()
    highs.readModel(str(DATA / f"{name}.mps"))
    lp = highs.getLp()
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(lp.num_col_))
    for j in m.x:
        if lp.integrality_[j] == highspy.HighsVarType.kInteger:
            m.x[j].domain = pyo.Integers
        m.x[j].setlb(_finite(lp.col_lower_[j]))
        m.x[j].setub(_finite(lp.col_upper_[j]))
    terms: list[list[tuple[int, float]]] = [[] for _ in range(lp.num_row_)]
    for j in m.x:
        for k in range(lp.a_matrix_.start_[j], lp.a_matrix_.start_[j + 1]):
            terms[lp.a_matrix_.index_[k]].append((j, lp.a_matrix_.value_[k]))
    m.row = pyo.Constraint(
        range(lp.num_row_),
        rule=lambda m, r: (_finite(lp.row_lower_[r]), sum(a * m.x[j] for j, a in terms[r]), _finite(lp.row_upper_[r])),
    )
    m.f1 = pyo.Objective(expr=sum(lp.col_cost_[j] * m.x[j] for j in m.x) + lp.offset_)
    return m


def _finite(bound: float) -> float | None:
    return None if abs(bound) >= highspy.kHighsInf else float(bound)


def _pairs(path: Path, skip: int = 0) -> Front:
    lines = path.read_text().splitlines()[skip:]
    return sorted((float(first), float(second)) for first, second in map(str.split, filter(str.strip, lines)))
