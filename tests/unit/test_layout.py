"""What users and CI rely on outside the code: the README's commands and examples, versions, and what is installed."""

import re
import shlex
import subprocess
import tomllib
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mopt
from mopt.cli import app

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^python3 .*", README, re.MULTILINE)


def test_the_readme_has_two_commands_one_that_runs_and_one_that_tests():
    run, tests = COMMANDS
    assert run.startswith("python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/mopt front resnet50-train ")
    assert tests == "python3 -m venv .venv && .venv/bin/pip install -q '.[test]' && .venv/bin/pytest"


def test_ci_runs_the_readmes_test_command():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (extract,) = re.findall(r"command=\$\((.*)\)", script)
    done = subprocess.run(["bash", "-c", extract], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines() == COMMANDS[1:]


def test_the_readmes_main_job_prints_the_readmes_table(tmp_path):
    arguments = shlex.split(COMMANDS[0].split(".venv/bin/mopt ")[1])
    arguments[arguments.index("--out") + 1] = str(tmp_path)
    shown = [line for line in README.split("plan     $ per 1 s")[1].split("...")[0].splitlines()[2:] if line.strip()]
    plans = sum(line.strip()[0].isdigit() and len(line.split()) == 8 for line in shown)
    result = CliRunner().invoke(app, [*arguments, "--max-points", str(plans)])
    assert f"NOT COMPLETE: point limit of {plans}" in result.output
    printed = [line.rstrip() for line in result.output.splitlines()]
    start = printed.index(shown[0])
    assert printed[start : start + len(shown)] == shown
    assert sorted(file.name for file in tmp_path.iterdir()) == ["front.csv", "front.json", "front.png"]


def test_the_readmes_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(example, names)
    assert mopt.load_front("front.json") == names["front"]
    knee = re.search(r"knee\(\)\.units +# (\{.*\})", example)[1]
    assert repr(names["front"].knee().units) == knee


def test_the_readmes_pictures_are_there_and_small():
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert [Path(picture).name for picture in pictures] == ["front.png", "rooflines.png"]
    for picture in pictures:
        data = (ROOT / picture).read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) < 100_000


def test_what_is_installed_carries_data_and_models():
    package = files("mopt")
    assert package.joinpath("py.typed").is_file()
    for file in (ROOT / "mopt" / "data").glob("*.csv"):
        assert package.joinpath("data", file.name).read_bytes() == file.read_bytes()
    for name in ("front.html", "front.css", "front.js"):
        assert package.joinpath("page", name).is_file()
    assert mopt.list_workloads() == sorted(file.stem for file in (ROOT / "models").glob("*.toml"))
    assert len(mopt.load_catalog()) > 1000


def test_all_say_the_same_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert project["version"] == mopt.__version__ == version("mopt")
    assert f"\nversion: {mopt.__version__}\n" in citation
    assert project["scripts"] == {"mopt": "mopt.cli:main"}


@pytest.mark.parametrize("file", ["README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE"])
def test_the_files_of_a_distribution_are_there(file):
    assert (ROOT / file).stat().st_size > 100
