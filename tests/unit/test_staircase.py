"""Which bounds are below a staircase, against all corners one by one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings, strategies as st

from mopt.staircase import Staircase


@settings(deadline=None, max_examples=300)
@given(st.integers(1, 20), st.integers(0, 60), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_against_every_corner(corners: int, many: int, others: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = np.sort(rng.integers(0, 15, (2, corners)).astype(float))
    stairs = np.column_stack([first, second[::-1]])
    directions = np.vstack([np.eye(2), [1.0, 2.0], rng.integers(1, 5, (others, 2))])
    costs = rng.integers(0, 15, (many, 2)) * 1.0
    below = rng.integers(0, 3, (len(directions), many))  # bounds may be further down in some directions
    bounds = directions @ costs.T - below
    kept, room = Staircase(stairs, directions).reached(bounds)
    expected = {}
    for k in range(many):
        near = [u for u in stairs if u[0] >= bounds[0, k] and u[1] >= bounds[1, k]]
        spare = [max((float(d @ u) for u in near), default=-math.inf) - bounds[j, k] for j, d in enumerate(directions)]
        if min(spare[2:]) >= 0:
            expected[k] = spare[2]
    assert dict(zip(kept.tolist(), room.tolist(), strict=True)) == expected


def test_what_is_at_a_corner_is_kept_and_what_is_between_two_is_not() -> None:
    directions = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    stairs = Staircase(np.array([[1.0, 9.0], [4.0, 5.0], [8.0, 2.0]]), directions)
    costs = np.array([[1.0, 9.0], [4.0, 5.0], [2.0, 6.0], [8.0, 2.0], [5.0, 3.0], [9.0, 0.0]])
    assert stairs.reached(directions @ costs.T)[0].tolist() == [0, 1, 3]
    assert stairs.furthest.tolist() == [8, 9, 10]


def test_infinite_sides_count_where_they_have_a_weight() -> None:
    directions = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert Staircase(np.array([[3.0, math.inf]]), directions).furthest.tolist() == [3, math.inf, 3]
