"""A broadcast is made once for all who are to hear the same, and says what was published."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.core.vectors import encode
from crescendo.federation.agreement import build_terms
from crescendo.network.protocol.wire_messages import Hello, VoidRound
from crescendo.network.server.service import Committed, Message, Service, Submission
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal_entries import Absent, Received, Summed
from tests.conformance.cases import case

CLIENTS = 4
AGREED = build_terms(terms_text(read(case(clients={"count": CLIENTS}, schedule={"rounds": 12, "wait": {"rounds": 2}}))))
DELTA = encode(np.ones(AGREED.objective.size), AGREED.wire)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with DurableServer(tmp_path, AGREED.text, lambda text: AGREED.terms, AGREED.initial()) as durable:
        yield Service(durable, AGREED)


def hello(c: int, last: int = -1, epoch: int = 0) -> Hello:
    return Hello(AGREED.names[c], f"{c:032x}", AGREED.federation, AGREED.digest, last, epoch)


def take(service: Service, c: int, message: Message, connected: tuple[int, ...] = ()) -> Committed:
    return service.process([Submission(c, message, "of two")], connected)


def test_clients_that_come_one_after_the_other_are_sent_the_same_bytes(service: Service) -> None:
    """Each has joined by an entry of its own, but the model is the same: it is not held once for each who is slow to read."""
    editions = [take(service, c, hello(c)).broadcast for c in range(CLIENTS)]
    assert all(broadcast is editions[0] for broadcast in editions)
    take(service, 0, Received(0, 0, AGREED.wire, DELTA))
    after = take(service, 1, hello(1)).broadcast
    assert editions[0] is not None and after is not None and after is not editions[0]
    assert (after.k, bytes(after.data)) != (0, bytes(editions[0].data))


@pytest.mark.parametrize("seed", range(5))
def test_what_is_sent_is_what_was_published(service: Service, seed: int) -> None:
    """Whatever comes, also what is refused or only changes k or the epoch; and what was made before stays as it was."""
    rng, made = random.Random(seed), list[tuple[memoryview | bytes, bytes]]()
    for _ in range(60):
        c, k = rng.randrange(CLIENTS), service.durable.k
        epoch = service.durable.epoch + (rng.random() < 0.1)
        bad = encode(np.full(AGREED.objective.size, 3.0), AGREED.wire)[: rng.choice([-4, None, None])]
        messages: list[Message] = [
            Received(k, c, AGREED.wire, DELTA),
            Received(k + 1, c, AGREED.wire, bad),
            Summed(((k, c), (k, (c + 1) % CLIENTS)), AGREED.wire, DELTA),
            VoidRound(k, AGREED.federation, AGREED.digest),
            Absent(c),
            hello(c, service.durable.start_of(c) - 1, epoch),
        ]
        said = take(service, c, rng.choice(messages), tuple(range(CLIENTS)))
        broadcast = said.broadcast
        if broadcast is not None:
            assert said.receivers and (broadcast.k, broadcast.epoch) == (service.durable.k, service.durable.epoch)
            assert bytes(broadcast.data) == encode(service.durable.model, AGREED.wire)
            made.append((broadcast.data, bytes(broadcast.data)))
        if service.durable.finished:
            break
    assert len({data for _, data in made}) > 3 and all(bytes(view) == data for view, data in made)
