"""Whatever happens to a durable server, its state is that of the committed entries and its model their replay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.core.messages import Sum, Update
from crescendo.core.server import Server
from crescendo.core.vectors import WIRES, encode
from crescendo.errors import PeerError
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal_entries import (
    Absent,
    Back,
    Entry,
    Left,
    NewEpoch,
    Received,
    Registered,
    Summed,
    Voided,
    delta_of,
)
from crescendo.storage.journal.replay import replay
from tests.storage.durable_play import CLIENTS, INSTANCE, ROUNDS, SIZE, START, TERMS, make, masked, opened, same, update

clients, rounds = st.integers(0, CLIENTS - 1), st.integers(0, 4)
steps = st.one_of(
    st.builds(lambda i, c, wire: ("update", i, c, wire), rounds, clients, st.sampled_from(WIRES)),
    st.builds(lambda i, c: Voided(i, c, "because"), rounds, clients),
    st.builds(Absent, clients),
    st.builds(Back, clients, st.integers(-1, 3)),
    st.builds(Registered, clients, st.sampled_from([INSTANCE, "cd" * 16])),
    st.builds(Left, st.just(2)),
    st.builds(lambda i, c: Summed(((i, c), (i, (c + 1) % CLIENTS)), "float64", b""), rounds, clients),
    st.sampled_from(["commit", "commit", "commit", "crash", "snapshot", "witness", "roll"]),
)


@pytest.mark.slow
@pytest.mark.usefixtures("no_waiting")
@settings(deadline=None, max_examples=150)
@given(script=st.lists(steps, max_size=40), build=st.sampled_from([make, masked]))
def test_whatever_happens_the_state_is_that_of_the_committed_entries_and_the_model_its_replay(
    tmp_path_factory: pytest.TempPathFactory, script: list[Any], build: Any
) -> None:
    """The oracle is the core's server, driven with what was committed and nothing else."""
    folder = tmp_path_factory.mktemp("state")
    server, oracle, line = opened(folder, make=build), Server(build(TERMS), START), list[Entry]()
    try:
        for step in script:
            if step == "commit":
                server.commit()
            elif step == "crash":  # what was not committed is gone
                server.close()
                server = opened(folder, make=build)
                line = []
            elif step == "snapshot":
                server.snapshot()
                server.commit()
            elif step == "roll":
                assert server._journal is not None
                server._journal.roll()
                server.commit()
            elif step == "witness":
                if server.witness(0, server.epoch, min(server.k + 2, ROUNDS), server.settled(0)):
                    line.append(NewEpoch(server._state.server.epoch))
            else:
                entry = sized(step, build)
                try:
                    if server.submit(entry):
                        line.append(entry)
                except PeerError:
                    pass
            if step in ("commit", "snapshot", "roll"):
                for entry in line:
                    drive(oracle, entry)
                line = []
                compare(server, oracle)
                assert same(server.model, replay(folder))
        server.close()
        server = opened(folder, make=build)
        compare(server, oracle)
        assert same(server.model, replay(folder)) and server.notes == []
    finally:
        server.close()


def sized(step: Any, build: Any) -> Entry:
    if isinstance(step, tuple):
        return update(step[1], step[2], step[3], build)
    if isinstance(step, Summed):
        low, high = build(TERMS).block(step.pairs[0][0], SIZE)
        return Summed(step.pairs, "float64", encode(np.linspace(0.1, 0.7, high - low), "float64"))
    entry: Entry = step
    return entry


def drive(oracle: Server, entry: Entry) -> None:
    match entry:
        case Received(i, c):
            oracle.receive(Update(i, c, delta_of(entry)))
        case Summed(pairs):
            oracle.receive_sum(Sum(pairs, delta_of(entry)))
        case Voided(i, c):
            oracle.void(i, c)
        case Absent(c):
            oracle.absent(c)
        case Back(c, last):
            oracle.back(c, last)
        case Left(c):
            oracle.leave(c)
        case NewEpoch(epoch):
            oracle.epoch = epoch


def compare(server: DurableServer, oracle: Server) -> None:
    want, got = oracle.export(), server._state.export()
    for name, value in want.items():
        if isinstance(value, np.ndarray):
            assert value.tobytes() == got[name].tobytes(), name
        else:
            assert value == got[name], name
    assert (server.k, server.epoch, server.late) == (oracle.k, oracle.epoch, oracle.late)
    assert same(server.model, oracle.model)
