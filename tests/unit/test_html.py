"""The page of a front: what is put into it, and what it does in a real browser."""

import io
import itertools
import json
import re
import shutil
import sys

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest
import scenes
from pandas.testing import assert_frame_equal

import mopt
from mopt.page import page_data
from mopt.trace import MissingExtraError

pytest.importorskip("plotly", reason="needs the extra html")

# What must not break out of where it stands: in HTML, in a script, in plotly's labels, in a formula, in CSV.
NASTY = '<b>&"\'</script><script>window.broken = true</script> $x$ %{y} <!--, \\u003c'


def nasty_front():
    return scenes.front([scenes.rented(1.0, 0.1, **{NASTY: 2}), scenes.rented(2.0, 0.2, **{NASTY: 3, "t4": 1})])


def two_demands():
    chip, big = (scenes.machine(name, 100.0, 500.0, 24.0, 1.0 + k) for k, name in enumerate(("chip", "big")))
    demands = [mopt.Demand(scenes.NET, 4000), mopt.Demand(scenes.ENCODER, 800)]
    problem = mopt.Problem([chip, big], demands=demands, time_limit=1.0)
    return mopt.solve_epsilon_front(problem)


def embedded(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)[1])


# -- What is in the file ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "front",
    [scenes.solved, lambda: scenes.billed("elapsed"), lambda: scenes.billed("per_use"), scenes.segments, scenes.knapsack,
     scenes.cut_short, scenes.one_point, nasty_front, two_demands],
)  # fmt: skip
def test_the_table_of_the_page_is_the_frame(front):
    front = front()
    data = page_data(front)
    table = "\n".join([data["header"], *(row["csv"] for row in data["rows"] if row["csv"] is not None)])
    assert table + "\n" == front.to_frame().to_csv(index=False)
    assert_frame_equal(pd.read_csv(io.StringIO(table)), pd.read_csv(io.StringIO(front.to_frame().to_csv(index=False))))


def test_points_along_segments_are_on_them():
    front = scenes.segments()
    rows = page_data(front)["rows"]
    for number, segment in enumerate(front.segments):
        along = [row for row in rows if row["segment"] == number]
        assert len(along) == 26
        for row in along:
            assert row["at"] == segment.at(row["share"]).objectives
        assert [along[0]["closed"], along[-1]["closed"]] == [segment.start_closed, segment.end_closed]


def test_many_segments_have_fewer_points_each():
    points = [scenes.rented(1.0 + k, 0.1 + 0.001 * k) for k in range(301)]
    pairs = itertools.pairwise(points)
    front = scenes.front(points, segments=tuple(mopt.Segment(a, b) for a, b in pairs))
    assert len(page_data(front)["rows"]) == 300 * (2 + 2)


def test_the_plan_of_a_point_is_told_in_full():
    front = scenes.solved()
    point, row = front[1], page_data(front, front._problem())["rows"][1]
    assert dict(row["facts"])["cost per hour"] == f"{point.plan.cost_per_hour:.6g} $/h"
    table = pd.DataFrame(row["table"], columns=row["columns"]).set_index("resource")
    assert table["units"].to_dict() == {name: str(n) for name, n in point.units.items()}
    for name, samples in point.samples.items():
        assert table.loc[name, "samples"].replace("\u202f", "") == str(samples)
        assert float(table.loc[name, "batch"]) == pytest.approx(point.plan.batch[name, scenes.NET.name], rel=1e-5)
    assert row["notes"] == list(point.plan.notes)
    assert row["proof"] == point.proof.statement


def test_the_roofline_is_what_the_plan_reaches():
    front = scenes.solved()
    problem = front._problem()
    for point, row in zip(front, page_data(front, problem)["rows"], strict=True):
        for roof in row["roofs"]:
            resource, pair = problem.by_name[roof["name"]], (roof["name"], scenes.NET.name)
            assert roof["peak"] == resource.peak("fp16") / 1e12
            assert roof["intensity"] == scenes.NET.arithmetic_intensity(point.plan.batch[pair])
            # An average over launches of nearly the same batch.
            speed = scenes.NET.flops(point.plan.batch[pair]) / mopt.launch_time(resource, scenes.NET)(point.plan.batch[pair])
            assert roof["reached"] == pytest.approx(speed / 1e12, rel=1e-3)
            assert roof["reached"] <= resource.attainable_flops(roof["intensity"], "fp16") / 1e12


