"""What is paid beyond use, start-up time and a minimum: fronts against choices worked out one by one."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mopt
from mopt import InputError, Layer, Problem, Resource, Workload

WORKLOAD = Workload("net", "fp16", (Layer("fc", 1e9, 1e7, 1e5),), memory_fixed=1e9, memory_per_sample=1e7)
SAMPLES = 60
# Launch times of b samples: 0.01·b s, 0.004·b s; both compute-bound, with a floor of 0.02 s on the second.
SLOW = Resource("slow", 1e11, 1e11, 5e9, 1.0, max_units=3, unit_overhead=0.03)
FAST = Resource("fast", 2.5e11, 1e12, 5e9, 2.9, max_units=2, launch_floor=0.02)
PEAK = {"slow": 1e11, "fast": 2.5e11}
seconds = st.sampled_from([0.0, 0.05, 0.2, 0.45])
paying = given(seconds, st.sampled_from([0.0, 0.1, 0.3, 0.55]))
few = settings(max_examples=16, deadline=None, derandomize=True)


def problem(**values):
    return Problem([SLOW, FAST], WORKLOAD, SAMPLES, time_limit=0.5, **values)


def objectives(units, paid):
    """Cost in $ and utilization of units, each paid for some seconds."""
    price = {"slow": 1.0 / 3600, "fast": 2.9 / 3600}
    cost = sum(price[name] * n * paid[name] for name, n in units.items())
    return cost, 1e9 * SAMPLES / sum(PEAK[name] * n * paid[name] for name, n in units.items())


def nondominated(points):
    kept = []
    for cost, use in sorted(points, key=lambda point: (point[0], -point[1])):
        if not kept or use > kept[-1][1] * (1 + 1e-9):
            kept.append((cost, use))
    return np.array(kept)


def elapsed(slow, fast):
    """Seconds until 60 samples are done in a launch each; inf if they can't be."""
    def done(span):
        by_slow = slow * min(50.0, max(0.0, (span - 0.03) / 0.01)) if slow else 0.0
        by_fast = fast * min(125.0, span / 0.004) if fast and span >= 0.02 else 0.0
        return by_slow + by_fast

    low, high = 0.03 if slow else 0.0, 0.5
    if done(high) < SAMPLES:
        return np.inf
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if done(middle) >= SAMPLES else (middle, high)
    return high


@paying
@few
def test_reserved_pays_every_unit_alike(startup, minimum):
    plain, paid = (mopt.solve_epsilon_front(p) for p in (problem(), problem(startup=startup, minimum_billing=minimum)))
    times = max(0.5 + startup, minimum) / 0.5
    assert paid.values == pytest.approx(plain.values * [times, 1 / times])
    assert [point.units for point in paid] == [point.units for point in plain]
    assert paid[0].plan.billed == {name: pytest.approx(0.5 * times * n) for name, n in paid[0].units.items()}
    assert paid[0].samples == plain[0].samples


@paying
@few
def test_elapsed_equals_the_choices_one_by_one(startup, minimum):
    if minimum >= 0.5 + startup:
        return
    p = problem(billing="elapsed", max_launches=1, startup=startup, minimum_billing=minimum)
    points = []
    for slow, fast in itertools.product(range(4), range(3)):
        if np.isfinite(span := elapsed(slow, fast)):
            paid = max(span + startup, minimum)
            points.append(objectives({"slow": slow, "fast": fast}, {"slow": paid, "fast": paid}))
    expected = nondominated(points)
    front = mopt.solve_epsilon_front(p)
    assert front.values == pytest.approx(expected, rel=1e-6)
    for point in front:
        assert point.plan.elapsed == pytest.approx(elapsed(point.units.get("slow", 0), point.units.get("fast", 0)), rel=1e-6)
        for name, n in point.units.items():
            assert point.plan.billed[name] == pytest.approx(n * max(point.plan.elapsed + startup, minimum))
    # The model says the same, at its resolution.
    by_model = mopt.solve_epsilon_front(mopt.build_model(p))
    steps = np.ptp(expected, axis=0) * 2e-4 + 1e-9
    for cost, use in expected:
        assert ((by_model.values[:, 0] <= cost + steps[0]) & (by_model.values[:, 1] >= use - steps[1])).any()
    for cost, use in by_model.values:
        assert ((expected[:, 0] <= cost + steps[0]) & (expected[:, 1] >= use - steps[1])).any()


