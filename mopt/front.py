"""The front as a user holds it: points, segments, what was proven, and what can be read off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from mopt import geometry
from mopt.errors import Fault, InputError
from mopt.point import STORED, Point, Segment, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was proven about a front as a whole, and how.

    Parameters
    ----------
    method : str
        The method that ran, after "auto" was resolved.
    reason : str
        Why that one.
    exactness : str
        For which class of problems it is exact, and in which sense it was here.
    solves : int
        Solver calls, retries included.
    resolution : (float, float)
        Step per objective: every nondominated point has a returned one no worse by more than this in each; 0 where
        none is needed.
    """

    __pydantic_config__ = STORED

    method: str
    reason: str
    exactness: str
    solves: int
    resolution: tuple[float, float]

    @property
    def statements(self) -> tuple[str, ...]:
        """The certificate as sentences."""
        first, second = self.resolution
        return (
            f"method: {self.method} ({self.reason})",
            f"exactness: {self.exactness}",
            f"resolution: {first:g} and {second:g}",
            f"solves: {self.solves}",
        )

    def __str__(self) -> str:
        return "\n".join(self.statements)


@dataclass(frozen=True, kw_only=True)
class ParetoFront:
    """The nondominated set of two objectives.

    Parameters
    ----------
    points : tuple of Point
        From best to worst in the first objective; with segments, their closed ends and the isolated points.
    segments : tuple of Segment
        Pieces between points, in the same order; empty for a finite front.
    names : (str, str)
        Names of the objectives.
    senses : (int, int)
        1 for an objective that is minimised, -1 for one that is maximised.
    complete : bool
        Whether nothing is missing.
    certificate : Certificate
    statistics : mapping
        What it took: solves, seconds, retries.
    unexplored : tuple of (float, float)
        Ranges of the second objective that are still open.
    why_incomplete : str
        Why they are; empty if the front is complete.
    assumptions : tuple of str
        Defaults that were filled in and decide the front.
    time_limit : float or None
        The period in s that the cost is for.

    Raises
    ------
    InputError
        Points out of order or dominated, or a segment whose closed end is no point of the front.
    """

    __pydantic_config__ = STORED

    points: tuple[Point, ...]
    segments: tuple[Segment, ...] = ()
    names: tuple[str, str] = ("cost", "utilization")
    senses: tuple[int, int] = (1, -1)
    complete: bool
    certificate: Certificate
    statistics: Mapping[str, object] = field(default_factory=dict)
    unexplored: tuple[tuple[float, float], ...] = ()
    why_incomplete: str = ""
    assumptions: tuple[str, ...] = ()
    time_limit: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "statistics", plain(self.statistics))
        faults = [*self._disorder(), *self._stray_ends()]
        if faults:
            raise InputError(faults)

    def _disorder(self) -> Iterator[Fault]:
        for k, (point, following) in enumerate(zip(self.points, self.points[1:], strict=False), start=1):
            here: tuple[object, object] = geometry.minimised(point, self.senses)
            there: tuple[object, object] = geometry.minimised(following, self.senses)
            if point.exact and following.exact:
                here, there = point.exact, following.exact
            if not (here[0] < there[0] and here[1] > there[1]):  # type: ignore[operator]
                allowed = f"must be worse than {point.objectives} in the first objective and better in the second"
                yield Fault("", f"point {k}", "objectives", following.objectives, allowed)

    def _stray_ends(self) -> Iterator[Fault]:
        known = {point.objectives for point in self.points}
        for k, segment in enumerate(self.segments):
            (x0, y0), (x1, y1) = geometry.corners(segment, self.senses)
            if not (x0 < x1 and y0 > y1):
                allowed = f"must be worse than {segment.start.objectives} in the first objective and better in the second"
                yield Fault("", f"segment {k}", "end", segment.end.objectives, allowed)
            for end, closed in geometry.ends_of(segment):
                if closed and end.objectives not in known:
                    yield Fault("", f"segment {k}", "closed end", end.objectives, "must be a point of the front")

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Point, ...]: ...
    def __getitem__(self, index: int | slice) -> Point | tuple[Point, ...]:
        return self.points[index]

    @property
    def resolution(self) -> tuple[float, float]:
        """Step per objective at which the front is exact."""
        return self.certificate.resolution

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """Objectives of the points, shape (n_points, 2), in their own senses."""
        return np.array([point.objectives for point in self.points], dtype=np.float64).reshape(-1, 2)

    @cached_property
    def pieces(self) -> tuple[Point | Segment, ...]:
        """The segments and the points that are no end of one, from best to worst in the first objective."""
        return geometry.pieces_of(self.points, self.segments, self.senses)
