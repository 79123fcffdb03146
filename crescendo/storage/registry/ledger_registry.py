"""Registry: one small file per user of a machine, with the ledgers in use and a sketch of the records of each.

The whole file is read and written under a lock, when a ledger is opened and when it signs off a federation. A
ledger's head changes with each charge, so it has a separate small file in ``heads``, overwritten in place. The key of
the sketches is drawn once and never leaves this folder, which is private to its owner.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from crescendo import system
from crescendo.errors import DataError, UsageError
from crescendo.storage.formats import REGISTRY
from crescendo.storage.registry.record_sketch import KNOWN, RecordSketch
from crescendo.whole_files import make_folder, whole_file

VARIABLE = "CRESCENDO_REGISTRY"


@dataclass
class KnownLedger:
    """One ledger. Its ``id`` does not depend on its path; None for a ledger not begun yet."""

    path: str
    id: str | None
    dataset: str = ""
    epsilon: float | None = None
    delta: float | None = None
    signed: bool = False  # True once it has promised budget
    records: RecordSketch | None = None
    others: list[str] = field(default_factory=list)  # ids of ledgers that hold other records, as stated by the owner

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "records": None if self.records is None else self.records.text}

    @classmethod
    def of_json(cls, body: dict[str, Any]) -> KnownLedger:
        records = body["records"]
        return cls(**{**body, "records": None if records is None else RecordSketch.of_text(records)})


@dataclass
class KnownLedgers:
    """The registry's content."""

    key: bytes
    ledgers: list[KnownLedger]

    def by_id(self, id: str) -> KnownLedger | None:
        return next((one for one in self.ledgers if one.id == id), None)

    def at(self, path: Path) -> KnownLedger | None:
        """Return the ledger last seen at a path; of several, the one used last."""
        return next((one for one in reversed(self.ledgers) if one.path == str(path)), None)

    def awaited(self, path: Path) -> KnownLedger | None:
        """Return the entry that the owner made for a ledger not begun yet."""
        return next((one for one in self.ledgers if one.path == str(path) and one.id is None), None)

    def rival(self, records: RecordSketch, own: KnownLedger | None) -> tuple[KnownLedger, float] | None:
        """Find another ledger that has promised part of these records' budget, and its share of them."""
        found = [
            (one, one.records.overlap(records))
            for one in self.ledgers
            if one is not own and one.signed and one.records is not None and not (own is not None and _apart(one, own))
        ]
        one, share = max(found, key=lambda pair: pair[1], default=(None, 0.0))
        return None if one is None or share < KNOWN else (one, share)


def _apart(one: KnownLedger, other: KnownLedger) -> bool:
    return one.id in other.others or other.id in one.others


class LedgerRegistry:
    """The registry in a folder, which is created by the first write."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._file = folder, folder / "registry.json"

    @classmethod
    def here(cls) -> LedgerRegistry:
        """Return the registry in the folder named by the environment variable, or in the user's state folder."""
        chosen = os.environ.get(VARIABLE)
        return cls(Path(chosen).absolute() if chosen else platformdirs.user_state_path("crescendo", appauthor=False))

    def read(self) -> KnownLedgers:
        """Read the registry without changing it."""
        try:
            text = self._file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return KnownLedgers(system.urandom(32), [])
        except (OSError, UnicodeDecodeError) as error:
            raise self._damaged(error) from error
        try:
            body = json.loads(text)
            number = body["format"]
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(error) from error
        if not isinstance(number, int):
            raise self._damaged(ValueError())
        REGISTRY.check(self._file, number)
        try:
            return KnownLedgers(bytes.fromhex(body["key"]), [KnownLedger.of_json(one) for one in body["ledgers"]])
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(error) from error

    @contextmanager
    def changing(self) -> Iterator[KnownLedgers]:
        """Read the registry under its lock; write it when the block succeeds, if it changed."""
        try:
            make_folder(self.folder)
            make_folder(self.folder / "heads")
            lock = system.open_file(self.folder / "registry.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            system.flock(lock, fcntl.LOCK_EX)
            known = self.read()
            before = self._text(known) if self._file.exists() else ""
            yield known
            if (after := self._text(known)) != before:
                self._write(after)
        finally:
            system.close(lock)

    def _text(self, known: KnownLedgers) -> str:
        ledgers = [one.to_json() for one in known.ledgers]
        return json.dumps({"format": REGISTRY.writes, "key": known.key.hex(), "ledgers": ledgers}, indent=1)

    def _write(self, text: str) -> None:
        try:
            with whole_file(self._file) as out:
                out.write(text.encode())
        except OSError as error:
            raise self._unwritable(error) from error

    def head_of(self, id: str) -> Path:
        """Return the file with the newest head of a ledger."""
        return self.folder / "heads" / id

    def _unwritable(self, error: OSError) -> UsageError:
        return UsageError(
            f"the registry of ledgers {self.folder} cannot be written ({(error.strerror or str(error)).lower()}), and without it "
            f"records could be spent twice; set {VARIABLE} to a folder that can be written and is kept, the same for all clients "
            f"of these records"
        )

    def _damaged(self, error: Exception) -> DataError:
        return DataError(
            f"the registry of ledgers {self._file} cannot be read ({type(error).__name__}); put a sound copy back, or, knowing "
            f"that each data set has one ledger only, move it away: ledgers are registered again when they are used"
        )
