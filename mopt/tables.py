"""CSV files and frames as checked rows: every fault of a table is reported at once, by file, record and field."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mopt.errors import MISSING, Fault, InputError
from mopt.record import faults_of

Row = TypeVar("Row", bound=BaseModel)


class TableRow(BaseModel):
    """A row of a table: one field a column; a cell left empty takes the field's default."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, coerce_numbers_to_str=True)


@dataclass(frozen=True)
class Table:
    """A table as read: `rows` are (where, cells by column) with the empty cells left out."""

    file: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True)
class Rows(Generic[Row]):
    """The checked rows of a table, each with the record's name for messages, and what was wrong with the others."""

    rows: list[tuple[str, Row]]
    faults: list[Fault]

    def __iter__(self) -> Iterator[tuple[str, Row]]:
        return iter(self.rows)


def read_csv(path: str | os.PathLike[str]) -> Table:
    """Read a CSV file with a header.

    Raises
    ------
    InputError
        If it is not there, empty, without rows, not text in UTF-8, or if rows don't have as many cells as the header.
    """
    file = os.fspath(path)
    try:
        with open(file, encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            lines = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except OSError as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else error.strerror or "can't be read"
        raise InputError([Fault(file, "", "file", MISSING, reason)]) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError([Fault(file, "", "file", MISSING, f"must be a CSV file in UTF-8 ({error})")]) from None
    if not lines:
        raise InputError([Fault(file, "", "file", MISSING, "is empty; must be a CSV file with a header")])
    columns = tuple(cell.strip() for cell in lines[0][1])
    width = len(columns)
    faults = [
        Fault(file, "header", "columns", column, "must not be listed twice")
        for index, column in enumerate(columns)
        if column in columns[:index]
    ]
    faults += [
        Fault(file, f"line {line}", "cells", len(cells), f"must be as many as columns in the header ({width})")
        for line, cells in lines[1:]
        if len(cells) != width
    ]
    if len(lines) == 1:
        faults.append(Fault(file, "", "rows", 0, "must be at least one"))
    if faults:
        raise InputError(faults)
    rows = (
        (f"line {line}", {column: text for column, cell in zip(columns, cells, strict=True) if (text := cell.strip())})
        for line, cells in lines[1:]
    )
    return Table(file, columns, tuple(rows))


def check_columns(table: Table, row: type[TableRow], required: Collection[str], *, others: bool) -> None:
    """Raise `InputError` if columns are missing or, unless `others` are allowed, unknown."""
    known = row.model_fields
    faults = [
        Fault(table.file, "header", column, MISSING, "this column must be there")
        for column in known
        if column in required and column not in table.columns
    ]
    if not others:
        faults += [
            Fault(table.file, "header", "columns", column, f"must be among {', '.join(known)}")
            for column in table.columns
            if column not in known
        ]
    if faults:
        raise InputError(faults)


def check_rows(table: Table, row: type[Row], name: Callable[[Mapping[str, Any]], str]) -> Rows[Row]:
    """Check each row; `name` says what to call a record, from its cells."""
    known = row.model_fields
    checked = Rows[Row]([], [])
    for where, cells in table.rows:
        label = name(cells)
        record = f"{where} ({label})" if label else where
        try:
            checked.rows.append((record, row.model_validate({key: cells[key] for key in cells if key in known})))
        except ValidationError as error:
            checked.faults.extend(faults_of(error, file=table.file, record=record))
    return checked


def check_names(file: str, names: Sequence[tuple[str, str]], field: str, faults: list[Fault]) -> None:
    """Add a fault for every (record, name) whose name an earlier record has."""
    first: dict[str, str] = {}
    for record, name in names:
        earlier = first.setdefault(name, record)
        if earlier != record:
            place = earlier.split(" (")[0]
            faults.append(Fault(file, record, field, name, f"must be unique; {place} has it too"))
