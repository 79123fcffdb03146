"""When a client writes the round in hand down, and when it goes on from what was written.

A checkpoint is due after some seconds of work, so a short round has none, and less often where writing one takes long. Writing
one may fail, and reading one may show that it is not this round's: both are logged and cost a client nothing but time. What a
checkpoint holds and why that is safe is told in `crescendo.storage.round_checkpoint`.
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

EVERY = 10.0  # seconds of work between two checkpoints of a round, if not said otherwise
SHARE = 50  # times as long as writing one takes is worked before the next: at most 2% of the time goes into them
ROOM, LEAST = 4, 1 << 20  # times its size, or so many bytes, have to be free on the disk: what is left is the ledger's
MOST_STARTS = 5  # from one checkpoint: whatever ends a client each time then has another draw before it

Exported = tuple[Mapping[str, Any], Mapping[str, Array]]  # of the client and of its worker


class Checkpoints:
    """The checkpoint of one client in one federation, which is that of the round in hand or is not there."""

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
            "build": build_id(),  # another may compute the rest of a round otherwise
        }
        self._unsaved = self._took = 0.0
        self._there, self._said = True, ""  # there may be one of an earlier process

    @cached_property
    def _about(self) -> dict[str, str]:
        """Whose a checkpoint is. The records are read once for it, when the first one is written or found."""
        return {**self._whose, "records": self._records.fingerprint()}

    # -- writing -------------------------------------------------------------------------------------------------------

    def worked(self, seconds: float) -> None:
        """So much more of the round in hand is lost if this process ends now."""
        self._unsaved += seconds

    def write_if_due(self, export: Callable[[], Exported | None]) -> None:
        """Write the round in hand down if enough of it would be lost. Whatever goes wrong, the round goes on."""
        if self._every > 0 and max(self._every, SHARE * self._took) <= self._unsaved:
            self._unsaved = 0.0
            try:
                self._write_down(self._about, export)
            except (
                BaseException
            ) as error:  # a disk's, or that of a stepper of somebody's own, which may even call sys.exit
                self._complain(error)

    def _write_down(self, about: dict[str, str], export: Callable[[], Exported | None]) -> None:
        began = system.perf_counter()
        try:
            state = export()
            if state is None:
                raise UsageError("the model's own stepper does not say its state; give it export and restore")
            self._write(RoundCheckpoint(about, 0, *state))
        finally:
            self._took = system.perf_counter() - began

    def _write(self, checkpoint: RoundCheckpoint) -> None:
        size, disk = checkpoint.size, system.disk_usage(self._path.parent)
        if disk.total and disk.free < max(ROOM * size, LEAST):  # some file systems do not say
            raise DataError(f"it takes {size} bytes, and {disk.free} are free on the disk")
        self._there = True
        checkpoint.write(self._path)
        self._said = ""

    def _complain(self, error: BaseException) -> None:
        """Once for each reason, and in words that say nothing of a record: what a user's own code raises may."""
        reason = _told(error)
        if reason != self._said:
            self._said = reason
            self._log("checkpoint_failed", path=str(self._path), reason=reason)

    # -- going on ------------------------------------------------------------------------------------------------------

    def resume(self, round: int, go_on: Callable[[RoundCheckpoint], None]) -> None:
        """Go on from the checkpoint of ``round`` if there is one; any other is removed.

        ``go_on`` takes it, or raises and has taken nothing. That it was gone on from is written down first.
        """
        try:
            found = RoundCheckpoint.read(self._path) if self._every else None
            if found is None or found.round < round:
                self.remove()  # the round that it is of was released, and a kill came before this
                return
            self._check(found, round)
            self._count(found)
            go_on(found)
        except (Exception, SystemExit) as error:  # a stepper of somebody's own may even call sys.exit
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
        """The round is over, or void: nothing of it may stay."""
        self._unsaved = 0.0
        if self._there:
            try:
                remove_checkpoint(self._path)
                self._there = False
            except OSError as error:
                self._complain(error)


def _told(error: BaseException) -> str:
    """Why, in words that may stand in a log: those of this program or of the disk."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return str(error) if isinstance(error, CrescendoError) else type(error).__name__
