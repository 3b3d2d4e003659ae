"""What a plan that stays as it is costs, and how well it is used, in a problem with other prices or times."""

from __future__ import annotations

from mopt.enumeration import soonest
from mopt.errors import Fault, InputError
from mopt.plan import Choice, Evaluator
from mopt.point import Plan
from mopt.problem import Problem

Pair = tuple[str, str]


class FixedPlans:
    """Plans of a problem, judged in another one that differs from it in prices and times alone.

    `reserved`: units stay. `elapsed`: units stay, launches are those by which they are done first. `per_use`: units
    stay, and the samples that each takes.
    """

    def __init__(self, problem: Problem) -> None:
        if problem.utilization != "compute":
            allowed = "must be compute: other utilizations change with the samples that units take"
            raise InputError([Fault("", "Problem", "utilization", problem.utilization, allowed)])
        self._problem = problem
        self._work = sum(d.workload.flops_per_sample * d.samples for d in problem.demand_by_name.values())

    def values(self, plan: Plan) -> tuple[float, float] | None:
        """Cost in $ per period and utilization; None where the plan doesn't do all samples, or breaks the budget."""
        problem = self._problem
        if any(pair not in problem.services for pair in plan.dedicated):
            return None
        if problem.billing == "per_use":
            found = self._per_use(plan)
        else:
            choice = soonest(problem, plan.dedicated) if problem.billing == "elapsed" else Choice(plan.dedicated, {})
            worth = None if choice is None else Evaluator(problem, self._peaks(plan)).attained(choice)
            found = None if worth is None else (float(worth.cost), float(worth.rented))
        if found is None or (problem.budget is not None and found[0] > problem.budget * (1 + 1e-9)):
            return None
        return found[0], self._work / found[1]

    def _peaks(self, plan: Plan) -> dict[str, float]:
        return {name: self._problem.peaks[name] for name in plan.units}

    def _per_use(self, plan: Plan) -> tuple[float, float] | None:
        problem = self._problem
        several = len(problem.demand_by_name) > 1
        cost = rented = 0.0
        for (i, r), n in plan.dedicated.items():
            service = problem.services[i, r]
            samples = plan.samples.get(f"{i}|{r}" if several else i, 0)
            busy = service.busy(samples)
            if busy > n * service.available * (1 + 1e-9):
                return None
            # The minimum is of each unit; it comes with fractional launches only, which units share evenly.
            paid = n * float(problem.paid(busy / n + service.overhead))
            cost += problem.by_name[i].price_per_hour / 3600 * paid
            rented += problem.peaks[i] * paid
        return cost, rented
