"""The command line: what is printed and written, exit statuses, messages."""

import json
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from typer.testing import CliRunner

import mopt
import mopt.epsilon
from mopt.calibration import Entry
from mopt.cli import app
from mopt.problem_files import save_problem

OFFERS = ["--provider", "AWS", "--accelerator", "A10G", "--accelerator", "T4", "--accelerator", "V100"]
RESNET = ["resnet50-train", "--samples", "2048", "--time-limit", "1"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def printed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(output):
    """The cells of a table's lines, without its header."""
    lines = output.splitlines()
    start = next(k for k, line in enumerate(lines) if "────" in line)
    end = next((k for k, line in enumerate(lines[start:], start) if not line.strip()), len(lines))
    return [line.split() for line in lines[start + 1 : end]]


@pytest.fixture(scope="module")
def problem():
    offers = mopt.load_catalog().where(provider="AWS", accelerator=["A10G", "T4", "V100"])
    return mopt.Problem(offers, mopt.load_workload("resnet50-train"), samples=2048, time_limit=1.0)


@pytest.fixture(scope="module")
def solved(problem):
    return mopt.solve_epsilon_front(problem)


def without_times(front):
    """A front that doesn't depend on how long it took."""
    return replace(front, statistics={k: v for k, v in front.statistics.items() if "seconds" not in k})


# -- mopt front ------------------------------------------------------------------------------------------------------


def test_front_prints_its_plans(solved):
    output = printed("front", *RESNET, *OFFERS)
    table = rows(output)
    position, found = -1, {}
    for cells in table:
        if len(cells) == 8:
            position += 1
            plan = solved[position].plan
            assert cells[:4] == [str(position), f"{plan.cost:.6g}", f"{plan.cost_per_hour:.6g}",
                                 f"{100 * plan.utilization:.3f}"]  # fmt: skip
            cells = cells[4:]
        units, name, samples, _ = cells
        found.setdefault(position, {})[f"AWS/us-east-1/{name}"] = (int(units), int(samples))
    assert found == {
        k: {name: (point.units[name], point.samples[name]) for name in point.units} for k, point in enumerate(solved)
    }
    assert f"{len(solved)} plans; complete" in output
    assert solved.certificate.method in output
    assert solved.certificate.exactness in output
    for assumption in solved.assumptions:
        assert f"assumed: {assumption}" in output


def test_front_writes_table_json_and_picture(solved, tmp_path):
    folder = tmp_path / "some" / "folder"
    output = printed("front", *RESNET, *OFFERS, "--out", folder)
    assert without_times(mopt.load_front(folder / "front.json")) == without_times(solved)
    assert_frame_equal(pd.read_csv(folder / "front.csv"), solved.to_frame(), check_dtype=False)
    assert (folder / "front.png").read_bytes().startswith(b"\x89PNG")
    assert f"wrote {folder / 'front.csv'}" in output


@pytest.mark.parametrize(
    ("options", "file"),
    [(["--html"], "front.html"), (["--html", "--out", "there"], "there/front.html"), (["--out", "there", "--html"],
     "there/front.html"), (["--html", "some/page.html"], "some/page.html")],
)  # fmt: skip
def test_front_writes_a_page(monkeypatch, tmp_path, options, file):
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    output = printed("front", *RESNET, *OFFERS, *options)
    assert output.splitlines()[-1].endswith(file)
    text = (tmp_path / file).read_text(encoding="utf-8")
    assert "AWS/us-east-1/g5.xlarge" in text
    assert '"intensity"' in text  # its rooflines


def test_a_page_needs_its_extra_before_solving(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    monkeypatch.setattr(mopt.epsilon, "solve_epsilon_front", None)
    result = run("front", *RESNET, *OFFERS, "--html")
    assert result.exit_code == 2
    assert "pip install 'mopt[html]'" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_json_is_all_there_is_on_stdout(solved, tmp_path):
    output = printed("front", *RESNET, *OFFERS, "--json")
    (tmp_path / "front.json").write_text(output, encoding="utf-8")
    assert without_times(mopt.load_front(tmp_path / "front.json")) == without_times(solved)


def test_a_problem_file_runs(problem, solved, tmp_path):
    path = tmp_path / "problem.toml"
    save_problem(problem, path)
    assert rows(printed("front", path)) == rows(printed("front", *RESNET, *OFFERS))


def test_calibrated_plans_say_where_the_times_of_each_resource_are_from(tmp_path):
    output = printed("front", *RESNET, *OFFERS, "--calibration", "auto")
    assert "times" in next(line for line in output.splitlines() if "resource" in line)
    marks = {tuple(line[line.index(name) :])[3:] for line in rows(output) for name in line if "xlarge" in name}
    assert marks == {("family", "default"), ("calibrated",)}  # V100 was measured in training, A10G and T4 weren't
    entry = {"family": "cnn", "mode": "training", "precision": "fp16"}
    mine = mopt.Calibration((Entry(**entry, compute_efficiency=0.5, bandwidth_efficiency=0.5, resource="V100"),))
    mopt.save_calibration(mine, tmp_path / "mine.toml")
    output = printed("front", *RESNET, *OFFERS, "--calibration", tmp_path / "mine.toml")
    assert {line[-1] for line in rows(output) if "p3" in str(line)} <= {"calibrated"}
    assert {line[-1] for line in rows(output) if "g5" in str(line)} <= {"ideal"}
    assert run("front", *RESNET, "--calibration", tmp_path / "other.toml").exit_code == 2


def test_a_workload_file_and_a_catalog_file_run(tmp_path):
    workload = mopt.Workload("mine", "fp16", (mopt.Layer("fc", 1e9, 1e6, 1e6),), 1e9, 1e6)
    mopt.save_workload(workload, tmp_path / "mine.toml")
    offers = mopt.Catalog([mopt.Resource("box", 1e12, 1e12, 1e11, 36.0)])
    offers.to_frame().to_csv(tmp_path / "offers.csv", index=False)
    output = printed("front", tmp_path / "mine.toml", "--samples", 900, "--time-limit", 1, "--catalog",
                     tmp_path / "offers.csv")  # fmt: skip
    # 1e9 FLOP a sample at 1e12 FLOP/s: 1 ms each, 900 in 0.9 s.
    assert rows(output) == [["0", "0.01", "36", "90.000", "1", "box", "900", "900"]]


def test_several_demands_name_their_workloads(tmp_path):
    offer = mopt.Resource("box", 1e12, 1e12, 1e11, 36.0)
    fast, slow = (mopt.Workload(name, "fp16", (mopt.Layer("fc", flops),)) for name, flops in (("f", 1e9), ("s", 2e9)))
    demands = (mopt.Demand(fast, 100), mopt.Demand(slow, 600))
    save_problem(mopt.Problem((offer,), demands=demands, time_limit=1.0), tmp_path / "two.toml")
    first, second = rows(printed("front", tmp_path / "two.toml"))
    assert first[-5:] == ["1", "box", "f", "100", "100"]
    assert second == ["2", "box", "s", "600", "300"]


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        (["--billing", "elapsed", "--max-units", "2"], "billing", "elapsed"),
        (["--latency-limit", "0.5"], "latency_limit", 0.5),
        (["--max-types", "1"], "max_types", 1),
        (["--budget", "0.01"], "budget", 0.01),
        (["--launches", "rate"], "launches", "rate"),
        (["--max-launches", "2"], "max_launches", 2),
        (["--max-units", "5"], "max_units", 5),
        (["--calibration", "auto"], "calibration", "auto"),
        (["--startup", "30"], "startup", 30.0),
        (["--minimum-billing", "60"], "minimum_billing", 60.0),
        ([], "time_limit", 1.0),
        ([], "samples", 2048.0),
    ],
)
def test_each_option_reaches_the_problem(monkeypatch, solved, options, field, value):
    seen = []

    def solve(problem, **_):
        seen.append(problem)
        return solved

    monkeypatch.setattr(mopt.epsilon, "solve_epsilon_front", solve)
    printed("front", *RESNET, *OFFERS, *options)
    assert getattr(seen[0].resources[0] if field == "max_units" else seen[0], field) == value


