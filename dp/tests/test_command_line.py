"""The commands print what the functions return, and end with an exit code that a script can use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crescendo_dp import PoissonGaussian, account, plan
from crescendo_dp.__main__ import main

NOISY = """
import numpy as np

def sound(records, rng):
    return np.clip(records, -1, 1).sum() + rng.laplace(scale=2.0)

def bare(records, rng):
    return records.sum()
"""
PLAN = ["plan", "--epsilon", "2", "--delta", "1e-5", "--records", "100", "--gradients", "60", "--rounds", "10"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    main([*words, "--json"])
    return json.loads(capsys.readouterr().out)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(NOISY)
    Path("history.json").write_text("[[1.5, 0.02, 40]]")
    return tmp_path


def test_a_plan_is_that_of_the_function(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, *PLAN)
    assert found == json.loads(json.dumps(plan(2, 1e-5, 100, 60, rounds=10).to_json()))


def test_an_account_is_that_of_the_function(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "account", "history.json", "--delta", "1e-6")
    assert found["epsilon"] == account([(PoissonGaussian(0.02, 1.5), 40)], 1e-6).epsilon
    assert (found["format"], found["releases"]) == ("opacus", 40)


def test_events_are_exported_for_other_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["account", "history.json", "--export", "opacus"]) == 0
    assert json.loads(capsys.readouterr().out)["history"] == [[1.5, 0.02, 40]]


@pytest.mark.slow
def test_an_audit_ends_with_1_where_the_claim_is_false(capsys: pytest.CaptureFixture[str]) -> None:
    claim = ["--epsilon", "1", "--delta", "0", "--runs", "3000", "--shape", "4,1"]
    assert main(["audit", "mine.py:sound", *claim]) == 0
    assert main(["audit", "mine.py:bare", *claim]) == 1
    shown = capsys.readouterr().out
    assert "mine.py:sound passed" in shown and "mine.py:bare failed" in shown
    assert printed(capsys, "audit", "mine.py:bare", *claim)["verdict"] == "failed"


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["account", "history.json"], "--delta"),
        (["account", "absent.json", "--delta", "1e-6"], "absent.json"),
        (["audit", "mine.py:nosuch", "--epsilon", "1", "--delta", "0"], "nosuch"),
        (["audit", "mine.py:sound", "--epsilon", "1", "--delta", "2"], "delta"),
        ([*PLAN[:-1], "0"], "rounds"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: list[str], fact: str
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert not shown.out and len(shown.err.splitlines()) == 1 and fact in shown.err
