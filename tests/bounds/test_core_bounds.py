"""Bounds of the core and of what a journal, a snapshot, a note and a registry hold."""

from __future__ import annotations

import inspect
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.core.aggregator import HELD_BYTES, HELD_PER_CHILD, Aggregator, TooMany
from crescendo.core.duplicates import REMEMBERED_ROUNDS, Duplicates
from crescendo.core.messages import Settled, Update, Word
from crescendo.core.terms import Terms
from crescendo.errors import PeerError, UsageError
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps
from crescendo.storage.journal import durable_server, journal
from crescendo.storage.journal.durable_server import SNAPSHOT_BYTES, SNAPSHOT_ENTRIES
from crescendo.storage.journal.journal import SEGMENT_BYTES, Journal
from crescendo.storage.journal.segments import LONGEST
from crescendo.storage.journal.server_state import EPOCHS_AHEAD
from crescendo.storage.journal.snapshots import KEPT, Snapshot
from crescendo.storage.ledger import head_note
from crescendo.storage.ledger.head_note import note, noted
from crescendo.storage.ledger.ledger_schema import LOCK_TIMEOUT
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.registry.record_sketch import KEEP, KNOWN, RecordSketch
from crescendo.storage.upkeep import disk_room, journal_copy, journal_listing
from crescendo.storage.upkeep.journal_copy import copy_journal
from crescendo.storage.upkeep.journal_listing import MAX_TRIES, FilesGoAway
from crescendo.storage.upkeep.ledger_copy import copy_ledger
from crescendo_dp.ledger.budget import Budget
from tests.bounds.edges import around
from tests.storage.durable_play import opened, run_some

ROUNDS = 1000


def node(**options: Any) -> Aggregator:
    """An aggregator with one client below it, which may be any number of rounds ahead."""
    made = Aggregator(Terms(ConstantSizes(4), ConstantSteps(0.1), (0.5, 0.5), ROUNDS, ahead=ROUNDS), 1, **options)
    made.join(0, [0])
    return made


def hands_in(on: Aggregator, many: int) -> int:
    """How many updates of client 0 the aggregator takes while the server says nothing."""
    taken = 0
    for i in range(many):
        try:
            on.receive(0, Update(i, 0, np.full(1, 1.0 + i)))
            taken += 1
        except TooMany:
            pass
    return taken


@around(HELD_PER_CHILD)
def test_an_aggregator_holds_so_many_updates_of_a_child_while_the_server_is_away(many: int) -> None:
    on = node()
    assert hands_in(on, many) == min(many, HELD_PER_CHILD)
    assert on.pack() is not None
    on.hear(Word({0: Settled(HELD_PER_CHILD)}, k=0))  # the server is back
    assert hands_in(on, many) == many, "what was refused is taken once the server has settled the rest"


@around(8 * 10)
def test_an_aggregator_holds_so_many_bytes_of_a_child(many: int) -> None:
    assert inspect.signature(Aggregator).parameters["held_bytes"].default == HELD_BYTES == 256 << 20
    assert hands_in(node(held_bytes=many), 11) == many // 8
    assert hands_in(node(held_bytes=1), 11) == 1, "one is always kept"


@around(REMEMBERED_ROUNDS)
def test_bytes_of_a_round_are_compared_for_so_many_rounds(many: int) -> None:
    """A second instance that comes back later is dropped as a duplicate, which changes nothing either."""
    known = Duplicates()
    known.note(0, 0, np.ones(2))
    for k in range(1, many + 1):
        known.forget_before(k)
    assert known.conflict(0, 0, np.zeros(2)) is (many < REMEMBERED_ROUNDS)


@around(EPOCHS_AHEAD)
def test_a_client_has_seen_so_many_more_epochs_at_most(many: int, tmp_path: Path) -> None:
    """A server that was put back from an older copy believes it; a liar cannot use the epochs up."""
    with opened(tmp_path) as server:
        state = server._state
        if many > EPOCHS_AHEAD:
            with pytest.raises(PeerError, match="cannot be in this run"):
                state.epoch_after(0, many, 0, Settled(0))
        else:
            assert state.epoch_after(0, many, 0, Settled(0)) == many + 1


