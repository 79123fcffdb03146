"""Checkpoints: when a client saves its current round, and when it continues from the saved state.

A checkpoint is due after some seconds of work, so a short round has none. It is due less often where writing one takes long.
Writing may fail, and a checkpoint may turn out to belong to another round: the client logs both, and loses nothing but time.
`crescendo.storage.round_checkpoint` explains the content of a checkpoint, and why it is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from crescendo import __version__, system
from crescendo.build import build_id
from crescendo.core.arrays import Array
from crescendo.data.records import Records
from crescendo.errors import CrescendoError, DataError, UsageError
from crescendo.federation.agreement import Agreement
from crescendo.logs import Log, quiet
from crescendo.storage.round_checkpoint import RoundCheckpoint, checkpoint_path, remove_checkpoint

EVERY = 10.0  # default seconds of work between two checkpoints of a round
SHARE = 50  # work at least 50 times as long as writing one takes: at most 2% of the time goes into checkpoints
ROOM, LEAST = 4, 1 << 20  # the disk must have free 4 times the checkpoint's size, and 1 MiB: the ledger needs the rest
MOST_STARTS = 5  # starts from one checkpoint; if the client failed each time, it then draws other records

Exported = tuple[Mapping[str, Any], Mapping[str, Array]]  # of the client and of its worker


class Checkpoints:
    """The checkpoint of one client in one federation; it is of the current round, or there is none."""

    def __init__(
        self,
        folder: Path,
        every: float,
        agreement: Agreement,
        client: str,
        instance: str,
        records: Records,
        log: Log = quiet,
    ) -> None:
        self._path = checkpoint_path(folder, agreement.digest)
        self._every, self._records, self._log = every, records, log
        self._whose = {
            "federation": agreement.federation,
            "terms": agreement.digest,
            "client": client,
            "ledger": instance,
            "program": __version__,
            "build": build_id(),  # another build may compute the rest of a round differently
        }
        self._unsaved = self._took = 0.0
        self._there, self._said = True, ""  # there may be one of an earlier process

    @cached_property
    def _about(self) -> dict[str, str]:
        """The facts that identify the owner of a checkpoint. The first use reads the records once, for their fingerprint."""
        return {**self._whose, "records": self._records.fingerprint()}

    # -- writing -------------------------------------------------------------------------------------------------------

    def worked(self, seconds: float) -> None:
        """Count seconds of work on the current round that no checkpoint holds yet."""
        self._unsaved += seconds

    def write_if_due(self, export: Callable[[], Exported | None]) -> None:
        """Save the current round if enough work would be lost. No error here ends the round."""
        if self._every > 0 and max(self._every, SHARE * self._took) <= self._unsaved:
            self._unsaved = 0.0
            try:
                self._write_down(self._about, export)
            except BaseException as error:  # of the disk or of a user's stepper, which may even call sys.exit
                self._complain(error)

    def _write_down(self, about: dict[str, str], export: Callable[[], Exported | None]) -> None:
        began = system.perf_counter()
        try:
            state = export()
            if state is None:
                raise UsageError("the model's own stepper does not export its state; give it export and restore")
            self._write(RoundCheckpoint(about, 0, *state))
        finally:
            self._took = system.perf_counter() - began

    def _write(self, checkpoint: RoundCheckpoint) -> None:
        size, disk = checkpoint.size, system.disk_usage(self._path.parent)
        if disk.total and disk.free < max(ROOM * size, LEAST):  # some file systems report 0
            raise DataError(f"it takes {size} bytes, and {disk.free} are free on the disk")
        self._there = True
        checkpoint.write(self._path)
        self._said = ""

    def _complain(self, error: BaseException) -> None:
        """Log a failure, once for each reason. Errors of a user's code may quote a record, so they are logged without text."""
        reason = _told(error)
        if reason != self._said:
            self._said = reason
            self._log("checkpoint_failed", path=str(self._path), reason=reason)

    # -- resuming ------------------------------------------------------------------------------------------------------

    def resume(self, round: int, go_on: Callable[[RoundCheckpoint], None]) -> None:
        """Continue from the checkpoint of ``round`` if there is one; remove any other.

        ``go_on`` loads the checkpoint, or raises and changes nothing. The start is counted in the checkpoint first.
        """
        try:
            found = RoundCheckpoint.read(self._path) if self._every else None
            if found is None or found.round < round:
                self.remove()  # its round was released, and a kill came before the checkpoint was removed
                return
            self._check(found, round)
            self._count(found)
            go_on(found)
        except (Exception, SystemExit) as error:  # a user's stepper may even call sys.exit
            self._log("checkpoint_discarded", path=str(self._path), round=round, reason=_told(error))
            self.remove()
            return
        self._log("checkpoint_resumed", round=round, slot=int(found.client["h"]))

    def _check(self, found: RoundCheckpoint, round: int) -> None:
        if found.round != round:
            raise DataError(f"it is of round {found.round}")
        for name, value in self._about.items():
            if found.about.get(name) != value:
                raise DataError(
                    f"it is of other {name}" if name in ("terms", "records") else f"it is of another {name}"
                )
        if found.starts >= MOST_STARTS:
            raise DataError(f"{found.starts} processes went on from it and came no further")

    def _count(self, found: RoundCheckpoint) -> None:
        try:
            self._write(found._replace(starts=found.starts + 1))
        except (DataError, OSError) as error:
            self._complain(error)

    # -- the end of a round --------------------------------------------------------------------------------------------

    def remove(self) -> None:
        """Remove the checkpoint, because its round is over or void."""
        self._unsaved = 0.0
        if self._there:
            try:
                remove_checkpoint(self._path)
                self._there = False
            except OSError as error:
                self._complain(error)


def _told(error: BaseException) -> str:
    """Return the reason in words that may be logged: the text of our own errors and of the disk's, otherwise the type alone."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return str(error) if isinstance(error, CrescendoError) else type(error).__name__