def test_what_is_not_known_of_a_launch_is_left_out():
    machines = scenes.MACHINES[:1]
    front = mopt.solve_epsilon_front(mopt.Problem(machines, scenes.MEASURED_TABLE, samples=4000, time_limit=1.0))
    (roof,) = page_data(front, front._problem())["rows"][0]["roofs"]
    assert set(roof) == {"name", "workload", "peak", "ridge"}  # times were measured, not bytes
    front = mopt.solve_epsilon_front(mopt.Problem(machines, scenes.TABLE, samples=4000, time_limit=1.0))
    (roof,) = page_data(front, front._problem())["rows"][0]["roofs"]
    assert roof["reached"] <= machines[0].attainable_flops(roof["intensity"], "fp16") / 1e12


def test_several_demands_name_their_workloads():
    front = two_demands()
    row = page_data(front, front._problem())["rows"][0]
    assert {cells[2] for cells in row["table"]} == {scenes.NET.name, scenes.ENCODER.name}
    assert {roof["workload"] for roof in row["roofs"]} == {scenes.NET.name, scenes.ENCODER.name}


def test_a_front_of_a_users_own_model_of_a_problem_has_rooflines(tmp_path):
    model = mopt.build_model(mopt.Problem(scenes.MACHINES[:5], scenes.NET, samples=40000, time_limit=1.0))
    model.few = pyo.Constraint(expr=model.units[scenes.MACHINES[2].name] <= 3)
    mopt.solve_epsilon_front(model).to_html(tmp_path / "front.html")
    assert all(row["roofs"] for row in embedded(tmp_path / "front.html")["rows"])


def test_a_front_that_was_read_needs_the_problem_for_rooflines(tmp_path):
    front = scenes.solved()
    front.save(tmp_path / "front.json")
    read = mopt.load_front(tmp_path / "front.json")
    read.to_html(tmp_path / "without.html")
    read.to_html(tmp_path / "with.html", front._problem())
    front.to_html(tmp_path / "front.html")
    assert not any(row["roofs"] for row in embedded(tmp_path / "without.html")["rows"])
    assert embedded(tmp_path / "with.html") == embedded(tmp_path / "front.html")


def test_names_stand_in_the_page_as_they_are(tmp_path):
    nasty_front().to_html(tmp_path / "front.html")
    data = embedded(tmp_path / "front.html")
    assert data["resources"] == [NASTY, "t4"]
    assert data["rows"][0]["table"][0][1] == NASTY


def test_the_page_names_no_address_to_fetch_from(tmp_path):
    scenes.one_point().to_html(tmp_path / "front.html")
    text = (tmp_path / "front.html").read_text(encoding="utf-8")
    own = re.sub(r"<script>/\*.*?</script>", "", text, count=1, flags=re.DOTALL)  # without the library
    assert len(own) < 100_000
    assert re.findall(r"https?://|\bsrc=|<link", own) == []


def test_another_problem_is_refused(tmp_path):
    other = mopt.Problem(scenes.MACHINES[:1], scenes.NET, samples=40000, time_limit=1.0)
    with pytest.raises(mopt.InputError, match=r"problem = '1 resources': must be the one .* lacks cloud/region-1/a100-40"):
        scenes.solved().to_html(tmp_path / "front.html", other)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written_to_is_named(tmp_path):
    with pytest.raises(mopt.InputError, match="can't be written to: Is a directory"):
        scenes.one_point().to_html(tmp_path)


def test_without_plotly_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mopt\[html\]'"):
        scenes.one_point().to_html(tmp_path / "front.html")


# -- In a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def driver():
    webdriver = pytest.importorskip("selenium.webdriver")
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    program = shutil.which("chromedriver")
    if browser is None or program is None:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options, webdriver.ChromeService(program))
    yield made
    made.quit()


