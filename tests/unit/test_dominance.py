"""Partial solutions that others beat, against all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mopt import dominance
from mopt.dominance import roughly_undominated, undominated


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_partial_solutions_that_others_beat(many: int, largest: int, columns: int, seed: int) -> None:
    """Against all pairs: one is beaten if another costs no more, covers no less of the first row that varies, and
    is the same in the others."""
    rng = np.random.default_rng(seed)
    costs = rng.integers(0, largest, (many, 2)).astype(float)
    covered = rng.integers(-largest, largest, (many, columns))
    covered[:, 1:] //= largest
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dominance, "_SHARED", 1)
        kept = undominated(costs.T, covered.T)
    assert kept is not None
    rows = list(zip(costs.tolist(), covered.tolist(), strict=True))
    varied = next((k for k in range(columns) if len(set(covered[:, k])) > 1), 0)

    def beats(a: Any, b: Any) -> bool:
        same = all(a[1][k] == b[1][k] for k in range(columns) if k != varied)
        return a[0][0] <= b[0][0] and a[0][1] <= b[0][1] and a[1][varied] >= b[1][varied] and same

    left = [rows[k] for k in kept]
    assert len({str(row) for row in left}) == len(left)
    assert sorted(left) == sorted({str(a): a for a in rows if not any(beats(b, a) and b != a for b in rows)}.values())


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 200), st.integers(1, 40), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_a_grid_drops_only_what_others_beat(many: int, largest: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs = rng.integers(0, largest, (many, 2)) * 0.7
    covered = rng.integers(0, largest, (many, columns))
    kept = roughly_undominated(costs.T, covered.T)
    if kept is None:
        assert (covered != covered[0]).any(axis=0).sum() != 1
        return
    amount = covered[:, (covered != covered[0]).any(axis=0)][:, 0]
    for k in set(range(many)) - set(kept.tolist()):
        assert ((costs < costs[k]).all(axis=1) & (amount >= amount[k])).any()


def test_a_grid_drops_most_of_what_others_beat() -> None:
    rng = np.random.default_rng(1)
    costs, covered = rng.random((5000, 2)), rng.integers(0, 1000, (5000, 1))
    kept = roughly_undominated(costs.T, covered.T)
    left = undominated(costs.T, covered.T)
    assert kept is not None
    assert left is not None
    assert set(left) <= set(kept)
    assert len(kept) - len(left) < 0.05 * (5000 - len(left))
