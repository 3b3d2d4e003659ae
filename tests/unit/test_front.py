"""What can be read off a front, on fronts small enough to work out by hand."""

import copy
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import matplotlib
import numpy as np
import pytest

from mopt.errors import InputError
from mopt.front import Certificate, ParetoFront
from mopt.point import Plan, Point, Proof, Segment

matplotlib.use("Agg")

CERTIFICATE = Certificate(
    method="augmented", reason="costs on a lattice", exactness="every point", solves=7, resolution=(0.5, 0.25)
)
ROOM = ("a100", "resnet")


def front(points, **given):
    given = {"complete": True, "certificate": CERTIFICATE, "time_limit": 1.0} | given
    return ParetoFront(points=tuple(points), **given)


def finite(*objectives, **given):
    return front([Point(pair, {"x": pair[0]}) for pair in objectives], **given)


def plan(cost, utilization, units=1, launches=2.0, batch=64.0, memory=1e9):
    return Plan(
        units={"a100": units},
        dedicated={ROOM: units},
        samples={"a100": launches * batch},
        launches={ROOM: launches},
        batch={ROOM: batch},
        busy={ROOM: 0.5 * cost},
        billed={"a100": cost},
        memory={ROOM: memory},
        cost=cost,
        cost_per_hour=3600.0 * cost,
        utilization=utilization,
        time_limit=1.0,
    )


def rented(cost, capacity, work=4.0, **details):
    """A point with utilization work/capacity."""
    return Point(
        (cost, work / capacity), {"x": cost}, plan=plan(cost, work / capacity, **details), denominators=(1.0, capacity)
    )


# Utilization 4/D with D from 40 to 16 over cost 1 to 3: 0.1 to 0.25; then an open jump up, a second piece, and a point.
A, B = rented(1.0, 40.0), rented(3.0, 16.0, launches=6.0, batch=32.0, memory=2e9)
C, D = rented(4.0, 16.0, units=2), rented(6.0, 10.0, units=2)
E = rented(6.0, 8.0, units=3)
MIXED = front([A, B, E], segments=(Segment(A, B), Segment(C, D, start_closed=False, end_closed=False)))


def test_a_front_is_a_sequence_of_its_points():
    f = finite((1.0, 0.1), (2.0, 0.3), (4.0, 0.4))
    assert len(f) == 3
    assert [p.objectives[0] for p in f] == [1.0, 2.0, 4.0]
    assert f[-1] is f.points[2]
    assert f[:2] == f.points[:2]
    np.testing.assert_array_equal(f.values, [[1.0, 0.1], [2.0, 0.3], [4.0, 0.4]])
    assert f.resolution == (0.5, 0.25)


def test_equality_and_pickle_go_by_content():
    assert pickle.loads(pickle.dumps(MIXED)) == MIXED
    assert finite((1.0, 0.1)) == finite((1.0, 0.1)) != finite((1.0, 0.2))


def test_a_plan_is_worked_out_once_when_it_is_first_looked_at():
    asked = []

    def work_out():
        asked.append(1)
        return plan(1.0, 0.5, units=2)

    looks = (
        lambda point: point.plan,
        lambda point: point.units and point.plan,
        lambda point: pickle.loads(pickle.dumps(point)).plan,
        lambda point: copy.deepcopy(point).plan,
        lambda point: replace(point, proof=None).plan,
        lambda point: front([point])[0].plan,
    )
    for look in looks:
        asked.clear()
        point = Point((1.0, 0.5), {}, plan=work_out)
        assert not asked
        assert look(point) == plan(1.0, 0.5, units=2)
        assert point.units == {"a100": 2}
        assert point == Point((1.0, 0.5), {}, plan=plan(1.0, 0.5, units=2))
        assert asked == [1]
    assert Point((1.0, 0.5), {}).plan is None


@pytest.mark.parametrize("second", [(0.5, 0.2), (1.0, 0.2), (2.0, 0.1), (2.0, 0.05)])
def test_points_that_are_dominated_or_out_of_order_are_refused(second):
    with pytest.raises(InputError, match="point 1: objectives"):
        finite((1.0, 0.1), second)


def test_points_that_differ_only_exactly_are_kept():
    exact = [(Fraction(1), Fraction(2)), (Fraction(1) + Fraction(1, 10**30), Fraction(1))]
    assert len(front([Point((1.0, 2.0), {}, exact=pair) for pair in exact], senses=(1, 1))) == 2


