"""From measured launch times to a calibration."""

from __future__ import annotations

import dataclasses
import math
import statistics
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from mopt.accelerators import chip
from mopt.calibration import RATIO_LEVELS, Calibration, Entry, Residual, flops_per_watt, has_own_times, part, rate
from mopt.errors import Fault, InputError
from mopt.fitting import Floats, Group, Row, predict, terms
from mopt.measurements import Measurement, Measurements, at_precision, read_measurements
from mopt.resource import Resource
from mopt.roofline import launch_time
from mopt.workload import Mode, Workload

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T", Resource, Workload)
# Below this number of errors nothing is said of how they are distributed.
_FEWEST_RATIOS = 8
RANGES = ("compute_range", "bandwidth_range", "overhead_range", "floor_range")


class CalibrationWarning(UserWarning):
    """Measured times that the roofline doesn't allow."""


def calibrate(
    measurements: Measurements | pd.DataFrame,
    resources: Resource | Iterable[Resource],
    workloads: Workload | Iterable[Workload],
    *,
    leave_out_faster: bool = False,
    leave_one_out: bool = True,
    source: str = "",
    date: str = "",
) -> Calibration:
    """Fit efficiencies and host times to measured launch times.

    Parameters
    ----------
    measurements : path of a CSV file, DataFrame, or iterable of Measurement, mappings or tuples
        Rows (resource, workload, batch, seconds), or with samples_per_second by name; see `Measurement`.
    resources : Resource or iterable of Resource (a Catalog is one)
        Rows name one of them, or the accelerator that some have: then they are of a single accelerator.
    workloads : Workload or iterable of Workload
    leave_out_faster : bool
        Leave out rows that beat the roofline bound (values kept in caches, FLOPs that aren't done); they are warned of.
    leave_one_out : bool
        Also predict every row from a fit without it, and from one without its chip: as many fits as there are rows and
        chips. The calibration then knows its errors (`Entry.seen_ratios`).
    source, date : str
        Of the measurements; kept in files.

    Returns
    -------
    Calibration
        An entry for each accelerator of each (family, mode, precision) and one for all others. Where there are
        several frameworks, such entries for each of them, and for all together. `residuals` has a row a measurement.

    Raises
    ------
    InputError
        If rows are malformed or name what isn't there; all faults at once.

    Warns
    -----
    CalibrationWarning
        If measured times beat the bound.

    Notes
    -----
    Robust least squares (soft-L1) on log time, all accelerators of a group at once: each has parameters of its own,
    held to those of the group by a prior, so that they are shared where rows are few; see `mopt.fitting`. Resources
    that bring efficiencies of their own are taken as if they had none.
    """
    rows = _resolve(read_measurements(measurements), _listed(resources, Resource), _listed(workloads, Workload))
    ideal = [launch_time(row.resource, row.workload).at(row.batch) for _, row in rows]
    faster = [row.seconds < bound * (1 - 1e-3) for (_, row), bound in zip(rows, ideal, strict=True)]
    if any(faster):
        _warn([m for (m, _), beats in zip(rows, faster, strict=True) if beats], leave_out_faster)
    used = np.array([not (beats and leave_out_faster) for beats in faster])
    groups: dict[tuple[str, Mode, str], list[int]] = defaultdict(list)
    for place, (_, row) in enumerate(rows):
        if used[place]:
            family = row.workload.family or row.workload.name
            groups[family, row.workload.mode, rate(row.workload.precision)].append(place)
    if not groups:
        raise InputError([Fault("", "measurements", "seconds", len(rows), "all rows beat the roofline bound")])
    entries: list[Entry] = []
    held_out = np.full(len(rows), np.nan)
    for key, places in sorted(groups.items()):
        by_framework: dict[str, list[int]] = defaultdict(list)
        for place in places:
            by_framework[rows[place][0].framework].append(place)
        together = _Fitted([rows[place][1] for place in places], leave_one_out)
        entries += together.entries(*key, "")
        held_out[places] = together.rows_out
        for framework, some in sorted(by_framework.items()):
            if framework:
                own = _Fitted([rows[place][1] for place in some], leave_one_out) if len(by_framework) > 1 else together
                entries += own.entries(*key, framework)
                held_out[some] = own.rows_out
    made = Calibration(tuple(entries), source=source, date=date)
    residuals = (
        _residual(*pair, bound, made, None if np.isnan(seconds) else float(seconds), bool(use))
        for pair, bound, seconds, use in zip(rows, ideal, held_out, used, strict=True)
    )
    return dataclasses.replace(made, residuals=tuple(residuals))