def test_each_option_of_the_run_reaches_it(monkeypatch, solved):
    seen = {}

    def solve(problem, **options):
        seen.update(options)
        return solved

    monkeypatch.setattr(mopt.epsilon, "solve_epsilon_front", solve)
    printed("front", *RESNET, *OFFERS, "--resolution", "1e-6", "1e-3", "--solve-time-limit", "60", "--max-points", "9")
    assert seen == {"resolution": (1e-6, 1e-3), "time_limit": 60.0, "max_points": 9, "progress": False}


def test_offers_are_chosen_by_every_filter(monkeypatch, solved):
    seen = []

    def solve(problem, **_):
        seen.append([resource.name for resource in problem.resources])
        return solved

    monkeypatch.setattr(mopt.epsilon, "solve_epsilon_front", solve)
    one = "AWS/us-east-1/g5.xlarge"
    printed("front", *RESNET, "--name", one, "--name", f"{one}/spot", "--spot", "--region", "us-east-1")
    assert seen == [[one, f"{one}/spot"]]


def test_what_cannot_serve_is_counted_or_listed():
    arguments = ["front", *RESNET, "--provider", "AWS", "--accelerator", "A10G", "--accelerator", "Inferentia",
                 "--accelerator", "M60"]  # fmt: skip
    counted = printed(*arguments)
    assert "can't serve, of 16 resources: 8 (4 no peak at the workload's precision; 4 inference only)" in counted
    listed = printed(*arguments, "--show-rejected")
    assert "can't serve: 8" in listed
    assert "AWS/us-east-1/inf1.xlarge" in listed


