"""Fronts of published instances, point by point."""

from __future__ import annotations

from functools import partial

import pytest
from instances import facility_location, mokp, pyaugmecon_knapsack, set_partitioning, voptlib_knapsack

from mopt import solve_epsilon_front

KNAPSACKS = [
    pytest.param(voptlib_knapsack, "2KP50-11", 43, id="2KP50-11"),
    pytest.param(voptlib_knapsack, "2KP50-50", 51, id="2KP50-50"),
    pytest.param(voptlib_knapsack, "2KP100-50", 149, id="2KP100-50", marks=pytest.mark.long),
    pytest.param(pyaugmecon_knapsack, "2kp50", 35, id="2kp50"),
    pytest.param(pyaugmecon_knapsack, "2kp100", 121, id="2kp100", marks=pytest.mark.long),
]
PARTITIONS = [
    pytest.param(set_partitioning, "nw15", 2, id="nw15"),
    pytest.param(set_partitioning, "nw19", 20, id="nw19", marks=pytest.mark.long),
    pytest.param(set_partitioning, "nw21", 10, id="nw21"),
    pytest.param(set_partitioning, "nw40", 10, id="nw40"),
    pytest.param(set_partitioning, "nw41", 11, id="nw41"),
]


@pytest.mark.parametrize("name", ["2KP50-11", "2KP50-50", "2KP100-50"])
def test_listing_gives_the_known_front(name):
    model, known = voptlib_knapsack(name)
    front = solve_epsilon_front(model, objectives=(model.f1, model.f2))
    assert sorted(map(tuple, front.values)) == known
    assert front.certificate.method == "enumeration by reduced costs"
    assert front.complete


@pytest.mark.parametrize(("read", "name", "number"), KNAPSACKS + PARTITIONS)
def test_front_is_the_known_one(read, name, number):
    model, known = read(name)
    front = solve_epsilon_front(model, objectives=(model.f1, model.f2), method="solver")
    assert sorted(map(tuple, front.values)) == known
    assert len(known) == number
    assert front.complete
    assert front.certificate.solves <= number + 3
    assert front.statistics["retried"] == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("build", "number"),
    [
        pytest.param(partial(mokp, 1), 317, id="knapsack-200-1"),
        pytest.param(partial(facility_location, "F53-56"), 318, id="F53-56"),
    ],
)
def test_front_has_the_known_number_of_points(build, number):
    model = build()
    front = solve_epsilon_front(model, objectives=(model.f1, model.f2), method="solver")
    assert front.complete
    assert len(front) == number
    assert front.certificate.solves <= number + 3
