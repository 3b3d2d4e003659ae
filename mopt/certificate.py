"""What was proven about a front as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from mopt.point import STORED


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was proven about a front as a whole, and how.

    Parameters
    ----------
    method : str
        The method that ran, after "auto" was resolved.
    reason : str
        Why that one.
    exactness : str
        For which class of problems it is exact, and in which sense it was here.
    solves : int
        Solver calls, retries included.
    resolution : (float, float)
        Step per objective: every nondominated point has a returned one no worse by more than this in each; 0 where
        none is needed.
    exact : bool
        Whether no nondominated point at all is missing: the steps are then those of the lattice that values lie on.
    """

    __pydantic_config__ = STORED

    method: str
    reason: str
    exactness: str
    solves: int
    resolution: tuple[float, float]
    exact: bool = False

    @property
    def statements(self) -> tuple[str, ...]:
        """The certificate as sentences."""
        first, second = self.resolution
        return (
            f"method: {self.method} ({self.reason})",
            f"exactness: {self.exactness}",
            f"resolution: {first:g} and {second:g}",
            f"solves: {self.solves}",
        )

    def __str__(self) -> str:
        return "\n".join(self.statements)