class Page:
    """A page in the browser, and what a person sees and does there."""

    def __init__(self, driver, front, folder, **given):
        self.driver, self.folder = driver, folder
        front.to_html(folder / "front.html", **given)
        driver.get_log("performance")
        driver.get_log("browser")
        driver.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
        driver.get((folder / "front.html").as_uri())
        self.wait(lambda: self.find("#front .main-svg"))

    def wait(self, condition, seconds=20):
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, seconds).until(lambda _: condition())

    def find(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        return self.find(selector)[0].text

    def point(self, x, y):
        """Moves the pointer to a place of the front, given in its objectives."""
        from selenium.webdriver import ActionChains

        script = """
            const [x, y] = arguments, layout = document.getElementById("front")._fullLayout;
            const box = document.querySelector("#front .nsewdrag").getBoundingClientRect();
            return [box.left + layout.xaxis.l2p(x), box.top + layout.yaxis.l2p(y)];
        """
        self.driver.execute_script("document.getElementById('front').scrollIntoView({block: 'center'})")
        left, top = self.driver.execute_script(script, x, y)
        actions = ActionChains(self.driver)
        actions.w3c_actions.pointer_action.move_to_location(round(left), round(top))
        actions.perform()
        return actions

    def hover(self, x, y):
        self.point(x, y)
        return self.wait(lambda: self.find("#front .hoverlayer .hovertext"))[0].text

    def click(self, x, y):
        self.point(x, y).click().perform()

    def type(self, selector, text):
        box = self.find(selector)[0]
        box.clear()
        box.send_keys(text)

    def press(self, selector):
        self.find(selector)[0].click()

    def table(self):
        lines = self.driver.execute_script("""
            return [...document.querySelectorAll("#plan tr")].map((tr) => [...tr.children].map((cell) => cell.textContent));
        """)
        return pd.DataFrame(lines[1:], columns=lines[0])

    def download(self):
        target = self.folder / "front.csv"
        target.unlink(missing_ok=True)
        self.press("#download")
        self.wait(lambda: target.exists() and target.stat().st_size)
        return target.read_text(encoding="utf-8")

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("file:", "data:", "blob:"))]


@pytest.fixture
def opened(driver, tmp_path):
    pages = []

    def opens(front, **given):
        pages.append(Page(driver, front, tmp_path, **given))
        return pages[-1]

    yield opens
    assert [page.errors() for page in pages] == [[]]
    assert [page.requests() for page in pages] == [[]]


def test_hovering_shows_a_plan_and_a_click_chooses_it(opened):
    front = scenes.many_points()
    page = opened(front)
    point = front[3]
    shown = page.hover(*point.objectives)
    for name, n in point.units.items():
        assert f"{n} × {name}" in shown
    page.click(*point.objectives)
    page.wait(lambda: f"cost {point.objectives[0]:.6g}" in page.text("#chosen"))
    assert dict(zip(page.table()["resource"], page.table()["units"].astype(int), strict=True)) == point.units
    assert f"{100 * point.plan.utilization:.3f} %" in page.text("#facts")
    assert point.proof.statement in page.text("#notes")
    for name in point.units:
        assert name in page.text("#roofline")


def test_the_knee_is_chosen_at_first_and_buttons_step_along(opened):
    front = scenes.many_points()
    page = opened(front)
    knee = next(k for k, point in enumerate(front) if point.objectives == front.knee().objectives)
    for button, k in ((None, knee), ("#next", knee + 1), ("#previous", knee), ("#previous", knee - 1), ("#to-knee", knee)):
        if button:
            page.press(button)
        assert f"cost {front[k].objectives[0]:.6g}," in page.text("#chosen")


def test_a_segment_shows_the_plan_under_the_pointer(opened):
    front = scenes.billed("per_use")
    page = opened(front)
    (segment,) = front.segments
    middle = segment.at(13 / 25)
    assert "1 × cloud/region-1/" in page.hover(*middle.objectives)
    page.click(*middle.objectives)
    page.wait(lambda: f"cost {middle.objectives[0]:.6g}" in page.text("#chosen"))
    samples = page.table().set_index("resource")["samples"].str.replace("\u202f", "").astype(float)
    assert samples.to_dict() == pytest.approx(middle.samples, rel=1e-5)


