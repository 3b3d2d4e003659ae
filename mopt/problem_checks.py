"""What contradicts itself in a problem, and what was assumed to fill it in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mopt.errors import Fault
from mopt.workload import Workload

if TYPE_CHECKING:
    from mopt.problem import Problem

ELAPSED_MAX_UNITS = 16
ELAPSED_MAX_LAUNCHES = 4
# Samples of a launch on one accelerator where neither memory nor latency limits them.
LARGEST_BATCH = 10**9
# Launches of a unit in a period among which those of a table are chosen, where they are limited.
MOST_TABLE_LAUNCHES = 64


def contradictions(problem: Problem) -> Iterable[Fault]:
    """Faults that show only when fields are seen together."""

    def fault(field: str, value: object, allowed: str) -> Fault:
        return Fault("", "Problem", field, value, allowed)

    repeated = [name for name, count in Counter(r.name for r in problem.resources).items() if count > 1]
    for name in repeated:
        yield fault("resources", name, "names must be unique")
    if not problem.resources:
        yield fault("resources", (), "at least one")
    single = (problem.workload, problem.samples, problem.latency_limit)
    if problem.demands and any(value is not None for value in single):
        allowed = "give either demands or workload, samples, latency_limit"
        yield fault("demands", f"{len(problem.demands)} demands", allowed)
    if not problem.demands:
        if problem.workload is None:
            yield fault("workload", None, "a Workload, or demands")
        if problem.samples is None:
            yield fault("samples", None, "a number greater than 0")
    if problem.minimum_billing and problem.billing == "per_use" and problem.whole:
        allowed = "per_use billing needs launches='rate' for it: units can't share whole launches evenly"
        yield fault("minimum_billing", problem.minimum_billing, allowed)
    if problem.billing == "elapsed" and problem.minimum_billing >= problem.time_limit + problem.startup:
        allowed = "must be less than time_limit + startup, else every unit costs the same: use billing='reserved'"
        yield fault("minimum_billing", problem.minimum_billing, allowed)
    for name, count in Counter(demand.name for demand in problem.demands).items():
        if count > 1:
            yield fault("demands", name, "workload names must be unique")
    if problem.billing == "elapsed" and problem.launches == "rate":
        yield fault("launches", "rate", "elapsed billing needs whole launches: its units run in step")
    if problem.whole:
        amounts = {f"demands[{k}].samples": demand.samples for k, demand in enumerate(problem.demands)}
        if problem.samples is not None:
            amounts["samples"] = problem.samples
        for field, amount in amounts.items():
            if amount != int(amount):
                yield fault(field, amount, "a whole number, as launches are whole (not with launches='rate')")
    elif problem.max_launches is not None:
        yield fault("max_launches", problem.max_launches, "only with whole launches")
    for workload in [demand.workload for demand in problem.demands] or filter(None, [problem.workload]):
        yield from _workload_contradictions(problem, workload)
    known = {resource.name: resource for resource in problem.resources}
    for name, least in problem.min_units.items():
        if name not in known:
            yield fault("min_units", name, "the name of one of the resources")
        elif (most := known[name].max_units) is not None and least > most:
            yield fault(f"min_units[{name}]", least, f"at most its max_units = {most}")
    for quota in problem.quotas:
        if not any(quota.covers(resource) for resource in problem.resources):
            yield fault("quotas", str(quota), "no resource has these; check the spelling")


def _workload_contradictions(problem: Problem, workload: Workload) -> Iterable[Fault]:
    """Faults of what the problem asks of a workload."""

    def fault(field: str, value: object, allowed: str) -> Fault:
        return Fault("", f"Workload {workload.name!r}", field, value, allowed)

    if problem.unit_overhead is not None and workload.mode == "training" and not workload.gradient_bytes:
        yield fault("gradient_bytes", 0, f"needed with unit_overhead={problem.unit_overhead!r}")
    if workload.points and problem.max_launches is not None and problem.max_launches > MOST_TABLE_LAUNCHES:
        allowed = f"with points, max_launches may be at most {MOST_TABLE_LAUNCHES}, or left out"
        yield fault("points", f"{len(workload.points)} points", allowed)
    used = {
        "compute": ("flops", workload.flops_per_sample > 0),
        "bandwidth": ("bytes", any([workload.bytes_fixed, workload.bytes_per_sample, *(p.bytes for p in workload.points)])),
        "memory": ("memory", workload.footprint(1) > 0 or any(p.memory for p in workload.points)),
    }
    field, known = used[problem.utilization]
    if not known:
        yield fault(field, 0, f"needed for utilization={problem.utilization!r}")


def assumptions_of(problem: Problem) -> Iterable[str]:
    """The defaults that were filled in."""
    if problem.launches is None:
        kind = "whole launches of whole batches" if problem.whole else "launches per period may be fractional"
        yield f"launches: {kind} (default of {problem.billing})"
    if problem.billing == "elapsed":
        if problem.max_launches is None:
            yield f"max_launches: {ELAPSED_MAX_LAUNCHES} launches of a unit in a period (default of elapsed)"
        open_ended = [name for name in problem.unit_limits if problem.by_name[name].max_units is None]
        if open_ended:
            yield f"max_units: {ELAPSED_MAX_UNITS} units of each of {len(open_ended)} resources (default of elapsed)"
    unlimited = sum(service.batch_limit == LARGEST_BATCH * service.step for service in problem.services.values())
    if unlimited:
        yield f"batch_limit: {LARGEST_BATCH:.0e} samples an accelerator on {unlimited} resources, as nothing limits it"
    told = {
        "ideal": "the ideal roofline bound: nothing measured, expect longer ones",
        "family default": "defaults of the workload's family: measured on other resources",
        "calibrated": "calibrated: measured on the same accelerators",
    }
    for mark, text in told.items():
        count = len({pair[0] for pair in problem.services if problem.calibrated[pair].mark == mark})
        if count:
            yield f"times of {count} resources are {text}"
    optional = {"start-up time (startup = 0 s)": problem.startup, "minimum (minimum_billing = 0 s)": problem.minimum_billing}
    if absent := [text for text, seconds in optional.items() if not seconds]:
        yield f"what is paid has no {' and no '.join(absent)}"
    if any(d.workload.mode == "training" for d in problem.demand_by_name.values()):
        free = [name for name in problem.unit_limits if problem.by_name[name].unit_overhead == 0]
        if problem.unit_overhead is not None:
            yield "gradients are exchanged once a period, by rings of many units, at full bandwidth without latency"
        elif free:
            yield f"communication between units is not counted (unit_overhead = 0 for {len(free)} resources)"
    for demand in problem.demand_by_name.values():
        wanted = demand.workload.precision
        others = sorted(
            name for name, d in problem.services
            if d == demand.name
            and isinstance(peaks := problem.by_name[name].peak_flops, dict) and wanted not in peaks
        )
        if others:
            yield f"{wanted}: the other 16-bit format stands in on {len(others)} resources"
    partial = Counter(demand for name, demand in problem.refusals if name not in problem.rejected)
    for name, count in partial.items():
        yield f"{name}: {count} resources serve other demands only"