def test_a_front_cut_short_is_printed_and_ends_with_status_1(tmp_path):
    result = run("front", *RESNET, *OFFERS, "--max-points", 1, "--out", tmp_path)
    assert result.exit_code == 1
    assert "NOT COMPLETE: point limit of 1" in result.stdout
    assert rows(result.stdout)[0][0] == "0"
    assert not mopt.load_front(tmp_path / "front.json").complete


def test_a_failing_solver_leaves_what_was_found(monkeypatch, solved):
    def fail(problem, **_):
        error = mopt.SolverError("called it infeasible")
        error.front = replace(solved, complete=False, why_incomplete="solver")
        raise error

    monkeypatch.setattr(mopt.epsilon, "solve_epsilon_front", fail)
    result = run("front", *RESNET, *OFFERS)
    assert result.exit_code == 1
    assert "NOT COMPLETE: solver" in result.stdout
    assert result.stderr == "solver: called it infeasible\n"


def test_an_interrupt_before_the_run_says_so(monkeypatch):
    def interrupt(problem, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr(mopt.epsilon, "solve_epsilon_front", interrupt)
    result = run("front", *RESNET, *OFFERS)
    assert (result.exit_code, result.stderr) == (1, "interrupted before there was anything to show\n")


def test_no_plan_ends_with_status_1_and_says_which_limit():
    result = run("front", *RESNET[:-1], "1e-4", *OFFERS)
    assert result.exit_code == 1
    assert result.stderr.startswith("no plan: ")
    assert "needs at least" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["front", "resnet50-train"], "--samples: needed with the workload resnet50-train"),
        (["front", "resnet50-train"], "--time-limit: needed with the workload resnet50-train"),
        (["front", "resnet50", *RESNET[1:]], "workload = 'resnet50': no such workload"),
        (["front", "missing.toml"], "missing.toml: file: can't be read: No such file or directory"),
        (["front", *RESNET, "--billing", "spot"], "billing = 'spot': must be 'reserved', 'per_use' or 'elapsed'"),
        (["front", *RESNET, "--launches", "x"], "launches = 'x': must be 'whole' or 'rate'"),
        (["front", *RESNET, "--max-units", "-1"], "max_units = -1: must be greater than or equal to 0"),
        (["front", *RESNET, "--budget", "0"], "budget = 0.0: must be greater than 0"),
        (["front", *RESNET, "--provider", "AWSS"], "provider = 'AWSS': must be one of AWS, Azure, GCP"),
        (["front", *RESNET, "--provider", "AWS", "--region", "eastus"], "no offer has all of these"),
        (["front", *RESNET, "--catalog", "missing.csv"], "missing.csv: file: does not exist"),
        (["front", *RESNET, *OFFERS, "--max-points", "0"], "max_points = 0: must be a number greater than 0"),
        (["front", *RESNET, *OFFERS, "--resolution", "0", "1"], "resolution = (0.0, 1.0)"),
        (["catalog", "--precision", "fp17"], "--precision = 'fp17': must be one of fp64"),
        (["catalog", "--accelerator", "T5"], "accelerator = 'T5'"),
        (["explain", "resnet50-train", "g9.xlarge"], "name = 'g9.xlarge'"),
        (["explain", "resnet50-train", "NC24ads_A100_v4"], "name = 'NC24ads_A100_v4'"),
        (["explain", "resnet50-train", "Standard_NC24ads_A100_v4"], "names (Azure/"),
        (["explain", "resnet50-train", "g5.xlarge", "--time-limit", "0"], "--time-limit = 0.0: must be greater than 0"),
    ],
)
def test_wrong_input_ends_with_status_2_and_a_message(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments", [["front"], ["front", *RESNET[:2], "many"], ["fronts"], ["workloads", "--batch", "0"]]
)
def test_wrong_usage_ends_with_status_2(arguments):
    assert run(*arguments).exit_code == 2


