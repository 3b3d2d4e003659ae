"""Workload files: one TOML file a workload, as in the folder models/.

At the top stand `name`, `precision` and, if wanted, `mode` ("training" or "inference"), `sample` (what one sample
is), `gradient_bytes`, `weight_bytes`, `optimizer_bytes`, `tensor_bytes`, `pipeline_bytes`, `family`, `description`,
`source`, `date` and a table `parallelism` with some of `tensor`, `pipeline`, `microbatches` and `zero`. Then follow one
`[[layers]]` table a layer and one `[[memory]]` table an affine piece of the footprint, which is the largest of its
pieces:

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

Instead of layers or beside them there may be one `[[points]]` table an operating point (see `OperatingPoint`):

    [[points]]                  # what a launch costs: a number, or a list with one for each layer
    batch = 8
    gflops = [60.0, 4.0]
    bytes_gb = [13.0, 0.2]
    memory_gb = 14.5

    [[points]]                  # or how long it took
    resource = "A100"
    batch = 8
    time_ms = 12.5

Figures are in SI units under their plain keys (`flops`, `bytes_fixed`, `bytes_per_sample`, `gradient_bytes`, `fixed`,
`per_sample`, `bytes`, `memory`, `time`), or in customary ones with the unit in the key: `gflops`, `time_ms`, and any of
the bytes with `_mb` or `_gb` behind it (1e6 and 1e9 B). Each figure is given once. Of layers and memory `flops`, `fixed`
and `per_sample` are required, the others default to 0.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import math
import os
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import BeforeValidator, Field

from mopt.errors import Fault, InputError
from mopt.operating_points import OperatingPoint
from mopt.parallelism import Parallelism
from mopt.resource import Count, NonNegative, Positive
from mopt.toml_tables import TomlTable, load_toml, plain_number, read_table, table_label
from mopt.workload import Layer, MemoryPiece, Mode, Name, Precision, Workload


class _LayerTable(TomlTable):
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


class _MemoryTable(TomlTable):
    required_figures = ("fixed", "per_sample")
    fixed: NonNegative = 0.0
    fixed_mb: NonNegative = 0.0
    fixed_gb: NonNegative = 0.0
    per_sample: NonNegative = 0.0
    per_sample_mb: NonNegative = 0.0
    per_sample_gb: NonNegative = 0.0


def _figures(value: object) -> object:
    """Figures of a launch: one number, or one for each layer."""
    for figure in value if isinstance(value, list) else [value]:
        if isinstance(figure, bool) or not isinstance(figure, int | float) or not 0 <= figure < math.inf:
            raise ValueError("must be a finite number that is not negative, or a list of such numbers")
    return value


Figures = Annotated[Any, BeforeValidator(_figures)]


class _PointTable(TomlTable):
    batch: Count
    flops: Figures = ()
    gflops: Figures = ()
    bytes: Figures = ()
    bytes_mb: Figures = ()
    bytes_gb: Figures = ()
    memory: NonNegative | None = None
    memory_mb: NonNegative | None = None
    memory_gb: NonNegative | None = None
    time: Positive | None = None
    time_ms: Positive | None = None
    resource: str = ""


class ParallelismTable(TomlTable):
    """How a unit's accelerators share the model."""

    tensor: Count = 1
    pipeline: Count = 1
    microbatches: Count | None = None
    zero: Annotated[int, Field(ge=0, le=3)] = 0


def _iso(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime.date) else value


# A date of TOML, or text.
Date = Annotated[str, BeforeValidator(_iso)]


