"""Every kind of picture in its typical situations: against stored references, and that no text lies on another.

After a wanted change: `pytest tests/unit/test_pictures.py --mpl-generate-path=tests/unit/baseline`, and look at each.
"""

import functools
import math

import matplotlib
import numpy as np
import pytest
import scenes
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Polygon
from matplotlib.transforms import Bbox

import mopt

matplotlib.use("Agg")

# The release that drew the references, which the extra `test` installs: others place text a pixel elsewhere. What counts
# is asserted below with any release.
same_release = pytest.mark.skipif(
    not matplotlib.__version__.startswith("3.11."), reason="references were drawn with matplotlib 3.11"
)

NAMES = ("reserved", "elapsed", "per_use")
FEW = [scenes.MACHINES[k] for k in (0, 4, 7)]
WORKLOADS = [scenes.NET, scenes.DECODER, scenes.ENCODER]
PICTURES = {
    "front_of_few_points": lambda: scenes.solved().plot(),
    "front_of_many_points": lambda: scenes.many_points().plot(),
    "front_of_segments": lambda: scenes.segments().plot(),
    "front_cut_short": lambda: scenes.cut_short().plot(),
    "front_cut_short_anywhere": lambda: scenes.cut_short(()).plot(),
    "front_stopped": lambda: scenes.stopped().plot(),
    "front_of_elapsed": lambda: scenes.billed("elapsed").plot(),
    "front_of_per_use": lambda: scenes.billed("per_use").plot(),
    "front_with_long_names": lambda: scenes.long_names().plot(),
    "front_of_one_point": lambda: scenes.one_point().plot(),
    "front_of_a_model": lambda: scenes.knapsack().plot(),
    "fleets_of_few_points": lambda: scenes.solved().plot_fleets(),
    "fleets_of_many_points": lambda: scenes.many_points().plot_fleets(),
    "fleets_by_cost": lambda: scenes.many_points().plot_fleets(by="cost"),
    "fleets_along_a_segment": lambda: scenes.billed("per_use").plot_fleets(by="cost"),
    "fleets_with_long_names": lambda: scenes.long_names().plot_fleets(),
    "fleets_of_many_types": lambda: scenes.many_types().plot_fleets(),
    "fleets_of_one_point": lambda: scenes.one_point().plot_fleets(),
    "three_billings": lambda: mopt.compare([scenes.billed(name) for name in NAMES], NAMES),
    "six_fronts": lambda: mopt.compare(
        [scenes.solved(samples) for samples in range(30_000, 60_000, 5_000)], [f"{n},000 samples" for n in range(30, 60, 5)]
    ),
    "robust_front": lambda: scenes.robust().plot(),
    "roofline_of_one": lambda: mopt.plot_roofline(scenes.MACHINES[1], scenes.NET),
    "rooflines_alone": lambda: mopt.plot_roofline(scenes.MACHINES[:3], precision="fp32"),
    "rooflines_of_three": lambda: mopt.plot_roofline(FEW, WORKLOADS, batches=(1, 4, 16, 64, 256)),
    "rooflines_of_eight": lambda: mopt.plot_roofline(scenes.MACHINES, WORKLOADS[:2]),
    "rooflines_of_forty": lambda: mopt.plot_roofline(scenes.forty_machines()),
    "rooflines_of_two_precisions": lambda: mopt.plot_roofline(scenes.MACHINES[:2], [scenes.NET, scenes.DOUBLE]),
    "roofline_measured": lambda: mopt.plot_roofline([scenes.MACHINES[1], scenes.MEASURED], scenes.NET),
    "launch_time": lambda: mopt.plot_launch_time(scenes.MACHINES[5], scenes.DECODER),
    "launch_time_with_floor": lambda: mopt.plot_launch_time(scenes.MEASURED, scenes.NET),
    "launch_time_with_latency": lambda: mopt.plot_launch_time(scenes.MACHINES[6], scenes.NET, latency_limit=0.02),
    "launch_time_of_a_table": lambda: mopt.plot_launch_time(scenes.MACHINES[4], scenes.TABLE),
    "roofline_of_a_table": lambda: mopt.plot_roofline(FEW[:2], scenes.TABLE, batches=(1, 2, 4, 8, 16, 32)),
    "launch_time_without_limit": lambda: mopt.plot_launch_time(scenes.MACHINES[0], scenes.WITHOUT_MEMORY),
}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@functools.cache
def drawn(name):
    return PICTURES[name]()


