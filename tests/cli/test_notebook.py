"""The notebook of the first hour: a kernel runs every cell, and it is stored without what they printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_hour.ipynb"


def read_notebook() -> Any:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: the test extra")
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.mark.slow
def test_the_notebook_is_stored_without_outputs() -> None:
    for cell in read_notebook().cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None


@pytest.mark.slow
def test_every_cell_of_the_notebook_runs_and_shows_no_record(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: the test extra")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: the test extra")
    book = read_notebook()
    nbclient.NotebookClient(
        book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.output_type == "error"]
    shown = "".join(
        str(output.get("text", "")) + str(output.get("data", {}).get("text/html", "")) for output in outputs
    )
    found = re.search(r"accuracy ([\d.]+) without privacy, ([\d.]+) at epsilon ([\d.]+)", shown)
    assert found is not None
    without, private, epsilon = map(float, found.groups())
    assert without > 0.9 and private > 0.75 and epsilon <= 2.0
    assert "lacks records" in shown and "<table>" in shown and "array(" not in shown
    assert list(tmp_path.iterdir()) == [], "a notebook writes nothing that it was not asked for"


@pytest.mark.slow
def test_the_five_lines_are_five_and_print_an_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    text = (NOTEBOOK.parent / "five_lines.py").read_text(encoding="utf-8")
    lines = [line for line in text.partition('"""\n')[2].splitlines() if line.strip()]
    assert len(lines) == 5 and lines[-1].startswith("print(")
    exec(compile(text, "five_lines.py", "exec"), {})
    found = re.search(r"accuracy=([\d.]+)", capsys.readouterr().out)
    assert found is not None and float(found[1]) > 0.9


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_a_page_shows_the_five_lines_as_they_are(page: str) -> None:
    code = (NOTEBOOK.parent / "five_lines.py").read_text(encoding="utf-8").partition('"""\n\n')[2]
    assert f"```python\n{code}```\n" in (NOTEBOOK.parents[1] / page).read_text(encoding="utf-8")
