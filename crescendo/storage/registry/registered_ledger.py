"""Opening of the one ledger of some records: registered, not an older copy, and the only one for them.

Every charge of records goes through `open_registered`. It refuses three things, each with a remedy:

- *A second ledger* for records that have one. Only a ledger that has promised part of their budget counts. The check
  is repeated, under the registry's lock, before a sign-off: of two processes that begin two ledgers at the same time,
  only one signs.
- *An older copy*: the registry notes the head after each entry. A kill in between leaves the note one entry behind,
  which a sound ledger still reaches. The note is not synced: after a power loss it may lag by the data still in memory.
- *A copy elsewhere* while the original exists. A moved ledger is accepted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from crescendo import system
from crescendo.errors import CrescendoError, DataError, Refused, UsageError
from crescendo.storage.ledger.head_note import Head, note, read_note
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.registry.ledger_registry import KnownLedger, KnownLedgers, LedgerRegistry
from crescendo.storage.registry.record_sketch import RecordSketch
from crescendo.storage.registry.witness_file import WitnessFile
from crescendo_dp.ledger.budget import Budget

Sketched = Callable[[bytes], RecordSketch]
"""Makes the sketch of some records with a key."""


@dataclass(frozen=True)
class OpenedLedger:
    """An open ledger, and a message for its owner if it was registered or moved."""

    ledger: Ledger
    news: str | None


def open_registered(
    path: Path, budget: Budget, dataset: str, sketched: Sketched | None = None, witness: Path | None = None
) -> OpenedLedger:
    """Open or begin the ledger at ``path`` for these records; refuse as described above.

    Leave ``sketched`` out for public records, to refuse only copies.
    """
    path, registry = path.resolve(), LedgerRegistry.here()
    with registry.changing() as known:
        key = known.key
    records = None if sketched is None else sketched(key)  # outside the lock, so that other clients need not wait
    with registry.changing() as known:
        if known.key != key:
            raise _replaced(registry)
        if not path.exists():
            _check_only(known, records, known.awaited(path), path)
        ledger = open_ledger(path, budget, dataset=dataset)
        try:
            own, news = _entry_of(known, ledger, registry)
            _check_only(known, records, own, path)
            if records is not None:
                own.records = records if own.records is None else own.records.merged(records)
            own.path, own.dataset, own.signed = str(path), ledger.dataset, own.signed or ledger.has_signed
            own.epsilon, own.delta = ledger.budget.epsilon, ledger.budget.delta
            ledger.watched_by(_Guard(registry, ledger, records, witness))
        except BaseException:
            ledger.close()
            raise
    return OpenedLedger(ledger, news)


class _Guard:
    """Observer of an open ledger: checks before a sign-off, and notes the head after each entry."""

    def __init__(
        self, registry: LedgerRegistry, ledger: Ledger, records: RecordSketch | None, witness: Path | None
    ) -> None:
        self._registry, self._id, self._path, self._records = registry, ledger.id, ledger.path, records
        self._witness = None if witness is None else WitnessFile(witness, ledger)
        self._head = -1
        try:
            self._head = system.open_file(registry.head_of(ledger.id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._note(ledger.head)
        except OSError as error:
            self.close()
            raise self._unwritable(error) from error

    def signing(self) -> None:
        """Refuse if another ledger has meanwhile promised part of these records' budget."""
        with self._registry.changing() as known:
            own = known.by_id(self._id)
            if own is None:
                raise _replaced(self._registry)
            _check_only(known, self._records, own, self._path)
            own.signed = True

    def wrote(self, head: Head) -> None:
        """Note the head after an entry; the ledger sends nothing before this returns."""
        try:
            self._note(head)
        except OSError as error:
            raise self._unwritable(error) from error
        if self._witness is not None:
            self._witness.wrote(head)

    def close(self) -> None:
        if self._head >= 0:
            system.close(self._head)
        if self._witness is not None:
            self._witness.close()
        self._head, self._witness = -1, None

    def _note(self, head: Head) -> None:
        system.pwrite(self._head, note(head), 0)

    def _unwritable(self, error: OSError) -> UsageError:
        where, why = self._registry.head_of(self._id), (error.strerror or str(error)).lower()
        return UsageError(
            f"the note {where} of a ledger cannot be written ({why}), so nothing more is sent; mend its disk"
        )


def _entry_of(known: KnownLedgers, ledger: Ledger, registry: LedgerRegistry) -> tuple[KnownLedger, str | None]:
    """Find or make the registry's entry of an open ledger; return it with a message for its owner."""
    own = known.by_id(ledger.id)
    if own is None:
        own = known.awaited(ledger.path)
        if own is None:
            known.ledgers.append(own := KnownLedger(str(ledger.path), None))
        own.id = ledger.id
        return own, "was registered: from now on it is the only one of these records" if ledger.has_signed else None
    head = read_note(registry.head_of(ledger.id))
    if head is not None and not ledger.reaches(head):
        raise DataError(
            f"the ledger {ledger.path} is an older or another copy: it has {ledger.head[0]} entries, and the registry saw "
            f"{head[0]}; put the newest copy back, or what was spent would be spent again"
        )
    before = Path(own.path)
    if before == ledger.path or (before.exists() and before.samefile(ledger.path)):
        return own, None
    if _is_at(before, ledger.id):
        raise DataError(
            f"the ledger {ledger.path} is a copy of {own.path}, and only one of the two may go on; put ledger = "
            f'"{own.path}" into the policy, or remove that one if this is the newest'
        )
    return own, f"was moved from {own.path}"


def _check_only(known: KnownLedgers, records: RecordSketch | None, own: KnownLedger | None, path: Path) -> None:
    """Refuse if another ledger has promised part of these records' budget."""
    rival = None if records is None else known.rival(records, own)
    if rival is None:
        return
    other, share = rival
    found = f"{share:.0%} of these records have a ledger already, {other.path}"
    apart = f"if these are others that are merely alike, say so with `crescendo account --register {quote(str(path))}`"
    if other.id is not None and _is_at(Path(other.path), other.id):
        raise Refused(
            f"{found}, and a second one would spend the same budget twice; put "
            f'ledger = "{other.path}" into the policy, or, {apart}'
        )
    raise Refused(
        f"{found}, which is gone, so its spending is not known; put it back, or, if it is lost for good and you answer for "
        f"what it spent, say `crescendo account --forget {quote(other.path)}`, or, {apart}"
    )


def _is_at(path: Path, id: str) -> bool:
    """Return True if a ledger is where it was last seen; an unreadable file counts as that ledger."""
    try:
        with open_ledger(path, read_only=True) as ledger:
            return ledger.id == id
    except CrescendoError:
        return path.exists()


def _replaced(registry: LedgerRegistry) -> UsageError:
    return UsageError(f"the registry of ledgers {registry.folder} was replaced meanwhile; start again")
