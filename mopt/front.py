"""The front as a user holds it: points, segments, what was proven, and what can be read off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from mopt.errors import Fault, InputError
from mopt.point import Point, Segment, plain

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