class _Fitted:
    """The fit of some rows of one family, mode and precision."""

    def __init__(self, rows: Sequence[Row], leave_out: bool) -> None:
        names = [part(row.resource) for row in rows]
        self.names, of = np.unique(names, return_inverse=True)
        self.rows = np.bincount(of)
        precision = rows[0].workload.precision
        self.powers = [flops_per_watt(rows[names.index(name)].resource, precision) for name in self.names]
        known = [math.log(power) for power in self.powers if power is not None]
        self.power = statistics.fmean(known) if known else 0.0
        centred = [0.0 if power is None else math.log(power) - self.power for power in self.powers]
        self.data = Group(terms(rows), of, np.array(centred))
        self.fit = self.data.fit()
        self.products = int(np.median(self.data.data.products))
        # Seconds of each row as predicted without it, and without all rows of its chip.
        self.rows_out = np.full(len(of), np.nan)
        self.chips_out = self.rows_out.copy()
        if leave_out:
            for row in range(len(of)):
                self._predict_without(np.arange(len(of)) == row, self.rows_out)
            chips = np.array([chip(name) for name in names])
            for one in np.unique(chips):
                if (chips != one).any():
                    self._predict_without(chips == one, self.chips_out)

    def _predict_without(self, out: npt.NDArray[np.bool_], into: Floats) -> None:
        values = self.data.only(~out).fit(self.fit).values[self.data.of[out]]
        into[out] = np.exp(predict(values, self.data.data.of(out))[0])

    def _ratios(self, predicted: Floats) -> tuple[float, ...]:
        """How measured over predicted times are distributed; (): too few to say, or none."""
        ratios = np.exp(self.data.data.log_time)[~np.isnan(predicted)] / predicted[~np.isnan(predicted)]
        few = len(ratios) < _FEWEST_RATIOS
        return () if few else tuple(map(float, np.quantile(ratios, RATIO_LEVELS)))

    def entries(self, family: str, mode: Mode, precision: str, framework: str) -> list[Entry]:
        """The default of all resources, and each one's own."""

        def entry(values: Floats, rows: int, power: float | None, **others: Any) -> Entry:
            compute, bandwidth, overhead, floor = map(float, np.exp(values))
            return Entry(
                family, mode, precision, min(compute, 1.0), min(bandwidth, 1.0), overhead * self.products,
                floor * self.products, framework=framework, rows=rows, products=self.products,
                flops_per_watt=power, power_exponent=self.fit.exponent, **others,
            )  # fmt: skip

        typical = math.exp(self.power) if any(power is not None for power in self.powers) else None
        ratios = {"seen_ratios": self._ratios(self.rows_out), "unseen_ratios": self._ratios(self.chips_out)}
        made = [entry(self.fit.mean, int(self.rows.sum()), typical, **ratios)]
        units = np.array([1.0, 1.0, self.products, self.products])
        for place, name in enumerate(self.names):
            ends = self.fit.ranges[place] * units[:, None]
            ranges = {key: (float(low), float(high)) for key, (low, high) in zip(RANGES, ends, strict=True)}
            made.append(
                entry(self.fit.values[place], int(self.rows[place]), self.powers[place], resource=str(name), **ranges)
            )
        return made


