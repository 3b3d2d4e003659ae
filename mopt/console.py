"""What the command line prints: fronts, catalogs, workloads and rooflines, as tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from mopt.catalog import Catalog
from mopt.front import ParetoFront
from mopt.geometry import ends_of
from mopt.launch_table import LaunchTable
from mopt.point import Plan, Point
from mopt.problem import Problem
from mopt.problem_files import ProblemFile
from mopt.resource import Resource
from mopt.roofline import PiecewiseLinear
from mopt.service import BatchLimit, batch_limit, step_of, usable_times
from mopt.workload import Workload

# Of a table that is read by a program or a pager nothing may be cut off.
_WIDE = 1000
_REASONS = {
    "precision": "no peak at the workload's precision",
    "training": "inference only",
    "memory": "too little memory",
    "latency": "too slow for the latency limit",
    "time": "too slow for the time limit",
    "samples": "more accelerators than samples",
    "units": "max_units is 0",
}
# More samples than a unit can do in any period one would ask about.
_ANY_NUMBER = 1e15
# Columns of sentences, wrapped to no less than this; all others have one line a row.
_PROSE = ("sample", "because")
_LEAST_PROSE = 20
# Many reasons of few offers each say less than the commonest.
_MOST_REASONS = 6


def _console(least: int = 0) -> Console:
    """A console that is wide enough, though the terminal may not be: better wrapped than cut off."""
    console = Console(markup=False, emoji=False, highlight=False)
    console.width = max(console.width if console.is_terminal else _WIDE, least)
    return console


def _say(text: str) -> None:
    _console().print(text, soft_wrap=True)


def _table(columns: Iterable[str], *, left: Sequence[str] = ()) -> Table:
    """A table of numbers; columns named in `left` hold text."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=column not in _PROSE)
    return table


def _print(table: Table) -> None:
    for column in table.columns:
        longest = max(cell_len(str(cell)) for cell in (column.header, *column.cells))
        column.min_width = longest if column.no_wrap else min(longest, _LEAST_PROSE)
    padding = 3
    _console(sum((column.min_width or 0) + padding for column in table.columns) + padding).print(table)


def print_front(front: ParetoFront, problem: Problem) -> None:
    """The plans of a front, one line for each resource in each, and what was proven."""
    prefix = _common_prefix(problem.resources)
    several = len(problem.demand_by_name) > 1
    timed = any(point.plan is not None and point.plan.elapsed is not None for point in front)
    columns = ["plan", *(["segment"] if front.segments else []), f"$ per {problem.time_limit:g} s", "$/h", "util. %",
               *(["time s"] if timed else []), "units", "resource", *(["workload"] if several else []), "samples",
               "batch", *(["times"] if problem.calibration else [])]
    table = _table(columns, left=("segment", "resource", "workload", "times"))
    position = {id(point): str(k) for k, point in enumerate(front)}
    for point, segment in _rows(front):
        if point.plan is None:
            continue
        plan = point.plan
        head = [position.get(id(point), ""), *([segment] if front.segments else []), f"{plan.cost:.6g}",
                f"{plan.cost_per_hour:.6g}", f"{100 * plan.utilization:.3f}",
                *([f"{plan.elapsed:.4g}" if plan.elapsed is not None else ""] if timed else [])]
        for line in _plan_lines(plan, prefix, problem):
            table.add_row(*head, *line)
            head = [""] * len(head)
    if front.points:
        _print(table)
    if prefix and front.points:
        _say(f"resources are {prefix}NAME")
    for text in _statements(front):
        _say(text)


def _rows(front: ParetoFront) -> Iterator[tuple[Point, str]]:
    """Points, and both ends of segments with what to call them."""
    number = 0
    for piece in front.pieces:
        if isinstance(piece, Point):
            yield piece, ""
            continue
        for (end, closed), name in zip(ends_of(piece), ("from", "to"), strict=True):
            yield end, f"{number} {name}" if closed else f"{number} {name} (open)"
        number += 1


def _plan_lines(plan: Plan, prefix: str, problem: Problem) -> Iterator[tuple[str, ...]]:
    several = len(problem.demand_by_name) > 1
    for (resource, workload), units in plan.dedicated.items():
        samples = plan.samples.get(f"{resource}|{workload}" if several else resource, 0)
        batch = plan.batch.get((resource, workload))
        yield (
            str(units),
            resource.removeprefix(prefix),
            *([workload] if several else []),
            _count(samples),
            "" if batch is None else _count(batch),
            *([problem.calibrated[resource, workload].mark] if problem.calibration else []),
        )


def _common_prefix(resources: Iterable[Resource]) -> str:
    """`provider/region/` if all names begin so."""
    prefixes = {f"{resource.provider}/{resource.region}/" for resource in resources}
    prefix = prefixes.pop()
    return prefix if not prefixes and all(resource.name.startswith(prefix) for resource in resources) else ""


