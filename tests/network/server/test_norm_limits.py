"""The norm limit lets every sound update pass, whatever its client has heard, and is not far above them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.core.client import Work as Todo
from crescendo.core.messages import Broadcast, Settled
from crescendo.core.vectors import encode
from crescendo.data.records import Records, as_records
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.network.aggregator.node import Node
from crescendo.network.protocol.wire_messages import Hello, Refusal, Welcome
from crescendo.network.server.service import Service, Submission
from crescendo.network.transport.channels import Endpoint
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.privacy.mechanisms.norm_limits import NormLimits, length_of
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal_entries import NewEpoch, Received
from crescendo.worker import Worker
from tests.conformance.cases import PRIVATE, case
from tests.network.live_server import LiveServer, live_server, until
from tests.network.scripted_client import ScriptedClient, opened

RECORDS = 1000
SLOTS = {"minibatch": 20, "local": 10}


def agreed_on(mechanism: str, features: int, l2: float = 0.1, eta: float = 1.0, wire: str = "float32") -> Agreement:
    """Much noise, a strong shrink, and clients that may be five rounds ahead."""
    raw = case(
        run={"wire": wire},
        clients={"count": 2},
        objective={"l2": l2},
        schedule={
            "rounds": 14,
            "sizes": {"kind": "constant", "size": SLOTS[mechanism]},
            "wait": {"rounds": 5},
            "steps": {"kind": "constant", "eta": eta},
        },
        privacy={"mechanism": mechanism, **PRIVATE, "sigma": 8.0, "records": RECORDS},
        serve={"federation": "limits", "features": features},
    )
    return build_terms(terms_text(read(raw)))


def limits_of(agreed: Agreement) -> NormLimits:
    return NormLimits(agreed.certificate, agreed.objective.size)


def records(features: int) -> Records:
    rng = np.random.default_rng(0)
    wide = csr_array(
        (rng.normal(size=3 * RECORDS), np.tile(np.arange(3), RECORDS), 3 * np.arange(RECORDS + 1)),
        shape=(RECORDS, features),
    )
    return as_records(wide, np.where(rng.random(RECORDS) < 0.5, 1.0, -1.0))


def worker_of(agreed: Agreement, c: int, data: Records, seed: int = 1) -> Worker:
    assert agreed.certificate is not None
    rows = np.arange(RECORDS)
    private = Private(agreed.certificate, c, rows, SeededSource(seed, c))
    return Worker(agreed.terms, c, agreed.initial(), agreed.objective, data, rows, 0, agreed.wire, private)


class Room:
    """A service over a folder, which can be left and entered again."""

    def __init__(self, folder: Path, agreed: Agreement) -> None:
        self._folder, self.agreed = folder, agreed
        self.enter()

    def enter(self) -> None:
        agreed = self.agreed
        self.durable = DurableServer(self._folder, agreed.text, lambda text: agreed.terms, agreed.initial())
        self.service = Service(self.durable, agreed)

    def restart(self) -> None:
        self.durable.close()
        self.enter()

    def take(self, c: int, round: int, data: bytes) -> list[Any]:
        item = Submission(c, Received(round, c, self.agreed.wire, data))
        self.service.process([item], [])
        return item.answers


def finished(worker: Worker) -> tuple[int, bytes]:
    """One whole round: its number and its bytes."""
    todo = worker.next()
    assert isinstance(todo, Todo)
    worker.run(todo.slots)
    update = worker.finish()
    return update.round, bytes(encode(update.delta, worker._wire))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["minibatch", "local"])
def test_a_client_that_hears_nothing_for_five_rounds_is_taken(mechanism: str, tmp_path: Path) -> None:
    """Each update is settled when the next one comes, and the client does not know."""
    features = 47_236
    room, data = Room(tmp_path, agreed_on(mechanism, features)), records(features)
    worker = worker_of(room.agreed, 0, data)
    for _ in range(6):
        assert room.take(0, *finished(worker)) == []
    room.durable.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("mechanism", ["minibatch", "local"])
def test_whatever_order_broadcasts_restarts_and_epochs_come_in_sound_updates_are_taken(
    mechanism: str, seed: int, tmp_path: Path
) -> None:
    """Updates wait on the way and come in any order; a server that was put back from a copy has forgotten what it sent."""
    rng, features = np.random.default_rng(seed), 2000
    room, data = Room(tmp_path, agreed_on(mechanism, features)), records(features)
    workers = [worker_of(room.agreed, c, data, seed) for c in (0, 1)]
    waiting: list[tuple[int, int, bytes]] = []
    for _ in range(120):
        c, what = int(rng.integers(2)), rng.choice(["work", "work", "arrive", "arrive", "hear", "restart", "epoch"])
        durable, worker = room.durable, workers[c]
        if what == "work" and isinstance(worker.next(), Todo):
            waiting.append((c, *finished(worker)))
        elif what == "arrive" and waiting:
            assert room.take(*waiting.pop(int(rng.integers(len(waiting))))) == []
        elif what == "hear":
            worker.receive(Broadcast(durable.model, durable.k, durable.settled(c), durable.epoch))
        elif what == "restart":
            room.restart()
        elif what == "epoch":  # a model that is in no journal any more
            lost = durable.model + rng.normal(size=len(durable.model)) * 10.0 ** rng.integers(0, 12)
            worker.receive(Broadcast(lost, durable.k, durable.settled(c), durable.epoch))
            durable.submit(NewEpoch(durable.epoch + 1, "put back from a copy"))
            durable.commit()
    for late in waiting:
        assert room.take(*late) == []
    room.durable.close()


@pytest.mark.parametrize("wire", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("l2", "eta"), [(0.0, 0.05), (0.1, 1.0), (1.0, 1.0), (0.1, 1e-7)])
def test_an_update_from_the_longest_start_is_within_the_limit_and_a_hundredfold_is_not(
    l2: float, eta: float, wire: str
) -> None:
    agreed = agreed_on("minibatch", 50, l2, eta, wire)
    made, limits, worker = agreed.certificate, limits_of(agreed), worker_of(agreed, 0, records(50))
    assert made is not None
    rng = np.random.default_rng(3)
    for i in range(agreed.terms.rounds):
        model = rng.normal(size=agreed.objective.size)
        model *= made.model_bound / length_of(model) * rng.choice([1.0, 100.0])
        worker.receive(Broadcast(model, i, Settled(i), i + 1))
        slots = agreed.terms.share(i, 0)
        worker.run(slots)
        delta = worker.finish().delta
        assert length_of(delta) <= limits.longest(i, 0) < 100 * length_of(delta)


# -- behind an aggregator ------------------------------------------------------------------------------------------------


async def _one_of_five_is_too_long(here: LiveServer, node: Node) -> None:
    agreed, size = here.agreed, here.agreed.objective.size
    limit = here.agreed.limits.longest(0, 0)
    bad = np.zeros(size)
    bad[0] = 4.9 * limit  # within the limit of the sum of five
    async with Endpoint(f"127.0.0.1:{node.port}").channel() as channel:
        fakes = [ScriptedClient(opened(channel), agreed) for _ in range(5)]
        for c, fake in enumerate(fakes):
            about = agreed.federation, agreed.digest
            await fake.say(Hello(agreed.names[c], f"{c:032x}", *about))
            await fake.hear_until(Welcome)
        await fakes[0].send(0, bad)
        refusal = await fakes[0].hear_until(Refusal)
        assert not refusal.final and refusal.round == 0 and "not longer than" in refusal.reason
        for fake in fakes[1:]:
            await fake.send(0, np.full(size, 1e-3))
        await fakes[1].k(1)  # the round is over without it
        await fakes[0].acknowledged(Settled(1))
    np.testing.assert_allclose(here.service.durable.model, agreed.initial() - 4e-3, atol=1e-9)


def test_an_aggregator_refuses_what_is_too_long_for_one_client_though_not_for_a_sum(tmp_path: Path) -> None:
    async def play() -> None:
        raw = case(run={"wire": "float32"}, privacy={"mechanism": "minibatch", **PRIVATE})
        async with live_server(tmp_path, raw) as here:
            log: list[str] = []
            node = Node("a", Endpoint(f"127.0.0.1:{here.port}"), log=lambda event, **facts: log.append(event))
            stop = asyncio.Event()
            running = asyncio.create_task(node.run("127.0.0.1:0", stop))
            try:
                await until(lambda: node.upstream.is_up)
                await _one_of_five_is_too_long(here, node)
                assert "refused" in log and here.events("void")
            finally:
                stop.set()
                await running

    asyncio.run(play())
