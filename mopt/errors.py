"""Everything the library raises on purpose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Fault(NamedTuple):
    """One wrong value: where it stands, what was read, and what is allowed there."""

    file: str
    record: str
    field: str
    value: Any
    allowed: str

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.record) if part)
        read = "" if self.value is MISSING else f" = {_short(self.value)}"
        return f"{where}: {self.field}{read}: {self.allowed}" if where else f"{self.field}{read}: {self.allowed}"


class _Missing:
    """The value of a field that was not given."""

    def __repr__(self) -> str:
        return "(missing)"


MISSING: Any = _Missing()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class MoptError(Exception):
    """Base class of all errors that mopt raises on purpose."""


class InputError(MoptError):
    """Input that can't be used.

    Attributes
    ----------
    faults : tuple of Fault
        Every fault found, in one go: file, record, field, the value read and what is allowed.
    """

    def __init__(self, faults: Iterable[Fault] | str) -> None:
        self.faults: tuple[Fault, ...] = () if isinstance(faults, str) else tuple(faults)
        if isinstance(faults, str):
            message = faults
        elif len(self.faults) == 1:
            message = str(self.faults[0])
        else:
            message = f"{len(self.faults)} faults:\n" + "\n".join(f"  - {fault}" for fault in self.faults)
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.faults or str(self),)


class InfeasibleError(MoptError):
    """No plan meets the limits.

    Attributes
    ----------
    limit : str
        Which limit makes it so: "time", "memory", "latency", "units", "budget", "types", ... or "model".
    """

    def __init__(self, message: str, limit: str = "model") -> None:
        self.limit = limit
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.limit)


class SolverError(MoptError):
    """The solver failed, or contradicted what is known, and did so again with other settings.

    Attributes
    ----------
    front : ParetoFront or None
        What was found before, marked incomplete.
    """

    front: Any = None
