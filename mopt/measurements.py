"""Measured launch times: a user's own, and those that mopt ships with the workloads they belong to."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from mopt.errors import Fault, InputError
from mopt.record import record
from mopt.resource import Positive
from mopt.tables import TableRow, check_columns, check_rows, read_csv
from mopt.workload import Name, Workload
from mopt.workload_files import load_workload

if TYPE_CHECKING:
    import pandas as pd

# Bytes of a value. TF32 is a way to multiply values of 4 bytes.
_WIDTH = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


@record
class Measurement:
    """The time of one launch, or what comes to the same, the rate of back-to-back launches.

    Parameters
    ----------
    resource : str
        Name of a resource, or the accelerator it has.
    workload : str
    batch : float
        Samples of a launch of the whole unit.
    seconds, samples_per_second : float
        One of the two.
    precision : str
        Where it isn't the workload's own: FLOPs stay, bytes change with the width of the values.
    framework, source : str
        What it ran on; where the figure comes from.

    Raises
    ------
    InputError
        If a value is outside its range, or neither or both of time and rate are given; all faults at once.
    """

    resource: Name
    workload: Name
    batch: Positive
    seconds: Positive | None = None
    samples_per_second: Positive | None = None
    precision: str = ""
    framework: str = ""
    source: str = ""

    @model_validator(mode="after")
    def _one_figure(self) -> Measurement:
        if (self.seconds is None) == (self.samples_per_second is None):
            raise ValueError("give either seconds or samples_per_second")
        if self.precision and self.precision not in _WIDTH:
            raise ValueError(f"precision must be one of {', '.join(_WIDTH)}")
        return self

    @property
    def time(self) -> float:
        """Seconds of one launch."""
        return self.seconds if self.seconds is not None else self.batch / (self.samples_per_second or 1.0)


class _Row(TableRow):
    resource: str
    workload: str
    batch: float
    seconds: float | None = None
    samples_per_second: float | None = None
    precision: str = ""
    framework: str = ""
    source: str = ""


Measurements = str | os.PathLike[str] | Iterable[Any]


def read_measurements(given: Measurements | pd.DataFrame) -> list[Measurement]:
    """Measurements from a CSV file, a frame or an iterable of `Measurement`, its fields by name, or in order.

    Raises
    ------
    InputError
        If the file can't be read, columns are missing or unknown, values wrong, or there are no rows; all at once.
    """
    import pandas as pd

    file = ""
    if isinstance(given, str | os.PathLike):
        table = read_csv(given)
        file = table.file
        check_columns(table, _Row, {"resource", "workload", "batch"}, others=False)
        checked = check_rows(table, _Row, lambda cells: str(cells.get("resource", "")))
        labelled: list[tuple[str, Any]] = [(label, row.model_dump(exclude_unset=True)) for label, row in checked]
        faults = list(checked.faults)
    else:
        rows = _records(given) if isinstance(given, pd.DataFrame) else given
        labelled, faults = [(f"row {place}", row) for place, row in enumerate(rows)], []
    made = []
    for label, row in labelled:
        try:
            made.append(_measurement(row))
        except InputError as error:
            faults += [fault._replace(file=file, record=f"measurements, {label}") for fault in error.faults]
        except TypeError:
            allowed = "must be a Measurement, a mapping of its fields, or (resource, workload, batch, seconds)"
            faults.append(Fault(file, f"measurements, {label}", "row", row, allowed))
    if not labelled:
        faults.append(Fault(file, "measurements", "rows", 0, "must be at least one"))
    if faults:
        raise InputError(faults)
    return made


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a frame without their missing values."""
    return [
        {str(key): value for key, value in row.items() if value == value and value is not None}
        for row in frame.to_dict("records")
    ]


def _measurement(row: Any) -> Measurement:
    if isinstance(row, Measurement):
        return row
    return Measurement(**row) if isinstance(row, Mapping) else Measurement(*row)


_OTHER_BYTES = ("gradient_bytes", "weight_bytes", "optimizer_bytes", "tensor_bytes", "pipeline_bytes")


def at_precision(workload: Workload, precision: str) -> Workload:
    """The workload with all its values in another precision: the same FLOPs, bytes in proportion to the width.

    Optimizer state, which mixed precision keeps in 4 bytes, is scaled too.
    """
    if precision in ("", workload.precision):
        return workload
    scale = _WIDTH[precision] / _WIDTH[workload.precision]
    layers = tuple(
        dataclasses.replace(
            layer, bytes_fixed=layer.bytes_fixed * scale, bytes_per_sample=layer.bytes_per_sample * scale
        )
        for layer in workload.layers
    )
    pieces = tuple(
        dataclasses.replace(piece, fixed=piece.fixed * scale, per_sample=piece.per_sample * scale)
        for piece in workload.memory_pieces
    )
    others: dict[str, Any] = {name: getattr(workload, name) for name in _OTHER_BYTES}
    others = {name: None if figure is None else figure * scale for name, figure in others.items()}
    return dataclasses.replace(
        workload,
        precision=precision,
        layers=layers,
        memory_fixed=workload.memory_fixed * scale,
        memory_per_sample=workload.memory_per_sample * scale,
        memory_pieces=pieces,
        **others,
    )


@cache
def shipped_measurements() -> tuple[Measurement, ...]:
    """The measured times that mopt ships; data/measured/README.md says where they come from."""
    with as_file(files("mopt").joinpath("data", "measured", "measurements.csv")) as file:
        return tuple(read_measurements(file))


@cache
def shipped_workloads() -> tuple[Workload, ...]:
    """The workloads of the shipped measurements."""
    with as_file(files("mopt").joinpath("data", "measured", "workloads")) as folder:
        return tuple(load_workload(path) for path in sorted(folder.glob("*.toml")))
