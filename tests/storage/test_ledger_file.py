"""A ledger's file that is missing, foreign, altered, damaged, old, locked or without room."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.core.messages import Settled
from crescendo.errors import CrescendoError, DataError, Refused, UsageError
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo_dp.ledger.budget import Budget
from tests import children
from tests.storage.ledger_play import BUDGET, begun, store

children.preload(__name__)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def test_what_is_not_there_or_not_a_ledger_is_said_in_a_sentence(path: Path) -> None:
    with pytest.raises(DataError, match="there is no ledger at"):
        open_ledger(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is not a ledger"):
        open_ledger(path)
    path.write_bytes(b"some text that is no data base at all, long enough to have a header " * 20)
    with pytest.raises(DataError, match="is not a ledger"):
        open_ledger(path, BUDGET)
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("create table mine (x)")
    db.close()
    with pytest.raises(DataError, match="is not a ledger"):
        open_ledger(path, BUDGET)


def test_to_look_at_what_is_no_ledger_leaves_nothing_beside_it(path: Path) -> None:
    path.write_bytes(b"some text that is no data base at all, long enough to have a header " * 20)
    with pytest.raises(DataError, match="is not a ledger"):
        open_ledger(path, read_only=True)
    assert list(path.parent.iterdir()) == [path]


def test_a_reader_sees_what_a_killed_writer_left_also_without_the_lock_file(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / path.name
    copy.parent.mkdir()
    with begun(path) as ledger:
        store(ledger, 0, b"zero")
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    with open_ledger(copy, read_only=True) as reader:
        assert reader.last_round("f") == 0


def test_a_budget_can_be_corrected_until_something_is_signed_off(path: Path) -> None:
    with open_ledger(path, Budget(3.0, 1e-6), dataset="ward 7") as wrong:
        secret = wrong._secret
    with open_ledger(path, BUDGET, dataset="ward 8") as mended:
        assert (mended.budget, mended.dataset, mended._secret) == (BUDGET, "ward 8", secret)
    with begun(path) as ledger:
        store(ledger, 0, b"zero")
    with open_ledger(path, BUDGET) as again:
        assert (again.dataset, again._secret, again.last_round("f")) == ("ward 8", secret, 0)
    with pytest.raises(Refused, match="budget is set once"):
        open_ledger(path, Budget(3.0, 1e-6))


def test_another_version_another_budget_and_another_data_set_are_refused(path: Path) -> None:
    begun(path, dataset="ward 7").close()
    open_ledger(path, BUDGET, dataset="ward 7").close()
    with pytest.raises(
        Refused, match=r"was begun with epsilon .* at delta .*, but epsilon 3 at delta 1e-06 .* is set once"
    ):
        open_ledger(path, Budget(3.0, 1e-6))
    with pytest.raises(Refused, match="belongs to data set 'ward 7', not 'ward 8'"):
        open_ledger(path, dataset="ward 8")
    altered(path, "pragma user_version = 9")
    with pytest.raises(
        DataError, match=r"has format 9 of a ledger, and Crescendo \S+ knows 1 at most; use the version that wrote it"
    ):
        open_ledger(path)


def altered(path: Path, statement: str, *, behind_the_triggers: bool = False) -> None:
    db = sqlite3.connect(path)
    triggers = db.execute(
        "select name, sql from sqlite_master where type = 'trigger' and sql like '% before %'"
    ).fetchall()
    if behind_the_triggers:
        for name, _ in triggers:
            db.execute(f"drop trigger {name}")
    db.execute(statement)
    if behind_the_triggers:
        for _, sql in triggers:
            db.execute(sql)
    db.commit()
    db.close()


@pytest.mark.parametrize(
    "statement",
    [
        "update entries set body = '{}' where seq = 2",
        "delete from entries where seq = 2",
        "insert or replace into entries select seq, kind, '{}', digest from entries where seq = 2",
        "insert into entries values (17, 'charge', '{}', x'00')",
        "update outbox set bytes = x'00'",
        "insert into outbox values (1, x'00')",
        "insert or replace into outbox values (2, x'00')",
    ],
)
def test_the_file_itself_refuses_any_change_but_growth(path: Path, statement: str) -> None:
    with begun(path) as ledger:
        store(ledger, 0, b"zero")
        store(ledger, 1, b"one")
    with pytest.raises(sqlite3.IntegrityError, match=r"grows|come with|do not change"):
        altered(path, statement)


def test_a_second_charge_of_a_round_is_refused_by_the_file_even_if_the_program_forgot(path: Path) -> None:
    with begun(path) as ledger:
        store(ledger, 0, b"zero")
        again = ledger._file.entries[-1].body
        with pytest.raises(UsageError, match="refuses the entry"):
            ledger._file.append("charge", again, b"fresh noise")
        with pytest.raises(UsageError, match="is closed, by itself if a write failed"):
            store(ledger, 1, b"one")


@pytest.mark.parametrize(
    "statement",
    [
        "update entries set body = replace(body, '0.01', '0.02') where kind = 'charge'",
        "delete from entries where seq = 2",
        "update entries set kind = 'close' where seq = 3",
    ],
)
def test_an_entry_that_was_altered_behind_the_triggers_is_noticed(path: Path, statement: str) -> None:
    with begun(path) as ledger:
        store(ledger, 0, b"zero")
        store(ledger, 1, b"one")
    altered(path, statement, behind_the_triggers=True)
    with pytest.raises(DataError, match="is damaged: entry"):
        open_ledger(path)


def test_a_ledger_whose_triggers_were_taken_away_is_refused(path: Path) -> None:
    begun(path).close()
    altered(path, "drop trigger entries_stay")
    with pytest.raises(DataError, match="its tables or triggers were altered"):
        open_ledger(path)


def test_a_damaged_outbox_makes_its_round_void_and_never_computes_it_again(path: Path) -> None:
    with begun(path) as ledger:
        for i in range(3):
            store(ledger, i, b"%d" % i)
    altered(path, "update outbox set bytes = x'00' where seq = 3", behind_the_triggers=True)
    with open_ledger(path) as again:
        assert again.unacknowledged("f") == [(0, b"0"), (2, b"2")]
        assert again.void("f", Settled(0)) == [1]
        with pytest.raises(UsageError, match="its bytes are gone"):
            store(again, 1, b"fresh noise")
        assert again.last_round("f") == 2


def test_an_older_copy_put_back_is_refused(path: Path) -> None:
    with begun(path) as ledger:
        store(ledger, 0, b"zero")
    shutil.copy(path, older := path.with_name("older"))
    with open_ledger(path) as ledger:
        store(ledger, 1, b"one")
    shutil.copy(older, path)
    with pytest.raises(DataError, match="older or another copy: it has 3 entries where 4 were written"):
        open_ledger(path)


def test_a_ledger_that_was_deleted_is_not_begun_anew_beside_its_lock(path: Path) -> None:
    begun(path).close()
    path.unlink()
    for _ in range(2):
        with pytest.raises(DataError, match="it has 0 entries where 2 were written"):
            open_ledger(path, BUDGET)


def test_one_process_at_a_time_writes_and_others_may_look(path: Path) -> None:
    with begun(path) as ledger:
        store(ledger, 0, b"zero")
        with pytest.raises(UsageError, match="is in use by another process"):
            open_ledger(path)
        with open_ledger(path, read_only=True) as reader:
            assert reader.last_round("f") == 0
            with pytest.raises(UsageError, match="opened to be read only"):
                store(reader, 1, b"one")
        store(ledger, 1, b"one")
    with open_ledger(path, read_only=True), open_ledger(path) as ledger:
        store(ledger, 2, b"two")


def test_a_full_disk_is_said_and_the_round_is_neither_charged_nor_sent(path: Path) -> None:
    with begun(path) as ledger:
        pages = ledger._file._open().execute("pragma page_count").fetchone()[0]
        ledger._file._open().execute(f"pragma max_page_count = {pages}")
        with pytest.raises(UsageError, match="is full, so nothing was charged or sent"):
            store(ledger, 0, bytes(100_000))
    with open_ledger(path) as again:
        assert again.last_round("f") == -1 and store(again, 0, b"zero") == b"zero"


def as_nobody(task: Callable[[Path], None], path: Path, said: Path) -> None:
    """In a child: call ``task`` as a user who may write nothing of root's; what it raised goes to the file ``said``."""
    with said.open("w") as out:
        if os.geteuid() == 0:
            os.setuid(65534)  # permissions mean nothing to root
        try:
            task(path)
        except CrescendoError as error:
            out.write(str(error))
        except BaseException as error:
            out.write(repr(error))