def _statements(front: ParetoFront) -> Iterator[str]:
    size = f"{len(front)} plan{'s' * (len(front) != 1)}"
    if front.segments:
        size += f", {len(front.segments)} segment{'s' * (len(front.segments) != 1)}"
    state = "complete"
    if not front.complete:
        still = ", ".join(f"{100 * low:.4g} to {100 * high:.4g} %" for low, high in front.unexplored)
        state = f"NOT COMPLETE: {front.why_incomplete}" + (f"; utilization {still} is still open" if still else "")
    cost, utilization = front.resolution
    steps = f"; steps of {cost:.2g} $ and {100 * utilization:.2g} %" if cost or utilization else ""
    effort = f"{front.statistics['solves']} solves in {front.statistics['seconds']:.2f} s"
    yield f"{size}; {state}; {front.certificate.method}, {effort}"
    yield f"{front.certificate.exactness}{steps}"
    if front.points:
        knee = front.knee()
        yield f"knee: {knee.objectives[0]:.6g} $ at {100 * knee.objectives[1]:.3f} %"
    for assumption in front.assumptions:
        yield f"assumed: {assumption}"


def print_rejected(read: ProblemFile, *, listed: bool) -> None:
    """How many offers and resources can't be used and why, or which."""
    problem = read.problem
    if listed:
        print_reasons("kept out of the catalog", read.rejected)
        print_reasons("can't serve", problem.rejected)
        return
    kinds: dict[str, list[str]] = {}
    for (name, _), refusal in problem.refusals.items():
        if name in problem.rejected:
            kinds.setdefault(name, []).append(_REASONS.get(refusal.limit, refusal.limit))
    unable = Counter(" or ".join(dict.fromkeys(reasons)) for reasons in kinds.values())
    for title, reasons in (
        ("kept out of the catalog", Counter(read.rejected.values())),
        (f"can't serve, of {len(problem.resources)} resources", unable),
    ):
        if reasons:
            common = reasons.most_common(_MOST_REASONS)
            rest = reasons.total() - sum(count for _, count in common)
            parts = [f"{count} {reason}" for reason, count in common] + ([f"{rest} other reasons"] if rest else [])
            _say(f"{title}: {reasons.total()} ({'; '.join(parts)}); --show-rejected lists them")


def print_reasons(title: str, reasons: Mapping[str, str]) -> None:
    """What can't be used, each with its reason."""
    if reasons:
        table = _table((title, "because"), left=(title, "because"))
        for name, reason in reasons.items():
            table.add_row(name, reason)
        _print(table)
    _say(f"{title}: {len(reasons)}")


def print_catalog(catalog: Catalog, precision: str) -> None:
    """Offers with the figures of whole units."""
    peak = f"{precision} TFLOP/s"
    table = _table(("offer", "accelerators", "memory GB", "GB/s", peak, "ridge FLOP/B", "$/h"),
                   left=("offer", "accelerators"))  # fmt: skip
    for resource in catalog:
        value = resource.peak(precision)
        table.add_row(
            resource.name,
            f"{resource.accelerator_count} × {resource.accelerator}" if resource.accelerator else "",
            f"{resource.memory / 1e9:.4g}",
            f"{resource.memory_bandwidth / 1e9:.4g}",
            "" if value is None else f"{value / 1e12:.4g}",
            "" if value is None else f"{resource.ridge_point(precision):.3g}",
            f"{resource.price_per_hour:.6g}",
        )
    _print(table)
    kept_out = f"; {len(catalog.rejected)} kept out (--rejected lists them)" if catalog.rejected else ""
    _say(f"{len(catalog)} offer{'s' * (len(catalog) != 1)}{kept_out}")


def print_workloads(workloads: Iterable[Workload], batch: int) -> None:
    """Workloads with their work, traffic and memory."""
    table = _table(
        ("workload", "mode", "precision", "sample", "GFLOP/sample", "MB/sample", "MB/launch", f"FLOP/B at {batch}",
         "least GB"),
        left=("workload", "mode", "precision", "sample"),
    )  # fmt: skip
    for workload in workloads:
        table.add_row(
            workload.name,
            workload.mode,
            workload.precision,
            workload.sample,
            f"{workload.flops_per_sample / 1e9:.4g}",
            f"{workload.bytes_per_sample / 1e6:.4g}" if workload.layers else "by points",
            f"{workload.bytes_fixed / 1e6:.4g}" if workload.layers else "by points",
            f"{workload.arithmetic_intensity(batch):.4g}",
            f"{workload.footprint(1) / 1e9:.4g}",
        )
    _print(table)
    _say("MB/launch is moved once a launch, whatever the batch (weights); least GB is the memory of a batch of 1")


