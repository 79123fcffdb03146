"""The ledger's tables: creation, exact verification, and migration from older versions.

`_FIRST` makes version 1, and each step makes the next version. A new file goes through the same steps, so migrated
and new ledgers have the same tables. Each entry carries the hash of all entries before it, so no step may change an
entry.
"""

import sqlite3
from pathlib import Path

from crescendo.errors import DataError
from crescendo.storage.formats import LEDGER
from crescendo.storage.ledger.ledger_faults import LedgerDamaged

LOCK_TIMEOUT = 10.0  # seconds that SQLite waits for another process's lock
APPLICATION = 0x43524C47  # "CRLG", in the header of the file
BACKUP = 0x43524C42  # "CRLB", in the header of a backup: inside the file, so that every copy keeps it

_FIRST = f"""
create table entries (seq integer primary key, kind text not null, body text not null, digest blob not null);
create table outbox (seq integer primary key references entries (seq), bytes blob not null);
create unique index charged_once on entries (json_extract(body, '$.federation'), json_extract(body, '$.round'))
    where kind = 'charge';
create unique index signed_once on entries (json_extract(body, '$.federation')) where kind = 'sign';
create trigger entries_in_turn before insert on entries
    when new.seq is not (select coalesce(max(seq) + 1, 0) from entries)
    begin select raise(abort, 'a ledger grows at its end'); end;
create trigger entries_stay before update on entries begin select raise(abort, 'a ledger only grows'); end;
create trigger entries_stay_in before delete on entries begin select raise(abort, 'a ledger only grows'); end;
create trigger bytes_with_their_entry before insert on outbox
    when new.seq is not (select max(seq) from entries) or exists (select 1 from outbox where seq = new.seq)
    begin select raise(abort, 'bytes come with their entry'); end;
create trigger bytes_stay before update on outbox begin select raise(abort, 'sent bytes do not change'); end;
pragma application_id = {APPLICATION};
"""
STEPS: tuple[str, ...] = ()  # the first step turns version 1 into 2, and so on


def create(db: sqlite3.Connection) -> None:
    """Make the tables of a new ledger, in one transaction."""
    _run(db, _script(len(STEPS) + 1))


def migrate(db: sqlite3.Connection) -> None:
    """Bring the tables up to this program's version, in one transaction: a kill leaves the old ones or the new ones."""
    version = _version(db)
    if version <= len(STEPS):
        _run(db, "".join(STEPS[version - 1 :]) + _numbered(len(STEPS) + 1))


def check(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not a ledger, an unknown version, and altered tables."""
    if _application(db) not in (APPLICATION, BACKUP):
        raise DataError(f"{path} is not a ledger; check the path")
    version = _version(db)  # before the tables, which differ between versions
    LEDGER._replace(writes=len(STEPS) + 1).check(path, version)
    sound = sqlite3.connect(":memory:")
    sound.executescript(_script(version))
    of_all = "select type, name, tbl_name, sql from sqlite_master order by name"
    same = db.execute(of_all).fetchall() == sound.execute(of_all).fetchall()
    sound.close()
    if not same:
        raise LedgerDamaged(path, "its tables or triggers were altered")


def is_backup(db: sqlite3.Connection) -> bool:
    """Return True if this file is a backup that has not been put into use."""
    return _application(db) == BACKUP


def mark_backup(db: sqlite3.Connection, backup: bool = True) -> None:
    """Mark the file as a backup, or remove the mark."""
    db.execute(f"pragma application_id = {BACKUP if backup else APPLICATION}")


def _application(db: sqlite3.Connection) -> int:
    return int(db.execute("pragma application_id").fetchone()[0])


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("pragma user_version").fetchone()[0])


def _numbered(version: int) -> str:
    return f"pragma user_version = {version};"


def _script(version: int) -> str:
    return _FIRST + "".join(STEPS[: version - 1]) + _numbered(version)


def _run(db: sqlite3.Connection, script: str) -> None:
    db.executescript(f"begin immediate; {script} commit;")
