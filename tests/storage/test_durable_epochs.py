"""A server that goes on from an older state begins a new epoch, and only then."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from crescendo.core.messages import Settled
from crescendo.errors import PeerError
from crescendo.storage.journal.replay import replay
from crescendo.storage.journal.segments import OPENING, Segments
from crescendo.storage.journal.snapshots import Snapshot
from crescendo.storage.upkeep.examination import Examination
from crescendo.storage.upkeep.journal_check import check_journal
from tests.storage.durable_play import CLIENTS, ROUNDS, make, opened, run_some, same, state_of, update


def test_a_server_put_back_from_a_backup_begins_a_new_epoch_when_a_client_has_seen_more(tmp_path: Path) -> None:
    now, backup = tmp_path / "now", tmp_path / "backup"
    with opened(now) as server:
        for c in range(CLIENTS):
            server.submit(update(0, c))
        server.commit()
        shutil.copytree(now, backup)
        server.submit(update(1, 1))
        server.commit()
        seen = server.broadcast(1)
    with opened(backup) as old:
        assert not old.witness(0, 0, 1, Settled(1)) and not old.witness(2, 0, 0, Settled(0))
        assert old.witness(1, seen.epoch, seen.k, seen.yours)
        assert old.epoch == 0  # not before it is on disk
        assert old.commit().due and old.epoch == 1
        assert not old.witness(1, seen.epoch, seen.k, seen.yours)  # it is known now
        assert old.witness(2, 4, 0, Settled(0)) and old.commit().due and old.epoch == 5  # another lost history
    with opened(backup) as again:
        assert again.epoch == 5
        beyond = Settled(0, ((ROUNDS, ROUNDS + 1),))
        for wrong in ((0, ROUNDS + 1, Settled(0)), (0, 0, Settled(ROUNDS + 1)), (0, 0, beyond), (2**40, 0, Settled(0))):
            with pytest.raises(PeerError, match="cannot be in this run"):
                again.witness(0, *wrong)


def test_a_client_whose_last_round_cannot_be_begins_no_epoch(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        server.commit()
        for last in (-1, ROUNDS):  # older than what it sent, and beyond the run
            with pytest.raises(PeerError, match="its last round is"):
                server.witness(0, 0, 1, Settled(1), last)
        assert server.witness(0, 0, 1, Settled(1), 0)
        server.commit()
        assert server.epoch == 1  # one, by the one that was believed


def test_rounds_that_overtook_are_evidence_too(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        assert server.witness(0, 0, 0, Settled(0, ((1, 2),)))


def test_a_cut_tail_begins_a_new_epoch_and_is_noted(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        server.commit()
        server.submit(update(0, 1))
        server.commit()
    [segment] = Segments(tmp_path).paths()
    data = segment.read_bytes()
    segment.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with opened(tmp_path) as again:
        assert again.epoch == 1 and "torn tail" in again.notes[0]
        assert again.settled(0) == Settled(1) and again.settled(1) == Settled(0)
        again.submit(update(0, 1))  # sent again
        again.commit()
        assert same(again.model, replay(tmp_path))
    with opened(tmp_path) as once_more:
        assert once_more.epoch == 1 and once_more.notes == []


@pytest.mark.parametrize("left", [None, 0, OPENING.size - 1], ids=["gone", "empty", "cut"])
def test_a_last_segment_that_is_gone_begins_a_new_epoch_and_is_damage(tmp_path: Path, left: int | None) -> None:
    """The newest snapshot was made after the segment that begins there: without it, what was acknowledged since is lost."""
    with opened(tmp_path, prune=True) as server:
        for i in range(3):
            run_some(server, i, i + 1)
            server.snapshot()
        run_some(server, 3, 5)
    last = Segments(tmp_path).paths()[-1]
    last.unlink() if left is None else os.truncate(last, left)
    found = Examination(tmp_path, "server")
    check_journal(tmp_path, make, found)
    assert "what was acknowledged is lost" in found.damage[0]
    with opened(tmp_path, prune=True) as older:
        assert (older.epoch, older.k) == (1, 3) and "are gone" in older.notes[0]
        run_some(older, 3, 4)
        now = state_of(older)
    for path in Snapshot.paths(tmp_path)[1:]:
        path.unlink()
    with opened(tmp_path, prune=True) as again:  # the newest snapshot still goes with the journal
        assert state_of(again) == now and again.notes == []
