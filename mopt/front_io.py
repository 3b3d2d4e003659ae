"""Fronts as JSON files: an exact round trip."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from mopt.errors import Fault, InputError
from mopt.front import ParetoFront
from mopt.record import faults_of

FORMAT = "mopt front"
VERSION = 1


class _Header(BaseModel):
    """What tells a front from any other JSON file."""

    model_config = ConfigDict(extra="ignore")

    format: Literal["mopt front"]
    version: Literal[1]


class _File(_Header):
    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="strings")

    front: ParetoFront


def front_json(front: ParetoFront) -> str:
    """The text of a front's JSON file; floats keep every digit, exact values are written as "p/q"."""
    return _File(format=FORMAT, version=VERSION, front=front).model_dump_json(indent=1) + "\n"


def save_front(front: ParetoFront, path: str | PathLike[str]) -> None:
    """Write a front to a JSON file."""
    Path(path).write_text(front_json(front), encoding="utf-8")


def load_front(path: str | PathLike[str]) -> ParetoFront:
    """Read a front that `ParetoFront.save` wrote.

    Raises
    ------
    InputError
        No such file, not a front, written by a newer version, or damaged; it names the file and the fields.
    """
    name = str(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError([Fault(name, "", "file", name, f"can't be read: {error.strerror}")]) from None
    try:
        TypeAdapter(_Header).validate_json(content)
        return _File.model_validate_json(content).front
    except ValidationError as error:
        raise InputError(faults_of(error, file=name)) from None
    except InputError as error:
        raise InputError([fault._replace(file=name) for fault in error.faults]) from None
