"""Errors of a ledger's file, each with its cause and a remedy."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crescendo.errors import DataError, UsageError


class LedgerDamaged(DataError):
    """A ledger's file can no longer be trusted; ``pages`` is True if SQLite found inconsistent pages."""

    def __init__(self, path: Path, what: str, pages: bool = False) -> None:
        super().__init__(
            f"the ledger {path} is damaged: {what}; put a sound copy back, as what was spent cannot be known"
        )
        self.pages = pages


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Translate SQLite's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explanation(error, path) from error
    except ValueError as error:  # invalid text, for example after a flipped bit
        raise LedgerDamaged(path, str(error)) from error


def _explanation(error: sqlite3.Error, path: Path) -> UsageError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return DataError(f"{path} is not a ledger, or its first page is damaged; check the path")
    if code == sqlite3.SQLITE_FULL:
        return UsageError(
            f"the disk of the ledger {path} is full, so nothing was charged or sent; make room and start again"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UsageError(f"the ledger {path} is in use by another process; stop that one first")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return UsageError(
            f"the ledger {path} cannot be opened or written ({error}); give it a folder that can be written"
        )
    if code == sqlite3.SQLITE_CONSTRAINT:
        return UsageError(f"the ledger {path} refuses the entry ({error}); open it again to see what it holds")
    if code == sqlite3.SQLITE_IOERR:
        return UsageError(f"the disk of the ledger {path} fails ({error}), so nothing more is sent; check the disk")
    return LedgerDamaged(path, str(error), pages=code == sqlite3.SQLITE_CORRUPT)