@paying
@few
def test_per_use_equals_the_best_share_of_every_choice(startup, minimum):
    front = mopt.solve_epsilon_front(problem(billing="per_use", startup=startup, minimum_billing=minimum))
    seconds_per_sample, overhead = {"slow": 0.01, "fast": 0.004}, {"slow": 0.03, "fast": 0.0}

    def paid(name, n, samples):
        return max(minimum, startup + overhead[name] + seconds_per_sample[name] * samples / n) if n else 0.0

    points = []
    for slow, fast in itertools.product(range(4), range(3)):
        for samples in np.linspace(0, SAMPLES, 241):
            shares = {"slow": samples, "fast": SAMPLES - samples}
            units = {"slow": slow, "fast": fast}
            room = {"slow": slow * 47.0, "fast": fast * 125.0}
            if all(shares[name] <= room[name] + 1e-9 for name in shares) and slow + fast:
                points.append(objectives(units, {name: paid(name, units[name], shares[name]) for name in units}))
    reached = nondominated(points)
    ends = [point for segment in front.segments for point in (segment.start, segment.at(0.4), segment.end)]
    for point in (*front, *ends):
        units = {name: point.units.get(name, 0) for name in PEAK}
        seconds = {name: paid(name, n, point.samples.get(name, 0.0)) for name, n in units.items()}
        assert point.objectives == pytest.approx(objectives(units, seconds), rel=1e-5)
        for name, n in units.items():
            assert point.plan.billed.get(name, 0.0) == pytest.approx(n * seconds[name], rel=1e-5, abs=1e-7)
            assert point.plan.busy.get((name, "net"), 0.0) == pytest.approx(
                seconds_per_sample[name] * point.samples.get(name, 0.0), rel=1e-5, abs=1e-6
            )
    # Nothing that the grid reaches is better than the front, and the front is no better than a grid this fine shows.
    for cost, use in reached:
        assert front.at(utilization=min(use, front.values[-1, 1])).objectives[0] <= cost * (1 + 1e-5)
    assert front.values[-1, 1] == pytest.approx(reached[-1, 1], rel=1e-3)
    assert front.values[0, 0] == pytest.approx(reached[0, 0], rel=1e-3)


def test_nothing_paid_beyond_use_is_the_default_and_said():
    assert any("no start-up time (startup = 0 s) and no minimum" in text for text in problem().assumptions)
    told = problem(startup=1.0).assumptions
    assert any(text == "what is paid has no minimum (minimum_billing = 0 s)" for text in told)
    assert not any("paid" in text for text in problem(startup=1.0, minimum_billing=1.0).assumptions)


def test_what_is_not_exact_is_refused():
    with pytest.raises(InputError, match=r"minimum_billing = 60.0: per_use billing needs launches='rate' for it"):
        problem(billing="per_use", launches="whole", minimum_billing=60.0)
    with pytest.raises(InputError, match=r"minimum_billing = 0.75: must be less than time_limit \+ startup"):
        problem(billing="elapsed", startup=0.25, minimum_billing=0.75)
    for field in ("startup", "minimum_billing"):
        with pytest.raises(InputError, match=field):
            problem(**{field: -1.0})


def test_a_budget_holds_for_all_that_is_paid():
    free = mopt.solve_epsilon_front(problem(startup=0.5))
    budget = free[0].objectives[0]
    assert mopt.solve_epsilon_front(problem(startup=0.5, budget=budget * 1.0001))[0].units == free[0].units
    with pytest.raises(mopt.InfeasibleError, match="budget"):
        mopt.solve_epsilon_front(replace(problem(startup=0.5), budget=budget * 0.999))
