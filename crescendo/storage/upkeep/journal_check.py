"""Journal check: verifies every checksum and the order of the records, and compares a replay with the snapshots bit
for bit.

It only reads, even while a server runs. It reports a damaged segment and continues from the next sound snapshot, so
one pass names every damage and its consequence for the server.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crescendo.core.arrays import Floats
from crescendo.core.terms import Terms
from crescendo.errors import CrescendoError, UsageError
from crescendo.storage.journal.journal_entries import Opened, Received, Summed, delta_of, from_bytes
from crescendo.storage.journal.segments import JournalDamaged, Record, Scan, Segments
from crescendo.storage.journal.server_state import ServerState
from crescendo.storage.journal.snapshots import Snapshot
from crescendo.storage.upkeep.examination import Examination
from crescendo.storage.upkeep.journal_listing import MAX_TRIES, FilesGoAway, JournalListing

NEEDED = "a server cannot start from this folder; put a backup back"
NEWER_FIELDS = {"void"}  # a server resumed from an older version's snapshot has less of these than the journal
WITHOUT = "a server starts without it"
HISTORY = f"{WITHOUT}, from a newer snapshot, but this history cannot be replayed"


Make = Callable[[str], Terms] | None


def check_journal(
    folder: Path,
    make: Make,
    found: Examination,
    terms: str | None = None,
    pause: Callable[[], None] = lambda: None,
) -> None:
    """Examine the journal and the snapshots in ``folder``; ``make`` builds `Terms` from their text.

    Without ``make`` only checksums and order are checked. ``terms`` is their text, for a journal in which neither the
    first entry nor a snapshot has it. ``pause`` is called between records, and may raise to end the check.
    """
    for _ in range(MAX_TRIES):
        attempt = Examination(found.path, found.kind)
        try:
            _JournalCheck(folder, make, attempt, terms, pause).run()
        except FileNotFoundError:  # pruned meanwhile: look again
            continue
        found.damage += attempt.damage
        found.notes += attempt.notes
        found.facts |= attempt.facts
        return
    raise FilesGoAway(folder)


class _JournalCheck:
    def __init__(
        self, folder: Path, make: Make, found: Examination, terms: str | None, pause: Callable[[], None]
    ) -> None:
        self._folder, self._make, self._found, self._terms, self._pause = folder, make, found, terms, pause
        self._snapshots: dict[int, Snapshot] = {}
        self._damaged: list[int] = []
        self._state: ServerState | None = None  # None if the earlier records are unknown
        self._literal: Floats | None = None  # the model by plain subtraction, to compare with the state's
        self._end, self._check, self._newest = 0, 0, -1

    def run(self) -> None:
        Snapshot.refuse_newer(self._folder)  # a newer format would look like damage
        snapshots, segments = JournalListing.of(self._folder)
        for path in snapshots:
            self._read_snapshot(path)
        self._newest = self._newest_sound(segments)
        self._say_damaged(segments)
        if not segments:
            self._found.damage.append(f"there is no journal in {self._folder}; {NEEDED}")
            return
        for segment in segments:
            self._check_segment(segment, is_last=segment == segments[-1])
        self._check_all_met(segments)
        self._say_facts(segments)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def _read_snapshot(self, path: Path) -> None:
        snapshot = Snapshot.read(path, arrays=self._make is not None)
        if snapshot is not None:
            self._snapshots[snapshot.number] = snapshot
            self._terms = self._terms or snapshot.state.get("terms")
        else:
            self._damaged.append(Snapshot.number_in(path))

    def _say_damaged(self, segments: list[Path]) -> None:
        """Report the damaged snapshots and their consequences, once all the others are read."""
        replayed_from = [*self._snapshots, *(0 for segment in segments if Segments.first_in(segment) == 0)]
        for number in self._damaged:
            if self._newest < 0:
                means = NEEDED
            elif number > self._newest:
                means = f"{WITHOUT}, from {'an older snapshot' if self._newest else 'the beginning of the journal'}"
            else:
                means = f"{WITHOUT}, from a newer snapshot" if min(replayed_from) < number else HISTORY
            self._found.damage.append(f"snapshot-{number:020d} is damaged; {means}")

    def _newest_sound(self, segments: list[Path]) -> int:
        """Return the record from which a server reads the journal: the newest snapshot at the beginning of a segment."""
        begin = {Segments.first_in(segment) for segment in segments}
        return max((number for number in self._snapshots if number in begin), default=0 if 0 in begin else -1)

    def _meet_snapshot(self, number: int, check: int) -> None:
        """Compare the replay with the snapshot at a segment's beginning, or begin the replay there."""
        snapshot = self._snapshots.pop(number, None)
        if snapshot is None:
            return
        name = f"snapshot-{number:020d}"
        if snapshot.check != check:
            self._found.damage.append(f"{name} is of another history than the journal; a server does not use it")
        elif self._state is None:
            self._restore(snapshot, name)
        elif differences := [one for one in snapshot.differences(self._state.export()) if one not in NEWER_FIELDS]:
            what = ", ".join(differences)
            self._found.damage.append(
                f"{name} is not what the journal adds up to ({what}); a server would go on wrongly"
            )

    def _restore(self, snapshot: Snapshot, name: str) -> None:
        if self._make is None:
            return
        if self._terms is None:
            self._found.notes.append(f"the terms are not known, so nothing after {name} was replayed")
            return
        try:
            self._state = ServerState.restore(self._agreed(str(snapshot.state["digest"])), snapshot.state)
            self._literal = self._state.server.model.copy()
        except (CrescendoError, KeyError, ValueError, TypeError) as error:
            self._found.damage.append(f"{name} holds no state ({error}); a server does not start from it")

    def _agreed(self, digest: str) -> Terms:
        assert self._terms is not None and self._make is not None
        if hashlib.sha256(self._terms.encode()).hexdigest() != digest:
            raise UsageError("it is of other terms than those beside it")
        return self._make(self._terms)

    # -- segments ------------------------------------------------------------------------------------------------------

    def _check_segment(self, path: Path, is_last: bool) -> None:
        first = Segments.first_in(path)
        with path.open("rb") as file:
            try:
                scan = Scan(path, file)
            except JournalDamaged:
                self._lose(first, f"{path.name} is damaged at its beginning")
                return
            if (self._end or self._check) and (scan.number, scan.check) != (self._end, self._check):
                self._lose(
                    self._end, f"{path.name} does not follow on record {self._end}: records before it are missing"
                )
            self._meet_snapshot(scan.number, scan.check)
            for record in scan.records(keep_bodies=self._make is not None):
                self._pause()
                if self._make is not None:
                    self._apply(record)
            self._end, self._check = scan.number, scan.check
            if scan.torn:
                self._judge_torn(scan, path, is_last)
        self._compare_models(path)

    def _judge_torn(self, scan: Scan, path: Path, is_last: bool) -> None:
        if is_last:
            try:
                scan.check_torn()
            except JournalDamaged:
                self._lose(scan.number, f"{path.name} is damaged at record {scan.number}, and later records are there")
                return
            self._found.notes.append(
                f"{path.name} ends in {scan.size - scan.at} bytes that are no whole record: they are being written, or a kill "
                f"cut them off, and the next start of the server removes them"
            )
        else:
            self._lose(scan.number, f"{path.name} is damaged at record {scan.number}")

    def _lose(self, record: int, what: str) -> None:
        """Report a lost record; the replay stops until the next snapshot."""
        self._found.damage.append(f"{what}; {HISTORY if record < self._newest else NEEDED}")
        self._state = self._literal = None
        self._end = self._check = 0

    def _apply(self, record: Record) -> None:
        try:
            entry = from_bytes(record.kind, record.body)
            if isinstance(entry, Opened) and record.number == 0:
                self._terms = entry.terms
                self._state = ServerState.opened(entry, self._agreed(entry.digest))
                self._literal = self._state.server.model.copy()
            elif self._state is not None:
                self._state.apply(entry)
                self._subtract(entry)
        except CrescendoError as error:
            self._lose(record.number, f"record {record.number} contradicts those before it ({error})")

    def _subtract(self, entry: object) -> None:
        if isinstance(entry, Received | Summed) and self._literal is not None:
            delta = delta_of(entry)
            self._literal[entry.low : entry.low + len(delta)] -= delta

    def _compare_models(self, path: Path) -> None:
        state, literal = self._state, self._literal
        if state is not None and literal is not None and state.server.model.tobytes() != literal.tobytes():
            self._found.damage.append(f"up to the end of {path.name} the model is not the sum of its updates")
            self._literal = None

    # -- at the end ----------------------------------------------------------------------------------------------------

    def _check_all_met(self, segments: list[Path]) -> None:
        first = Segments.first_in(segments[0])
        for number in sorted(self._snapshots):
            name = f"snapshot-{number:020d}"
            if number >= self._end:
                self._found.damage.append(
                    f"{name} is of record {number}, and the journal ends before it: what was acknowledged is lost, and a server "
                    f"begins a new epoch"
                )
            elif number < first:
                self._found.notes.append(f"{name} is older than the journal and is not needed")
            else:
                self._found.damage.append(f"{name} is of no place in the journal; a server does not use it")
        if self._newest < 0:
            self._found.damage.append(
                f"the journal was pruned before record {first} and has no sound snapshot; {NEEDED}"
            )

    def _say_facts(self, segments: list[Path]) -> None:
        facts: dict[str, Any] = {
            "first": Segments.first_in(segments[0]),
            "records": self._end,
            "segments": len(segments),
        }
        if self._state is not None:
            server = self._state.server
            more = {"k": server.k, "rounds": server.terms.rounds, "epoch": server.epoch, "digest": self._state.digest}
            facts |= more
        self._found.facts |= facts
