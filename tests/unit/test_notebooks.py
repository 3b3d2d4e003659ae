"""Notebooks as they are kept: without results, and short. That they run is tested by nbmake, with all else."""

import json
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))


def test_there_are_five():
    assert [path.name[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04", "05"]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def test_it_is_valid_and_begins_with_a_question(notebook):
    nbformat.validate(notebook)
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert "?" in first.source or "how to" in first.source


def test_it_holds_no_results(notebook):
    for cell in notebook.cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
        assert cell.metadata == {}
        assert "attachments" not in cell


def test_it_names_no_machine(notebook):
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


def test_what_belongs_in_the_library_is_there(notebook):
    """No functions or classes, no long cells."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            lines = cell.source.splitlines()
            assert len(lines) <= 14
            assert not any(line.lstrip().startswith(("def ", "class ", "import sys", "!", "%")) for line in lines)
        else:
            assert len(cell.source) <= 600


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_as_jupyter_stores_it(path):
    text = path.read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"
