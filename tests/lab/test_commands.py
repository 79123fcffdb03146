"""`python -m lab`: its output, its answers to mistakes, and the command of the package that points to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crescendo.cli import main, reproduce_commands
from lab.catalogue import EXPERIMENTS
from lab.commands import app

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_module_lists_every_experiment_and_those_that_run_by_name_only() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lab", "list", "--json"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    listed = {one["name"]: one["in_all"] for one in json.loads(done.stdout)["experiments"]}
    assert listed == {one.name: not one.long for one in EXPERIMENTS}


def test_the_list_for_people_names_every_experiment() -> None:
    found = CliRunner().invoke(app, ["list"])
    assert found.exit_code == 0 and all(one.name in found.stdout for one in EXPERIMENTS)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["lent"], "there is no experiment 'lent'"),
        (["rounds-law", "--quick", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["rounds-law", "--first-seed", "1000000"], "are for tuning; got 1000000"),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(
    words: list[str], answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--json"]):
        found = CliRunner().invoke(app, ["reproduce", *words, *more])
        assert found.exit_code == 1 and found.stdout == "", found.output
        assert found.stderr.startswith("crescendo: ") and answer in found.stderr and found.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_command_takes_the_seeds_and_another_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    asked = ["reproduce", "rounds-law", "--quick", "--seeds", "2", "--first-seed", "5", "--processes", "1", "--json"]
    page = tmp_path / "pages" / "found.md"
    page.parent.mkdir()
    found = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "out"), "--page", str(page)])
    (one,) = json.loads(found.stdout)["experiments"]
    assert one["seeds"] == [5, 6] and json.loads(found.stdout)["page"] == str(page)
    text = page.read_text()
    assert "Seeds 5 to 6." in text and "](../out/results/rounds-law.svg)" in text
    assert not (tmp_path / "out" / "results.md").exists()


def test_the_package_says_where_the_experiments_are(tmp_path: Path) -> None:
    words = ["rounds-law", "--quick", "--out", "my folder"]
    found = CliRunner().invoke(main.app, ["reproduce", *words])
    assert found.exit_code == 2 and found.stdout == "" and found.stderr.count("\n") == 1
    line = "python -m lab reproduce rounds-law --quick --out 'my folder'"
    assert f"in {ROOT}, type `{line}`" in found.stderr
    assert "source distribution" in reproduce_commands.where(tmp_path, words)
    assert "type `python -m lab list`" in reproduce_commands.where(ROOT, [])
