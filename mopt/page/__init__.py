"""A front as one web page that needs no network: points to hover over and click, plans, rooflines, filters, CSV.

What the page shows is worked out here, as plain data; `front.js` draws it with plotly.js, which is put into the page.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mopt import front_text
from mopt.errors import Fault, InputError
from mopt.geometry import ends_of
from mopt.point import Plan, Point, Segment
from mopt.problem import Problem
from mopt.service import step_of
from mopt.trace.extras import load

if TYPE_CHECKING:
    from mopt.front import ParetoFront

# Points along the segments that can be picked, all together and on each.
_STOPS = 600
_MOST_STOPS = 24
_FLEET_LINES = 8

Pair = tuple[str, str]


def check_extra() -> None:
    """Raise `MissingExtraError` where the extra `html` is not installed."""
    load("plotly.offline", "html")


def write_page(front: ParetoFront, path: str | PathLike[str], problem: Problem | None) -> None:
    """Write the page of a front: see `ParetoFront.to_html`."""
    if problem is not None:
        _check_same(front, problem)
    text = _filled(
        title=html.escape(f"Pareto front of {front.names[0]} and {front.names[1]}"),
        style=_file("front.css"),
        library=load("plotly.offline", "html").get_plotlyjs(),
        data=_embedded(page_data(front, problem)),
        script=_file("front.js"),
    )
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError([Fault("", "", "path", str(path), f"can't be written to: {error.strerror}")]) from None


def _check_same(front: ParetoFront, problem: Problem) -> None:
    used = {pair for point in front if point.plan is not None for pair in point.plan.dedicated}
    missing = {i for i, r in used if i not in problem.by_name} | {r for i, r in used if r not in problem.demand_by_name}
    if missing:
        allowed = f"must be the one that the front is of: lacks {', '.join(sorted(missing))}"
        raise InputError([Fault("", "to_html", "problem", f"{len(problem.resources)} resources", allowed)])


# -- The file ----------------------------------------------------------------------------------------------------------


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _filled(**parts: str) -> str:
    """The template with its {{parts}} filled in, all at once: what is put in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _file("front.html"))


def _embedded(data: object) -> str:
    """JSON that can stand in a script element: nothing in it can end the element or begin a comment."""
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


# -- What it shows -----------------------------------------------------------------------------------------------------


class _Stop(NamedTuple):
    """A point of the page: of the front, or one along a segment."""

    point: Point
    closed: bool
    segment: int | None
    share: float  # of the way along the segment


