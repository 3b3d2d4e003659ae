"""What completing partial solutions costs at least, against all completions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mopt import completion
from mopt.completion import Completions
from mopt.whole import WholeProgram


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 4), st.integers(1, 60), st.booleans(), st.integers(0, 2**32 - 1))
def test_against_all_completions(count: int, demand: int, coarse: bool, seed: int) -> None:
    """Exact for one row; with tables too small for that, no more than what completing costs, and no less than before a
    unit is missing."""
    rng = np.random.default_rng(seed)
    weights, limits = rng.integers(0, 12, (1, count + 1)), rng.integers(0, 5, count + 1)
    program = WholeProgram(weights, rng.integers(0, 9, (count + 1, 2)).astype(float), limits, np.array([demand]))
    # Of the first item some are taken; of the others there is a base as long as they aren't chosen.
    base = rng.integers(0, limits + 1)
    items = np.arange(1, count + 1)
    taken = np.arange(limits[0] + 1)[:, None] * np.eye(1, count + 1, dtype=np.int64) + base * (np.arange(count + 1) > 0)
    covered, costs = taken @ weights.T, taken @ program.costs
    directions = np.array([[1.0, 0.0], [0.0, 1.0], [0.3, 0.7]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completion, "_ENTRIES", 60 if coarse else 10**6)
        tables = Completions(program, 0, items, base, int((demand - covered).max()), directions)
    bounds = tables.bounds(0, costs.T, covered.T)
    fixed = tables.bounds(count, costs.T, covered.T)  # with nothing left to choose
    for j in range(len(taken)):
        own = taken[j] * (np.arange(count + 1) == 0)
        paid = [
            directions @ ((own + np.array([0, *n])) @ program.costs)
            for n in itertools.product(*(range(limit + 1) for limit in limits[1:].tolist()))
            if weights[0] @ (own + np.array([0, *n])) >= demand
        ]
        least = np.min(paid, axis=0) if paid else np.full(3, np.inf)
        if coarse:
            assert (bounds[:, j] <= least + 1e-9).all()
        else:
            np.testing.assert_allclose(bounds[:, j], least)
            enough = covered[j, 0] >= demand
            np.testing.assert_allclose(fixed[:, j], directions @ costs[j] if enough else np.inf)
