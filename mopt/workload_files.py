"""Workload files: one TOML file a workload, as in the folder models/.

At the top stand `name`, `precision` and, if wanted, `mode` ("training" or "inference"), `sample` (what one sample
is), `gradient_bytes`, `description`, `source` and `date`. Then follow one `[[layers]]` table a layer and one
`[[memory]]` table an affine piece of the footprint, which is the largest of its pieces:

    name = "tiny"
    precision = "fp16"
    source = "worked out by hand"
    date = 2026-01-01

    [[layers]]
    name = "fc"
    gflops = 2.0                # FLOP per sample
    bytes_fixed_mb = 8.0        # traffic per launch, whatever the batch (weights)
    bytes_per_sample_mb = 0.5   # traffic per sample (activations)

    [[memory]]
    fixed_gb = 1.2              # footprint without any sample
    per_sample_mb = 40.0        # what each sample adds

Figures are in SI units under their plain keys (`flops`, `bytes_fixed`, `bytes_per_sample`, `gradient_bytes`, `fixed`,
`per_sample`), or in customary ones with the unit in the key: `gflops`, and any of the bytes with `_mb` or `_gb` behind
it (1e6 and 1e9 B). Each figure is given once. `flops`, `fixed` and `per_sample` are required, the others default to 0.
"""

from __future__ import annotations

import datetime
import difflib
import os
import tomllib
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mopt.errors import MISSING, Fault, InputError
from mopt.record import faults_of
from mopt.resource import NonNegative
from mopt.workload import Layer, MemoryPiece, Mode, Name, Precision, Workload


