"""Every mistake of the table gets one sentence that helps, its exit code, and leaves nothing behind; `--json` stays JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app
from crescendo.errors import CrescendoError
from tests.cli.mistakes import COMMANDS, FILES


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRESCENDO_DATA", raising=False)
    monkeypatch.setenv("CRESCENDO_CACHE", str(tmp_path / "cache"))
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)


def everything() -> list[str]:
    return sorted(str(path) for path in Path().rglob("*") if path.parts[0] != "cache")


@pytest.mark.parametrize(("did", "command", "code", "answer"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_a_mistake_gets_one_sentence_and_leaves_nothing(did: str, command: str, code: int, answer: str) -> None:
    before = everything()
    found = CliRunner().invoke(app, command.split())
    assert isinstance(found.exception, SystemExit), found.exception
    assert found.exit_code == code and found.stdout == "", found.output
    assert answer in found.stderr, f"{did}: {found.stderr}"
    if code == 1:
        assert found.stderr.startswith("crescendo: ") and found.stderr.count("\n") == 1, found.stderr
    assert everything() == before, "something was written"


@pytest.mark.parametrize("command", [row[1] for row in COMMANDS if row[2] == 1][::7])
def test_under_json_a_mistake_leaves_stdout_empty(command: str) -> None:
    found = CliRunner().invoke(app, [*command.split(), "--json"])
    assert found.exit_code == 1 and found.stdout == "" and found.stderr.startswith("crescendo: "), found.output


X, Y = np.arange(40.0).reshape(20, 2) / 40, np.arange(20) % 2
HOLE = np.where(X[3, 1] == X, np.nan, X)
simulate: Any = crescendo.simulate  # as it is called without looking at its types
SHORT: dict[str, Any] = {"clients": 2, "rounds": 2}


def frame() -> Any:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    columns = {f"f{i:02}": X[:, 0] for i in range(12)}
    return pandas.DataFrame({**columns, "ill": Y, "dose": ["<0.3", *(str(i + 0.5) for i in range(19))]})


class Forgetful:
    """A model, once there is an object of it."""


# what the user did, the call, words of the answer
CALLS: list[tuple[str, Callable[[], object], str]] = [
    ("swapped X and y", lambda: simulate(Y, X, **SHORT), "one label a record is needed"),
    ("has labels of another length", lambda: simulate(X, Y[:-1], **SHORT), "its labels have shape (19,)"),
    ("has one label only", lambda: simulate(X, np.zeros(20), **SHORT), "two classes"),
    ("has a missing number", lambda: simulate(HOLE, Y, **SHORT), "not finite"),
    ("forgot the labels", lambda: simulate(X, **SHORT), "labels are missing"),
    ("forgot the labels of a frame", lambda: simulate(frame(), **SHORT), 'simulate(frame, "column")'),
    ("named the labels by keyword", lambda: simulate(frame(), label="ill"), 'come second: crescendo.simulate(frame, "column")'),
    ("mistyped the label column", lambda: simulate(frame(), "il", **SHORT), "did you mean 'ill'?"),
    ("measured below the limit", lambda: simulate(frame(), "dose", **SHORT), "such as 0.5, but for 1, such as '<0.3'"),
    ("has a frame without rows", lambda: simulate(frame()[:0].astype(str), "ill", **SHORT), "has no records; it needs a row"),
    ("mistyped an argument", lambda: simulate(X, Y, clinets=2), "no keyword clinets; did you mean clients?"),
    ("passed a class", lambda: simulate("run.toml", objective=Forgetful), "pass objective=Forgetful(..)"),
    ("passed a list as config", lambda: simulate([1, 2]), "a list without labels is no data"),
    ("passed a file as data", lambda: simulate("run.toml", data="mine.csv"), "data.source"),
    ("mistyped a path", lambda: simulate("rnu.toml"), "there is no run file rnu.toml"),
    ("mistyped an algorithm", lambda: simulate("run.toml", algorithm="fedavgg"), "did you mean"),
]  # fmt: skip


@pytest.mark.parametrize(("did", "call", "answer"), CALLS, ids=[row[0] for row in CALLS])
def test_a_mistake_in_python_is_an_error_of_ours(did: str, call: Callable[[], object], answer: str) -> None:
    before = everything()
    with pytest.raises(CrescendoError) as found:
        call()
    assert answer in str(found.value) and "\n" not in str(found.value), f"{did}: {found.value}"
    assert everything() == before


def test_the_files_that_mistakes_are_made_with_are_themselves_right() -> None:
    for command in ("schedule run.toml", "schedule private.toml", "schedule run.toml --set objective.kind=own.py:Mean"):
        assert CliRunner().invoke(app, command.split()).exit_code == 0
