"""How far predicted times are from measured ones: the accuracy table, from the shipped measurements.

`mopt accuracy` prints it. Times are predicted in several ways; the last four are of users who know what
framework runs:

ideal       the roofline bound
pooled      fitted with all rows of all frameworks together, as where no framework is named
calibrated  fitted with all rows of a framework
row out     each row predicted from a fit without it
model out   each network predicted from the others on the same accelerator
GPU out     each chip (in all its forms) predicted from the others: by the family default
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mopt.accelerators import accelerators, chip
from mopt.calibrating import CalibrationWarning, calibrate
from mopt.calibration import Calibration, rate
from mopt.catalog import load_catalog
from mopt.measurements import Measurement, at_precision, shipped_measurements, shipped_workloads
from mopt.resource import Resource
from mopt.roofline import launch_time
from mopt.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

_WAYS = ("ideal", "pooled", "calibrated", "row out", "model out", "GPU out")
# Choices are compared where at least so many accelerators with a price were measured alike.
_LEAST = 3


def accelerator_resources() -> list[Resource]:
    """One of each accelerator that has figures, at a nominal 1 $/h: what the shipped measurements are of."""
    return [
        Resource(
            name=one.name,
            peak_flops={precision: peak * 1e12 for precision, peak in one.peak_tflops.items()},
            memory_bandwidth=one.bandwidth_gbs * 1e9,
            memory=(one.memory_gb or 1.0) * 1e9,
            price_per_hour=1.0,
            accelerator=one.name,
            trains=one.trains,
        )
        for one in accelerators().values()
        if one.peak_tflops and one.bandwidth_gbs
    ]


def calibrate_shipped(rows: Iterable[Measurement] | None = None, *, leave_one_out: bool = False) -> Calibration:
    """The calibration of the shipped measurements, or of some of them; rows that beat the bound are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return calibrate(
            shipped_measurements() if rows is None else rows,
            accelerator_resources(),
            shipped_workloads(),
            leave_out_faster=True,
            leave_one_out=leave_one_out,
        )


class _Case(NamedTuple):
    """A measured row and what it takes to predict it."""

    measurement: Measurement
    resource: Resource
    workload: Workload

    @property
    def kind(self) -> tuple[str, str]:
        return self.workload.family, self.workload.mode

    @property
    def group(self) -> tuple[str, str, str]:
        return *self.kind, rate(self.workload.precision)

    @property
    def network(self) -> str:
        """The network, whatever is done with it: "bert-large" of "bert-large-infer-384"."""
        name = self.workload.name
        for word in ("-infer", "-train", "-layer"):
            name = name.split(word)[0]
        return name

    def predicted(self, calibration: Calibration | None) -> float:
        """Seconds."""
        resource = self.resource
        if calibration is not None:
            resource = calibration.resource_for(resource, self.workload).resource
        return launch_time(resource, self.workload).at(self.measurement.batch)


def prediction_table(rows: Sequence[Measurement] | None = None) -> pd.DataFrame:
    """Measured and predicted seconds of each shipped measurement, in every way of the module; NaN where there is none.

    Parameters
    ----------
    rows : sequence of Measurement, optional
        Some of the shipped measurements.

    Returns
    -------
    DataFrame
        Columns family, mode, precision, framework, network, workload, resource, batch, seconds, and one a way.
    """
    import pandas as pd

    cases = _cases(shipped_measurements() if rows is None else rows)
    whole = calibrate_shipped([case.measurement for case in cases], leave_one_out=True)
    by_framework = {m.framework: whole.using(m.framework) for m in (case.measurement for case in cases)}
    row_out = [residual.held_out for residual in whole.residuals]
    model_out = _held_out(cases, lambda case: case.network)
    gpu_out = _held_out(cases, lambda case: chip(case.resource.name))
    return pd.DataFrame(
        {
            "family": case.workload.family,
            "mode": case.workload.mode,
            "precision": case.workload.precision,
            "framework": case.measurement.framework,
            "network": case.network,
            "workload": case.workload.name,
            "resource": case.resource.name,
            "batch": case.measurement.batch,
            "seconds": case.measurement.time,
            "ideal": case.predicted(None),
            "pooled": case.predicted(whole),
            "calibrated": case.predicted(by_framework[case.measurement.framework]),
            "row out": math.nan if row_out[place] is None else row_out[place],
            "model out": model_out[place],
            "GPU out": gpu_out[place],
        }
        for place, case in enumerate(cases)
    )


def _cases(rows: Iterable[Measurement]) -> list[_Case]:
    resources = {resource.name: resource for resource in accelerator_resources()}
    workloads = {workload.name: workload for workload in shipped_workloads()}
    variants: dict[tuple[str, str], Workload] = {}
    made = []
    for m in rows:
        key = m.workload, m.precision
        if key not in variants:
            variants[key] = at_precision(workloads[m.workload], m.precision)
        made.append(_Case(m, resources[m.resource], variants[key]))
    return made


