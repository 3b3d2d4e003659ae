"""Plans from integers: what a choice of units costs and does, from the problem's data in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from mopt.point import Plan
from mopt.problem import Problem
from mopt.service import even
from mopt.table_service import Mode

Pair = tuple[str, str]


@dataclass(frozen=True)
class Choice:
    """What decides a plan.

    Attributes
    ----------
    dedicated : mapping of (resource, workload) to units
    counts : mapping of (resource, workload) to the place of each unit's mode, from 1 (elapsed only)
        Of layers, that is its number of launches.
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


class _Sums:
    """Sums of multiples of rational numbers, over their common denominator."""

    def __init__(self, values: Mapping[str, Fraction]) -> None:
        self._common = math.lcm(*(value.denominator for value in values.values()))
        self._whole = {i: value.numerator * (self._common // value.denominator) for i, value in values.items()}

    def of(self, times: Iterable[tuple[str, int]]) -> Fraction:
        """Σ n·value of the pairs (name of the value, n)."""
        return Fraction(sum(self._whole[i] * n for i, n in times), self._common)


class Evaluator:
    """Worth and plan of a choice under `reserved` or `elapsed` billing."""

    def __init__(self, problem: Problem, peaks: Mapping[str, float]) -> None:
        self.problem = problem
        self._price = _Sums({i: decimal(problem.by_name[i].price_per_hour) / 3600 for i in peaks})
        self._peak = _Sums({i: decimal(peak) for i, peak in peaks.items()})
        self._period = decimal(problem.time_limit)
        self._startup, self._least = decimal(problem.startup), decimal(problem.minimum_billing)

    def worth(self, choice: Choice) -> Worth | None:
        """Exact objectives; None if the choice breaks a limit of the problem."""
        worth = self.attained(choice)
        return worth if worth is not None and self._within_limits(choice, worth.cost) else None

    def attained(self, choice: Choice) -> Worth | None:
        """Exact objectives, whatever units and money there are; None if the time is too short."""
        span: Fraction | None = None
        if self.problem.billing == "elapsed":
            span = self._span(choice)
            if span is None or span > self._period * (1 + Fraction(1, 10**9)):
                return None
        elif not self._covers(choice):
            return None
        paid = self._paid(span)
        units = [(i, n) for (i, _), n in choice.dedicated.items() if n]
        return Worth(self._price.of(units) * paid, self._peak.of(units) * paid, span)

    def plan(self, choice: Choice, worth: Worth, utilization: float, loads: Mapping[Pair, float] | None = None) -> Plan:
        """The plan in plain numbers, with launches that realise it.

        Samples are shared in proportion to what each pair's units can do, or to `loads` where these are given.
        """
        problem = self.problem
        samples: dict[Pair, float] = {}
        for r, demand in problem.demand_by_name.items():
            pairs = [pair for pair, n in choice.dedicated.items() if pair[1] == r and n]
            room = {pair: max(loads[pair], 0.0) if loads else self._room(choice, pair, worth.span) for pair in pairs}
            if problem.whole:
                samples |= spread(int(demand.samples), room, {pair: self._most(choice, pair) for pair in pairs})
            else:
                samples |= {pair: demand.samples * value / math.fsum(room.values()) for pair, value in room.items()}
        period = float(self._period if worth.span is None else worth.span)
        paid = float(self._paid(worth.span))
        units: dict[str, int] = {}
        launches, busy, batch, memory = {}, {}, {}, {}
        slowest = 0.0
        for pair, n in choice.dedicated.items():
            if not n:
                continue
            i, r = pair
            units[i] = units.get(i, 0) + n
            if not samples.get(pair):
                continue
            service = problem.services[pair]
            loads_of_units = even(int(samples[pair]), n) if problem.whole else [(samples[pair] / n, n)]
            runs = [(b, times * of) for load, of in loads_of_units for b, times in service.runs(load)]
            launches[pair] = sum(times for _, times in runs)
            busy[pair] = math.fsum(times * service.tau.at(b) for b, times in runs)
            batch[pair] = samples[pair] / launches[pair]
            largest = max(b for b, _ in runs)
            memory[pair] = service.memory_at(largest)
            if worth.span is not None:
                heaviest = max(load for load, _ in loads_of_units)
                slowest = max(slowest, service.overhead + service.busy(heaviest))
        notes = problem.notes(choice.dedicated, launches)
        if slowest > period * (1 + 1e-9):
            excess = f"{slowest / period - 1:.2%} over the elapsed time of even shares"
            notes += (f"whole samples take {slowest:.6g} s, {excess}",)
        several = len(problem.demand_by_name) > 1
        return Plan(
            units=units,
            dedicated={pair: n for pair, n in choice.dedicated.items() if n},
            samples={f"{i}|{r}" if several else i: count for (i, r), count in samples.items() if count},
            launches=launches,
            batch=batch,
            busy=busy,
            billed={i: n * paid for i, n in units.items()},
            memory=memory,
            cost=float(worth.cost),
            cost_per_hour=float(self._price.of(units.items()) * 3600),
            utilization=utilization,
            elapsed=None if worth.span is None else period,
            time_limit=problem.time_limit,
            notes=notes,
        )

    def _paid(self, span: Fraction | None) -> Fraction:
        """Seconds that are paid of each unit."""
        return max((self._period if span is None else span) + self._startup, self._least)

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

    def _most(self, choice: Choice, pair: Pair) -> float:
        """Samples of all units of a pair, at most."""
        service, n = self.problem.services[pair], choice.dedicated[pair]
        if pair in choice.counts:
            return n * self._mode(choice, pair).most
        return n * service.capacity

    def _mode(self, choice: Choice, pair: Pair) -> Mode:
        return self.problem.modes[pair][choice.counts[pair] - 1]

    def _room(self, choice: Choice, pair: Pair, span: Fraction | None) -> float:
        """Samples of all units of a pair in the time there is: what loads are shared in proportion to."""
        if span is None:
            return self._most(choice, pair)
        return float(self._reach(choice, pair, span)[0])

    def _reach(self, choice: Choice, pair: Pair, span: Fraction) -> tuple[Fraction, Fraction]:
        """Samples that a pair's units do in `span`, and how fast that grows with it."""
        n, overhead = choice.dedicated[pair], decimal(self.problem.services[pair].overhead)
        best, rate = Fraction(self._most(choice, pair)), Fraction(0)
        pieces = [piece for piece in self._mode(choice, pair).pieces if piece[0] > 0]
        computing = float(span - overhead)
        rough = [(computing - intercept) / slope for slope, intercept in pieces]
        # Floats tell which pieces may be the tightest; these are worked out exactly.
        close = min(rough, default=0.0) + 1e-9 * max(map(abs, rough), default=0.0)
        for (slope, intercept), estimate in zip(pieces, rough, strict=True):
            if estimate <= close:
                samples = n * (span - overhead - Fraction(intercept)) / Fraction(slope)
                if samples < best:
                    best, rate = samples, n / Fraction(slope)
        return best, rate

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
                decimal(self.problem.services[pair].overhead) + Fraction(self._mode(choice, pair).time(0.0))
                for pair in used
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


def spread(total: int, room: Mapping[Pair, float], most: Mapping[Pair, float]) -> dict[Pair, int]:
    """Whole samples in proportion to room, none above its most (largest remainders first)."""
    sum_of_rooms = sum(room.values())
    exact = {pair: min(total * value / sum_of_rooms, most[pair]) for pair, value in room.items()}
    shares = {pair: math.floor(value) for pair, value in exact.items()}
    left = total - sum(shares.values())
    by_remainder = sorted(shares, key=lambda pair: (shares[pair] - exact[pair], pair))
    for limit in (1, total):  # one sample a pair; rounding at full capacity can leave more
        for pair in by_remainder:
            extra = min(left, limit, int(most[pair]) - shares[pair])
            shares[pair] += extra
            left -= extra
    return shares