@pytest.fixture(params=PICTURES)
def picture(request):
    return drawn(request.param)


@same_release
@pytest.mark.mpl_image_compare(tolerance=1.0, style="default", baseline_dir="baseline",
                              savefig_kwargs={"pil_kwargs": {"optimize": True}})  # fmt: skip
@pytest.mark.parametrize("name", PICTURES)
def test_picture(name):
    return drawn(name).figure


# -- Text ------------------------------------------------------------------------------------------------------------


def boxes(ax: Axes):
    """What is written on a picture, and where it is, in pixels: each text by itself, but a legend as a whole."""
    canvas = FigureCanvasAgg(ax.figure)
    ax.figure.draw_without_rendering()
    renderer = canvas.get_renderer()
    ticks = [text for axis in (ax.xaxis, ax.yaxis) for text in numbers(axis)]
    written = [*ax.texts, *ticks, ax.xaxis.label, ax.yaxis.label, ax.xaxis.get_offset_text()]
    found = [(text.get_text(), text.get_window_extent(renderer)) for text in written if text.get_text()]
    if (legend := ax.get_legend()) is not None:
        found.append(("legend", legend.get_window_extent(renderer)))
    return found


def numbers(axis):
    """The numbers of an axis that are within its limits, and so drawn."""
    low, high = axis.get_view_interval()
    step = 1e-9 * (high - low)
    places = zip(axis.get_majorticklabels(), axis.get_majorticklocs(), strict=True)
    return [text for text, at in places if low - step <= at <= high + step]


def test_no_text_lies_on_another(picture):
    found = boxes(picture)
    clashes = [
        (first, second)
        for k, (first, here) in enumerate(found) for second, there in found[k + 1 :] if here.overlaps(there)
    ]  # fmt: skip
    assert clashes == []


def test_no_text_is_cut_off(picture):
    frame = picture.figure.bbox.padded(0.5)
    assert [text for text, box in boxes(picture) if not (frame.contains(*box.p0) and frame.contains(*box.p1))] == []


def test_no_label_lies_on_a_marker(picture):
    boxes(picture)  # lays the picture out
    labels = [(text.get_text(), text.get_window_extent()) for text in picture.texts]
    markers = [
        Bbox.from_bounds(*(picture.transData.transform(xy) - size / 2), size, size)
        for line in picture.get_lines() if line.get_marker() not in ("None", "", None) for xy in line.get_xydata()
        for size in [line.get_markersize() * picture.figure.dpi / 72]
    ]  # fmt: skip
    assert [text for text, box in labels for marker in markers if box.overlaps(marker)] == []


def test_the_picture_is_grey(picture):
    canvas = FigureCanvasAgg(picture.figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].astype(int)
    assert (pixels.max(axis=-1) - pixels.min(axis=-1)).max() == 0


def test_the_picture_is_6_by_4_inches(picture):
    assert tuple(picture.figure.get_size_inches()) == (6.0, 4.0)


def test_names_are_shown_letter_by_letter():
    names = ("cloud/$a$b", "cloud/_c", r"cloud/d_$\frac$")
    front = scenes.front([scenes.rented(1.0 + k, 0.2 + 0.1 * k, **{name: 1}) for k, name in enumerate(names)])
    ax = front.plot()
    assert [text.get_text() for text in ax.texts] == [r"1 × \$a\$b", r"1 × d_\$\frac\$"]
    ax.figure.canvas.draw()  # which raises on mathematics that can't be read
    legend = front.plot_fleets().get_legend()
    assert sorted(text.get_text().strip() for text in legend.get_texts()) == [r"\$a\$b", "_c", r"d_\$\frac\$"]


def test_names_lose_what_they_share_and_their_middle():
    ax = scenes.long_names().plot_fleets()
    assert "North-Western…96ads_A100_v4" in [text.get_text() for text in ax.get_legend().get_texts()]


# -- Axes ------------------------------------------------------------------------------------------------------------