def _held_out(cases: Sequence[_Case], kind: Callable[[_Case], str]) -> list[float]:
    """Seconds of each row as predicted without all rows of its kind; NaN where its framework has no other kind."""
    by_family: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, case in enumerate(cases):
        by_family[case.kind].append(place)
    made = [math.nan] * len(cases)
    for places in by_family.values():
        for one in sorted({kind(cases[place]) for place in places}):
            rest = [cases[place] for place in places if kind(cases[place]) != one]
            known = {(case.group, case.measurement.framework) for case in rest}
            left = [
                place
                for place in places
                if kind(cases[place]) == one and (cases[place].group, cases[place].measurement.framework) in known
            ]
            calibration = calibrate_shipped([case.measurement for case in rest]) if left else None
            for place in left:
                assert calibration is not None
                made[place] = cases[place].predicted(calibration.using(cases[place].measurement.framework))
    return made


def accuracy_table(predictions: pd.DataFrame | None = None) -> pd.DataFrame:
    """Errors by family and mode: median and 90th percentile of |predicted/measured − 1|, ideal and held out.

    Parameters
    ----------
    predictions : DataFrame, optional
        From `prediction_table`; made anew by default, which takes minutes.

    Returns
    -------
    DataFrame
        A row a (family, mode), with the number of measured times; columns (way, "median" or "p90").
    """
    import pandas as pd

    frame = prediction_table() if predictions is None else predictions
    errors = frame[list(_WAYS)].div(frame["seconds"], axis=0).sub(1).abs()
    by = errors.groupby([frame["family"], frame["mode"]])
    table = pd.concat({"median": by.median(), "p90": by.quantile(0.9)}, axis=1).swaplevel(axis=1)
    table = table[[(way, figure) for way in _WAYS for figure in ("median", "p90")]]
    table.insert(0, ("rows", ""), by.size())
    return table


def choice_table(predictions: pd.DataFrame | None = None) -> pd.DataFrame:
    """How good a choice of the cheapest accelerator is that is made by predicted times.

    Accelerators that were measured on the same workload, precision, framework and batch are compared by cost per
    sample, at the lowest on-demand price of an accelerator in the shipped catalog; only choices among three or more
    count, and only where all of them have a prediction.

    Returns
    -------
    DataFrame
        A row a (family, mode): number of choices and, for each way, the mean rank correlation (Spearman) of predicted
        with measured costs, and the regret (measured cost of the chosen accelerator over the lowest − 1), mean and
        worst.
    """
    import pandas as pd
    from scipy.stats import spearmanr

    frame = prediction_table() if predictions is None else predictions
    frame = frame.assign(price=frame["resource"].map(_lowest_prices())).dropna(subset="price")
    keys = ["family", "mode", "workload", "precision", "framework", "batch"]
    # Repeated runs of an accelerator count as one.
    frame = frame.groupby([*keys, "resource"], as_index=False)[["seconds", "price", *_WAYS]].median()
    rows = []
    for (family, mode, *_), some in frame.groupby(keys):
        measured = (some["seconds"] * some["price"]).to_numpy()
        for way in _WAYS:
            predicted = (some[way] * some["price"]).to_numpy()
            if len(some) < _LEAST or np.isnan(predicted).any():
                continue
            regret = measured[predicted.argmin()] / measured.min() - 1
            rows.append((family, mode, way, float(spearmanr(predicted, measured).statistic), float(regret)))
    choices = pd.DataFrame(rows, columns=["family", "mode", "way", "rank correlation", "regret"])
    return choices.groupby(["family", "mode", "way"], sort=False).agg(
        choices=("regret", "size"),
        rank_correlation=("rank correlation", "mean"),
        regret=("regret", "mean"),
        worst_regret=("regret", "max"),
    )


def _lowest_prices() -> dict[str, float]:
    prices: dict[str, list[float]] = defaultdict(list)
    for resource in load_catalog():
        prices[resource.accelerator].append(resource.price_per_hour / resource.accelerator_count)
    return {accelerator: min(each) for accelerator, each in prices.items()}


def print_tables(predictions: pd.DataFrame) -> None:
    """Print the accuracy table and the table of choices."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    errors = Table(title="Error of predicted launch times, median / 90th percentile")
    for column in ("family", "mode", "rows", *_WAYS):
        errors.add_column(column, justify="left" if column in ("family", "mode") else "right")
    for _, row in accuracy_table(predictions).reset_index().iterrows():
        cells = [_pair(row[way, "median"], row[way, "p90"]) for way in _WAYS]
        errors.add_row(row["family", ""], row["mode", ""], str(row["rows", ""]), *cells)
    console.print(errors)
    choices = Table(title="The cheapest accelerator by predicted time: rank correlation, mean / worst regret")
    for column in ("family", "mode", "by", "choices", "rank correlation", "regret"):
        choices.add_column(column, justify="left" if column in ("family", "mode", "by") else "right")
    for _, row in choice_table(predictions).reset_index().iterrows():
        regret = _pair(row["regret"], row["worst_regret"])
        correlation = f"{row['rank_correlation']:.2f}"
        choices.add_row(row["family"], row["mode"], row["way"], str(row["choices"]), correlation, regret)
    console.print(choices)


def _pair(one: float, other: float) -> str:
    return "–" if math.isnan(one) else f"{one:.1%} / {other:.1%}"
