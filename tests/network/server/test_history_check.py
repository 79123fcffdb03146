"""Damage that a start does not meet: the server reads its whole journal in the background, and logs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from crescendo.federation.agreement import build_terms
from crescendo.network.server import serve as serve_module
from crescendo.network.server.history_check import HistoryCheck
from crescendo.network.server.serve import Listening, serve
from crescendo.storage.journal.segments import Segments
from crescendo.storage.journal.snapshots import Snapshot

BEFORE = Path(__file__).resolve().parents[2] / "before"


class PatientCheck(HistoryCheck):
    """Lets no server end before all was read."""

    def __exit__(self, *error: object) -> None:
        self.wait()


@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
def test_a_server_starts_and_logs_the_damage_that_lies_before_its_newest_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    state = Path(shutil.copytree(BEFORE / "served", tmp_path / "served"))
    if damaged:
        first = Segments(state / "journal").paths()[0]
        first.write_bytes(first.read_bytes()[:-1] + b"?")
    monkeypatch.setattr(serve_module, "HistoryCheck", PatientCheck)
    log: list[dict[str, Any]] = []
    agreed = build_terms(json.loads((state / "terms.json").read_text())["terms"])
    served = serve(
        agreed,
        Listening("127.0.0.1:0"),
        state,
        linger=0.0,
        log=lambda event, **facts: log.append({"event": event, **facts}),
    )
    assert served.finished
    reasons = [facts["reason"] for facts in log if facts["event"] == "journal_damaged"]
    assert len(reasons) == damaged and all("a server starts without it" in reason for reason in reasons)


def test_a_check_that_is_stopped_says_nothing(tmp_path: Path) -> None:
    shutil.copytree(BEFORE / "served" / "journal", tmp_path / "journal")
    check = HistoryCheck(tmp_path / "journal", lambda event, **facts: pytest.fail(str(facts)))
    check._stopped.set()
    with check:
        check.wait()


def test_files_that_go_faster_than_they_are_read_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(BEFORE / "served" / "journal", tmp_path / "journal")

    def gone(path: Path, arrays: bool) -> None:
        raise FileNotFoundError(path)

    said: list[str] = []
    monkeypatch.setattr(Snapshot, "read", gone)
    with HistoryCheck(tmp_path / "journal", lambda event, **facts: said.append(event)) as check:
        check.wait()
    assert said == []