def test_a_closed_end_must_be_a_point():
    with pytest.raises(InputError, match="segment 0: closed end"):
        front([A], segments=(Segment(A, B),))
    assert len(front([A], segments=(Segment(A, B, end_closed=False),))) == 1


def test_a_segment_must_run_down_the_front():
    with pytest.raises(InputError, match="segment 0: end"):
        front([A, B], segments=(Segment(B, A),))


def test_interpolation_is_linear_in_numerator_and_denominator():
    half = Segment(A, B, proof=Proof("line", None, 0.0, {}, "nothing below the line")).at(0.5)
    assert half.objectives == (2.0, pytest.approx(4.0 / 28.0, rel=1e-15))
    assert half.denominators == (1.0, 28.0)
    assert half.variables == {"x": 2.0}
    assert half.proof.method == "line"
    assert half.plan.utilization == half.objectives[1]
    assert (half.plan.cost, half.plan.cost_per_hour) == (2.0, 7200.0)
    assert half.units == {"a100": 1}
    assert half.launches == {ROOM: 4.0}
    assert half.samples == {"a100": 160.0}
    assert half.busy == {ROOM: 1.0}
    # 160 samples in 4 launches, and the footprint a quarter of the way back from 32 (2 GB) to 64 (1 GB) samples
    assert half.plan.batch == {ROOM: 40.0}
    assert half.memory == {ROOM: 1.75e9}


def test_interpolation_takes_variables_that_are_zero_at_one_end():
    a = Point((0.0, 1.0), {"x": 2.0})
    b = Point((1.0, 0.0), {"y": 4.0})
    assert Segment(a, b).at(0.25).variables == {"x": 1.5, "y": 1.0}


def test_interpolation_rents_what_either_end_uses():
    a, b = rented(1.0, 40.0, units=3), rented(3.0, 16.0)
    b = replace(b, plan=replace(b.plan, units={"t4": 2}, dedicated={("t4", "resnet"): 2}))
    segment = Segment(a, b)
    assert segment.at(0.25).units == {"a100": 3, "t4": 1}  # 2.25 and 0.5 units' work
    assert segment.at(0.75).dedicated == {ROOM: 1, ("t4", "resnet"): 2}
    assert segment.at(1.0).units == {"t4": 2}


@pytest.mark.parametrize("weight", [-0.1, 1.1, math.nan])
def test_interpolation_stays_between_the_ends(weight):
    with pytest.raises(InputError, match="weight"):
        Segment(A, B).at(weight)


def test_at_and_cheapest_on_a_finite_front():
    f = finite((1.0, 0.1), (2.0, 0.3), (4.0, 0.4))
    assert f.cheapest().objectives == (1.0, 0.1)
    assert f.cheapest(utilization=0.3) is f[1]
    assert f.cheapest(utilization=0.31) is f[2]
    assert f.cheapest(utilization=0.1 + 0.2) is f[1]  # 0.30000000000000004
    assert f.at(cost=3.9) is f[1]
    assert f.at(cost=math.inf) is f[2]
    assert f.at(utilization=0.0) is f[0]


def test_at_on_segments_takes_the_value_asked_for():
    assert MIXED.at(cost=2.0).objectives == (2.0, pytest.approx(1.0 / 7.0, rel=1e-15))
    assert MIXED.cheapest(utilization=1.0 / 7.0).objectives == (pytest.approx(2.0, rel=1e-15), 1.0 / 7.0)
    assert MIXED.at(cost=5.0).plan.units == {"a100": 2}
    assert MIXED.at(cost=5.0).objectives == (5.0, pytest.approx(4.0 / 13.0, rel=1e-15))


