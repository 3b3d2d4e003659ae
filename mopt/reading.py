"""Reading a problem's plan off a solution of its Pyomo model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.repn import generate_standard_repn

from mopt.linear_model import Vector
from mopt.plan import Choice, Evaluator, Worth, decimal
from mopt.point import Plan
from mopt.problem import Problem
from mopt.session import Candidate
from mopt.table_service import TableService

Pair = tuple[str, str]
Row = tuple[list[int], list[float], float]


class ModelReader:
    """The public quantities of a problem's model as linear rows over the compiled columns."""

    def __init__(self, problem: Problem, model: Any, column: Mapping[int, int], *, own_units: bool) -> None:
        self._problem, self._model, self._column = problem, model, column
        self._own_units = own_units

    @cached_property
    def _rows(self) -> dict[str, dict[Any, Row]]:
        m = self._model
        names = ["dedicated", "samples", "launches", "busy", "billed"]
        names += ["_counted"] if self._problem.billing == "elapsed" else ["_part"] if self._tabulated else []
        return {name: {key: self._row(getattr(m, name)[key]) for key in getattr(m, name)} for name in names}

    @cached_property
    def _tabulated(self) -> dict[Pair, TableService]:
        services = self._problem.services.items()
        return {pair: service for pair, service in services if isinstance(service, TableService)}

    def _row(self, expression: Any) -> Row:
        repn = generate_standard_repn(expression)
        used = [
            (self._column[id(v)], float(c))
            for v, c in zip(repn.linear_vars, repn.linear_coefs, strict=True)
            if id(v) in self._column
        ]
        fixed = sum(
            float(c) * float(v.value or 0.0)
            for v, c in zip(repn.linear_vars, repn.linear_coefs, strict=True)
            if id(v) not in self._column
        )
        return [k for k, _ in used], [c for _, c in used], float(pyo.value(repn.constant)) + fixed

    def _values(self, name: str, x: Vector) -> dict[Any, float]:
        return {
            key: float(np.dot(coefficients, x[columns])) + constant
            for key, (columns, coefficients, constant) in self._rows[name].items()
        }

    def choice(self, x: Vector) -> Choice:
        """Units, and the mode of each where one was chosen."""
        whole = {pair: round(n) for pair, n in self._values("dedicated", x).items()}
        counts = {}
        if self._problem.billing == "elapsed":
            counts = {(i, r): c for (i, r, c), n in self._values("_counted", x).items() if round(n)}
        return Choice(whole, counts)

    def plan(self, candidate: Candidate, objectives: tuple[float, float]) -> Plan:
        """The plan of a solution."""
        x, problem = candidate.x, self._problem
        samples = self._values("samples", x)
        if problem.billing != "per_use":
            choice = self.choice(x)
            span = None
            if problem.billing == "elapsed":
                billed, units = self._values("billed", x), _total(choice.dedicated)
                paid = max((Fraction(billed[i] / n) for i, n in units.items() if n), default=Fraction(0))
                span = paid - decimal(problem.startup)
            evaluator = Evaluator(problem, dict.fromkeys(problem.unit_limits, 1.0))
            worth = Worth(Fraction(objectives[0]), Fraction(0), span)
            return evaluator.plan(choice, worth, objectives[1], samples)
        return self._per_use(x, samples, objectives)

    def units_needed(self, x: Vector) -> dict[Pair, int]:
        """The fewest units that hold a per_use solution's samples and time; the solution's own where units cost."""
        problem, found = self._problem, {}
        samples, busy, own = (self._values(name, x) for name in ("samples", "busy", "dedicated"))
        paid_for = problem.startup or problem.minimum_billing
        for pair, service in problem.services.items():
            free = self._own_units and not (paid_for or service.overhead)
            need = max(samples[pair] / service.capacity, busy[pair] / service.available)
            found[pair] = max(0, math.ceil(need - 1e-6)) if free else round(own[pair])
        for i, least in problem.min_units.items():
            pairs = [pair for pair in found if pair[0] == i]
            if pairs and (short := least - sum(found[pair] for pair in pairs)) > 0:
                found[pairs[0]] += short
        return found

    def _per_use(self, x: Vector, samples: dict[Pair, float], objectives: tuple[float, float]) -> Plan:
        problem = self._problem
        dedicated = {pair: n for pair, n in self.units_needed(x).items() if n}
        launches = {pair: k for pair, k in self._values("launches", x).items() if k > 1e-9 and pair in dedicated}
        busy = {pair: t for pair, t in self._values("busy", x).items() if pair in dedicated and t > 0}
        several = len(problem.demand_by_name) > 1
        used = {pair: b for pair, b in samples.items() if pair in dedicated and b > 1e-9 * max(samples.values())}
        if problem.minimum_billing:  # where that is what is paid, the solution's launches may take longer than they need
            launches = {pair: sum(times for _, times in problem.services[pair].runs(b)) for pair, b in used.items()}
            busy = {pair: problem.services[pair].busy(b) for pair, b in used.items()}
        batch = {pair: used[pair] / k for pair, k in launches.items() if pair in used}
        memory = {pair: problem.services[pair].memory_at(b) for pair, b in self._largest(x, batch).items()}
        units, billed = _total(dedicated), self._values("billed", x)
        whole = _exact_totals(problem, used)
        return Plan(
            units=units,
            dedicated=dedicated,
            samples={f"{i}|{r}" if several else i: b for (i, r), b in whole.items()},
            launches=launches,
            batch=batch,
            busy=busy,
            billed={i: billed[i] for i in units},
            memory=memory,
            cost=objectives[0],
            cost_per_hour=math.fsum(problem.by_name[i].price_per_hour * n for i, n in units.items()),
            utilization=objectives[1],
            time_limit=problem.time_limit,
            notes=problem.notes(dedicated, launches),
        )

    def _largest(self, x: Vector, batch: Mapping[Pair, float]) -> dict[Pair, float]:
        """The largest batches of launches whose mean is known: of layers all can be as large, of a table they differ."""
        largest = dict(batch)
        for (i, r, c), part in self._values("_part", x).items() if self._tabulated else ():
            if (i, r) in self._tabulated and (i, r) in largest and part > 1e-9:
                largest[i, r] = max(largest[i, r], self._tabulated[i, r].tau.batches[c])
        return largest


def _total(dedicated: Mapping[Pair, int]) -> dict[str, int]:
    units: dict[str, int] = {}
    for (i, _), n in dedicated.items():
        if n:
            units[i] = units.get(i, 0) + n
    return units


def _exact_totals(problem: Problem, samples: dict[Pair, float]) -> dict[Pair, float]:
    """Samples that sum to each demand: whole where launches are whole, else without the solver's last digits."""
    found: dict[Pair, float] = {}
    for r, demand in problem.demand_by_name.items():
        mine = {pair: b for pair, b in samples.items() if pair[1] == r}
        total = math.fsum(mine.values())
        scaled = {pair: b * demand.samples / total for pair, b in mine.items()}
        found |= _rounded(scaled, int(demand.samples)) if problem.whole else scaled
    return found


def _rounded(shares: dict[Pair, float], total: int) -> dict[Pair, float]:
    """Largest remainders."""
    floors = {pair: math.floor(b) for pair, b in shares.items()}
    order: Iterable[Pair] = sorted(shares, key=lambda pair: floors[pair] - shares[pair])
    for pair in list(order)[: total - sum(floors.values())]:
        floors[pair] += 1
    return {pair: count for pair, count in floors.items() if count}
