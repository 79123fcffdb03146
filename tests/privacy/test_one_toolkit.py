"""`crescendo` plans, accounts and audits by `crescendo_dp`: the same numbers, to the last digit, and one version."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import crescendo
import crescendo_dp
from crescendo.cli.main import app
from crescendo_dp.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
MECHANISM = """
import numpy as np

def noisy(records, rng):
    return np.clip(records, -1, 1).sum(axis=0) + 2 * rng.normal(size=records.shape[1])
"""


def both(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers of ``crescendo`` and of ``python -m crescendo_dp``, which has fewer keys."""
    ours = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    main([*words, "--json"])
    theirs = json.loads(capsys.readouterr().out)
    assert theirs.keys() <= ours.keys()
    return {key: ours[key] for key in theirs}, theirs


@pytest.mark.slow
def test_a_plan_an_account_and_an_audit_are_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MECHANISM)
    Path("history.json").write_text("[[1.5, 0.02, 400], [2.5, 0.1, 30]]")
    calls = {
        "plan": "plan --epsilon 2 --delta 1e-5 --records 100 --gradients 60 --first-size 2 --max-share 0.2",
        "account": "account history.json --delta 1e-7",
        "audit": "audit mine.py:noisy --epsilon 3 --delta 1e-5 --runs 2000",
    }
    for name, words in calls.items():
        ours, theirs = both(capsys, *words.split())
        assert ours == theirs and len(ours) > 8, name


def test_a_plan_of_crescendo_is_that_plan_with_a_table() -> None:
    asked: dict[str, Any] = {"epsilon": 2, "delta": 1e-5, "records": 100, "gradients": 60, "rounds": 10}
    ours, theirs = crescendo.plan(**asked), crescendo_dp.plan(**asked)
    assert isinstance(ours, crescendo_dp.Plan) and ours.to_json() == theirs.to_json() and str(ours) == str(theirs)
    assert "<table>" in ours._repr_html_() and not hasattr(theirs, "_repr_html_")


def test_one_except_catches_the_errors_of_both() -> None:
    assert crescendo.CrescendoError is crescendo_dp.CrescendoError
    with pytest.raises(crescendo.CrescendoError):
        crescendo_dp.account([], delta=2.0)


def test_both_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = project["version"]
    assert crescendo.__version__ == crescendo_dp.__version__ == version
    assert f"crescendo-dp=={version}" in project["dependencies"]
