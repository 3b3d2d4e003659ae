"""Why a problem has no plan: which limit makes it so, and by how much."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from mopt.errors import InfeasibleError
from mopt.problem import Demand, Problem
from mopt.service import BatchLimit

# Among several reasons the first of these is told: a resource that fails a later check has passed the earlier ones.
_CLOSEST = ("time", "latency", "samples", "memory", "precision", "training")


def check_servable(problem: Problem) -> None:
    """Raise `InfeasibleError` if some demand can be served by no resource, or by too few units of all there are."""
    for name, demand in problem.demand_by_name.items():
        pairs = [pair for pair in problem.services if pair[1] == name]
        if not pairs:
            raise InfeasibleError(*_nobody_serves(problem, demand))
        most = sum(problem.unit_limits[i] * problem.services[i, r].capacity for i, r in pairs)
        if most < demand.samples * (1 - 1e-9):
            raise InfeasibleError(*_too_few_units(problem, demand, most))


def _nobody_serves(problem: Problem, demand: Demand) -> tuple[str, str]:
    refusals = {i: limit for (i, r), limit in problem.refusals.items() if r == demand.name}
    counts = Counter(limit.limit for limit in refusals.values())
    limit = next(kind for kind in _CLOSEST if counts[kind])
    name, closest = min(
        ((i, refusal) for i, refusal in refusals.items() if refusal.limit == limit),
        key=lambda item: _missing(problem, *item),
    )
    tally = ", ".join(f"{kind} {count}" for kind, count in counts.most_common())
    return (
        f"no resource can serve {demand.name}, by reason: {tally}; the closest is {name}, which {closest.reason}",
        limit,
    )


def _missing(problem: Problem, name: str, refusal: BatchLimit) -> float:
    """How far off a resource is, relative to what it has."""
    if refusal.limit == "memory":
        resource = problem.by_name[name]
        return refusal.needed * resource.accelerator_count / resource.memory
    return 0.0 if math.isnan(refusal.needed) else refusal.needed


def _too_few_units(problem: Problem, demand: Demand, most: float) -> tuple[str, str]:
    def enough(time_limit: float) -> bool:
        longer = replace(problem, time_limit=time_limit)
        return sum(
            longer.unit_limits[i] * service.capacity for (i, r), service in longer.services.items() if r == demand.name
        ) >= demand.samples

    need = smallest(enough, problem.time_limit)
    text = f"all units there are serve {most:.6g} of {demand.samples:.6g} samples of {demand.name} in " \
           f"{problem.time_limit:.4g} s"
    if need is not None:
        text += f"; time_limit needs to be at least {need:.4g} s, or max_units {demand.samples / most:.3g} times as many"
    return text, "units"


def smallest(holds: Callable[[float], bool], start: float, factor: float = 2.0, doublings: int = 40) -> float | None:
    """The smallest value from `start` on for which a monotone condition holds, to four digits; None if there is none."""
    low, high = start, start
    for _ in range(doublings):
        high *= factor
        if holds(high):
            break
        low = high
    else:
        return None
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def why_infeasible(problem: Problem, feasible: Callable[[Problem], bool]) -> tuple[str, str]:
    """The limit without which there is a plan, and what it would have to be.

    Parameters
    ----------
    feasible : callable
        Whether a problem has a plan at all.
    """
    relaxed: list[tuple[str, str, Problem, Callable[[float], Problem] | None, float]] = []
    if problem.budget is not None:
        relaxed.append((
            "budget", "$ per period", replace(problem, budget=None),
            lambda value: replace(problem, budget=value), problem.budget,
        ))
    if problem.max_types is not None:
        relaxed.append(("types", "max_types", replace(problem, max_types=None), None, 0.0))
    if problem.quotas:
        relaxed.append(("units", "quotas", replace(problem, quotas=()), None, 0.0))
    unlimited = tuple(replace(r, max_units=None) for r in problem.resources)
    if unlimited != problem.resources:
        relaxed.append(("units", "max_units", replace(problem, resources=unlimited), None, 0.0))
    if problem.min_units:
        relaxed.append(("units", "min_units", replace(problem, min_units={}), None, 0.0))
    for limit, what, easier, with_value, value in relaxed:
        if not feasible(easier):
            continue
        if with_value is not None:
            need = smallest(lambda v, make=with_value: feasible(make(v)), value)  # type: ignore[misc]
            if need is not None:
                return f"{limit} = {value:.6g} {what} is too low: it needs to be at least {need:.4g}", limit
        text = f"{what} make it so: without them there is a plan"
        need = smallest(lambda v: feasible(replace(problem, time_limit=v)), problem.time_limit)
        if need is not None:
            text += f"; with them, time_limit needs to be at least {need:.4g} s, not {problem.time_limit:.4g} s"
        return text, limit
    need = smallest(lambda v: feasible(replace(problem, time_limit=v)), problem.time_limit)
    if need is not None:
        return f"time_limit = {problem.time_limit:.4g} s is too short: it needs to be at least {need:.4g} s", "time"
    return "the limits together leave no plan, and no single one of them is at fault", "model"
