"""What a durable server takes in, drops and refuses, before and after it was opened again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crescendo.core.messages import ConflictingUpdate, DuplicateUpdate, Settled
from crescendo.core.vectors import encode
from crescendo.errors import PeerError
from crescendo.storage.journal.durable_server import Published
from crescendo.storage.journal.journal_entries import Absent, Back, Entry, Left, Received, Registered, Summed, Voided
from crescendo.storage.journal.server_state import OtherInstance
from tests.storage.durable_play import INSTANCE, ROUNDS, SIZE, opened, state_of, update

REFUSED: dict[str, Entry] = {
    "an unknown client": Received(0, 9, "float32", bytes(4 * SIZE)),
    "a round that nobody can have finished": Received(5, 0, "float32", bytes(4 * SIZE)),
    "a vector of another length": Received(0, 0, "float32", bytes(4 * SIZE + 4)),
    "half a number": Received(0, 0, "float32", bytes(4 * SIZE - 1)),
    "numbers that are not finite": Received(0, 0, "float32", np.full(SIZE, np.nan, dtype="<f4").tobytes()),
    "a void round of an unknown client": Voided(0, 9),
    "an impossible return": Back(0, ROUNDS),
    "a joining stranger": Registered(9, INSTANCE),
    "an absent stranger": Absent(9),
    "a sum of nothing": Summed((), "float32", bytes(4 * SIZE)),
    "a sum with a stranger": Summed(((0, 0), (0, 9)), "float32", bytes(4 * SIZE)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_entry_leaves_no_trace(tmp_path: Path, what: str) -> None:
    with opened(tmp_path) as server:
        with pytest.raises(PeerError):
            server.submit(REFUSED[what])
        assert server.pending == 0
        before = state_of(server)
        assert server.commit() == Published(False, {}) and state_of(server) == before
    with opened(tmp_path) as again:
        assert state_of(again) == before


def test_a_repeated_update_is_dropped_and_one_with_other_bytes_is_an_alarm_before_and_after_the_commit(
    tmp_path: Path,
) -> None:
    forged = Received(0, 0, "float32", encode(np.ones(SIZE), "float32"))
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        for _ in range(2):
            with pytest.raises(DuplicateUpdate):
                server.submit(update(0, 0))
            with pytest.raises(ConflictingUpdate):
                server.submit(forged)
            server.commit()
    with opened(tmp_path) as again:
        with pytest.raises(DuplicateUpdate):
            again.submit(update(0, 0))
        with pytest.raises(ConflictingUpdate):
            again.submit(forged)
        assert again.pending == 0


def test_what_changes_nothing_is_not_written(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        assert server.submit(Registered(0, INSTANCE)) and not server.submit(Registered(0, INSTANCE))
        assert server.submit(Back(0, 0)) and not server.submit(Back(0, 0))
        assert server.submit(Voided(0, 0, "lost")) and not server.submit(Voided(0, 0))
        assert server.submit(Absent(0)) and not server.submit(Absent(0))
        assert server.submit(Back(0, 0)) and server.submit(Absent(1)) and server.pending == 6
        assert server.commit().acks == {0: Settled(1)}  # and only whose rounds changed is told


def test_a_client_that_left_keeps_its_acknowledgements_and_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        server.submit(Left(0))
        assert server.commit().acks == {0: Settled(1)}
        with pytest.raises(PeerError, match="left this run for good"):
            server.submit(Back(0, 3))
    with opened(tmp_path) as again:
        assert again.settled(0) == Settled(1)
        with pytest.raises(PeerError, match="left this run for good"):
            again.submit(Registered(0, INSTANCE))


def test_another_instance_is_refused_before_and_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(Registered(1, INSTANCE))
        with pytest.raises(OtherInstance, match=r"another instance.*has to be a new client of a new federation"):
            server.submit(Registered(1, "cd" * 16))
        server.commit()
    with opened(tmp_path) as again:
        with pytest.raises(OtherInstance):
            again.submit(Registered(1, "cd" * 16))
        assert again.instances == {1: INSTANCE}
        again.snapshot()
    with opened(tmp_path) as again, pytest.raises(OtherInstance):
        again.submit(Registered(1, "cd" * 16))


def test_the_last_round_that_a_client_spoke_of_outlives_a_snapshot(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(Back(0, 1))
        server.snapshot()
    with opened(tmp_path) as again:
        assert again.start_of(0) == 2 and not again.submit(Back(0, 1))
        with pytest.raises(PeerError, match="older than what it sent"):
            again.submit(Back(0, 0))


def test_a_client_with_an_older_state_than_it_sent_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        server.submit(update(1, 0))
        server.commit()
        with pytest.raises(PeerError, match="older than what it sent"):
            server.submit(Back(0, 0))
