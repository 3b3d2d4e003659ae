"""What enumeration leaves out is dominated: the same points as from every choice of units, one by one."""

import dataclasses
import itertools
import random

import pytest

import mopt
from mopt.enumeration import Sieve, nondominated_choices, soonest
from mopt.plan import Evaluator


def problem_of(seed):
    """Eight offers of the catalog, at prices of their own, with limits of every kind."""
    rng = random.Random(seed)
    workload = mopt.load_workload("resnet50-train")
    pool = mopt.load_catalog().where(provider="AWS", region="us-east-1")
    period = {"time_limit": 4.0, "billing": "elapsed", "max_launches": 2}
    usable = mopt.Problem(pool, workload, samples=2048, **period)
    offers = [
        dataclasses.replace(
            usable.by_name[name],
            max_units=rng.randint(1, 4),
            region="west" if k < 4 else "east",
            price_per_hour=usable.by_name[name].price_per_hour * rng.uniform(0.5, 2),
        )
        for k, name in enumerate(rng.sample(sorted(usable.unit_limits), 8))
    ]
    limits = {"max_types": rng.choice([1, 2, 3, 3])}
    if seed % 3 == 1:
        limits["quotas"] = [mopt.Quota(max_units=5, region="west")]
    if seed % 3 == 2:
        limits["min_units"] = {offers[0].name: 1}
    if seed % 2:
        limits["startup"] = 0.5
    return mopt.Problem(offers, workload, samples=rng.choice([64, 500, 2048]), **period, **limits)


def with_twins(problem):
    """The same with offers that differ in name, region and largest number only."""
    offers = list(problem.resources)
    offers[4] = dataclasses.replace(offers[0], name="twin", region="east")
    offers[5] = dataclasses.replace(offers[1], name="larger twin", max_units=offers[1].max_units + 1)
    offers[6] = dataclasses.replace(offers[1], name="smaller twin", max_units=1)
    return dataclasses.replace(problem, resources=tuple(offers))


def every_choice(problem):
    names = list(problem.unit_limits)
    for size in range(1, problem.max_types + 1):
        for types in itertools.combinations(names, size):
            for units in itertools.product(*(range(1, problem.unit_limits[i] + 1) for i in types)):
                yield dict(zip(types, units, strict=True))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("changed", [lambda problem: problem, with_twins])
def test_every_choice(seed, changed):
    problem = changed(problem_of(seed))
    (demand,) = problem.demand_by_name
    evaluator = Evaluator(problem, problem.peaks)

    def values(choice):
        worth = None if choice is None else evaluator.worth(choice)
        return None if worth is None else (worth.cost, worth.rented)

    found = {values(choice) for choice in nondominated_choices(problem, problem.peaks, Sieve.sift)} - {None}
    everything = {
        values(soonest(problem, {(i, demand): n for i, n in units.items()})) for units in every_choice(problem)
    } - {None}
    assert everything, "the problem has a plan"
    front = {a for a in everything if not any(b[0] <= a[0] and b[1] <= a[1] and b != a for b in everything)}
    assert front <= found <= everything
