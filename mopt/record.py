"""Frozen, validated, picklable records: pydantic dataclasses that raise `InputError`."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar, cast, dataclass_transform

import pydantic
from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import ArgsKwargs

from mopt.errors import MISSING, Fault, InputError

T = TypeVar("T")

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
