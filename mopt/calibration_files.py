"""Calibration files: TOML, one `[[entries]]` table an entry.

At the top stand, if wanted, `source`, `date` and `framework` (whose entries go first). An entry has the fields of
`mopt.calibration.Entry`, figures in SI units; ranges are pairs. Required are family, mode, precision and the two
efficiencies:

    source = "timed by hand"
    date = 2026-01-01

    [[entries]]
    family = "cnn"
    mode = "training"
    precision = "fp16"
    resource = "T4"                # left out: the default of all others
    compute_efficiency = 0.4
    bandwidth_efficiency = 0.8
    launch_overhead = 1e-3         # s, of a launch of `products` layers with FLOPs
    products = 54
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field

from mopt.calibration import Calibration, Entry
from mopt.errors import Fault, InputError
from mopt.resource import Count, Efficiency, NonNegative, Positive
from mopt.toml_tables import TomlTable, load_toml, plain_number, read_table
from mopt.workload import Mode, Name, Precision
from mopt.workload_files import Date

Pair = Annotated[list[NonNegative], Field(min_length=2, max_length=2)]


class _EntryTable(TomlTable):
    family: Name
    mode: Mode
    precision: Precision
    compute_efficiency: Efficiency
    bandwidth_efficiency: Efficiency
    launch_overhead: NonNegative = 0.0
    launch_floor: NonNegative = 0.0
    resource: str = ""
    framework: str = ""
    compute_range: Pair = Field(default_factory=list)
    bandwidth_range: Pair = Field(default_factory=list)
    overhead_range: Pair = Field(default_factory=list)
    floor_range: Pair = Field(default_factory=list)
    rows: Annotated[int, Field(ge=0)] = 0
    products: Count = 1
    flops_per_watt: Positive = 1.0
    power_exponent: float = 0.0
    seen_ratios: list[Positive] = Field(default_factory=list)
    unseen_ratios: list[Positive] = Field(default_factory=list)


class _HeadTable(TomlTable):
    entries: Annotated[list[Any], Field(min_length=1)]
    source: str = ""
    date: Date = ""
    framework: str = ""


def load_calibration(path: str | os.PathLike[str] | None = None, *, framework: str | None = None) -> Calibration:
    """Read a calibration from a TOML file, or the shipped one.

    Parameters
    ----------
    path : path, optional
        None: the shipped calibration, of convolutional networks, encoders and decoders; `Calibration.to_frame` says
        on what, data/measured/README.md from what.
    framework : str, optional
        Whose entries go first; default: what the file says, and that is none for the shipped one: all together.

    Raises
    ------
    InputError
        If the file can't be read, anything in it is wrong (all faults at once), or no entry has the framework.
    """
    made = _shipped() if path is None else _load(Path(path))
    return made if framework is None else made.using(framework)


def save_calibration(calibration: Calibration, path: str | os.PathLike[str]) -> None:
    """Write the calibration without its residuals as a file that `load_calibration` reads back to an equal one.

    Raises
    ------
    OSError
        If the file can't be written.
    """
    Path(path).write_text(tomli_w.dumps(calibration_to_dict(calibration)), encoding="utf-8", newline="\n")


def calibration_to_dict(calibration: Calibration) -> dict[str, Any]:
    """The tables of a calibration file."""
    texts = {key: getattr(calibration, key) for key in ("source", "date", "framework")}
    entries = [
        {
            field.name: _spelt(getattr(entry, field.name))
            for field in dataclasses.fields(entry)
            if getattr(entry, field.name) != field.default
        }
        for entry in calibration.entries
    ]
    return {key: text for key, text in texts.items() if text} | {"entries": entries}


def calibration_from_dict(data: Mapping[str, Any], file: str = "") -> Calibration:
    """The calibration that the tables of a calibration file describe.

    Raises
    ------
    InputError
        If anything is wrong: all faults at once.
    """
    faults: list[Fault] = []
    head = read_table(data, _HeadTable, file, "calibration", faults)
    tables = data.get("entries")
    entries = [
        read_table(table, _EntryTable, file, f"entries[{place}]", faults)
        for place, table in enumerate(tables if isinstance(tables, list) else [])
    ]
    if faults:
        raise InputError(faults)
    try:
        made = tuple(Entry(**entry) for entry in entries)
        return Calibration(**(head | {"entries": made}))
    except InputError as error:
        raise InputError([fault._replace(file=file) for fault in error.faults]) from None


def _spelt(value: Any) -> Any:
    if isinstance(value, tuple):
        return [plain_number(figure) for figure in value]
    return plain_number(value) if isinstance(value, float) else value


def _load(file: Traversable) -> Calibration:
    return calibration_from_dict(load_toml(file), str(file))


@cache
def _shipped() -> Calibration:
    return _load(files("mopt").joinpath("data", "calibration.toml"))
