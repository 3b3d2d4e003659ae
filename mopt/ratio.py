"""Objectives that are a quotient of two linear expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyomo.environ as pyo

from mopt.errors import Fault, InputError


@dataclass(frozen=True, eq=False)
class Ratio:
    """An objective numerator/denominator, both linear in the variables (or numbers), the denominator positive.

    Parameters
    ----------
    numerator, denominator : Pyomo expression or number
    sense : pyo.minimize, pyo.maximize, "minimize" or "maximize"
        Default: maximize.

    Raises
    ------
    InputError
        If the sense is none of these.
    """

    numerator: Any
    denominator: Any
    sense: Any = pyo.maximize
    name: str = "ratio"

    def __post_init__(self) -> None:
        known = (pyo.minimize, pyo.maximize)
        senses = {"minimize": pyo.minimize, "maximize": pyo.maximize, **{sense: sense for sense in known}}
        try:
            object.__setattr__(self, "sense", senses[self.sense])
        except (KeyError, TypeError):
            raise InputError([Fault("", "Ratio", "sense", self.sense, "minimize or maximize")]) from None

    def __call__(self) -> float:
        """The value at the model's current variable values."""
        return float(pyo.value(self.numerator) / pyo.value(self.denominator))

    def __str__(self) -> str:
        return f"({self.numerator}) / ({self.denominator})"
