"""Backups: consistent copies of states in use, which open, and of which none is ever half made."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.errors import DataError, UsageError
from crescendo.federation.agreement import build_terms
from crescendo.runs import upkeep
from crescendo.runs.upkeep import backup, verify
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.segments import Segments
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.upkeep import journal_copy
from crescendo.storage.upkeep.examination import Examination
from crescendo.storage.upkeep.journal_copy import copy_journal
from tests import children
from tests.storage.durable_play import ROUNDS, opened, run_some, state_of
from tests.storage.ledger_play import begun, store
from tests.storage.test_durable_kills import Killer

children.preload(__name__)
BEFORE = Path(__file__).resolve().parents[1] / "before"


@pytest.fixture(params=["served", "client"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A whole state, of a server or of a client."""
    return Path(shutil.copytree(BEFORE / request.param, tmp_path / request.param))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_backup_is_sound_private_and_changes_nothing(state: Path, tmp_path: Path) -> None:
    before = contents(state)
    found = backup(state, tmp_path / "to" / "copy")
    assert found.sound and verify(tmp_path / "to" / "copy").sound and contents(state) == before
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "to" / "copy").rglob("*") if path.is_file()}
    assert modes == {0o600} and stat.S_IMODE((tmp_path / "to" / "copy").stat().st_mode) == 0o700
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["copy"]


def test_a_servers_backup_opens_where_the_server_was(tmp_path: Path) -> None:
    state = Path(shutil.copytree(BEFORE / "served", tmp_path / "served"))
    backup(state, tmp_path / "copy")
    text = upkeep._kept_terms(tmp_path / "copy", Examination(state, "server"))
    assert text is not None
    with DurableServer(tmp_path / "copy" / "journal", text, lambda text: build_terms(text).terms) as server:
        with np.load(BEFORE / "served" / "model.npz") as file:
            assert np.array_equal(server.model, file["model"])
        assert (server.k, server.epoch, server.notes) == (6, 0, [])


def test_what_is_there_already_is_never_written_over(state: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        backup(state, tmp_path / "copy")
    (tmp_path / "other.partial").mkdir()
    (tmp_path / "other.partial" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="was not left by a backup"):
        backup(state, tmp_path / "other")
    assert (tmp_path / "other.partial" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("to", [".", "..", "link"])
def test_a_place_that_is_there_under_any_name_is_refused(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    Path("link").symlink_to("nowhere")
    with pytest.raises(UsageError, match="exists already"):
        backup(state, Path(to))


@pytest.mark.parametrize("kind", ["a link to a locked folder", "a file"])
def test_a_partial_folder_that_no_backup_made_is_left_alone(state: Path, tmp_path: Path, kind: str) -> None:
    other, partial = tmp_path / "other", tmp_path / "copy.partial"
    other.mkdir()
    for name in ("lock", "precious"):
        (other / name).write_bytes(b"mine")
    partial.symlink_to(other) if "link" in kind else partial.write_bytes(b"mine")
    with pytest.raises(UsageError, match="was not left by a backup"):
        backup(state, tmp_path / "copy")
    assert contents(other) == {"lock": b"mine", "precious": b"mine"} and partial.exists()


def test_there_is_no_backup_of_a_damaged_state(tmp_path: Path) -> None:
    state = Path(shutil.copytree(BEFORE / "served", tmp_path / "served"))
    first = Segments(state / "journal").paths()[0]
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    with pytest.raises(DataError, match="is not sound, so there is no backup of it: journal-"):
        backup(state, tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["served"]


class BackupKiller(Killer):
    """A backup changes the disk by `system` and by pathlib and shutil, which call `os`."""

    OS_STEPS = ("write", "fsync", "open", "close", "rename", "replace", "unlink", "mkdir", "rmdir", "sendfile", "chmod")

    def __init__(self, at: int, half: bool) -> None:
        super().__init__(at, half)
        self._wrap(os, self.OS_STEPS)


def _backup_killed_at(at: int, state: Path, to: Path) -> None:
    BackupKiller(at, half=False)
    backup(state, to)


@pytest.mark.slow
def test_killed_at_every_step_a_backup_is_there_whole_or_not_at_all_and_the_next_one_succeeds(
    state: Path, tmp_path: Path
) -> None:
    before, made = contents(state), 0
    for at in range(400):
        to = tmp_path / f"copy{at}"
        status = children.run(_backup_killed_at, at, state, to)
        assert status in (0, -signal.SIGKILL), "the backup failed by itself"
        assert contents(state) == before
        if to.exists():
            assert verify(to).sound
            made += 1
        else:
            assert backup(state, to).sound
        assert not to.with_name(to.name + ".partial").exists()
        if status == 0:
            break
        shutil.rmtree(to)
    assert status == 0 and at > 15 and made >= 2


def test_a_journal_copied_while_its_server_trains_and_prunes_opens_as_it_once_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before every file that is copied the server does a round more, and prunes what the copy may still want."""
    real, said, rounds = journal_copy.copy_file, list[Any](), iter(range(3, ROUNDS))
    with opened(tmp_path / "journal", prune=True) as server:

        def train(i: int) -> None:
            run_some(server, i, i + 1)
            server.snapshot()
            said.append(state_of(server))

        for i in range(3):
            train(i)

        def copied(*what: Any) -> None:
            if (i := next(rounds, None)) is not None:
                train(i)
            real(*what)

        monkeypatch.setattr(journal_copy, "copy_file", copied)
        copy_journal(tmp_path / "journal", tmp_path / "copy")
    with opened(tmp_path / "copy") as again:
        assert state_of(again) in said and again.notes == []


def test_a_journal_copied_in_the_middle_of_a_write_has_no_torn_tail(tmp_path: Path) -> None:
    with opened(tmp_path / "journal") as server:
        run_some(server, 0, 2)
        before = state_of(server)
        with Segments(tmp_path / "journal").paths()[-1].open("ab") as file:
            file.write(b"half a record")
        copy_journal(tmp_path / "journal", tmp_path / "copy")
    with opened(tmp_path / "copy") as again:
        assert state_of(again) == before and again.notes == [], "a cut tail would begin a new epoch"


def test_a_ledger_in_use_is_copied_as_of_one_instant_and_charges_go_on(tmp_path: Path) -> None:
    state = tmp_path / "client"
    state.mkdir()
    with begun(state / "ledger.sqlite") as ledger:
        for i in range(4):
            store(ledger, i, bytes([i]) * 100)
        (state / "seen-abc.json").write_text("{}")
        assert backup(state, tmp_path / "copy").facts["charged"] == 4
        assert backup(state / "ledger.sqlite", tmp_path / "alone").facts["charged"] == 4
        store(ledger, 4, b"more")
    with open_ledger(tmp_path / "copy" / "ledger.sqlite", read_only=True) as copied:
        assert copied.last_round("f") == 3 and len(copied.unacknowledged("f")) == 4
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == [
        *("ledger.sqlite", "ledger.sqlite.lock", "seen-abc.json"),
    ]
    with pytest.raises(DataError, match="is a backup"):
        open_ledger(tmp_path / "copy" / "ledger.sqlite")


@pytest.mark.parametrize(("file", "words"), [(None, "is neither the state"), ("model.npz", "there is no ledger in")])
def test_what_is_no_state_is_refused(tmp_path: Path, file: str | None, words: str) -> None:
    if file is not None:
        (tmp_path / file).touch()
    with pytest.raises(UsageError, match=words):
        verify(tmp_path)
