"""Under `reserved` billing, how many units of a resource are ever worth renting: from some number on, others do better.

If m units of j cost no more than k units of i, have no more peak to waste and do no fewer samples, a plan with k units
of i is no worse with m units of j instead. So some plan for every point of the front has fewer than k units of i; if k
is 1, none. (Four single-accelerator instances often replace one instance of four; one large CPU instance replaces two
of half the size.) Each exchange lowers cost, or else peak, or else raises capacity, or else lowers the number of units,
or else moves to an earlier name, so that exchanges come to an end.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from mopt.plan import decimal
from mopt.problem import Problem

Pair = tuple[str, str]
Sizes = tuple[int, int, int]  # what a unit can do, its price, its peak


def exchanged(problem: Problem) -> tuple[Problem, dict[Pair, int]]:
    """The problem without the resources that no plan needs, and the most units of each pair that one needs."""
    limits = exchange_limits(problem)
    needed = {i for (i, _), most in limits.items() if most > 0}
    resources = tuple(resource for resource in problem.resources if resource.name in needed)
    quotas = tuple(quota for quota in problem.quotas if any(quota.covers(resource) for resource in resources))
    smaller = replace(problem, resources=resources, quotas=quotas)
    return smaller, {pair: most for pair, most in limits.items() if pair[0] in needed}


def exchange_limits(problem: Problem) -> dict[Pair, int]:
    """The most units of each pair that a plan needs, below its own limit or equal to it."""
    limits = {pair: problem.unit_limits[pair[0]] for pair in problem.services}
    if problem.max_types is not None and problem.max_types < len(problem.unit_limits):
        return limits  # part of i exchanged for j may be one type more
    names = list(problem.unit_limits)
    prices = _whole({i: decimal(problem.by_name[i].price_per_hour) for i in names})
    peaks = _whole({i: decimal(problem.peaks[i]) for i in names})
    for r in problem.demand_by_name:
        done = _whole({i: Fraction(problem.services[i, r].capacity) for i, s in problem.services if s == r})
        sizes = {i: (done[i], prices[i], peaks[i]) for i in done}
        for i, j in _promising(problem, list(done), r):
            if j != i and not problem.min_units.get(i):
                k = _exchangeable(problem, i, j, sizes[i], sizes[j], limits[i, r])
                limits[i, r] = limits[i, r] if k is None else k - 1
    return limits


def _whole(values: dict[str, Fraction]) -> dict[str, int]:
    """Values in a unit of which all are multiples: whole numbers are sooner reckoned with."""
    common = math.lcm(*(value.denominator for value in values.values()))
    return {i: value.numerator * (common // value.denominator) for i, value in values.items()}


def _promising(problem: Problem, names: list[str], r: str) -> list[tuple[str, str]]:
    """Pairs of a resource and one without a limit that units of it may be exchanged for.

    m/k has to be at least the ratio of capacities and at most those of prices and peaks. For most pairs it can't be,
    which floats tell.
    """
    done = np.array([problem.services[i, r].capacity for i in names])
    prices = np.array([problem.by_name[i].price_per_hour for i in names])
    peaks = np.array([problem.peaks[i] for i in names])
    room = (1 + 1e-9) * np.minimum(prices[:, None] / prices, peaks[:, None] / peaks)
    unlimited = np.array([problem.by_name[i].max_units is None for i in names], dtype=bool)
    return [(names[a], names[b]) for a, b in np.argwhere(unlimited & (done[:, None] / done <= room))]


def _exchangeable(problem: Problem, i: str, j: str, of_i: Sizes, of_j: Sizes, most: int) -> int | None:
    """The fewest units of i, at most `most`, that units of j replace; None if there are none."""
    a, b = problem.by_name[i], problem.by_name[j]
    common = [quota for quota in problem.quotas if quota.covers(b)]
    if not all(quota.covers(a) for quota in common):
        return None
    (done_i, price_i, peak_i), (done_j, price_j, peak_j) = of_i, of_j
    for k in range(1, most + 1):
        m = -(-k * done_i // done_j)
        if m * price_j > k * price_i or m * peak_j > k * peak_i or (common and m > k):
            continue
        better = m * price_j < k * price_i or m * peak_j < k * peak_i or m * done_j > k * done_i
        if better or m < k or (m == k and j < i):
            return k
    return None
