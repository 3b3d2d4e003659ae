"""Why a problem has no plan: which limit makes it so, and by how much."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from mopt.errors import InfeasibleError
from mopt.problem import Demand, Problem, Quota
from mopt.service import BatchLimit, Limit, rounded_up

# Among several reasons the first of these is told: a resource that fails a later check has passed the earlier ones.
_CLOSEST: tuple[Limit, ...] = (
    "units", "samples", "time", "latency", "memory", "table", "link", "parallelism", "precision", "training"
)  # fmt: skip


def check_servable(problem: Problem) -> None:
    """Raise `InfeasibleError` if some demand can be served by no resource, or by too few units of all there are."""
    for name, least in problem.min_units.items():
        if least and name in problem.rejected:
            why = problem.rejected[name]
            raise InfeasibleError(f"min_units asks for {least} units of {name}, which {why}", "units")
    for name, demand in problem.demand_by_name.items():
        most = _most(problem, name)
        if not most:
            raise InfeasibleError(*_nobody_serves(problem, demand))
        if most < demand.samples * (1 - 1e-9):
            raise InfeasibleError(*_too_few_units(problem, demand, most))


def _most(problem: Problem, demand: str) -> float:
    """Samples that all units there are can do."""
    return sum(problem.unit_limits[i] * service.capacity for (i, r), service in problem.services.items() if r == demand)


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
    """How far off a resource is."""
    if refusal.limit == "memory":
        resource = problem.by_name[name]
        return refusal.needed * resource.accelerator_count / resource.memory
    return 0.0 if math.isnan(refusal.needed) else refusal.needed


def _too_few_units(problem: Problem, demand: Demand, most: float) -> tuple[str, str]:
    need = _smallest(
        lambda limit: _most(replace(problem, time_limit=limit), demand.name) >= demand.samples, problem.time_limit
    )
    text = (
        f"all units there are serve {most:.6g} of {demand.samples:.6g} samples of {demand.name} "
        f"in {problem.time_limit:.4g} s"
    )
    if problem.launches_per_unit is not None:
        text += f", in at most {problem.launches_per_unit} launches each"
    if need is not None:
        text += f"; time_limit needs to be at least {rounded_up(need)} s"
    return f"{text}; max_units need to be {rounded_up(demand.samples / most)} times as many", "units"


def _smallest(holds: Callable[[float], bool], start: float) -> float | None:
    """The smallest value above `start` for which a monotone condition holds, to four digits; None if there is none."""
    low, high = start, 2 * start
    while not holds(high):
        low, high = high, 2 * high
        if high > 1e9 * start:
            return None
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _smallest_count(holds: Callable[[int], bool], start: int) -> int:
    """The smallest number above `start` for which a monotone condition holds, as it does for some."""
    low, high = start, start + 1
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def why_infeasible(
    problem: Problem, has_plan: Callable[[Problem], bool], least_cost: Callable[[Problem], float]
) -> tuple[str, str]:
    """The limit without which there is a plan, and what it would have to be: a sentence, and the limit's name.

    Parameters
    ----------
    has_plan, least_cost : callable
        Whether a problem has a plan, and the cost of the cheapest in $ per period, both whatever the budget.
    """
    if problem.budget is not None and has_plan(problem):
        cost = rounded_up(least_cost(problem))
        return f"budget = {problem.budget:.6g} $ per period is too low: it needs to be at least {cost} $", "budget"
    if problem.max_types is not None and has_plan(replace(problem, max_types=None)):
        types = _smallest_count(lambda k: has_plan(replace(problem, max_types=k)), problem.max_types)
        return f"max_types = {problem.max_types} is too low: it needs to be at least {types}", "types"
    for quota in problem.quotas:
        others = tuple(other for other in problem.quotas if other is not quota)
        if has_plan(replace(problem, quotas=others)):

            def with_units(count: int, quota: Quota = quota, others: tuple[Quota, ...] = others) -> Problem:
                return replace(problem, quotas=(*others, replace(quota, max_units=count)))

            units = _smallest_count(lambda n: has_plan(with_units(n)), quota.max_units)
            return f"a quota is too low: {quota}, it needs to be at least {units}", "units"
    if has_plan(_with_more_units(problem, 10**6)):
        times = _smallest_count(lambda k: has_plan(_with_more_units(problem, k)), 1)
        return f"max_units are too low: they need to be {times} times as many", "units"
    for what, easier in (("quotas", replace(problem, quotas=())), ("min_units", replace(problem, min_units={}))):
        if easier != problem and has_plan(easier):
            return f"{what} make it so: without them there is a plan", "units"
    time = _smallest(lambda limit: has_plan(replace(problem, time_limit=limit)), problem.time_limit)
    if time is not None:
        text = f"time_limit = {problem.time_limit:.4g} s is too short: it needs to be at least {rounded_up(time)} s"
        return text, "time"
    return "the limits together leave no plan, and no single one of them is at fault", "model"


def _with_more_units(problem: Problem, times: int) -> Problem:
    """The problem with so many times the units of every resource that has a limit of its own."""
    more = [r if r.max_units is None else replace(r, max_units=times * r.max_units) for r in problem.resources]
    return replace(problem, resources=tuple(more))
