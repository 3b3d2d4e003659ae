"""Plans from integers: what a choice of units costs and does, worked out from the problem's data in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from mopt.point import Plan
from mopt.problem import Problem

Pair = tuple[str, str]


@dataclass(frozen=True)
class Choice:
    """What decides a plan.

    Attributes
    ----------
    dedicated : mapping of (resource, workload) to units
    counts : mapping of (resource, workload) to launches of each unit (elapsed only)
    """

    dedicated: Mapping[Pair, int]
    counts: Mapping[Pair, int]


@dataclass(frozen=True)
class Worth:
    """Objectives of a choice, exact: cost in $ per period, rented peak Σ π_i·u_i in FLOP, and S where it is elapsed."""

    cost: Fraction
    rented: Fraction
    span: Fraction | None


def decimal(value: float) -> Fraction:
    """A number as the decimal that it prints as: what whoever typed it meant."""
    return Fraction(repr(float(value)))


class Evaluator:
    """Worth and plan of a choice under `reserved` or `elapsed` billing."""

    def __init__(self, problem: Problem, peaks: Mapping[str, float]) -> None:
        self.problem = problem
        self._price = {i: decimal(problem.by_name[i].price_per_hour) / 3600 for i in peaks}
        self._peak = {i: decimal(peak) for i, peak in peaks.items()}
        self._period = decimal(problem.time_limit)
        self._pieces: dict[tuple[Pair, int], list[tuple[Fraction, Fraction]]] = {}

    def worth(self, choice: Choice) -> Worth | None:
        """Exact objectives; None if the choice breaks a limit of the problem."""
        span: Fraction | None = None
        if self.problem.billing == "elapsed":
            span = self._span(choice)
            if span is None or span > self._period * (1 + Fraction(1, 10**9)):
                return None
        elif not self._covers(choice):
            return None
        paid = self._period if span is None else span
        cost = sum((self._price[i] * n for (i, _), n in choice.dedicated.items()), Fraction(0)) * paid
        rented = sum((self._peak[i] * n for (i, _), n in choice.dedicated.items()), Fraction(0)) * paid
        return Worth(cost, rented, span) if self._within_limits(choice, cost) else None

    def plan(
        self, choice: Choice, worth: Worth, utilization: float, loads: Mapping[Pair, float] | None = None
    ) -> Plan:
        """The plan in plain numbers, with launches that realise it.

        Samples are shared in proportion to what each pair's units can do, or to `loads` where these are given.
        """
        problem = self.problem
        samples: dict[Pair, int] = {}
        for r, demand in problem.demand_by_name.items():
            pairs = [pair for pair, n in choice.dedicated.items() if pair[1] == r and n]
            room = {pair: loads[pair] if loads else self._room(choice, pair, worth.span) for pair in pairs}
            samples |= spread(int(demand.samples), room, {pair: self._most(choice, pair) for pair in pairs})
        period = float(self._period if worth.span is None else worth.span)
        units: dict[str, int] = {}
        launches: dict[Pair, float] = {}
        busy, batch, memory = {}, {}, {}
        slowest = 0.0
        for pair, n in choice.dedicated.items():
            if not n:
                continue
            i, r = pair
            units[i] = units.get(i, 0) + n
            if not samples.get(pair):
                continue
            service = problem.services[pair]
            low, extra = divmod(samples[pair], n)
            count = choice.counts.get(pair)
            shares = [(low + 1, extra), (low, n - extra)]
            runs = [(service.batches(load, count), times) for load, times in shares if times and load]
            launches[pair] = sum(len(batches) * times for batches, times in runs)
            busy[pair] = sum(math.fsum(map(service.tau.at, batches)) * times for batches, times in runs)
            batch[pair] = samples[pair] / launches[pair]
            largest = max(max(batches) for batches, _ in runs)
            memory[pair] = float(problem.demand_by_name[r].workload.footprint(largest / service.step))
            overhead = problem.by_name[i].unit_overhead
            slowest = max(slowest, *(overhead + math.fsum(map(service.tau.at, b)) for b, _ in runs))
        notes = ()
        if worth.span is not None and slowest > period * (1 + 1e-9):
            notes = (f"whole samples take {slowest:.6g} s, {slowest / period - 1:.2%} over the elapsed time of even shares",)
        several = len(problem.demand_by_name) > 1
        return Plan(
            units=units,
            dedicated={pair: n for pair, n in choice.dedicated.items() if n},
            samples={f"{i}|{r}" if several else i: count for (i, r), count in samples.items() if count},
            launches=launches,
            batch=batch,
            busy=busy,
            billed={i: n * period for i, n in units.items()},
            memory=memory,
            cost=float(worth.cost),
            cost_per_hour=float(sum((self._price[i] * n for i, n in units.items()), Fraction(0)) * 3600),
            utilization=utilization,
            elapsed=None if worth.span is None else period,
            time_limit=problem.time_limit,
            notes=notes,
        )

    # -- Limits ------------------------------------------------------------------------------------------------------

    def _covers(self, choice: Choice) -> bool:
        served = dict.fromkeys(self.problem.demand_by_name, 0.0)
        for pair, n in choice.dedicated.items():
            if n:
                served[pair[1]] += n * self.problem.services[pair].capacity
        return all(served[r] >= demand.samples * (1 - 1e-9) for r, demand in self.problem.demand_by_name.items())

    def _within_limits(self, choice: Choice, cost: Fraction) -> bool:
        problem = self.problem
        units: dict[str, int] = {}
        for (i, _), n in choice.dedicated.items():
            if n < 0:
                return False
            units[i] = units.get(i, 0) + n
        return (
            all(n <= problem.unit_limits[i] for i, n in units.items())
            and all(units.get(i, 0) >= least for i, least in problem.min_units.items())
            and all(
                sum(n for i, n in units.items() if quota.covers(problem.by_name[i])) <= quota.max_units
                for quota in problem.quotas
            )
            and (problem.max_types is None or sum(n > 0 for n in units.values()) <= problem.max_types)
            and (problem.budget is None or cost <= decimal(problem.budget) * (1 + Fraction(1, 10**9)))
        )

    # -- Elapsed time ------------------------------------------------------------------------------------------------

    def _most(self, choice: Choice, pair: Pair) -> int:
        """Samples of all units of a pair, at most."""
        service, n = self.problem.services[pair], choice.dedicated[pair]
        most = service.capacity
        if pair in choice.counts:
            most = min(most, choice.counts[pair] * service.batch_limit)
        return int(n * most)

    def _room(self, choice: Choice, pair: Pair, span: Fraction | None) -> float:
        """Samples of all units of a pair in the time there is: what loads are shared in proportion to."""
        if span is None:
            return self._most(choice, pair)
        return float(self._reach(choice, pair, span)[0])

    def _reach(self, choice: Choice, pair: Pair, span: Fraction) -> tuple[Fraction, Fraction]:
        """Samples that a pair's units do in `span`, and how fast that grows with it."""
        n, c = choice.dedicated[pair], choice.counts[pair]
        overhead = decimal(self.problem.by_name[pair[0]].unit_overhead)
        most = Fraction(self._most(choice, pair))
        best, rate = most, Fraction(0)
        for slope, intercept in self._exact_pieces(pair):
            if slope:
                samples = n * (span - overhead - intercept * c) / slope
                if samples < best:
                    best, rate = samples, n / slope
        return best, rate

    def _exact_pieces(self, pair: Pair) -> list[tuple[Fraction, Fraction]]:
        key = (pair, 0)
        if key not in self._pieces:
            tau = self.problem.services[pair].tau
            self._pieces[key] = [(Fraction(slope), Fraction(intercept)) for slope, intercept in tau.pieces]
        return self._pieces[key]

    def _span(self, choice: Choice) -> Fraction | None:
        """The shortest S in which all demands are done; None if there is none.

        What is done by S is concave and piecewise linear in S, so Newton's steps from the left never overshoot and end
        after finitely many, exactly.
        """
        used = [pair for pair, n in choice.dedicated.items() if n]
        if any(pair not in choice.counts for pair in used):
            return None
        span = max(
            (
                decimal(self.problem.by_name[i].unit_overhead)
                + choice.counts[i, r] * max(intercept for _, intercept in self._exact_pieces((i, r)))
                for i, r in used
            ),
            default=Fraction(0),
        )
        for r, demand in self.problem.demand_by_name.items():
            pairs = [pair for pair in used if pair[1] == r]
            wanted = Fraction(demand.samples)
            if sum(self._most(choice, pair) for pair in pairs) < wanted:
                return None
            while True:
                reached = [self._reach(choice, pair, span) for pair in pairs]
                missing = wanted - sum((samples for samples, _ in reached), Fraction(0))
                rate = sum((rate for _, rate in reached), Fraction(0))
                if missing <= 0 or not rate:
                    break
                span += missing / rate
        return span


def spread(total: int, room: Mapping[Pair, float], most: Mapping[Pair, int]) -> dict[Pair, int]:
    """Whole samples in proportion to room, none above its most (largest remainders first)."""
    whole = sum(room.values())
    exact = {pair: min(total * value / whole, most[pair]) for pair, value in room.items()}
    shares = {pair: math.floor(value) for pair, value in exact.items()}
    left = total - sum(shares.values())
    for pair in sorted(shares, key=lambda pair: (shares[pair] - exact[pair], pair)):
        extra = min(left, 1, most[pair] - shares[pair])
        shares[pair] += extra
        left -= extra
    for pair in shares:  # rounding at full capacity can leave more than one sample a pair
        extra = min(left, most[pair] - shares[pair])
        shares[pair] += extra
        left -= extra
    return shares
