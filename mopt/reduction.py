"""Dropping resources that no plan on the front needs. The front stays the same: the same objective values.

j replaces i, unit by unit, if it is nowhere worse: not dearer, no more peak to waste, no less done in the time. Among
equals the first by name stays. Moving units from i to j as long as j has units left never makes a plan worse, so
some plan for every point of the front uses i only where all resources that replace i are used up. Hence i can go if

- one resource that replaces it has units enough for itself and all that it replaces, or
- the problem allows K types and at least K resources replace i: all of them used up, and i, would be K + 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mopt.formulation import peak_of
from mopt.problem import Problem
from mopt.service import Service

_EPS = 1e-12


def reduced(problem: Problem) -> tuple[Problem, dict[str, str]]:
    """The problem without the resources that others replace, and of each of these the one that replaces it."""
    names = list(problem.unit_limits)
    peaks = {i: peak_of(problem, i) for i in names}
    demands = list(problem.demand_by_name)

    def order(i: str) -> tuple[float, float, float, str]:
        done = sum(problem.services[i, r].capacity for r in demands if (i, r) in problem.services)
        return problem.by_name[i].price_per_hour, peaks[i], -done, i

    kept: list[str] = []
    spare = {i: _spare(problem, i) for i in names}
    dropped: dict[str, str] = {}
    for i in sorted(names, key=order):
        better = [j for j in kept if _replaces(problem, peaks, j, i)] if not problem.min_units.get(i) else []
        need = _needed(problem, i)
        roomy = next((j for j in better if spare[j] >= need), None)
        ample = [j for j in better if problem.unit_limits[j] >= problem.unit_limits[i]]
        if roomy is not None:
            spare[roomy] -= need
            dropped[i] = roomy
        elif problem.max_types is not None and len(ample) >= problem.max_types:
            dropped[i] = ample[0]
        else:
            kept.append(i)
    keep = set(kept)
    resources = tuple(r for r in problem.resources if r.name in keep)
    quotas = tuple(quota for quota in problem.quotas if any(quota.covers(r) for r in resources))
    return replace(problem, resources=resources, quotas=quotas), dropped


def _needed(problem: Problem, i: str) -> float:
    """Units of i that any plan may want."""
    if problem.billing == "elapsed":  # a shorter S may want any number
        return problem.unit_limits[i]
    return min(problem.unit_limits[i], problem.enough_units[i])


def _spare(problem: Problem, j: str) -> float:
    """Units of j beyond what j itself may want."""
    if problem.billing != "elapsed" and problem.by_name[j].max_units is None:
        return np.inf  # its limit is then enough units for anything
    return problem.unit_limits[j] - _needed(problem, j)


def _replaces(problem: Problem, peaks: dict[str, float], j: str, i: str) -> bool:
    a, b = problem.by_name[j], problem.by_name[i]
    if a.price_per_hour > b.price_per_hour or peaks[j] > peaks[i]:
        return False
    if any(quota.covers(a) and not quota.covers(b) for quota in problem.quotas):
        return False
    for r in problem.demand_by_name:
        theirs = problem.services.get((i, r))
        if theirs is None:
            continue
        ours = problem.services.get((j, r))
        if ours is None or ours.capacity < theirs.capacity:
            return False
        if problem.billing == "reserved":
            continue
        if a.unit_overhead > b.unit_overhead or ours.batch_limit < theirs.batch_limit or not _as_fast(ours, theirs):
            return False
        if problem.billing == "per_use":
            price, peak = a.price_per_hour / b.price_per_hour, peaks[j] / peaks[i]
            worth = max(price, peak)
            if worth * a.unit_overhead > b.unit_overhead or not _as_fast(ours, theirs, worth):
                return False
    return True


def _as_fast(ours: Service, theirs: Service, factor: float = 1.0) -> bool:
    """Whether factor·τ is nowhere longer than the other's on the batches that the other can run."""
    low, high = (0.0, theirs.batch_limit) if theirs.whole else (float(theirs.step), theirs.batch_limit)
    if np.isinf(high):
        high = 1e9 * theirs.step
    # Both are piecewise linear, so their difference is largest at a breakpoint of either.
    points = np.array([low, high, *_breakpoints(ours, low, high), *_breakpoints(theirs, low, high)])
    return bool(np.all(factor * np.asarray(ours.tau(points)) <= np.asarray(theirs.tau(points)) * (1 + _EPS)))


def _breakpoints(service: Service, low: float, high: float) -> list[float]:
    pieces = service.tau.pieces
    crossings = [(a[1] - b[1]) / (b[0] - a[0]) for a, b in zip(pieces, pieces[1:], strict=False)]
    return [b for b in crossings if low < b < high]
