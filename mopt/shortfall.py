"""Why a problem has no plan: which limit makes it so, and by how much."""

from __future__ import annotations

from mopt.problem import Problem


def check_servable(problem: Problem) -> None:
    """Raise `InfeasibleError` if limits on units or batches alone leave some demand unserved."""