def test_powers_of_ten_stand_in_the_label():
    tiny = scenes.front([scenes.rented(2e-4, 0.1), scenes.rented(4e-4, 0.2)]).plot()
    assert tiny.get_xlabel() == r"cost ($10^{-6}$ \$ per period of 1 s)"
    tiny.figure.draw_without_rendering()
    assert {"200", "300", "400"} <= {text.get_text() for text in numbers(tiny.xaxis)}
    huge = scenes.front([mopt.Point((1e6, 5e9), {}), mopt.Point((2e6, 1e9), {})], names=("a", "b"), senses=(1, 1))
    ax = huge.plot()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a ($10^{6}$, minimised)", "b ($10^{9}$, minimised)")


def test_the_given_axes_are_used():
    figure, (left, right) = plt.subplots(1, 2, layout="constrained", figsize=(12, 4))
    assert scenes.solved().plot(left) is left
    assert mopt.plot_roofline(FEW, scenes.NET, ax=right) is right
    assert figure.axes == [left, right]


def test_a_figure_needs_no_canvas_of_its_own():
    figure = Figure(figsize=(6, 4), layout="constrained")
    mopt.plot_roofline(FEW, scenes.NET, ax=figure.add_subplot())
    scenes.solved().plot(figure.add_subplot())


# -- What is drawn ---------------------------------------------------------------------------------------------------


def lines(ax: Axes):
    return {line.get_label(): line for line in ax.get_lines()}


def test_no_plan_lies_on_the_infeasible_side():
    for front in (scenes.segments(), scenes.many_points(), scenes.knapsack()):
        ax = front.plot()
        (area,) = [patch for patch in ax.get_children() if patch.get_label() == "infeasible side"]
        path = area.get_path()
        step = [sense * 1e-6 * side for sense, side in zip(front.senses, np.ptp(front.values, axis=0), strict=True)]
        worse, better = front.values + step, front.values - step
        assert not path.contains_points(worse).any()
        assert path.contains_points(better).all()


def test_what_a_stopped_search_leaves_open_is_hatched_and_not_shaded():
    front = scenes.stopped()
    ax = front.plot()
    areas = {patch.get_label(): patch.get_path() for patch in ax.get_children() if isinstance(patch, Polygon)}
    beyond = [point.objectives for point in scenes.many_points()[len(front) :]]
    shown = [xy for xy in beyond if ax.viewLim.contains(*xy)]
    assert len(shown) == 3
    assert areas["still open"].contains_points(shown).all()
    assert not areas["infeasible side"].contains_points(beyond).any()


def test_rooflines_bend_at_their_ridge_points():
    ax = mopt.plot_roofline(FEW)
    inside = [line for line in ax.get_lines() if len(line.get_xdata()) == 3 and line.get_transform() == ax.transData]
    for resource, line in zip(FEW, inside, strict=True):
        x, y = line.get_xydata()[1]
        assert x == resource.ridge_point("fp16")
        assert y == pytest.approx(resource.peak("fp16") / 1e12, rel=1e-12)


def test_markers_are_what_a_unit_does_with_a_batch():
    ax = mopt.plot_roofline(scenes.MEASURED, scenes.NET, batches=(1, 8, 10_000))
    (path,) = [line for line in ax.get_lines() if line.get_marker() == "o" and len(line.get_xdata())]
    # 10,000 samples don't fit; the floor of 20 ms holds for 1 and 8.
    np.testing.assert_allclose(path.get_ydata(), [12.004e9 / 0.02 / 1e12, 8 * 12.004e9 / 0.02 / 1e12])
    np.testing.assert_allclose(path.get_xdata(), scenes.NET.arithmetic_intensity(np.array([1.0, 8.0])))
    assert {text.get_text() for text in ax.texts} >= {"1", "8"}


def test_the_launch_time_and_its_limit():
    ax = mopt.plot_launch_time(scenes.MEASURED, scenes.NET)
    drawn = lines(ax)
    tau = mopt.launch_time(scenes.MEASURED, scenes.NET)
    x, y = drawn["launch time"].get_data()
    np.testing.assert_allclose(y, 1e3 * tau(x))
    limit = mopt.batch_limit(scenes.MEASURED, scenes.NET)
    assert f"batch limit {limit.batch:g} (memory)" in drawn
    assert "piece: 20 ms" in drawn
    assert math.isclose(drawn["2 kinks between 3 pieces"].get_xdata()[0], 0.02 / tau.pieces[1][0], rel_tol=0.01)


