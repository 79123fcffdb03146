"""Stored formats: files of a newer version are refused and left alone, those of an older one are brought up, killed or not."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.errors import DataError
from crescendo.federation.agreement import build_terms
from crescendo.runs.folder import check_format
from crescendo.storage.formats import FORMATS, JOURNAL, LEDGER, SNAPSHOT, OtherFormat
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.replay import replay
from crescendo.storage.ledger import ledger_schema
from crescendo.storage.ledger.ledger_schema import STEPS
from crescendo.storage.ledger.open_ledger import open_ledger
from tests import children
from tests.before.test_before import HERE, TERMS
from tests.storage.ledger_play import BUDGET, begun, store

children.preload(__name__)

STEP = "create table notes (seq integer primary key, words text not null); create index by_words on notes (words);"
PAGE = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text(encoding="utf-8")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def opened(folder: Path) -> DurableServer:
    return DurableServer(folder, TERMS, lambda text: build_terms(text).terms)


def test_the_page_has_every_format_with_its_numbers_and_its_reader_is_there() -> None:
    for kind in FORMATS:
        assert f"| {kind.what} | {kind.writes} | {kind.oldest} to {kind.writes} | {kind.where} |" in PAGE
        import_module(kind.reader)
    assert LEDGER.writes == len(STEPS) + 1


# -- newer than this program


@pytest.mark.parametrize("name", ["journal-00000000000000000000", "journal-00000000000000000015"])
def test_a_newer_journal_is_refused_and_untouched(name: str, tmp_path: Path) -> None:
    """The last segment has nothing but its opening: it must not be taken for one whose making was cut short."""
    folder = tmp_path / "journal"
    shutil.copytree(HERE / "served" / "journal", folder)
    if name.endswith("0"):
        for path in folder.glob("*15"):
            path.unlink()
    path = folder / name
    data = path.read_bytes()
    path.write_bytes(JOURNAL.magic + b"3" + data[8:28] + b"????" + data[32:])  # its checksum is over other bytes
    before = contents(folder)
    with pytest.raises(OtherFormat, match=rf"{name} has format 3 of a journal, and Crescendo \S+ knows 2 at most; use"):
        opened(folder)
    with pytest.raises(OtherFormat):
        replay(folder)
    assert contents(folder) == before


def test_a_newer_snapshot_is_refused_and_untouched(tmp_path: Path) -> None:
    """It was taken for a damaged one, and removed: with it goes all that was pruned from the journal."""
    folder = tmp_path / "journal"
    shutil.copytree(HERE / "served" / "journal", folder)
    (path,) = folder.glob("snapshot-*")
    path.write_bytes(SNAPSHOT.magic + b"4" + path.read_bytes()[8:])
    before = contents(folder)
    with pytest.raises(OtherFormat, match="has format 4 of a snapshot"):
        opened(folder)
    assert contents(folder) == before


def test_a_snapshot_of_an_older_format_costs_time_only(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    shutil.copytree(HERE / "served" / "journal", folder)
    (path,) = folder.glob("snapshot-*")
    path.write_bytes(SNAPSHOT.magic + b"1" + path.read_bytes()[8:])
    with opened(folder) as server, np.load(HERE / "served" / "model.npz") as file:
        assert np.array_equal(server.model, file["model"])


def test_a_newer_ledger_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    begun(path).close()
    with sqlite3.connect(path) as db:
        db.execute("create table later (x)")
        db.execute(f"pragma user_version = {LEDGER.writes + 1}")
    db.close()
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(OtherFormat, match="use the version that wrote it, or a newer one"):
            open_ledger(path, BUDGET if not read_only else None, read_only=read_only)
    assert path.read_bytes() == before and sorted(found.name for found in tmp_path.iterdir()) == [
        "ledger.sqlite",
        "ledger.sqlite.lock",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"format": 2}', "has format 2 of a run's folder"),
        ("[]", "does not hold the folder's format"),
        ("{", "does not hold the folder's format"),
    ],
)
def test_a_newer_run_folder_is_refused(text: str, says: str, tmp_path: Path) -> None:
    check_format(tmp_path)  # from before there were numbers
    (tmp_path / "format.json").write_text(text)
    with pytest.raises(DataError, match=says):
        check_format(tmp_path)


# -- older than this program: the steps of the ledger


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program one version on, whose ledgers have a table more."""
    monkeypatch.setattr(ledger_schema, "STEPS", (*STEPS, STEP))


def version_of(path: Path) -> int:
    with sqlite3.connect(path) as db:
        return int(db.execute("pragma user_version").fetchone()[0])


def tables_of(path: Path) -> Any:
    with sqlite3.connect(path) as db:
        return db.execute("select type, name, sql from sqlite_master order by name").fetchall()


@pytest.mark.parametrize("stored", ["client", "halfway/client0"])
def test_a_stored_ledger_of_version_1_is_brought_up_with_every_entry(stored: str, tmp_path: Path, later: None) -> None:
    path = tmp_path / "ledger.sqlite"
    shutil.copy(HERE / stored / "ledger.sqlite", path)
    with open_ledger(path, read_only=True) as ledger:  # only looks
        entries = list(ledger._file.entries)
    assert version_of(path) == 1
    with open_ledger(path) as ledger:
        assert list(ledger._file.entries) == entries
    with open_ledger(path) as ledger:  # and once more, with nothing to do
        assert list(ledger._file.entries) == entries
    assert version_of(path) == len(STEPS) + 2
    begun(new := tmp_path / "new.sqlite").close()
    assert tables_of(path) == tables_of(new)


def test_an_older_ledger_with_altered_tables_is_not_brought_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(path := tmp_path / "ledger.sqlite").close()
    with sqlite3.connect(path) as db:
        db.execute("drop trigger entries_stay")
    monkeypatch.setattr(ledger_schema, "STEPS", (*STEPS, STEP))
    with pytest.raises(DataError, match="its tables or triggers were altered"):
        open_ledger(path)
    assert version_of(path) == LEDGER.writes


@pytest.mark.parametrize("statement", range(1, 6))
def test_a_kill_at_any_statement_of_a_migration_leaves_the_old_ledger_or_the_new(
    statement: int, tmp_path: Path, later: None
) -> None:
    """begin, two of the step, the number, commit."""
    path = tmp_path / "ledger.sqlite"
    monkey = pytest.MonkeyPatch()
    with monkey.context() as before:
        before.setattr(ledger_schema, "STEPS", STEPS)
        with begun(path) as ledger:
            store(ledger, 0, b"zero")
            entries = list(ledger._file.entries)
    assert children.run(_killed_at, path, statement) == -signal.SIGKILL
    with open_ledger(path) as ledger:
        assert list(ledger._file.entries) == entries
        store(ledger, 1, b"one")
    assert version_of(path) == len(STEPS) + 2


def _killed_at(path: Path, statement: int) -> None:
    """Open the ledger with the program one version on, and die as the n-th statement of the migration begins."""
    run, seen = ledger_schema._run, list[str]()

    def traced(text: str) -> None:
        seen.append(text)
        if len(seen) == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(db: sqlite3.Connection, script: str) -> None:
        db.set_trace_callback(traced)
        run(db, script)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_schema, "STEPS", (*STEPS, STEP))
        patch.setattr(ledger_schema, "_run", watched)
        open_ledger(path)