class _HeadTable(TomlTable):
    name: Name
    precision: Precision
    layers: list[Any] = Field(default_factory=list)
    memory: list[Any] = Field(default_factory=list)
    points: list[Any] = Field(default_factory=list)
    parallelism: Any = None
    mode: Mode = "inference"
    sample: str = ""
    gradient_bytes: NonNegative = 0.0
    gradient_bytes_mb: NonNegative = 0.0
    gradient_bytes_gb: NonNegative = 0.0
    weight_bytes: NonNegative = 0.0
    weight_bytes_mb: NonNegative = 0.0
    weight_bytes_gb: NonNegative = 0.0
    optimizer_bytes: NonNegative = 0.0
    optimizer_bytes_mb: NonNegative = 0.0
    optimizer_bytes_gb: NonNegative = 0.0
    tensor_bytes: NonNegative = 0.0
    tensor_bytes_mb: NonNegative = 0.0
    tensor_bytes_gb: NonNegative = 0.0
    pipeline_bytes: NonNegative = 0.0
    pipeline_bytes_mb: NonNegative = 0.0
    pipeline_bytes_gb: NonNegative = 0.0
    family: str = ""
    description: str = ""
    source: str = ""
    date: Date = ""


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
    if isinstance(name_or_path, str) and not is_path(name_or_path):
        return _load_file(_shipped_file(name_or_path))
    return _load_file(Path(name_or_path))


def is_path(name_or_path: str) -> bool:
    """Whether a text that names a workload is the path of a file."""
    return name_or_path.endswith(".toml") or bool(os.path.dirname(name_or_path))


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
    arrays = {key: tables.pop(key, []) for key in ("layers", "memory", "points")}
    text = tomli_w.dumps(tables)
    for key, array in arrays.items():
        text += "".join(f"\n[[{key}]]\n{tomli_w.dumps(table)}" for table in array)
    Path(path).write_text(text, encoding="utf-8", newline="\n")


def workload_to_dict(workload: Workload) -> dict[str, Any]:
    """The tables of a workload file, figures in SI units; integral ones as int."""
    texts = {key: getattr(workload, key) for key in ("family", "description", "source", "date")}
    return {
        "name": workload.name,
        "precision": workload.precision,
        "mode": workload.mode,
        "sample": workload.sample,
        **{key: text for key, text in texts.items() if text},
        "gradient_bytes": plain_number(workload.gradient_bytes),
        **{key: plain_number(figure) for key in _OPTIONAL if (figure := getattr(workload, key))},
        **({"parallelism": tables_of(how)} if (how := workload.parallelism) != Parallelism() else {}),
        "layers": [
            {
                "name": layer.name,
                "flops": plain_number(layer.flops),
                "bytes_fixed": plain_number(layer.bytes_fixed),
                "bytes_per_sample": plain_number(layer.bytes_per_sample),
            }
            for layer in workload.layers
        ],
        "memory": [
            {"fixed": plain_number(piece.fixed), "per_sample": plain_number(piece.per_sample)}
            for piece in workload.footprint_pieces
            if workload.layers or piece.fixed or piece.per_sample
        ],
        **({"points": [tables_of(point) for point in workload.points]} if workload.points else {}),
    }


# Figures of a workload that are written where they are given.
_OPTIONAL = ("weight_bytes", "optimizer_bytes", "tensor_bytes", "pipeline_bytes")


def tables_of(record: OperatingPoint | Parallelism) -> dict[str, Any]:
    """The fields of a record that are not at their defaults, as TOML spells them."""
    changed = {f.name: value for f in dataclasses.fields(record) if (value := getattr(record, f.name)) != f.default}
    return {key: _spelt(value) for key, value in changed.items()}


def _spelt(value: Any) -> Any:
    if isinstance(value, tuple):
        figures = [plain_number(figure) for figure in value]
        return figures[0] if len(figures) == 1 else figures
    return plain_number(value) if isinstance(value, float) else value


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
    head = read_table(data, _HeadTable, file, label, faults)
    layers, memory, points = (
        [
            read_table(table, model, file, table_label(key, place, table), faults)
            for place, table in enumerate(_list(data, key))
        ]
        for key, model in (("layers", _LayerTable), ("memory", _MemoryTable), ("points", _PointTable))
    )
    how = read_table(data["parallelism"], ParallelismTable, file, "parallelism", faults) if "parallelism" in data else {}
    if faults:
        raise InputError(faults)
    try:
        first, *others = [MemoryPiece(**piece) for piece in memory] or [MemoryPiece(0.0, 0.0)]
        head |= {"layers": tuple(Layer(**layer) for layer in layers), "memory_pieces": tuple(others)}
        head |= {"points": tuple(OperatingPoint(**point) for point in points), "parallelism": Parallelism(**how)}
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
    return workload_from_dict(load_toml(file), str(file))


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []
