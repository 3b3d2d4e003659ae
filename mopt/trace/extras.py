"""Optional libraries: imported where they are used, and named in the error when they are missing."""

from __future__ import annotations

import importlib
from importlib import metadata
from types import ModuleType

from mopt.errors import InputError


class MissingExtraError(InputError, ImportError):
    """A library is not installed; the message names the extra that installs it."""


def load(module: str, extra: str) -> ModuleType:
    """Import an optional library.

    Raises
    ------
    MissingExtraError
        If it isn't installed: says which extra to install.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"{error.name} is not installed: pip install 'mopt[{extra}]'") from error


def version(distribution: str) -> str:
    """'name x.y.z', for the source of a workload."""
    return f"{distribution} {metadata.version(distribution)}"