class _Table(BaseModel):
    """A table of the file: no other keys than these, and no numbers in quotes."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    required_figures: ClassVar[tuple[str, ...]] = ()


class _LayerTable(_Table):
    required_figures = ("flops",)
    name: str
    flops: NonNegative = 0.0
    gflops: NonNegative = 0.0
    bytes_fixed: NonNegative = 0.0
    bytes_fixed_mb: NonNegative = 0.0
    bytes_fixed_gb: NonNegative = 0.0
    bytes_per_sample: NonNegative = 0.0
    bytes_per_sample_mb: NonNegative = 0.0
    bytes_per_sample_gb: NonNegative = 0.0


class _MemoryTable(_Table):
    required_figures = ("fixed", "per_sample")
    fixed: NonNegative = 0.0
    fixed_mb: NonNegative = 0.0
    fixed_gb: NonNegative = 0.0
    per_sample: NonNegative = 0.0
    per_sample_mb: NonNegative = 0.0
    per_sample_gb: NonNegative = 0.0


def _iso(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime.date) else value


class _HeadTable(_Table):
    name: Name
    precision: Precision
    layers: Annotated[list[Any], Field(min_length=1)]
    memory: list[Any] = []
    mode: Mode = "inference"
    sample: str = ""
    gradient_bytes: NonNegative = 0.0
    gradient_bytes_mb: NonNegative = 0.0
    gradient_bytes_gb: NonNegative = 0.0
    description: str = ""
    source: str = ""
    date: Annotated[str, BeforeValidator(_iso)] = ""


def load_workload(name_or_path: str | os.PathLike[str]) -> Workload:
    """Read a workload from a shipped file or a user's own.

    Parameters
    ----------
    name_or_path : str or path
        A name that `list_workloads` gives, or the path of a TOML file; a string is a path if it ends in ".toml" or
        holds a folder.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        If there is no such workload or file, or if anything in the file is wrong: all faults of the file at once.
    """
    if isinstance(name_or_path, str) and not (name_or_path.endswith(".toml") or os.path.dirname(name_or_path)):
        return _load_file(_shipped_file(name_or_path))
    return _load_file(Path(name_or_path))


def list_workloads() -> list[str]:
    """Names of the shipped workloads, sorted."""
    files = (entry.name for entry in _models_folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml"))


def save_workload(workload: Workload, path: str | os.PathLike[str]) -> None:
    """Write `workload` in SI units as a file that `load_workload` reads back to an equal one.

    Raises
    ------
    OSError
        If the file can't be written.
    """
    tables = workload_to_dict(workload)
    arrays = {key: tables.pop(key) for key in ("layers", "memory")}
    text = tomli_w.dumps(tables)
    for key, array in arrays.items():
        text += "".join(f"\n[[{key}]]\n{tomli_w.dumps(table)}" for table in array)
    Path(path).write_text(text, encoding="utf-8", newline="\n")


def workload_to_dict(workload: Workload) -> dict[str, Any]:
    """The tables of a workload file, figures in SI units; integral ones as int."""
    provenance = {key: getattr(workload, key) for key in ("description", "source", "date")}
    return {
        "name": workload.name,
        "precision": workload.precision,
        "mode": workload.mode,
        "sample": workload.sample,
        **{key: text for key, text in provenance.items() if text},
        "gradient_bytes": _number(workload.gradient_bytes),
        "layers": [
            {
                "name": layer.name,
                "flops": _number(layer.flops),
                "bytes_fixed": _number(layer.bytes_fixed),
                "bytes_per_sample": _number(layer.bytes_per_sample),
            }
            for layer in workload.layers
        ],
        "memory": [
            {"fixed": _number(piece.fixed), "per_sample": _number(piece.per_sample)}
            for piece in workload.footprint_pieces
        ],
    }


def workload_from_dict(data: Mapping[str, Any], file: str = "") -> Workload:
    """The workload that the tables of a workload file describe.

    Parameters
    ----------
    data : mapping
        As `tomllib` reads it.
    file : str
        Named in errors.

    Raises
    ------
    InputError
        If anything is wrong: all faults at once.
    """
    faults: list[Fault] = []
    name = data.get("name")
    label = f"workload {name!r}" if isinstance(name, str) else "workload"
    head = _read(data, _HeadTable, file, label, faults)
    layers, memory = (
        [_read(table, model, file, _label(key, place, table), faults) for place, table in enumerate(_list(data, key))]
        for key, model in (("layers", _LayerTable), ("memory", _MemoryTable))
    )
    if faults:
        raise InputError(faults)
    try:
        first, *others = [MemoryPiece(**piece) for piece in memory] or [MemoryPiece(0.0, 0.0)]
        head |= {"layers": tuple(Layer(**layer) for layer in layers), "memory_pieces": tuple(others)}
        head.pop("memory", None)
        return Workload(**head, memory_fixed=first.fixed, memory_per_sample=first.per_sample)
    except InputError as error:
        raise InputError([fault._replace(file=file) for fault in error.faults]) from None


def _models_folder() -> Traversable:
    installed = resources.files("mopt").joinpath("models")
    # In a source checkout the folder stands next to the package; the wheel carries it inside.
    return installed if installed.is_dir() else Path(__file__).resolve().parent.parent / "models"


def _shipped_file(name: str) -> Traversable:
    names = list_workloads()
    if name not in names:
        close = difflib.get_close_matches(name, names, n=3)
        guess = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
        allowed = f"no such workload; {guess}shipped: {', '.join(names)}; or the path of a .toml file"
        raise InputError([Fault("", "", "workload", name, allowed)])
    return _models_folder().joinpath(f"{name}.toml")


def _load_file(file: Traversable) -> Workload:
    try:
        data = tomllib.loads(file.read_bytes().decode())
    except OSError as error:
        raise InputError([Fault(str(file), "", "file", MISSING, f"can't be read: {error.strerror}")]) from None
    except ValueError as error:  # not UTF-8, or not TOML
        raise InputError([Fault(str(file), "", "file", MISSING, f"not a TOML file: {error}")]) from None
    return workload_from_dict(data, str(file))


def _read(table: Any, model: type[_Table], file: str, record: str, faults: list[Fault]) -> dict[str, Any]:
    """Values of a table by their plain keys, in SI units; what is wrong with it goes to `faults`."""
    if not isinstance(table, Mapping):
        faults.append(Fault(file, record, "table", table, f"must be a table with {', '.join(model.model_fields)}"))
        return {}
    values: dict[str, Any] = {}
    try:
        values = model.model_validate(dict(table)).model_dump(exclude_unset=True)
    except ValidationError as error:
        for fault in faults_of(error, file=file, record=record):
            if fault.field not in model.model_fields and fault.field in table:
                fault = fault._replace(allowed=f"unknown key; allowed: {', '.join(model.model_fields)}")
            faults.append(fault)
    given: dict[str, str] = {}
    for spelling in table:
        key = _plain(spelling)[0]
        if key in given:
            faults.append(Fault(file, record, spelling, table[spelling], f"given as {given[key]} too: keep one"))
        given.setdefault(key, spelling)
    for key in model.required_figures:
        if key not in given:
            spellings = " or ".join(field for field in model.model_fields if _plain(field)[0] == key)
            faults.append(Fault(file, record, key, MISSING, f"missing: give {spellings}"))
    plain = {}
    for spelling, value in values.items():
        key, factor = _plain(spelling)
        plain[key] = value if factor == 1.0 else value * factor
    return plain


def _plain(spelling: str) -> tuple[str, float]:
    """A key without its unit, and that unit's factor to SI."""
    if spelling == "gflops":
        return "flops", 1e9
    for unit, factor in (("_mb", 1e6), ("_gb", 1e9)):
        if spelling.endswith(unit):
            return spelling.removesuffix(unit), factor
    return spelling, 1.0


def _label(key: str, place: int, table: Any) -> str:
    name = table.get("name") if isinstance(table, Mapping) else None
    return f"{key}[{place}] {name!r}" if isinstance(name, str) else f"{key}[{place}]"


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []


def _number(figure: float) -> int | float:
    return int(figure) if figure.is_integer() and abs(figure) < 2**53 else figure