def print_roofline(
    resource: Resource, workload: Workload, *, latency_limit: float | None = None, time_limit: float | None = None
) -> None:
    """One resource's roofline for one workload."""
    peak = resource.peak(workload.precision)
    g = resource.accelerator_count
    _say(f"{workload.name} ({workload.mode}, {workload.precision}) on {resource.name}")
    _say(f"{g} × {resource.accelerator or 'accelerator'}: {resource.memory_bandwidth / 1e9:.5g} GB/s, "
         f"{resource.memory / 1e9:.4g} GB, {resource.price_per_hour:.6g} $/h")  # fmt: skip
    limit = batch_limit(resource, workload, latency_limit=latency_limit)
    if peak is None or limit.batch <= 0:
        _say(f"can't serve it: {limit.reason}")
        return
    _say(f"peak {peak / 1e12:.4g} TFLOP/s, ridge point {resource.ridge_point(workload.precision):.4g} FLOP/B")
    _say(f"batch limit: {_limit_text(limit)}")
    tau = usable_times(resource, workload)
    step = step_of(resource, workload)
    if isinstance(tau, PiecewiseLinear):
        _print_pieces(tau.restricted(step, limit.batch), step, limit.batch)
        batches = _batches(step, limit.batch)
    else:
        batches = [float(b) for b in tau.batches if b <= limit.batch]
    _print_batches(resource, workload, tau, batches, peak)
    if time_limit is not None:
        _say(_capacity(resource, workload, latency_limit, time_limit))


def _limit_text(limit: BatchLimit) -> str:
    return f"{limit.batch:g} samples, by {limit.limit}" if limit.limit else "none"


def _print_pieces(tau: PiecewiseLinear, low: float, high: float) -> None:
    """The pieces of a launch time on the usable batches."""
    table = _table(("batch from", "to", "launch time"), left=("launch time",))
    ends = [low]
    for (s0, i0), (s1, i1) in zip(tau.pieces[:-1], tau.pieces[1:], strict=True):
        ends.append((i0 - i1) / (s1 - s0))
    ends.append(high)
    for (slope, intercept), start, end in zip(tau.pieces, ends[:-1], ends[1:], strict=True):
        table.add_row(f"{start:.4g}", f"{end:.6g}", f"{1e3 * intercept:.4g} ms + {1e6 * slope:.4g} µs · batch")
    _print(table)


def _print_batches(
    resource: Resource, workload: Workload, tau: PiecewiseLinear | LaunchTable, batches: Sequence[float], peak: float
) -> None:
    step = step_of(resource, workload)
    table = _table(("batch", "launch ms", "samples/s", "FLOP/B", "TFLOP/s as one layer", "TFLOP/s by layers",
                    "% of peak", "$ per 1e6 samples"))  # fmt: skip
    for batch in batches:
        seconds, flops = tau.at(batch), float(workload.flops(batch))
        traffic = step * float(workload.traffic(batch / step))
        intensity = flops / traffic if traffic else math.inf
        roof = min(resource.compute_efficiency * peak,
                   resource.bandwidth_efficiency * resource.memory_bandwidth * intensity)  # fmt: skip
        table.add_row(
            f"{batch:g}",
            f"{1e3 * seconds:.4g}",
            f"{batch / seconds:.5g}",
            f"{intensity:.4g}",
            f"{roof / 1e12:.4g}",
            f"{flops / seconds / 1e12:.4g}",
            f"{100 * flops / seconds / peak:.2f}",
            f"{resource.price_per_hour / 3600 * seconds / batch * 1e6:.4g}",
        )
    _print(table)


def _batches(g: int, largest: float) -> list[float]:
    """About eight batches, multiples of g and doubling or more, up to the largest."""
    last = 2.0**20 * g if math.isinf(largest) else largest
    doublings = max(1, math.ceil(math.log2(last / g) / 7)) if last > g else 1
    found = []
    batch = float(g)
    while batch < last:
        found.append(batch)
        batch *= 2**doublings
    return [*found, last]


def _capacity(resource: Resource, workload: Workload, latency_limit: float | None, time_limit: float) -> str:
    """What one unit can do in a period, both ways of counting launches."""
    rate = Problem(
        (resource,), workload, _ANY_NUMBER, latency_limit=latency_limit, time_limit=time_limit, launches="rate"
    )
    whole = replace(rate, launches="whole")
    pair = resource.name, workload.name
    service = whole.services.get(pair)
    if service is None:
        return f"in a period of {time_limit:g} s: nothing, {whole.refusals[pair].reason}"
    peak = resource.peak(workload.precision) or math.inf
    used = float(workload.flops(service.capacity)) / (peak * time_limit)
    launches = round(sum(times for _, times in service.runs(service.capacity)))
    return (
        f"in a period of {time_limit:g} s a unit does {service.capacity:.0f} samples in {launches} whole "
        f"launch{'es' * (launches != 1)} ({100 * used:.2f} % of its peak), or {rate.services[pair].capacity:.6g} "
        "where launches may be fractional"
    )


def _count(number: float) -> str:
    return f"{number:.0f}" if number == int(number) or number >= 1e4 else f"{number:.4g}"