def _residual(
    measurement: Measurement, row: Row, bound: float, calibration: Calibration, held_out: float | None, used: bool
) -> Residual:
    chosen = calibration.using(measurement.framework)
    resource = chosen.resource_for(row.resource, row.workload).resource
    predicted = launch_time(resource, row.workload).at(row.batch)
    return Residual(
        part(row.resource), row.workload.name, row.workload.precision, measurement.framework, row.batch, row.seconds,
        bound, predicted, held_out, used,
    )  # fmt: skip


def _warn(faster: Sequence[Measurement], left_out: bool) -> None:
    shown = ", ".join(f"{m.resource} {m.workload} batch {m.batch:g}" for m in faster[:3])
    more = f" and {len(faster) - 3} more" if len(faster) > 3 else ""
    kept = "left out" if left_out else "kept; leave_out_faster=True leaves them out"
    warnings.warn(
        f"{len(faster)} measured times are shorter than the roofline bound ({shown}{more}): {kept}",
        CalibrationWarning,
        stacklevel=3,
    )


def _listed(given: T | Iterable[T], kind: type[T]) -> list[T]:
    return [given] if isinstance(given, kind) else list(cast("Iterable[T]", given))


def _resolve(
    measurements: Sequence[Measurement], resources: Sequence[Resource], workloads: Sequence[Workload]
) -> list[tuple[Measurement, Row]]:
    """Each measurement with its resource, as if that had no efficiencies, and its workload in its precision."""
    by_name = {resource.name: _ideal(resource) for resource in resources}
    by_part: dict[str, Resource] = {}
    for known in resources:
        by_part.setdefault(known.accelerator, _single(_ideal(known)))
    by_workload = {workload.name: workload for workload in workloads}
    variants: dict[tuple[str, str], Workload] = {}
    made, faults = [], []
    for name in dict.fromkeys(m.workload for m in measurements if m.workload in by_workload):
        workload = by_workload[name]
        if workload.points:
            faults.append(Fault("", f"Workload {name!r}", "points", len(workload.points), "must be of layers to be fitted"))
        if workload.parallelism.degree > 1:
            allowed = "must be of one accelerator to be fitted"
            faults.append(Fault("", f"Workload {name!r}", "parallelism", str(workload.parallelism), allowed))
    for place, m in enumerate(measurements):
        resource = by_name.get(m.resource) or by_part.get(m.resource)
        label = f"measurements, row {place}"
        if resource is None:
            faults.append(Fault("", label, "resource", m.resource, "must be a resource's name or accelerator"))
        if m.workload not in by_workload:
            allowed = f"must be one of {', '.join(sorted(by_workload))}"
            faults.append(Fault("", label, "workload", m.workload, allowed))
        if resource is None or m.workload not in by_workload:
            continue
        key = m.workload, m.precision
        if key not in variants:
            variants[key] = at_precision(by_workload[m.workload], m.precision)
        if resource.peak(variants[key].precision) is None:
            allowed = f"resource {resource.name!r} has no peak there"
            faults.append(Fault("", label, "precision", variants[key].precision, allowed))
            continue
        made.append((m, Row(resource, variants[key], m.batch, m.time)))
    if faults:
        raise InputError(faults)
    return made


def _ideal(resource: Resource) -> Resource:
    if not has_own_times(resource):
        return resource
    return dataclasses.replace(
        resource, compute_efficiency=1.0, bandwidth_efficiency=1.0, launch_overhead=0.0, launch_floor=0.0
    )


def _single(resource: Resource) -> Resource:
    """One of a unit's accelerators."""
    g = resource.accelerator_count
    if g == 1:
        return resource
    peaks = resource.peak_flops
    return dataclasses.replace(
        resource,
        name=part(resource),
        peak_flops={key: peak / g for key, peak in peaks.items()} if isinstance(peaks, dict) else peaks / g,
        memory_bandwidth=resource.memory_bandwidth / g,
        memory=resource.memory / g,
        accelerator_count=1,
    )
