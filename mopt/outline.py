"""What every method to trace a front provides: an outline, and then the front piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from mopt.point import Proof
from mopt.segments import Edge, Place
from mopt.session import Candidate

Pair = tuple[Fraction, Fraction]
Wanted = tuple[Fraction | None, Fraction | None]


@dataclass(frozen=True)
class Outline:
    """What a method found out before its first point: how it proceeds, why, and between which ends."""

    method: str
    reason: str
    exactness: str
    steps: Pair
    ends: tuple[Candidate, Candidate]
    exact: bool


@dataclass(frozen=True)
class Piece:
    """One piece of the front: a point or an edge, with its proof, and where the search stands after it.

    It brings a new outline where the method has had to change.
    """

    candidate: Candidate | None
    edge: Edge | None
    proof: Proof | None
    place: Place | None = None
    outline: Outline | None = None


class Method(Protocol):
    """A way to trace a front."""

    def outline(self) -> Outline:
        """Find the ends."""

    def pieces(self, last: Candidate | None, place: Place | None) -> Iterator[Piece]:
        """The front from its best first objective on, or from where an earlier run stopped."""