def test_open_ends_give_way_to_what_dominates_them():
    assert MIXED.cheapest(utilization=0.25) is B  # not C, which costs 1 more
    assert MIXED.at(cost=3.5) is B
    assert MIXED.at(cost=4.0) is B
    assert MIXED.cheapest(utilization=0.4) is E  # not D, of the same cost
    assert MIXED.at(cost=6.0) is E


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"utilization": 0.5}, r"utilization = 0\.5: must be at most 0\.4; this front has 0\.1 to 0\.4"),
        ({"cost": 0.5}, r"cost = 0\.5: must be at least 1\.0"),
        ({"cost": math.nan}, "cost = nan"),
        ({"cost": "2"}, "must be a number"),
        ({"price": 2.0}, "price given: give a value of one of cost, utilization"),
        ({"cost": 2.0, "utilization": 0.3}, "cost, utilization given"),
        ({}, "nothing given"),
    ],
)
def test_what_at_refuses(asked, message):
    with pytest.raises(InputError, match=message):
        finite((1.0, 0.1), (2.0, 0.3), (4.0, 0.4)).at(**asked)


def test_cheapest_bounds_the_second_objective_only():
    with pytest.raises(InputError, match="cheapest"):
        MIXED.cheapest(cost=2.0)


def test_names_and_senses_are_the_models_own():
    f = finite((9.0, 1.0), (5.0, 0.5), (1.0, 0.1), names=("profit", "risk of loss"), senses=(-1, 1))
    assert f.cheapest(**{"risk of loss": 0.7}).objectives == (5.0, 0.5)
    assert f.at(profit=4.0).objectives == (5.0, 0.5)
    with pytest.raises(InputError, match="must be at most 9"):
        f.at(profit=10.0)
    with pytest.raises(InputError, match=r"must be at least 0\.1"):
        f.cheapest(**{"risk of loss": 0.01})


def test_knee_of_points():
    # scaled: (0, 0), (1/4, 3/4), (1/2, 7/8), (1, 1): heights above the chord 0, 1/2, 3/8, 0
    assert finite((0.0, 0.0), (1.0, 6.0), (2.0, 7.0), (4.0, 8.0)).knee().objectives == (1.0, 6.0)
    assert finite((1.0, 0.1)).knee().objectives == (1.0, 0.1)
    assert finite((1.0, 0.1), (2.0, 0.3)).knee().objectives == (1.0, 0.1)


def test_knee_inside_a_segment():
    # y = N/D with N from 1 to 4, D from 1 to 2 is 1 + 2·2w/(1 + w), at w = √2 − 1 farthest above its chord
    a = Point((0.0, 1.0), {}, denominators=(1.0, 1.0))
    b = Point((1.0, 2.0), {}, denominators=(1.0, 2.0))
    knee = front([a, b], segments=(Segment(a, b),)).knee()
    assert knee.objectives == pytest.approx((math.sqrt(2) - 1, 3 - math.sqrt(2)), rel=1e-14)


def test_hypervolume_of_points():
    f = finite((1.0, 1.0), (2.0, 3.0), (4.0, 4.0))
    assert f.hypervolume() == (4 - 2) * (3 - 1)
    assert f.hypervolume((5.0, 0.0)) == 1 * 1 + 2 * 3 + 1 * 4
    assert f.hypervolume((3.0, 2.0)) == 1.0
    assert f.hypervolume((0.5, 0.0)) == 0.0
    assert finite((1.0, 1.0)).hypervolume() == 0.0
    with pytest.raises(InputError, match="reference"):
        f.hypervolume((1.0, math.inf))


def test_hypervolume_under_segments():
    a, b = Point((0.0, 0.0), {}), Point((2.0, 4.0), {})
    assert front([a, b], segments=(Segment(a, b),)).hypervolume() == 4.0
    # ∫ 4/D over cost 1..3 with D = 52 − 12·cost, above 0.1; B until cost 4; ∫ 4/D with D = 28 − 3·cost over 4..6
    expected = math.log(40 / 16) / 3 - 0.2 + 0.15 + math.log(16 / 10) * 4 / 3 - 0.2
    assert MIXED.hypervolume() == pytest.approx(expected, rel=1e-14)


def test_thin_keeps_ends_and_says_what_it_is():
    f = finite(*[(float(k), k / 10) for k in range(11)])
    thinned = f.thin(3)
    np.testing.assert_array_equal(thinned.values[:, 0], [0, 5, 10])
    assert not thinned.complete
    assert thinned.why_incomplete == "thinned to 3 points from a front of 11 points"
    assert thinned.resolution == pytest.approx((5.5, 0.75))
    assert f.thin(11) is f
    for n in (1, 2.5):
        with pytest.raises(InputError, match="n = "):
            f.thin(n)


