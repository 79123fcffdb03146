"""Every mistake of the table gets one sentence that says what to write; progress is shown where it is asked for."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.calls.foreign_words import _REMEDIES, remedy
from crescendo.calls.keywords import PATHS
from crescendo.calls.watching import watched
from crescendo.errors import CrescendoError, UsageError
from tests.calls.mistakes import MISTAKES, WORKS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    """What the lines of the table may use."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    frame["site"], frame["late"] = np.where(X[:, 1] > 0, "oslo", "bergen"), Y
    calls = {
        name: getattr(crescendo, name)
        for name in ("simulate", "compare", "sweep", "plan", "load", "dataset", "schedule")
    }
    more = {"np": np, "pd": pandas, "torch": torch, "crescendo": crescendo, "frame": frame}
    return {**calls, **more, "X": X, "Y": Y, "NAMES": np.where(Y > 0, "late", "on time"), "net": torch.nn.Linear(3, 2)}


@pytest.mark.parametrize(("who", "call", "answer"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_gets_one_sentence_that_says_what_to_write(
    who: str, call: str, answer: str, known: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CrescendoError) as found:
        eval(call, dict(known))
    said = str(found.value)
    assert answer in said, f"{who}: {said}"
    assert "\n" not in said and len(said) < 400 and "array(" not in said, said
    assert not list(tmp_path.iterdir()) and capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("who", "call"), WORKS, ids=[row[0] for row in WORKS])
def test_a_habit_that_is_no_mistake_works(who: str, call: str, known: dict[str, Any]) -> None:
    result = eval(call, dict(known))
    assert result.accuracy is not None and result.diverged is None, who


def test_a_remedy_writes_keywords_that_there_are() -> None:
    """And no word of ours is called foreign."""
    assert not set(_REMEDIES) & set(PATHS)
    for word in _REMEDIES:
        said = remedy("simulate", word, 1)
        assert said is not None and "{" not in said.replace('{"', "") and "\n" not in said, word


def test_progress_is_shown_where_it_is_asked_for_and_never_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def shown(progress: Any) -> bool:
        with watched(progress) as watch:
            return watch is not None

    assert [shown(value) for value in (None, True, False, print)] == [False, True, False, False]
    monkeypatch.setattr("sys.stderr", Terminal())
    assert [shown(value) for value in (None, True, False, print)] == [True, True, False, False]
    with pytest.raises(UsageError, match="progress is True, False or a function"), watched("no"):
        pass
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("call", ["simulate", "compare", "sweep"])
def test_a_call_that_is_watched_tells_its_rounds(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    class Screen:
        show, clear = staticmethod(lines.append), staticmethod(lambda: lines.append("gone"))

    monkeypatch.setattr("crescendo.calls.watching._QUIET", -1.0)
    monkeypatch.setattr("crescendo.calls.watching._APART", -1.0)
    monkeypatch.setattr("crescendo.calls.watching._screen", Screen)
    studies: dict[str, dict[str, Any]] = {
        "compare": {"rivals": ["fedavg"], "seeds": 1},
        "sweep": {"over": ["run.seed=0..1"]},
    }
    more = studies.get(call, {})
    getattr(crescendo, call)(X, Y, rounds=3, clients=2, progress=True, **more)
    assert lines[-1] == "gone" and any("round 3 of 3" in line for line in lines)
    assert any(line.startswith("run 2 of 2: training") for line in lines) is (call != "simulate")
    lines.clear()
    getattr(crescendo, call)(X, Y, rounds=3, clients=2, progress=False, **more)
    assert not lines
