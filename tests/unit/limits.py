"""Limits of listing set low, so that small fronts go through what large ones do."""

from __future__ import annotations

import pytest

from mopt import listing, search

# Partial solutions to list an end with.
MANY = 10**6


def limit(patch: pytest.MonkeyPatch, beam: int, widest: int = MANY, end: int = MANY, free: int = 0) -> None:
    """Partial solutions at first and at most, deviations for an end, deviations that are free of limits."""
    for name, value in {"_FIRST": beam, "_BEAM": beam, "_RAISED": 2 * beam, "_WIDEST": widest, "_WIDEST_ROWS": widest}.items():
        patch.setattr(search, name, value)
    ends = ((1, min(end, 4), min(end, 4)), (2, end, end))
    for name, limits in {"_FREE": free, "_TABLED": 0, "_BOUNDED": 0, "_ENDS": ends}.items():
        patch.setattr(listing, name, limits)