def test_thin_spreads_points_over_segments():
    a, b = Point((0.0, 0.0), {}), Point((1.0, 1.0), {})
    thinned = front([a, b], segments=(Segment(a, b),)).thin(5)
    np.testing.assert_allclose(thinned.values[:, 0], [0, 0.25, 0.5, 0.75, 1], atol=0.05)
    assert thinned.segments == ()


def test_frame_of_a_finite_front():
    first = Point((1.0, 0.1), {}, plan=plan(1.0, 0.1, units=3))
    second = plan(2.0, 0.2)
    second = Plan(**{**vars(second), "units": {"t4": 2}, "samples": {"t4": 512}})
    frame = front([first, Point((2.0, 0.2), {}, plan=second)]).to_frame()
    assert list(frame.columns) == [
        "cost", "utilization", "cost_per_hour", "units[a100]", "units[t4]", "samples[a100]", "samples[t4]",
    ]  # fmt: skip
    assert frame["units[a100]"].tolist() == [3, 0]
    assert frame["samples[t4]"].tolist() == [0, 512]
    assert frame["samples[t4]"].dtype == np.int64
    assert list(finite((1.0, 2.0), names=("f1", "f2")).to_frame().columns) == ["f1", "f2"]


def test_frame_with_segments_has_a_row_for_each_end():
    frame = MIXED.to_frame()
    assert frame["segment"].fillna(-1).tolist() == [0, 0, 1, 1, -1]
    assert frame["closed"].tolist() == [True, True, False, False, True]
    assert frame["cost"].tolist() == [1.0, 3.0, 4.0, 6.0, 6.0]


def test_point_without_a_plan_says_so():
    point = Point((1.0, 2.0), {"x": 1.0})
    assert point.values == {"x": 1.0}
    for name in ("units", "dedicated", "samples", "launches", "busy", "memory"):
        with pytest.raises(InputError, match="not of a Problem"):
            getattr(point, name)


def test_empty_front():
    empty = front([], complete=False, why_incomplete="time limit", unexplored=((0.0, 1.0),))
    assert empty.values.shape == (0, 2)
    assert len(empty.to_frame()) == 0
    assert "time limit; utilization still open: 0 to 1" in repr(empty)
    for read in (empty.knee, empty.cheapest, empty.hypervolume, lambda: empty.at(cost=1.0)):
        with pytest.raises(InputError, match=r"no points .*time limit"):
            read()


def test_repr_states_what_was_proven():
    assert repr(MIXED) == (
        "ParetoFront of 3 points and 2 segments, complete\n"
        "  cost (minimised): 1 to 6\n"
        "  utilization (maximised): 0.1 to 0.5\n"
        "  method: augmented (costs on a lattice)\n"
        "  exactness: every point\n"
        "  resolution: 0.5 and 0.25\n"
        "  solves: 7"
    )


def test_html_is_short_and_escaped():
    f = finite(*[(float(k), k / 1000) for k in range(200)], names=("<b>", "y"))
    text = f._repr_html_()
    assert text.count("<tr>") <= 22
    assert "<b></th>" not in text.replace("<th>&lt;b&gt;</th>", "")
    assert "&lt;b&gt;" in text


def test_plot_shows_points_ends_knee_and_units():
    ax = MIXED.plot()
    drawn = {line.get_label(): line.get_xydata() for line in ax.get_lines()}
    np.testing.assert_array_equal(drawn["point of the front"], MIXED.values)
    np.testing.assert_array_equal(drawn["open end"], [C.objectives, D.objectives])
    np.testing.assert_array_equal(drawn["knee"], [MIXED.knee().objectives])
    np.testing.assert_array_equal(drawn["segment"][[0, -1]], [A.objectives, B.objectives])
    assert ax.get_xlabel() == "cost (\\$ per period of 1 s)"
    assert ax.get_ylabel() == "utilization (% of rented peak)"
    assert finite((1.0, 2.0), senses=(1, -1), names=("f1", "f2")).plot(ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("f1 (minimised)", "f2 (maximised)")
    matplotlib.pyplot.close(ax.figure)


def test_plotted_border_steps_right_before_up():
    ax = finite((1.0, 1.0), (2.0, 3.0)).plot()
    np.testing.assert_array_equal(ax.get_lines()[0].get_xydata(), [(1, 1), (2, 1), (2, 3)])
    matplotlib.pyplot.close(ax.figure)
