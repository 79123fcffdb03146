"""Witness: a small file on other storage with a ledger's newest head, checked whenever the ledger is opened.

The head is signed with the ledger's secret and synced before a release is sent. So an old ledger is detected even if
its whole disk was restored with it. A ledger one entry ahead of its witness was killed between the two writes.
"""

from __future__ import annotations

import os
from pathlib import Path

from crescendo import system
from crescendo.errors import DataError, UsageError
from crescendo.storage.ledger.head_note import Head, note, noted
from crescendo.storage.ledger.ledger_store import Ledger


class WitnessFile:
    """The witness of an open ledger; raises DataError on opening if the ledger is behind."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self._path, self._key = path, ledger.witness_key
        began = not ledger.has_signed
        if not path.exists() and not began:
            raise DataError(
                f"there is no witness {path} of the ledger {ledger.path}, which has signed federations off; mount its disk, or, "
                f"if there never was one, make an empty file {path} and start again"
            )
        try:
            self._file = system.open_file(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if began else 0), 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            self._check(ledger)
            self.wrote(ledger.head)
        except BaseException:
            self.close()
            raise

    def _check(self, ledger: Ledger) -> None:
        data = system.pread(self._file, 4096, 0)
        head = noted(data, self._key)
        if head is None and data:
            raise DataError(
                f"{self._path} is damaged, or is no witness of the ledger {ledger.path}; name its own, or, if you know that this "
                f"ledger is the newest, empty that file and start again"
            )
        if head is not None and not ledger.reaches(head):
            raise DataError(
                f"the ledger {ledger.path} is older than its witness {self._path}: it has {ledger.head[0]} entries where "
                f"{head[0]} were written; put the newest copy back, or what was spent would be spent again"
            )

    def wrote(self, head: Head) -> None:
        """Note a head. It is on disk when this returns."""
        try:
            system.pwrite(self._file, note(head, self._key), 0)
            system.fdatasync(self._file)
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        system.close(self._file)

    def _unwritable(self, error: OSError) -> UsageError:
        why = (error.strerror or str(error)).lower()
        return UsageError(
            f"the witness {self._path} cannot be written ({why}), so nothing more is sent; mend its disk and start again"
        )
