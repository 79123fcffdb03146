"""The examples of the README give what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from crescendo_dp.__main__ import main

README = Path(__file__).resolve().parents[1] / "README.md"
MECHANISM = """
def mechanism(records, rng):
    return records[:, 0].clip(-1, 1).sum() + 2 * rng.normal()
"""


@pytest.mark.slow
def test_the_examples_of_the_readme_run() -> None:
    found = doctest.testfile(str(README), module_relative=False)
    assert found.failed == 0 and found.attempted >= 15


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("history.json").write_text('{"history": [[1.1, 0.01, 300]], "mechanism": "rdp"}')
    Path("mine.py").write_text(MECHANISM)
    lines = re.findall(r"^python -m crescendo_dp (.+)$", README.read_text(), re.M)
    assert [line.split()[0] for line in lines] == ["plan", "account", "audit"]
    for line in lines:
        quick = ["--runs", "2000"] if line.startswith("audit") else []
        assert main([*line.split(), *quick]) == 0, line
