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

from mopt.plan import decimal
from mopt.problem import Problem

Pair = tuple[str, str]


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
    worth = {i: (decimal(problem.by_name[i].price_per_hour), decimal(problem.peaks[i])) for i in problem.unit_limits}
    for r in problem.demand_by_name:
        serving = [i for i, s in problem.services if s == r]
        takers = [j for j in serving if problem.by_name[j].max_units is None]
        for i in serving:
            if problem.min_units.get(i):
                continue
            for j in takers:
                if j != i and (k := _exchangeable(problem, worth, i, j, r, limits[i, r])) is not None:
                    limits[i, r] = k - 1
    return limits


def _exchangeable(
    problem: Problem, worth: dict[str, tuple[Fraction, Fraction]], i: str, j: str, r: str, most: int
) -> int | None:
    """The fewest units of i, at most `most`, that units of j replace; None if there are none."""
    (price_i, peak_i), (price_j, peak_j) = worth[i], worth[j]
    done_i, done_j = problem.services[i, r].capacity, problem.services[j, r].capacity
    # m/k has to be at least the ratio of capacities and at most those of prices and peaks.
    # For most pairs it can't be, which floats tell.
    ratio = done_i / done_j / (1 + 1e-9)
    if ratio > float(price_i) / float(price_j) or ratio > float(peak_i) / float(peak_j):
        return None
    a, b = problem.by_name[i], problem.by_name[j]
    common = [quota for quota in problem.quotas if quota.covers(b)]
    if not all(quota.covers(a) for quota in common):
        return None
    for k in range(1, most + 1):
        m = math.ceil(Fraction(done_i) * k / Fraction(done_j))
        if m * price_j > k * price_i or m * peak_j > k * peak_i or (common and m > k):
            continue
        better = m * price_j < k * price_i or m * peak_j < k * peak_i or m * done_j > k * done_i
        if better or m < k or (m == k and j < i):
            return k
    return None