def test_filters_leave_what_they_say_and_so_does_the_download(opened):
    front = scenes.many_points()
    page = opened(front)
    frame = front.to_frame()
    kinds = (frame.filter(like="units[") > 0).sum(axis=1)
    assert page.text("#count") == f"{len(front)} of {len(front)} shown"
    assert page.download() == frame.to_csv(index=False)

    page.type("#first-max", f"{frame['cost'][14]:.6g}")
    page.type("#second-min", "55")
    kept = frame[(frame["cost"] <= frame["cost"][14]) & (frame["utilization"] >= 0.55)]
    assert page.text("#count") == f"{len(kept)} of {len(front)} shown"
    assert page.download() == kept.to_csv(index=False)

    page.type("#most-types", "2")
    kept = kept[kinds[kept.index] <= 2]
    assert page.download() == kept.to_csv(index=False)
    assert 0 < len(kept) < len(front)

    page.press("#filters button")
    page.wait(lambda: page.text("#count") == f"{len(front)} of {len(front)} shown")
    page.press("#kinds summary")
    labels = page.find("#resources label")
    banned = next(label for label in labels if "a100-40" in label.text)
    banned.click()
    assert page.download() == frame[frame[f"units[{banned.text}]"] == 0].to_csv(index=False)


def test_what_is_filtered_out_cannot_be_pointed_at(opened):
    front = scenes.many_points()
    page = opened(front)
    page.type("#first-min", f"{front[5].objectives[0]:.6g}")
    page.point(*front[0].objectives)
    assert page.find("#front .hoverlayer .hovertext") == []
    assert page.hover(*front[-1].objectives).startswith("cost")


def test_open_ends_say_so(opened):
    front = scenes.segments()
    page = opened(front)
    page.click(*front.segments[1].start.objectives)
    page.wait(lambda: "open end" in page.text("#chosen"))
    assert page.download() == front.to_frame().to_csv(index=False)


def test_a_front_of_any_model_shows_its_variables(opened):
    front = scenes.knapsack()
    page = opened(front)
    page.click(*front[2].objectives)
    page.wait(lambda: f"value {front[2].objectives[0]:.6g}," in page.text("#chosen"))
    table = page.table()
    assert dict(zip(table["variable"], table["value"].astype(float), strict=True)) == {
        name: value for name, value in front[2].variables.items() if value
    }
    assert not page.find("#roofline")[0].is_displayed()
    assert not page.find("#kinds")[0].is_displayed()


def test_a_front_that_was_read_has_no_roofline_and_says_how_to_get_one(opened, tmp_path):
    scenes.solved().save(tmp_path / "front.json")
    page = opened(mopt.load_front(tmp_path / "front.json"))
    assert "Give it to to_html()" in page.text("#no-roofline")
    assert not page.find("#roofline")[0].is_displayed()


def test_names_are_shown_letter_by_letter(opened):
    front = nasty_front()
    page = opened(front)
    assert NASTY in page.hover(*front[1].objectives).replace("\n", " ")
    assert set(page.table()["resource"]) <= {NASTY, "t4"}
    assert page.driver.execute_script("return window.broken") is None
    table = pd.read_csv(io.StringIO(page.download()))
    np.testing.assert_array_equal(table[f"units[{NASTY}]"], [2, 3])


def test_a_front_without_points_says_why(opened):
    page = opened(scenes.front([], complete=False, why_incomplete="time limit"))
    assert "not complete (time limit)" in page.text("#state")
    assert page.text("#count") == "0 of 0 shown"


def test_a_page_may_be_narrow(opened):
    front = scenes.many_points()
    page = opened(front)
    page.driver.set_window_size(500, 900)
    try:
        page.wait(lambda: page.driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth"))
    finally:
        page.driver.set_window_size(1300, 1000)
