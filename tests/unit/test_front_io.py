"""Front files: an equal front comes back, and damage is named."""

import json
import math
from fractions import Fraction

import pytest

from mopt.errors import InputError
from mopt.front import Certificate, ParetoFront
from mopt.front_io import load_front
from mopt.point import Plan, Point, Proof, Segment

KEY = ("AWS/us-east-1/p4d, spot", "résnet|50")
PLAN = Plan(
    units={KEY[0]: 3},
    dedicated={KEY: 3},
    samples={KEY[0]: 2048},
    launches={KEY: 6},
    batch={KEY: 2048 / 6},
    busy={KEY: 0.1 + 0.2},
    billed={KEY[0]: 3.0},
    memory={KEY: 2.4e10},
    cost=1 / 3,
    cost_per_hour=1200.0,
    utilization=0.1,
    time_limit=1.0,
    elapsed=0.75,
    notes=("one note",),
)
PROOF = Proof("ratio cut", -math.inf, 0.0, {"seed": 7, "presolve": "off", "limits": (1, math.inf)}, "nothing below")
START = Point((1 / 3, 0.1), {"x[1]": 1e-300}, (Fraction(1, 3), Fraction(-1, 10)), PROOF, PLAN, (1.0, 1e15))
END = Point((2.0, 0.7), {"x[1]": 3.0}, denominators=(1.0, 2e14))
FRONT = ParetoFront(
    points=(START,),
    segments=(Segment(START, END, end_closed=False, proof=PROOF),),
    complete=False,
    certificate=Certificate(method="m", reason="r", exactness="e", solves=4, resolution=(0.0, 1e-6)),
    statistics={"solves": 4, "retried": [{"seed": 1}], "seconds": (0.1, 0.2)},
    unexplored=((0.7, math.inf),),
    why_incomplete="time limit",
    assumptions=("max_units = 16",),
    time_limit=1.0,
)


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "front.json"
    FRONT.save(path)
    return path


def test_round_trip_is_equal(stored):
    loaded = load_front(stored)
    assert loaded == FRONT
    assert loaded[0].exact == (Fraction(1, 3), Fraction(-1, 10))
    assert loaded[0].dedicated == {KEY: 3}
    assert isinstance(loaded[0].samples[KEY[0]], int)
    assert loaded.to_frame().equals(FRONT.to_frame())


def test_the_file_is_json_with_a_version(stored):
    def refuse(name):
        raise AssertionError(name)

    content = json.loads(stored.read_text(encoding="utf-8"), parse_constant=refuse)
    assert (content["format"], content["version"]) == ("mopt front", 1)


def edited(path, edit):
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def drop(key):
    return lambda content: content["front"].pop(key)


def put(value, *place):
    def edit(content):
        for key in place[:-1]:
            content = content[key]
        content[place[-1]] = value

    return edit


POINT = ("front", "points", 0)


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (put("mopt catalog", "format"), "format"),
        (put(2, "version"), "version"),
        (drop("points"), "front.points"),
        (drop("certificate"), "front.certificate"),
        (put(1, "front", "colour"), "front.colour"),
        (put("much", "front", "time_limit"), "front.time_limit"),
        (put([1, 2, 3], "front", "senses"), "front.senses"),
        (put([0.1], *POINT, "objectives"), "front.points[0].objectives[1]"),
        (put(["1/0", "1"], *POINT, "exact"), "front.points[0].exact[0]"),
        (put(["one", "1"], *POINT, "exact"), "front.points[0].exact[0]"),
        (put({"x": None}, *POINT, "variables"), "front.points[0].variables.x"),
        (put({"a": 1.5}, *POINT, "plan", "units"), "front.points[0].plan.units.a"),
        (put([["a", 1]], *POINT, "plan", "dedicated"), "front.points[0].plan.dedicated"),
        (put([["a", "w", "x"]], *POINT, "plan", "busy"), "front.points[0].plan.busy"),
        (put("yes?", "front", "segments", 0, "start_closed"), "front.segments[0].start_closed"),
    ],
)
def test_damage_is_named(stored, edit, field):
    with pytest.raises(InputError) as caught:
        load_front(edited(stored, edit))
    assert all(fault.file == str(stored) for fault in caught.value.faults)
    assert any(fault.field.startswith(field) for fault in caught.value.faults), caught.value


def test_points_changed_by_hand_are_noticed(stored):
    with pytest.raises(InputError) as caught:
        load_front(edited(stored, put([5.0, 0.1], *POINT, "objectives")))
    (fault,) = caught.value.faults
    assert (fault.file, fault.record, fault.field) == (str(stored), "segment 0", "closed end")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"front": {}}'])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"other\.json"):
        load_front(path)


def test_half_a_file_is_refused(stored):
    stored.write_bytes(stored.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"front\.json"):
        load_front(stored)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.json.*can't be read"):
        load_front(tmp_path / "nowhere.json")