def _stops(front: ParetoFront) -> Iterator[_Stop]:
    between = min(_STOPS // max(len(front.segments), 1), _MOST_STOPS)
    number = 0
    for piece in front.pieces:
        if isinstance(piece, Point):
            yield _Stop(piece, True, None, 0.0)
            continue
        yield from _along(piece, number, between)
        number += 1


def _along(segment: Segment, number: int, between: int) -> Iterator[_Stop]:
    (start, start_closed), (end, end_closed) = ends_of(segment)
    yield _Stop(start, start_closed, number, 0.0)
    for k in range(1, between + 1):
        share = k / (between + 1)
        yield _Stop(segment.at(share), True, number, share)
    yield _Stop(end, end_closed, number, 1.0)


def page_data(front: ParetoFront, problem: Problem | None = None) -> dict[str, Any]:
    """All that the page shows, in terms of JSON."""
    frame = front.to_frame()
    lines = iter(frame.to_csv(index=False, header=False).splitlines())  # numbers and marks: one line a row
    used = dict.fromkeys(name for point in _points(front) if point.plan is not None for name in point.plan.units)
    names = {name: k for k, name in enumerate(used)}
    rows = []
    for stop in _stops(front):
        row = _row(stop, names, problem)
        # The table has a row for each point outside of segments, and for both ends of these.
        row["csv"] = next(lines) if stop.share in (0.0, 1.0) else None
        rows.append(row)
    knee = front.knee().objectives if front.points else None
    return {
        "heading": f"Pareto front of {front_text.size(front)}",
        "state": front_text.state(front),
        "complete": front.complete,
        "axes": [_axis(front, k) for k in (0, 1)],
        "header": frame.iloc[:0].to_csv(index=False).rstrip("\n"),
        "resources": list(names),
        "rows": rows,
        "knee": knee,
        "planned": bool(names),
        "statements": [
            *front.certificate.statements,
            *(f"assumed: {assumption}" for assumption in front.assumptions),
        ],
    }


def _points(front: ParetoFront) -> Iterator[Point]:
    yield from front
    for segment in front.segments:
        yield from (segment.start, segment.end)


def _axis(front: ParetoFront, k: int) -> dict[str, Any]:
    name, sense = front.names[k], front.senses[k]
    percent = name == "utilization"
    if name == "cost" and front.time_limit is not None:
        unit = f"$ per period of {front.time_limit:g} s"
    else:
        unit = "%" if percent else ("minimised" if sense == 1 else "maximised")
    return {"name": name, "label": f"{name} ({unit})", "percent": percent}


def _row(stop: _Stop, names: Mapping[str, int], problem: Problem | None) -> dict[str, Any]:
    point = stop.point
    row: dict[str, Any] = {
        "at": point.objectives,
        "closed": stop.closed,
        "segment": stop.segment,
        "share": stop.share,
        "proof": point.proof.statement if point.proof is not None else "",
    }
    if point.plan is None:
        values = [(name, _number(value)) for name, value in point.variables.items() if value]
        return row | {"uses": [], "fleet": [f"{name} = {value}" for name, value in values][:_FLEET_LINES],
                      "facts": [], "columns": ["variable", "value"], "table": values, "notes": [], "roofs": []}  # fmt: skip
    plan = point.plan
    fleet = [f"{n} × {name}" for name, n in sorted(plan.units.items(), key=lambda item: -item[1])]
    return row | {
        "uses": [names[name] for name in plan.units],
        "fleet": fleet[:_FLEET_LINES] + ["…"] * (len(fleet) > _FLEET_LINES),
        "facts": _facts(plan),
        "columns": _columns(plan, problem),
        "table": [_cells(plan, pair, problem) for pair in plan.dedicated],
        "notes": list(plan.notes),
        "roofs": [] if problem is None else list(_roofs(plan, problem)),
    }


def _facts(plan: Plan) -> list[tuple[str, str]]:
    facts = [
        ("cost", f"{plan.cost:.6g} $ per period of {plan.time_limit:g} s"),
        ("cost per hour", f"{plan.cost_per_hour:.6g} $/h"),
        ("utilization", f"{100 * plan.utilization:.3f} %"),
    ]
    return facts if plan.elapsed is None else [*facts, ("elapsed time", f"{plan.elapsed:.4g} s")]


def _columns(plan: Plan, problem: Problem | None) -> list[str]:
    columns = ["units", "resource", "workload", "samples", "batch", "launches", "busy (unit·s)", "memory (GB)"]
    if not _several(plan):
        columns.remove("workload")
    return columns if problem is None else [*columns, "$/h each"]


def _several(plan: Plan) -> bool:
    return len({workload for _, workload in plan.dedicated}) > 1


def _cells(plan: Plan, pair: Pair, problem: Problem | None) -> list[str]:
    name, workload = pair
    memory = plan.memory.get(pair)
    cells = [str(plan.dedicated[pair]), name, *([workload] if _several(plan) else [])]
    values = [_samples(plan, pair), plan.batch.get(pair), plan.launches.get(pair), plan.busy.get(pair)]
    values.append(None if memory is None else memory / 1e9)
    if problem is not None:
        values.append(problem.by_name[name].price_per_hour)
    return cells + [_number(value) for value in values]


def _samples(plan: Plan, pair: Pair) -> float:
    name, workload = pair
    return plan.samples.get(f"{name}|{workload}", plan.samples.get(name, 0))


def _roofs(plan: Plan, problem: Problem) -> Iterator[dict[str, Any]]:
    """The roofs of one unit of each, and where the plan's batches lie: FLOP/B, and TFLOP/s while computing."""
    for pair in plan.dedicated:
        resource, workload = problem.by_name[pair[0]], problem.demand_by_name[pair[1]].workload
        peak = resource.peak(workload.precision)
        if peak is None:  # measured times need none
            continue
        roof: dict[str, Any] = {"name": pair[0], "workload": pair[1], "peak": peak / 1e12}
        roof["ridge"] = peak / resource.memory_bandwidth
        samples, busy = _samples(plan, pair), plan.busy.get(pair, 0.0)
        if samples and busy:
            batch = plan.batch[pair] / step_of(resource, workload)
            intensity = float(workload.arithmetic_intensity(batch))
            if math.isfinite(intensity):
                reached = workload.flops_per_sample * samples / busy / 1e12
                roof |= {"intensity": intensity, "reached": reached, "batch": _number(batch)}
        yield roof


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if value != int(value) else f"{value:,.0f}".replace(",", "\u202f")
