"""Values of checked solutions: exact, whichever way they are summed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mopt.linear_model import Form
from mopt.mixed import GenericCheck

LARGE = 2**53


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(st.one_of(st.integers(-99, 99), st.floats(-9, 9), st.sampled_from([LARGE, 1 - LARGE])), st.integers(0, 9)),
        min_size=1,
        max_size=6,
    ),
    st.floats(-5, 5),
)
def test_values_are_exact(terms: list[tuple[float, int]], constant: float) -> None:
    coefficients, x = (np.array(column, dtype=float) for column in zip(*terms, strict=True))
    model = SimpleNamespace(integer=np.ones(len(x), dtype=bool), lower=np.zeros(len(x)), upper=np.full(len(x), 9.0))
    forms = Form(coefficients, constant), Form(np.ones(len(x)), 0.0)
    assert GenericCheck(model, forms).candidate(x).values == tuple(form.exactly_at(x) for form in forms)


@pytest.mark.filterwarnings("error")
def test_values_without_bounds() -> None:
    model = SimpleNamespace(integer=np.ones(2, dtype=bool), lower=np.full(2, -np.inf), upper=np.full(2, np.inf))
    x, forms = np.array([3.0, 7.0]), (Form(np.array([1.0, 0.0]), 0.5), Form(np.array([0.0, LARGE + 2.0]), 0.0))
    assert GenericCheck(model, forms).candidate(x).values == tuple(form.exactly_at(x) for form in forms)
