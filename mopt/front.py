"""The front as a user holds it: points, segments, what was proven, and what can be read off."""

from __future__ import annotations

import bz2
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import numpy.typing as npt

from mopt import front_text, geometry
from mopt.certificate import Certificate as Certificate
from mopt.errors import Fault, InputError
from mopt.front_checks import disorder, stray_ends
from mopt.point import STORED, Point, Segment, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from mopt.problem import Problem
    from mopt.resource import Resource
    from mopt.verify import Verification


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
    state : mapping
        Where an incomplete search goes on, if its points alone don't say.

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
    state: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "statistics", plain(self.statistics))
        object.__setattr__(self, "state", plain(self.state))
        if faults := [*disorder(self), *stray_ends(self)]:
            raise InputError(faults)

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

    def verify(
        self, target: object = None, objectives: tuple[object, object] | None = None, *, time_limit: float | None = None
    ) -> Verification:
        """Check the front again: that its points are attained, and that nothing dominates or is missing between them.

        Attainment is worked out without the solver, from the model's data in exact arithmetic. Non-domination is proven
        anew with a model whose rows and columns are in another order and otherwise scaled, and another random seed.

        Parameters
        ----------
        target, objectives
            What the front was solved for; not needed in the session that solved it.
        time_limit : float, optional
            Seconds for the second proof; what it doesn't reach is reported as unchecked.

        Raises
        ------
        InputError
            If the target isn't known (a front read from a file) and not given.
        """
        from mopt.verify import verify

        if target is None:
            target, objectives = self._solved_for()
        return verify(self, target, objectives, time_limit)

    def _solved_for(self) -> tuple[object, tuple[object, object] | None]:
        source: tuple[object, tuple[object, object] | None] | None = self.__dict__.get("_source")
        if source is None:
            allowed = "give verify() the problem or model, this front was read"
            raise InputError([Fault("", "front", "target", None, allowed)])
        return source

    def _problem(self) -> Problem | None:
        """The problem that the front was solved for in this session; None of a front that was read, or of a model."""
        from mopt.problem import Problem

        target, _ = self.__dict__.get("_source", (None, None))
        problem = getattr(target, "_mopt_problem", target)
        return problem if isinstance(problem, Problem) else None

    def __getstate__(self) -> bytes:
        # The target (perhaps a Pyomo model) and what can be computed again don't travel.
        state = {key: value for key, value in self.__dict__.items() if key in self.__dataclass_fields__}
        # Points have much in common: some 12 times smaller.
        return bz2.compress(pickle.dumps(state))

    def __setstate__(self, state: bytes) -> None:
        self.__dict__.update(pickle.loads(bz2.decompress(state)))

    def at(self, **value: float) -> Point:
        """The best point within a value of one objective: `at(cost=2.5)` or `at(utilization=0.4)`.

        On a segment this is the point, with its plan, that takes exactly that value; elsewhere the point of the front
        that is best in the other objective with this one no worse than the value. Values that agree to 1e-12 (relative)
        count as equal.

        Raises
        ------
        InputError
            Not one objective given, an unknown one, or a value better than any on the front.
        """
        if len(value) != 1 or next(iter(value)) not in self.names:
            raise InputError(f"{', '.join(value) or 'nothing'} given: give a value of one of {', '.join(self.names)}")
        ((name, bound),) = value.items()
        if not isinstance(bound, Real):
            raise InputError([Fault("", "front", name, bound, "must be a number")])
        found = geometry.locate(self._some_pieces(), self.senses, self.names.index(name), float(bound))
        if found is None:
            k = self.names.index(name)
            low, high = geometry.ranges(self.pieces, self.senses)[k]
            best = f"at least {low!r}" if self.senses[k] == 1 else f"at most {high!r}"
            allowed = f"must be {best}; this front has {low!r} to {high!r}"
            raise InputError([Fault("", "front", name, bound, allowed)])
        return found

    def cheapest(self, **at_least: float) -> Point:
        """The best point in the first objective with at least this value of the second: `cheapest(utilization=0.4)`.

        "At least" is "at most" where the second objective is minimised; without a bound it is the first point of the
        front. On a segment the plan is interpolated and takes exactly that value.

        Raises
        ------
        InputError
            Any other name than the second objective's, or a value better than any on the front (whose range it names).
        """
        if not at_least:
            return self._some_points()[0]
        if list(at_least) != [self.names[1]]:
            raise InputError(f"{', '.join(at_least)} given: cheapest() takes {self.names[1]} alone")
        return self.at(**at_least)

    def knee(self) -> Point:
        """The point of the front farthest below the chord between its ends, both objectives scaled to their ranges.

        After Das, "On characterizing the 'knee' of the Pareto curve based on normal-boundary intersection", Structural
        Optimization 18 (1999). Inside a segment the plan is interpolated. Of equals the best in the first objective: so
        the first point where none lies below the chord.
        """
        return geometry.knee(self._some_pieces(), self.senses)

    def thin(self, n: int) -> ParetoFront:
        """A front of `n` points that stand for all.

        Both ends, and such points between that the largest distance from any point to a chosen one is least, distance
        being the larger difference of the two objectives scaled to their ranges (Vaz et al. 2015, coverage). Segments
        are replaced by points on them. The result isn't complete; its resolution says what the omitted points can
        gain, and its certificate is that of the whole front.

        Raises
        ------
        InputError
            `n` below 2.
        """
        if not isinstance(n, Integral) or n < 2:
            raise InputError([Fault("", "thin", "n", n, "must be an integer of at least 2")])
        if n >= len(self) and not self.segments:
            return self
        pieces = self._some_pieces()
        candidates = geometry.sampled(pieces, self.senses, 8 * n)
        xy = np.array([geometry.minimised(point, self.senses) for point in candidates])
        low, high = xy.min(axis=0), xy.max(axis=0)
        scaled = (xy - low) / (high - low)
        chosen = geometry.cover(scaled[:, 0], scaled[:, 1], min(n, len(candidates)))
        gaps = np.abs(np.diff(xy[chosen], axis=0)).max(axis=0)
        resolution = (self.resolution[0] + float(gaps[0]), self.resolution[1] + float(gaps[1]))
        reason = f"thinned to {len(chosen)} points from a front of {front_text.size(self)}"
        return replace(
            self,
            points=tuple(candidates[k] for k in chosen),
            segments=(),
            complete=False,
            certificate=replace(self.certificate, resolution=resolution),
            why_incomplete="; ".join(filter(None, [self.why_incomplete, reason])),
        )

    def hypervolume(self, reference: tuple[float, float] | None = None) -> float:
        """Area that the front dominates up to a reference point, in the product of the objectives' own units.

        Exact up to rounding, along segments too (their curves are hyperbolas, integrated in closed form).

        Parameters
        ----------
        reference : (float, float), optional
            In the objectives' own senses. What lies beyond it doesn't count. The default is the nadir point, the worst
            value of each objective on the front: with it the ends of the front add nothing.
        """
        pieces = self._some_pieces()
        corner = geometry.box(pieces, self.senses)[1]
        if reference is not None:
            if len(reference) != 2 or not all(isinstance(r, Real) and np.isfinite(float(r)) for r in reference):
                raise InputError([Fault("", "hypervolume", "reference", reference, "must be two finite numbers")])
            corner = self.senses[0] * float(reference[0]), self.senses[1] * float(reference[1])
        return geometry.dominated_area(pieces, self.senses, corner)

    def to_frame(self) -> pd.DataFrame:
        """The front as a table, from best to worst in the first objective.

        One row a point, with the objectives by name. For the front of a `Problem` also `cost_per_hour`, `units[NAME]`
        and `samples[NAME]` (several demands: `samples[NAME|WORKLOAD]`); resources used by no plan are left out.

        With segments, a row for each of their ends and one for each point outside of them. Column `segment` numbers the
        segments from 0 (<NA> outside), so that `groupby("segment")` gives their ends; `closed` says whether the end
        belongs to the front. A point where two closed ends meet has two rows.
        """
        from mopt.front_frame import frame_of

        return frame_of(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the front: points, segments with open and closed ends, the knee, and the fleets at both ends.

        The infeasible side is shaded; of an incomplete front, what is still open is hatched.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure of 6×4 inches.
        """
        from mopt.plot import draw_front

        return draw_front(self, ax)

    def plot_fleets(
        self,
        ax: Axes | None = None,
        by: Literal["units", "cost"] = "units",
        resources: Iterable[Resource] | None = None,
    ) -> Axes:
        """Draw the fleet of the best plan at each value of the second objective, one band a resource.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure of 6×4 inches.
        by : "units" or "cost"
            Height of a band: units rented, or $ per period.
        resources : iterable of Resource, optional
            For the prices, where the front was read from a file.

        Raises
        ------
        InputError
            No points, points without plans, an unknown `by`, or unknown prices.
        """
        from mopt.plot import draw_fleets

        return draw_fleets(self, ax, by, resources)

    def to_html(self, path: str | PathLike[str], problem: Problem | None = None) -> None:
        """Write the front as one interactive web page, which needs no network (extra `html`).

        Points and segments show their plan under the pointer; a click chooses it: its table, its notes and proof, and
        the rooflines of its resources. What is shown can be filtered by both objectives, resources and their number,
        and downloaded as CSV, in the columns of `to_frame`.

        Parameters
        ----------
        path : path-like
            Of the file; some 5 MB, nearly all of it the drawing library.
        problem : Problem, optional
            For the rooflines and prices, where the front was read from a file; not needed in the session that solved
            it. Fronts of other models have none: their points show their nonzero variables.

        Raises
        ------
        InputError
            A path that can't be written to, or a problem that lacks a resource or a workload of the front.
        MissingExtraError
            If plotly is not installed.
        """
        from mopt.page import write_page

        write_page(self, path, problem or self._problem())

    def save(self, path: str | PathLike[str]) -> None:
        """Write the front to a JSON file, from which `mopt.load_front` reads an equal one."""
        from mopt.front_io import save_front

        save_front(self, path)

    def __repr__(self) -> str:
        return front_text.described(self)

    def _repr_html_(self) -> str:
        return front_text.as_html(self)

    def _some_points(self) -> tuple[Point, ...]:
        if not self.points:
            raise InputError(f"the front has no points ({front_text.state(self)})")
        return self.points

    def _some_pieces(self) -> tuple[Point | Segment, ...]:
        self._some_points()
        return self.pieces
