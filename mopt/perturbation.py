"""Samples of what isn't known for sure: prices, and how fast resources are.

Every scenario is drawn from its own random numbers, those of (seed, number of the scenario), name by name: it doesn't
depend on where or in which order scenarios are solved, nor on the order of the resources.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mopt.calibration import RATIO_LEVELS, Calibrated, Calibration, part
from mopt.calibration_files import load_calibration
from mopt.errors import MISSING, Fault, InputError
from mopt.problem import Problem
from mopt.record import record
from mopt.resource import Positive, Resource
from mopt.workload import Workload

if TYPE_CHECKING:
    from numpy.random import Generator

Range = tuple[float, float]
Price = Range | Mapping[str, Range] | pd.DataFrame
Efficiency = Range | Mapping[str, Range] | Literal["residuals"]
# A factor for each name, drawn from random numbers.
Draw = Callable[["Generator"], dict[Any, float]]

_HISTORY = ("resource", "time", "price_per_hour")


@record
class Sped(Calibration):
    """A calibration whose resources are faster or slower by a factor than it says.

    Parameters
    ----------
    speeds : sequence of (accelerator, workload name, factor)
        Times are divided by the factor, as far as that leaves no share above 1: nothing beats the roofline. A resource
        without an accelerator goes by its name.
    """

    speeds: tuple[tuple[str, str, Positive], ...] = ()

    def resource_for(self, resource: Resource, workload: Workload) -> Calibrated:
        """As of the calibration, faster or slower."""
        made, mark = Calibration.resource_for(self, resource, workload)
        speed = self._by_pair.get((part(resource), workload.name), 1.0)
        made = replace(
            made,
            compute_efficiency=min(1.0, made.compute_efficiency * speed),
            bandwidth_efficiency=min(1.0, made.bandwidth_efficiency * speed),
            launch_overhead=made.launch_overhead / speed,
            launch_floor=made.launch_floor / speed,
        )
        return Calibrated(made, mark)

    @cached_property
    def _by_pair(self) -> dict[tuple[str, str], float]:
        return {(name, workload): speed for name, workload, speed in self.speeds}


class Perturbation:
    """What is drawn for a problem's scenarios.

    Attributes
    ----------
    notes : tuple of str
        What is drawn, and from what.

    Raises
    ------
    InputError
        If a range, a name or a history is wrong; all faults at once.
    """

    def __init__(self, problem: Problem, price: Price | None, efficiency: Efficiency | None) -> None:
        self._problem = problem
        faults: list[Fault] = []
        notes: list[str] = []
        self._prices = _price_draw(problem, price, faults, notes)
        self._speeds = _speed_draw(problem, efficiency, faults, notes)
        if faults:
            raise InputError(faults)
        self.notes = tuple(notes)

    def scenario(self, seed: int, number: int) -> tuple[Problem, dict[str, float], dict[tuple[str, str], float]]:
        """The problem with drawn prices and speeds; those prices in $/h by resource, and those speeds."""
        generator = np.random.default_rng([seed, number])
        problem = self._problem
        prices = self._prices(generator)
        speeds = self._speeds(generator)
        resources = tuple(
            replace(resource, price_per_hour=prices[resource.name]) if resource.name in prices else resource
            for resource in problem.resources
        )
        if not speeds:
            return replace(problem, resources=resources), prices, speeds
        known = _calibration(problem)
        drawn = tuple((name, workload, speed) for (name, workload), speed in speeds.items())
        sped = Sped(known.entries, framework=known.framework, speeds=drawn)
        return replace(problem, resources=resources, calibration=sped), prices, speeds


def _calibration(problem: Problem) -> Calibration:
    if problem.calibration == "auto":
        return load_calibration()
    return problem.calibration or Calibration(())


# -- Prices ----------------------------------------------------------------------------------------------------------


def _price_draw(problem: Problem, price: Price | None, faults: list[Fault], notes: list[str]) -> Draw:
    if price is None:
        notes.append("prices: as given")
        return lambda generator: {}
    if isinstance(price, pd.DataFrame):
        return _history_draw(problem, price, faults, notes)
    ranges = _ranges("price", price, {resource.name for resource in problem.resources}, "name of a resource", faults)
    notes.append(f"prices: of {len(ranges)} resources, each by a factor of its own, uniform in its range")
    given = {resource.name: resource.price_per_hour for resource in problem.resources}

    def draw(generator: Generator) -> dict[str, float]:
        return {name: given[name] * generator.uniform(*ranges[name]) for name in sorted(ranges)}

    return draw


def _history_draw(problem: Problem, history: pd.DataFrame, faults: list[Fault], notes: list[str]) -> Draw:
    """All prices of a moment, uniform between the first at which all are known and the last."""

    def fault(field: str, value: object, allowed: str) -> None:
        faults.append(Fault("", "robust_front, price", field, value, allowed))

    def nothing(generator: Generator) -> dict[str, float]:
        return {}

    if missing := [column for column in _HISTORY if column not in history.columns]:
        for column in missing:
            fault(column, MISSING, f"a history needs the columns {', '.join(_HISTORY)}")
        return nothing
    known = {resource.name for resource in problem.resources}
    rows = history[history["resource"].isin(known)]
    if rows.empty:
        fault("resource", sorted(map(str, set(history["resource"])))[:3], "none is the name of a resource")
        return nothing
    prices = pd.to_numeric(rows["price_per_hour"], errors="coerce")
    times = pd.to_datetime(rows["time"], errors="coerce", utc=True, format="ISO8601")
    for label, price, time in zip(rows.index, prices, times, strict=True):
        if not 0 < price < math.inf:
            fault(f"price_per_hour, row {label}", rows["price_per_hour"][label], "must be a number greater than 0")
        if pd.isna(time):
            fault(f"time, row {label}", rows["time"][label], "must be a time (ISO 8601)")
    if faults:
        return nothing
    table = pd.DataFrame({"name": rows["resource"], "time": times, "price": prices}).sort_values("time", kind="stable")
    series = {
        str(name): (some["time"].dt.as_unit("ns").astype("int64").to_numpy(), some["price"].to_numpy())
        for name, some in table.groupby("name", sort=True)
    }
    first = max(int(stamps[0]) for stamps, _ in series.values())
    last = max(int(stamps[-1]) for stamps, _ in series.values())
    notes.append(
        f"prices: of {len(series)} resources, those of one moment, uniform between "
        f"{pd.Timestamp(first, tz='UTC'):%Y-%m-%d %H:%M} and {pd.Timestamp(last, tz='UTC'):%Y-%m-%d %H:%M}"
    )

    def draw(generator: Generator) -> dict[str, float]:
        moment = first + generator.random() * (last - first)
        return {
            name: float(values[np.searchsorted(stamps, moment, side="right") - 1])
            for name, (stamps, values) in series.items()
        }

    return draw


def _ranges(field: str, given: object, names: Iterable[str], what: str, faults: list[Fault]) -> dict[str, Range]:
    """A range of factors for each name, from one for all or from one each."""
    known = set(names)
    if not isinstance(given, Mapping):
        checked = _range(field, given, faults)
        return dict.fromkeys(known, checked)
    for name in given:
        if name not in known:
            some = ", ".join(sorted(known)[:5]) + (", ..." if len(known) > 5 else "")
            faults.append(Fault("", f"robust_front, {field}", "name", name, f"must be the {what}: {some}"))
    if not given:
        faults.append(Fault("", "robust_front", field, given, f"must map the {what} to a range"))
    return {name: _range(f"{field}[{name!r}]", value, faults) for name, value in given.items() if name in known}


def _range(field: str, given: Any, faults: list[Fault]) -> Range:
    try:
        low, high = map(float, given)
    except (TypeError, ValueError):
        low = high = math.nan
    if not 0 < low <= high < math.inf:
        allowed = "must be (low, high), two factors with 0 < low <= high"
        faults.append(Fault("", "robust_front", field, given, allowed))
        return 1.0, 1.0
    return low, high


# -- Speeds ----------------------------------------------------------------------------------------------------------


def _speed_draw(problem: Problem, efficiency: Efficiency | None, faults: list[Fault], notes: list[str]) -> Draw:
    if efficiency is None:
        notes.append("efficiencies: as given")
        return lambda generator: {}
    pairs = sorted({(part(problem.by_name[name]), demand) for name, demand in problem.calibrated})
    if isinstance(efficiency, str):
        if efficiency != "residuals":
            allowed = "must be 'residuals', (low, high), or a mapping of accelerators to such ranges"
            faults.append(Fault("", "robust_front", "efficiency", efficiency, allowed))
            return lambda generator: {}
        return _residual_draw(problem, pairs, faults, notes)
    names = {name for name, _ in pairs}
    ranges = _ranges("efficiency", efficiency, names, "accelerator of a resource, or name of one without", faults)
    notes.append(f"efficiencies: of {len(ranges)} accelerators and each workload, by a factor uniform in its range")

    def draw(generator: Generator) -> dict[tuple[str, str], float]:
        return {pair: generator.uniform(*ranges[pair[0]]) for pair in pairs if pair[0] in ranges}

    return draw


def _residual_draw(
    problem: Problem, pairs: Sequence[tuple[str, str]], faults: list[Fault], notes: list[str]
) -> Draw:
    calibration = _calibration(problem)
    ratios: dict[tuple[str, str], npt.NDArray[np.float64]] = {}
    for name, demand in problem.calibrated:
        found = calibration.ratios_for(problem.by_name[name], problem.demand_by_name[demand].workload)
        if found:
            ratios[part(problem.by_name[name]), demand] = np.array(found)
    if not ratios:
        allowed = "needs a calibration that knows its errors (calibration='auto', or calibrate(leave_one_out=True))"
        faults.append(Fault("", "robust_front", "efficiency", "residuals", allowed))
    notes.append(
        f"efficiencies: of {len(ratios)} pairs of accelerator and workload, by the calibration's held-out errors"
        + (f"; {len(pairs) - len(ratios)} pairs without any keep theirs" if len(pairs) > len(ratios) else "")
    )
    levels = np.array(RATIO_LEVELS)

    def draw(generator: Generator) -> dict[tuple[str, str], float]:
        shares = {pair: generator.random() for pair in pairs}
        return {
            pair: 1.0 / float(np.interp(share, levels, ratios[pair])) for pair, share in shares.items() if pair in ratios
        }

    return draw
