"""A front as a table; its columns are described at `ParetoFront.to_frame`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mopt import geometry
from mopt.point import Point

if TYPE_CHECKING:
    from mopt.front import ParetoFront


def frame_of(front: ParetoFront) -> pd.DataFrame:
    """One row a point; with segments, a row for each of their ends and for each point outside of them."""
    rows: list[Point] = []
    segment: list[int | None] = []
    closed: list[bool] = []
    numbers = count()
    for piece in front.pieces:
        ends = ((piece, True),) if isinstance(piece, Point) else geometry.ends_of(piece)
        rows += [point for point, _ in ends]
        segment += [None if isinstance(piece, Point) else next(numbers)] * len(ends)
        closed += [belongs for _, belongs in ends]

    columns: dict[str, object] = {
        name: np.array([row.objectives[k] for row in rows], dtype=np.float64) for k, name in enumerate(front.names)
    }
    plans = [row.plan for row in rows if row.plan is not None]
    if plans and len(plans) == len(rows):
        columns["cost_per_hour"] = [plan.cost_per_hour for plan in plans]
        for name in _used(plan.units for plan in plans):
            columns[f"units[{name}]"] = [plan.units.get(name, 0) for plan in plans]
        for name in _used(plan.samples for plan in plans):
            columns[f"samples[{name}]"] = [plan.samples.get(name, 0) for plan in plans]
    if front.segments:
        columns |= {"segment": pd.array(segment, dtype="Int64"), "closed": closed}
    return pd.DataFrame(columns)


def _used(tables: Iterable[Mapping[str, float]]) -> list[str]:
    """Names with an entry in any of the tables, in order of appearance."""
    return list(dict.fromkeys(name for table in tables for name in table))