@around(20)
def test_a_snapshot_is_made_after_so_many_entries(many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert SNAPSHOT_ENTRIES == 50_000
    monkeypatch.setattr(durable_server, "SNAPSHOT_ENTRIES", 20)
    made: list[int] = []
    with opened(tmp_path) as server:
        monkeypatch.setattr(server, "snapshot_if_possible", lambda: made.append(1))
        monkeypatch.setattr(server._journal, "end", server._snapshot_at + many)
        server._snapshot_if_due()
    assert bool(made) is (many >= 20)


@around(SNAPSHOT_BYTES)
def test_a_snapshot_is_made_after_so_many_bytes(many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    with opened(tmp_path) as server:
        assert server.snapshot_bytes == SNAPSHOT_BYTES
        monkeypatch.setattr(server, "snapshot_if_possible", lambda: made.append(1))
        monkeypatch.setattr(server._journal, "written", server._snapshot_written + many - server._since)
        server._snapshot_if_due()
    assert bool(made) is (many >= SNAPSHOT_BYTES)


@around(KEPT)
def test_so_many_snapshots_are_kept(many: int, tmp_path: Path) -> None:
    with opened(tmp_path, prune=True) as server:
        for i in range(many):
            run_some(server, i, i + 1)
            server.snapshot()
        assert len(Snapshot.paths(tmp_path)) == min(many, KEPT)


@around(200)
def test_a_segment_of_the_journal_ends_at_so_many_bytes(many: int, tmp_path: Path) -> None:
    assert inspect.signature(Journal).parameters["segment_bytes"].default == SEGMENT_BYTES == 256 << 20
    for name in ("first", "other"):
        (tmp_path / name).mkdir()
    first = Journal(tmp_path / "first")
    first.write([(1, [b"x"])])
    assert first._file is not None
    size = first._file.size
    first.close()
    other = Journal(tmp_path / "other", segment_bytes=size + many - 200)
    other.write([(1, [b"x"])])
    other.close()
    assert len(list((tmp_path / "other").iterdir())) == (2 if many <= 200 else 1)


@around(100)
def test_a_record_of_the_journal_is_so_long_at_most(many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LONGEST == 2**32 - 1, "what four bytes count"
    monkeypatch.setattr(journal, "LONGEST", 100)
    one = Journal(tmp_path)
    if many > 100:
        with pytest.raises(UsageError, match="more than the journal takes"):
            one.write([(1, [bytes(many)])])
    else:
        one.write([(1, [bytes(many)])])
    assert one.end == (many <= 100)
    one.close()


@around(MAX_TRIES)
def test_a_copy_of_a_journal_that_is_pruned_meanwhile_is_tried_so_often(
    many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def fails(folder: Path, to: Path) -> None:
        tried.append(1)
        if len(tried) < many:
            raise FileNotFoundError

    monkeypatch.setattr(journal_copy, "_copy_all", fails)
    monkeypatch.setattr(FilesGoAway, "__init__", lambda self, folder: None)
    if many > MAX_TRIES:
        with pytest.raises(FilesGoAway):
            copy_journal(tmp_path, tmp_path / "to")
    else:
        copy_journal(tmp_path, tmp_path / "to")
    assert len(tried) == min(many, MAX_TRIES) and journal_listing.MAX_TRIES == MAX_TRIES


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_usual_reserve_has_room_for_so_many_models(more: int) -> None:
    model, journal_bytes = 1000, 50
    reserve = disk_room.usual_reserve(model, journal_bytes)
    assert reserve == journal_bytes + disk_room.MODELS * model
    free = disk_room.Usage(reserve + more, 1e13)
    room = disk_room.DiskRoom(Path(), reserve, lambda folder: free).measured()
    assert room is (disk_room.Room.NONE if more < 0 else disk_room.Room.LITTLE)


@pytest.mark.parametrize("more", [-1, 0, 1, 2])
def test_a_note_of_a_head_is_read_up_to_so_many_bytes(more: int) -> None:
    """The last of them is the end of the line, which may be missing."""
    line = note((7, "ab" * 32))
    assert len(line) <= head_note._LENGTH
    assert noted(line.rjust(head_note._MOST + more)) == ((7, "ab" * 32) if more <= 1 else None)


@around(KEEP)
def test_a_sketch_keeps_so_many_hashes(many: int) -> None:
    sketch = RecordSketch(np.zeros(0, np.uint64)).merged(RecordSketch(np.arange(1, many + 1, dtype=np.uint64)))
    assert len(sketch.hashes) == min(many, KEEP)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_two_sets_are_the_same_records_from_so_large_a_share_on(more: int) -> None:
    size = 1000
    mine = RecordSketch(np.arange(size, dtype=np.uint64))
    common = int(KNOWN * size) + more
    other = RecordSketch(np.arange(size - common, 2 * size - common, dtype=np.uint64))
    assert (mine.overlap(other) >= KNOWN) is (more >= 0)


@pytest.mark.parametrize("how", ["opened", "copied"])
def test_a_ledger_that_another_process_has_locked_is_waited_for_so_long(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, connect = list[float](), sqlite3.connect

    def noted(*words: Any, **options: Any) -> Any:
        waits.append(options.get("timeout", LOCK_TIMEOUT))
        return connect(*words, **options)

    path = tmp_path / "ledger.sqlite"
    with open_ledger(path, Budget(1.0, 1e-6)):
        monkeypatch.setattr(sqlite3, "connect", noted)
        if how == "copied":
            copy_ledger(path, tmp_path / "copy.sqlite")
    if how == "opened":
        with open_ledger(path, read_only=True):
            pass
    assert waits and set(waits) == {LOCK_TIMEOUT}
