"""Frozen, validated, picklable records: pydantic dataclasses that raise `InputError`."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable
from typing import Any, TypeVar, cast, dataclass_transform

import pydantic
from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import ArgsKwargs

from mopt.errors import MISSING, Fault, InputError

T = TypeVar("T")
Column = list[Any] | tuple[list[Any], bytes]
Packed = list[tuple[type, list[str], list[Column]]]

_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)


def faults_of(error: ValidationError, *, file: str = "", record: str = "") -> list[Fault]:
    """pydantic's complaints as faults; a place inside a nested record is spelt `layers[3].flops`."""
    faults = []
    for item in error.errors():
        absent = item["type"] in ("missing", "missing_argument") or isinstance(item["input"], ArgsKwargs)
        value = MISSING if absent else item["input"]
        message = item["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        field = ""
        for part in item["loc"]:
            field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else str(part)
        faults.append(Fault(file, record, field or "values", value, message))
    return faults


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def record(cls: type[T]) -> type[T]:
    """Make `cls` a frozen dataclass whose constructor checks every field and reports all faults at once."""
    made: Any = pydantic.dataclasses.dataclass(frozen=True, config=_CONFIG)(cls)
    checked = made.__init__
    names = [field.name for field in dataclasses.fields(made)]

    @functools.wraps(checked)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(names):
            raise TypeError(f"{cls.__name__} takes at most {len(names)} values, {len(args)} given")
        kwargs = dict(zip(names, args, strict=False)) | kwargs
        try:
            checked(self, **kwargs)
        except ValidationError as error:
            name = kwargs.get("name")
            label = f"{cls.__name__} {name!r}" if isinstance(name, str) else cls.__name__
            raise InputError(faults_of(error, record=label)) from None

    made.__init__ = init
    return cast("type[T]", made)


def pack(records: Iterable[Any]) -> Packed:
    """Records column by column, for small pickles: most columns of a catalog have few different values."""
    runs = []
    for cls, run in itertools.groupby(records, type):
        items = list(run)
        names = [field.name for field in dataclasses.fields(cls)]
        runs.append((cls, names, [_column([getattr(item, name) for item in items]) for name in names]))
    return runs


def unpack(packed: Packed) -> tuple[Any, ...]:
    """The records that were packed; they were checked when they were made."""
    records = []
    for cls, names, columns in packed:
        for values in zip(*map(_values, columns), strict=True):
            item: Any = object.__new__(cls)
            item.__dict__.update(zip(names, values, strict=True))
            records.append(item)
    return tuple(records)


def _column(values: list[Any]) -> Column:
    """The values, or the different ones and a byte for each value that says which it is."""
    places: dict[tuple[type, str], int] = {}
    codes = [places.setdefault((type(value), repr(value)), len(places)) for value in values]
    if len(places) > min(256, len(values) // 2):
        return values
    different = dict(zip(codes, values, strict=True))
    return [different[code] for code in range(len(places))], bytes(codes)


def _values(column: Column) -> list[Any]:
    return [column[0][code] for code in column[1]] if isinstance(column, tuple) else column
