"""Dropping resources that no plan on the front needs. The front stays the same: the same objective values.

j replaces i, unit by unit, if it is nowhere worse: not dearer, no more rented to waste, no less done in the time. Among
equals the first by name stays. Moving units from i to j as long as j has units left never makes a plan worse, so
some plan for every point of the front uses i only where all resources that replace i are used up. Hence i can go if

- one resource that replaces it has units enough for itself and all that it replaces, or
- the problem allows K types and at least K resources replace i, each with as many units: one of them is then unused.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import cache

from mopt.formulation import rented_of, use_of
from mopt.problem import Problem
from mopt.resource import Resource
from mopt.shortfall import check_servable


def reduced(problem: Problem) -> tuple[Problem, dict[str, str]]:
    """The problem without the resources that others replace, and of each of these the one that replaces it.

    Raises
    ------
    InfeasibleError
        If some demand can be served by no resource, or by too few units.
    """
    check_servable(problem)
    limits = problem.unit_limits
    rented = {i: rented_of(problem, i) for i in limits}
    needed = {i: _needed(problem, i) for i in limits}
    spare = {i: _spare(problem, i) for i in limits}

    def order(i: str) -> tuple[float, float, float, str]:
        done = sum(problem.services[i, r].capacity for r in problem.demand_by_name if (i, r) in problem.services)
        return problem.by_name[i].price_per_hour, rented[i], -done, i

    first_of: dict[Hashable, str] = {}
    kind = {i: first_of.setdefault(_kind(problem, rented[i], i), i) for i in limits}

    @cache
    def replaces(j: str, i: str) -> bool:
        return _replaces(problem, rented, j, i)

    kept: list[str] = []
    dropped: dict[str, str] = {}
    for i in sorted(limits, key=order):
        better = [j for j in kept if replaces(kind[j], kind[i])] if not problem.min_units.get(i) else []
        roomy = next((j for j in better if spare[j] >= needed[i]), None)
        ample = [j for j in better if limits[j] >= limits[i]]
        if roomy is not None:
            spare[roomy] -= needed[i]
            dropped[i] = roomy
        elif problem.max_types is not None and len(ample) >= problem.max_types:
            dropped[i] = ample[0]
        else:
            kept.append(i)
    resources = tuple(_with_units_needed(problem, problem.by_name[i]) for i in limits if i not in dropped)
    return replace(
        problem,
        resources=resources,
        quotas=tuple(quota for quota in problem.quotas if any(quota.covers(r) for r in resources)),
        min_units={i: least for i, least in problem.min_units.items() if least},
    ), dropped


def _needed(problem: Problem, i: str) -> int:
    """Units of i that any plan may want."""
    if problem.billing == "elapsed":  # a shorter S may want any number
        return problem.unit_limits[i]
    return min(problem.unit_limits[i], problem.enough_units[i])


def _spare(problem: Problem, i: str) -> float:
    """Units of i beyond what i itself may want."""
    if problem.billing != "elapsed" and problem.by_name[i].max_units is None:
        return math.inf  # its limit is enough units for anything
    return problem.unit_limits[i] - _needed(problem, i)


def _with_units_needed(problem: Problem, resource: Resource) -> Resource:
    """The resource with no more units than any plan may want: a limit beyond that only loosens n ≤ N·z."""
    if problem.billing == "elapsed" or resource.max_units is None:
        return resource
    return replace(resource, max_units=_needed(problem, resource.name))


def _kind(problem: Problem, rented: float, i: str) -> Hashable:
    """What `_replaces` looks at. Offers at other prices, or in other regions, share it."""
    pairs = [(i, r) for r in problem.demand_by_name if (i, r) in problem.services]
    # Services that are the same are one object.
    services = tuple((r, id(problem.services[i, r]), use_of(problem, i, r)) for i, r in pairs)
    return rented, services, tuple(quota.covers(problem.by_name[i]) for quota in problem.quotas)


def _replaces(problem: Problem, rented: Mapping[str, float], j: str, i: str) -> bool:
    """Whether j is nowhere worse than i but perhaps in price."""
    a, b = problem.by_name[j], problem.by_name[i]
    if rented[j] > rented[i]:
        return False
    if any(quota.covers(a) and not quota.covers(b) for quota in problem.quotas):
        return False
    for r in problem.demand_by_name:
        theirs = problem.services.get((i, r))
        if theirs is None:
            continue
        ours = problem.services.get((j, r))
        if ours is None or ours.capacity < theirs.capacity or use_of(problem, j, r) < use_of(problem, i, r):
            return False
        if problem.billing == "reserved":
            continue
        if ours.overhead > theirs.overhead or ours.batch_limit < theirs.batch_limit or not ours.replaces(theirs):
            return False
    return True
