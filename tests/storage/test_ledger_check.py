"""The check of a ledger: in use or left by a kill, it is examined on a copy, and every damage is a sentence."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

from crescendo.core.messages import Settled
from crescendo.errors import DataError
from crescendo.storage.ledger.ledger_file import LedgerFile
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.upkeep.examination import Examination
from crescendo.storage.upkeep.ledger_check import check_ledger
from tests import children
from tests.storage.ledger_play import begun, store

children.preload(__name__)


def examined(path: Path) -> Examination:
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}
    found = Examination(path, "ledger")
    check_ledger(path, found)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")} == before
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with four charges, of which two are acknowledged."""
    path = tmp_path / "client" / "ledger.sqlite"
    path.parent.mkdir()
    with begun(path) as ledger:
        for i in range(4):
            store(ledger, i, bytes([i]) * 500)
        ledger.acknowledge("f", Settled(2))
    return path


def altered(path: Path, *statements: str) -> None:
    """Change what the triggers protect, and put the triggers back word for word."""
    with sqlite3.connect(path) as db:
        triggers = db.execute("select name, sql from sqlite_master where type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"drop trigger {name}")
        for statement in statements:
            db.execute(statement)
        for _, sql in triggers:
            db.execute(sql)
    db.close()


def test_a_sound_ledger_is_sound_at_rest_and_in_use(path: Path) -> None:
    found = examined(path)
    assert found.sound and found.facts["charged"] == 4 and found.facts["outbox"] == 2, found
    with open_ledger(path) as ledger:
        store(ledger, 4, b"more")
        found = examined(path)
        assert found.sound and found.facts["charged"] == 5 and found.facts["outbox"] == 3, found


def test_what_a_killed_client_left_in_the_log_is_counted_and_left_there(path: Path) -> None:
    assert children.run(_killed_after_a_charge, path) == -signal.SIGKILL
    assert path.with_name(path.name + "-wal").stat().st_size > 0
    assert examined(path).facts["charged"] == 5


def _killed_after_a_charge(path: Path) -> None:
    ledger = open_ledger(path)
    store(ledger, 4, b"more")
    os.kill(os.getpid(), signal.SIGKILL)


def test_bytes_that_are_not_those_that_were_charged_are_noticed(path: Path) -> None:
    altered(path, "update outbox set bytes = zeroblob(500) where seq = (select max(seq) from outbox)")
    (sentence,) = examined(path).damage
    assert "the bytes of round 3 of federation 'f' are not those that were charged" in sentence and "void" in sentence


def test_bytes_without_a_charge_are_noticed(path: Path) -> None:
    altered(path, "insert into outbox values (0, x'00')")
    assert "belong to no charge (entry 0)" in examined(path).damage[0]


@pytest.mark.parametrize(
    "statement",
    [
        "update entries set body = replace(body, '\"round\":3', '\"round\":9')",
        "delete from entries where seq = 3",
        "update entries set kind = 'offer' where seq = 4",
        "drop index charged_once",
    ],
)
def test_a_changed_entry_or_table_is_noticed(path: Path, statement: str) -> None:
    altered(path, statement)
    assert "is damaged" in examined(path).damage[0]


def test_damaged_pages_are_noticed(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data), 4096):
        data[at : at + 64] = bytes(64)
    path.write_bytes(data)
    assert examined(path).damage


def test_an_older_copy_in_place_of_the_ledger_is_noticed(path: Path) -> None:
    shutil.copy(path, path.parent / "older")
    with open_ledger(path) as ledger:
        store(ledger, 4, b"more")
    shutil.move(path.parent / "older", path)
    assert "forgets what was spent" in examined(path).damage[0]


@pytest.mark.parametrize("alone", [False, True], ids=["with its lock", "the file alone"])
def test_a_backup_is_read_and_nothing_is_charged_to_it_until_its_owner_says_so(path: Path, alone: bool) -> None:
    """Copied to a new place by hand, too, where nothing else says what it is."""
    LedgerFile.make_backup(path)
    if alone:
        path.with_name(path.name + ".lock").unlink()
    found = examined(path)
    assert found.sound and "is a backup" in found.notes[0]
    with open_ledger(path, read_only=True) as ledger:
        assert ledger.last_round("f") == 3
    with pytest.raises(DataError, match="does not know what was charged after it was made"):
        open_ledger(path)
    consent = path.with_name(path.name + ".go-on")
    consent.touch()
    with open_ledger(path, read_only=True):
        assert consent.exists(), "a reader uses it up for nobody"
    with open_ledger(path) as ledger:
        store(ledger, 4, b"more")
    assert not consent.exists() and examined(path).notes == []
    consent.touch()
    open_ledger(path).close()
    assert not consent.exists(), "nor does it wait for the next backup"