def test_a_problem_file_takes_no_options_of_the_problem(problem, tmp_path):
    path = tmp_path / "problem.toml"
    save_problem(problem, path)
    result = run("front", path, "--samples", 3, "--spot", "--max-units", 2)
    assert result.exit_code == 2
    for option in ("--samples = 3.0", "--spot = True", "--max-units = 2"):
        assert f"{path}: {option}: not with a problem file" in result.stderr


def test_a_folder_that_cannot_be_made_is_told_before_solving(monkeypatch, tmp_path):
    monkeypatch.setattr(mopt.epsilon, "solve_epsilon_front", None)
    (tmp_path / "file").write_text("")
    result = run("front", *RESNET, *OFFERS, "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "can't be made: File exists" in result.stderr


# -- The other commands ----------------------------------------------------------------------------------------------


def test_catalog_lists_what_there_is():
    chosen = mopt.load_catalog(spot=True).where(provider="AWS", region="us-east-1", accelerator="T4")
    output = printed("catalog", "--provider", "AWS", "--region", "us-east-1", "--accelerator", "T4", "--spot")
    assert [(cells[0], float(cells[-1])) for cells in rows(output)] == [
        (resource.name, resource.price_per_hour) for resource in chosen
    ]
    g4dn = next(cells for cells in rows(output) if cells[0] == "AWS/us-east-1/g4dn.12xlarge")
    assert g4dn[1:-1] == ["4", "×", "T4", "64", "1280", "260", "203"]
    assert f"{len(chosen)} offers" in output


def test_catalog_shows_peaks_at_a_precision():
    output = printed("catalog", "--name", "AWS/us-east-1/g4dn.xlarge", "--precision", "int8")
    assert "int8 TFLOP/s" in output
    assert rows(output)[0][-3] == "130"
    assert "1 offer\n" in output


def test_catalog_lists_what_is_kept_out():
    catalog = mopt.load_catalog()
    output = printed("catalog", "--rejected")
    assert f"kept out: {len(catalog.rejected)}" in output
    for name, reason in catalog.rejected.items():
        assert name in output
        assert reason in output


def test_workloads_lists_what_is_shipped():
    output = printed("workloads", "--batch", 8)
    assert [cells[0] for cells in rows(output)] == mopt.list_workloads()
    workload = mopt.load_workload("resnet50-infer")
    cells = next(cells for cells in rows(output) if cells[0] == "resnet50-infer")
    assert [float(cell) for cell in cells[-5:]] == pytest.approx(
        [
            workload.flops_per_sample / 1e9,
            workload.bytes_per_sample / 1e6,
            workload.bytes_fixed / 1e6,
            workload.arithmetic_intensity(8),
            workload.footprint(1) / 1e9,
        ],
        rel=1e-3,
    )


@pytest.fixture
def by_hand(tmp_path):
    """1 TFLOP/s and 100 GB/s, so ridge point 10 FLOP/B; 10 GB, of which 2 GB are taken and 80 MB by each sample."""
    offers = mopt.Catalog([mopt.Resource("X/box", 1e12, 1e11, 10e9, 36.0)])
    offers.to_frame().to_csv(tmp_path / "offers.csv", index=False)
    workload = mopt.Workload("mine", "fp16", (mopt.Layer("fc", 1e6, 8e6, 4e6),), 2e9, 80e6)
    mopt.save_workload(workload, tmp_path / "mine.toml")
    return [tmp_path / "mine.toml", "box", "--catalog", tmp_path / "offers.csv"]


def test_explain_shows_a_roofline_worked_out_by_hand(by_hand):
    output = printed("explain", *by_hand, "--time-limit", 1)
    assert "mine (inference, fp16) on X/box" in output
    assert "ridge point 10 FLOP/B" in output
    assert "batch limit: 100 samples, by memory" in output  # (10 − 2) GB / 80 MB
    assert "0.08 ms + 40 µs · batch" in output  # 8 MB and 4 MB at 100 GB/s: memory-bound throughout
    last = output.split("samples/s")[1].splitlines()
    cells = next(line.split() for line in last if line.split()[:1] == ["100"])
    # 4.08 ms; 1e8 FLOP for 408 MB; one layer is all layers; 2.451 % of peak; 1e6 samples take 40.8 s, at 1 cent each.
    assert cells == ["100", "4.08", "24510", "0.2451", "0.02451", "0.02451", "2.45", "0.408"]
    # 245 launches of 100 take 0.9996 s; 0.4 ms are left for one of 8.
    assert "a unit does 24508 samples in 246 whole launches" in output
    assert "or 24509.8 where launches may be fractional" in output


def test_explain_says_what_limits_the_batch(by_hand):
    # 0.08 ms + 40 µs · b ≤ 2.08 ms
    assert "batch limit: 50 samples, by latency" in printed("explain", *by_hand, "--latency-limit", 0.00208)
    assert "can't serve it: needs at least" in printed("explain", *by_hand, "--latency-limit", 1e-4)
    assert "nothing, needs at least" in printed("explain", *by_hand, "--time-limit", 1e-4)


def test_explain_takes_the_end_of_a_name_if_it_is_the_only_one():
    full = printed("explain", "resnet50-infer", "AWS/us-east-1/g5.xlarge")
    assert printed("explain", "resnet50-infer", "g5.xlarge") == full


def test_explain_of_what_cannot_train():
    assert "can't serve it: does inference only" in printed("explain", "gpt2-train", "inf1.xlarge")


# -- As a program ----------------------------------------------------------------------------------------------------


def test_the_program_prints_json_and_nothing_else(tmp_path):
    command = [sys.executable, "-m", "mopt", "front", *RESNET, *OFFERS, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["front"]["complete"] is True
    assert list(tmp_path.iterdir()) == []


def test_the_program_says_its_version_and_what_is_wrong(tmp_path):
    def program(*arguments):
        return subprocess.run([sys.executable, "-m", "mopt", *arguments], capture_output=True, text=True, check=False,
                              cwd=tmp_path)  # fmt: skip

    assert program("--version").stdout == f"mopt {mopt.__version__}\n"
    wrong = program("front", "nothing")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: ")
    assert "Traceback" not in wrong.stderr