def test_each_front_compared_has_a_style_of_its_own():
    fronts = [scenes.solved(samples) for samples in range(30_000, 60_000, 5_000)]
    ax = mopt.compare(fronts, list("abcdef"))
    legend: Legend = ax.get_legend()
    styles = {(line.get_marker(), line.get_linestyle(), line.get_color()) for line in legend.get_lines()}
    assert len(styles) == 6


# -- Wrong input -----------------------------------------------------------------------------------------------------

EMPTY = scenes.front([], complete=False, why_incomplete="time limit")
INFERENCE = mopt.Resource("chip", {"int8": 1e12}, 1e11, 1e9, 1.0, trains=False)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: mopt.compare([], []), "fronts = 0: must be 1 to 6 fronts"),
        (lambda: mopt.compare([scenes.segments()] * 7, list("abcdefg")), "fronts = 7: must be 1 to 6 fronts"),
        (lambda: mopt.compare([scenes.segments()], ["a", "b"]), "labels = 2: must be 1, one a front"),
        (lambda: mopt.compare([scenes.segments(), scenes.knapsack()], ["a", "b"]), "front 1: names"),
        (
            lambda: mopt.compare([scenes.segments(), scenes.front([], time_limit=2.0)], ["a", "b"]),
            r"front 1: time_limit = 2\.0: must be 1\.0 as in front 0",
        ),
        (lambda: scenes.solved().plot_fleets(by="price"), "by = 'price': must be 'units' or 'cost'"),
        (lambda: EMPTY.plot_fleets(), "points = 0: must be points with plans"),
        (lambda: scenes.knapsack().plot_fleets(), "points = 12: must be points with plans"),
        (lambda: scenes.segments().plot_fleets(by="cost"), "give the resources of the front, a100 missing"),
        (lambda: mopt.plot_roofline([]), "resources = 0: must be at least one"),
        (lambda: mopt.plot_roofline(FEW, scenes.NET, batches=()), "batches = 0: must be at least one"),
        (lambda: mopt.plot_roofline(FEW, scenes.NET, batches=(1, 0)), "batches = 0: must be a finite number greater"),
        (lambda: mopt.plot_roofline(FEW, scenes.NET, batches=(math.nan,)), "batches = nan: must be a finite number"),
        (lambda: mopt.plot_roofline(FEW, scenes.NET, batches=("8",)), "batches = '8': must be a finite number"),
        (lambda: mopt.plot_roofline(INFERENCE, scenes.NET), r"has no fp16 peak \(has int8\)"),
        (lambda: mopt.plot_roofline(FEW, precision="fp17"), "precision = 'fp17': must be one of fp64, "),
        (lambda: mopt.plot_roofline(FEW, precision="int8"), "precision = 'int8': has peaks for fp16, fp32"),
        (lambda: mopt.plot_roofline("a100"), "resources = 'a100': must be a Resource"),
        (lambda: mopt.plot_roofline(FEW, ["resnet50-train"]), "workloads = 'resnet50-train': must be a Workload"),
        (lambda: mopt.plot_launch_time(INFERENCE, scenes.NET), r"has no fp16 peak \(has int8\)"),
        (lambda: mopt.plot_launch_time(FEW[0], scenes.DECODER), "needs 16.2 GB for a batch of 1"),
        (lambda: mopt.plot_launch_time(FEW[0], scenes.NET, latency_limit=0.0), "latency_limit = 0.0: must be a finite"),
        (lambda: mopt.plot_launch_time(FEW[0], scenes.NET, latency_limit=1e-6), "can't run workload"),
    ],
)
def test_wrong_input_is_named(draw, message):
    with pytest.raises(mopt.InputError, match=message):
        draw()
    assert plt.get_fignums() == []


def test_all_faults_of_a_call_are_told_at_once():
    with pytest.raises(mopt.InputError) as caught:
        mopt.plot_roofline([], "net", batches=(-1, 2, math.inf))
    assert [fault.field for fault in caught.value.faults] == ["resources", "workloads", "batches", "batches"]


def test_an_empty_front_is_drawn_as_axes_alone():
    ax = EMPTY.plot()
    assert ax.get_xlabel().startswith("cost")
    assert len(ax.get_lines()) == 0
