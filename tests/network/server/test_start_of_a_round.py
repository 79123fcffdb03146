"""With d = 0 every client starts round k from v_k, the model at the moment when k rose, whenever it comes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crescendo.core.arrays import Vector
from crescendo.core.client import Client
from crescendo.core.messages import Broadcast, Settled
from crescendo.storage.journal.snapshots import Snapshot
from tests.network.server.service_play import ServicePlay, long_run, played

LARGE = 40_000  # features: an update of 320 kB


def start_of(on: ServicePlay, c: int) -> tuple[int, Settled, Vector]:
    word = on.durable.word([c])
    assert word.model is not None
    return word.k, word.yours[c], word.model.copy()


@pytest.mark.parametrize("features", [4, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("ending", ["reconnect", "restart", "snapshot"])
def test_a_client_that_comes_in_the_middle_of_a_round_starts_it_from_the_same_model(
    tmp_path: Path, features: int, ending: str
) -> None:
    run = long_run(9, ahead=0, clients=3, features=features)
    with played(tmp_path, run) as on:
        for c in range(3):
            on.joins(c)
        for i in range(2):
            on.batch(*((c, on.update(i, c)) for c in range(3)))
        k, _, v = start_of(on, 0)
        assert k == 2
        on.sends(0, [2])
        on.sends(1, [2])  # others' updates of the same round
        moved = on.durable.model.copy()
        assert not np.array_equal(moved, v)
        if ending == "reconnect":
            check_start(on, v, moved)
        elif ending == "snapshot":
            on.durable.snapshot()
            assert "start" in next(found for path in Snapshot.paths(tmp_path) if (found := Snapshot.read(path))).state
    if ending != "reconnect":
        with played(tmp_path, run) as later:
            check_start(later, v, moved)


def check_start(on: ServicePlay, v: Vector, moved: Vector) -> None:
    """Client 2 comes and starts round 2."""
    on.joins(2, last=1)
    assert start_of(on, 2)[2].tobytes() == v.tobytes() and on.durable.model.tobytes() == moved.tobytes()
    assert start_of(on, 1)[1] == Settled(2) and on.durable.settled(1) == Settled(3), (
        "it is settled, and not in this model"
    )
    on.sends(2, [2])
    assert start_of(on, 2)[0] == 3 and start_of(on, 2)[2].tobytes() == on.durable.model.tobytes()


def test_where_clients_run_ahead_a_client_that_comes_gets_the_newest_model(tmp_path: Path) -> None:
    with played(tmp_path, long_run(9, ahead=1)) as on:
        on.joins(0)
        on.joins(1)
        on.sends(0, [0])
        assert start_of(on, 1)[2].tobytes() == on.durable.model.tobytes() and start_of(on, 0)[1] == Settled(1)


def test_at_the_end_a_client_hears_the_newest_model(tmp_path: Path) -> None:
    with played(tmp_path, long_run(2, ahead=0)) as on:
        for c in (0, 1):
            on.joins(c)
        on.is_absent(1)
        on.sends(0, [0, 1])
        assert on.durable.finished
        on.sends(1, [0])
        assert start_of(on, 1)[2].tobytes() == on.durable.model.tobytes()


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_client_with_an_update_on_the_way_starts_from_v_k_alone(tmp_path: Path, ahead: int) -> None:
    """It is back after an absence, and what it sends again is not in the model of round 5 yet."""
    with played(tmp_path, long_run(9, ahead=ahead)) as on:
        client, size = Client(on.agreed.terms, 0, np.zeros(on.agreed.size)), on.agreed.size
        client.start()
        client.advance(on.agreed.terms.share(0, 0))
        client.finish(np.ones(size))
        client.resume(5)
        client.receive(Broadcast(np.full(size, 7.0), 5, Settled(0, ((1, 5),))))
        assert client.start().tolist() == [7.0 if ahead == 0 else 6.0] * size