def _write(path: Path) -> None:
    open_ledger(path).close()


def _look(path: Path) -> None:
    assert open_ledger(path, read_only=True).last_round("f") == -1


@pytest.mark.parametrize(
    ("task", "says"), [(_write, "cannot be written (Permission denied)"), (_look, "")], ids=["write", "look"]
)
def test_a_folder_that_cannot_be_written_is_said_and_its_ledger_can_still_be_read(
    task: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory() as folder:  # which the user nobody can reach
        path, said = Path(folder) / "ledger.db", tmp_path / "said"
        begun(path).close()
        for name in (path, path.with_name("ledger.db.lock")):
            name.chmod(0o444)
        Path(folder).chmod(0o555)
        assert children.run(as_nobody, task, path, said) == 0
        Path(folder).chmod(0o755)
        assert says in said.read_text() if says else said.read_text() == ""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed ledger with three releases of several pages."""
    path = tmp_path_factory.mktemp("sound") / "ledger.db"
    with begun(path) as ledger:
        for i in range(3):
            store(ledger, i, b"%d" % i * 9000)
    return path


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_a_flipped_bit_anywhere_is_noticed_or_changes_nothing_that_matters(data: st.DataObject, sound: Path) -> None:
    raw = bytearray(sound.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        path.write_bytes(raw)
        with suppress(CrescendoError), open_ledger(path) as ledger:
            assert (ledger.last_round("f"), len(ledger._file.entries)) == (2, 5)
            for i in range(3):
                with suppress(UsageError):
                    assert store(ledger, i, b"fresh noise") == b"%d" % i * 9000


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_flipped_bit_in_the_log_of_a_killed_client_is_noticed_too(data: st.DataObject, left_by_a_kill: Path) -> None:
    """SQLite ends at a damaged frame of its log as if nothing had followed; the note in the lock file tells."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        for file in left_by_a_kill.parent.iterdir():
            shutil.copy(file, folder)
        log = path.with_name("ledger.db-wal")
        raw = bytearray(log.read_bytes())
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        log.write_bytes(raw)
        with suppress(CrescendoError), open_ledger(path) as ledger:
            assert (ledger.last_round("f"), len(ledger._file.entries)) == (2, 5)
            for i in range(3):
                with suppress(UsageError):
                    assert store(ledger, i, b"fresh noise") == b"%d" % i * 3000


@pytest.fixture(scope="module")
def left_by_a_kill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger that was never closed: most of it is still in its log."""
    path = tmp_path_factory.mktemp("alive") / "ledger.db"
    with begun(path) as ledger:
        for i in range(3):
            store(ledger, i, b"%d" % i * 3000)
        copy = tmp_path_factory.mktemp("killed") / "ledger.db"
        for suffix in ("", "-wal", ".lock"):
            shutil.copy(path.with_name(path.name + suffix), copy.with_name(copy.name + suffix))
    with open_ledger(shutil.copytree(copy.parent, tmp_path_factory.mktemp("look") / "whole") / "ledger.db") as whole:
        assert whole.last_round("f") == 2
    return copy
