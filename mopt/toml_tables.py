"""TOML files as checked tables: SI figures or customary units in the key, every fault at once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mopt.errors import MISSING, Fault, InputError
from mopt.record import faults_of

# What a key may end with, and that unit's factor to SI.
_UNITS = (("_mb", 1e6), ("_gb", 1e9), ("_gbs", 1e9), ("_ms", 1e-3))
# Keys in customary units that are spelt otherwise; network speeds are in bits.
_SPELLINGS = {
    "gflops": ("flops", 1e9),
    "peak_tflops": ("peak_flops", 1e12),
    "network_gbps": ("network_bandwidth", 1e9 / 8),
}


class TomlTable(BaseModel):
    """A table of a file: no other keys than these, and no numbers in quotes."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    required_figures: ClassVar[tuple[str, ...]] = ()


def load_toml(file: Traversable) -> dict[str, Any]:
    """The tables of a file.

    Raises
    ------
    InputError
        If it can't be read or is not TOML.
    """
    try:
        return tomllib.loads(file.read_bytes().decode())
    except OSError as error:
        raise InputError([Fault(str(file), "", "file", MISSING, f"can't be read: {error.strerror}")]) from None
    except ValueError as error:  # not UTF-8, or not TOML
        raise InputError([Fault(str(file), "", "file", MISSING, f"not a TOML file: {error}")]) from None


def read_table(table: Any, model: type[TomlTable], file: str, record: str, faults: list[Fault]) -> dict[str, Any]:
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
        plain[key] = value if factor == 1.0 else _times(value, factor)
    return plain


def table_label(key: str, place: int, table: Any) -> str:
    """What to call the table at a place of an array: `layers[3] 'fc'`."""
    name = table.get("name") if isinstance(table, Mapping) else None
    return f"{key}[{place}] {name!r}" if isinstance(name, str) else f"{key}[{place}]"


def plain_number(figure: float) -> int | float:
    """A figure as files spell it: integral ones as int."""
    return int(figure) if figure.is_integer() and abs(figure) < 2**53 else figure


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, Mapping):
        return {key: figure * factor for key, figure in value.items()}
    if isinstance(value, list):
        return [figure * factor for figure in value]
    return value * factor


def _plain(spelling: str) -> tuple[str, float]:
    """A key without its unit, and that unit's factor to SI."""
    if spelling in _SPELLINGS:
        return _SPELLINGS[spelling]
    for unit, factor in _UNITS:
        if spelling.endswith(unit):
            return spelling.removesuffix(unit), factor
    return spelling, 1.0
