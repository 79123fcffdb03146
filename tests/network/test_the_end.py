"""Who has heard the end of a run: only who says so. A stream that was cut looks like one that was closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from crescendo.logs import quiet
from crescendo.network.aggregator import node as aggregator
from crescendo.network.aggregator.node import Node, Work
from crescendo.network.client.client_session import _Talk
from crescendo.network.client.participant import Contract, Seen
from crescendo.network.protocol.wire_messages import Goodbye, VoidRound
from crescendo.network.server.aggregator_requests import ServerHouse
from crescendo.network.server.aggregator_session import Link
from crescendo.network.transport.channels import Patience, Place
from tests.conformance.cases import case
from tests.network.stage import SOON, Fake, Stage, stage, until

ONE_ROUND = case(clients={"count": 2}, schedule={"rounds": 1})


async def to_the_end(made: Stage) -> list[Fake]:
    """Two clients that have joined, sent all there is, and heard the end."""
    fakes = [await made.join(c) for c in (0, 1)]
    for fake in fakes:
        await fake.send(0, np.ones(5))
    for fake in fakes:
        await fake.k(1)
    return fakes


async def until_gone(made: Stage, *clients: int) -> None:
    await until(lambda: not any(c in made.server.peers for c in clients))


async def come_back(made: Stage, c: int) -> Fake:
    """After a cut; for a moment there may be nobody."""
    fake = await made.join(c, last=0, k=1, acknowledged=made.hall.durable.settled(c))
    await fake.k(1)
    return fake


def test_a_client_whose_stream_closed_without_a_word_is_waited_for(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, ONE_ROUND) as made:
            one, other = await to_the_end(made)
            await one.say(Goodbye(finished=True))
            await one.closed()
            await other.call.done_writing()
            await until_gone(made, 0, 1)
            made.server.look_who_knows()
            assert not made.server.all_told.is_set()
            again = await come_back(made, 1)
            await again.say(Goodbye(finished=True))
            await asyncio.wait_for(made.server.all_told.wait(), SOON)
            assert made.hall.durable.present.all(), "to be finished is not to leave"

    asyncio.run(play())


def test_a_client_that_ends_while_it_reconnects_says_goodbye_all_the_same(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, ONE_ROUND) as made:
            one, other = await to_the_end(made)
            await other.say(Goodbye(finished=True))
            one.call.cancel()  # in the instant in which it heard of the end
            over = asyncio.Event()
            over.set()
            talk = _Talk(Place(f"127.0.0.1:{made.port}"), nothing_to_do(made), f"{0:032x}", quiet, over)
            await asyncio.wait_for(talk.one_stream(), SOON)
            await asyncio.wait_for(made.server.all_told.wait(), SOON)

    asyncio.run(play())


def nothing_to_do(made: Stage) -> Any:
    """Client 0 after its last round."""
    agreed, ignore = made.agreed, lambda *said: None
    contract = Contract(agreed.federation, agreed.digest, "client 0", 0, agreed.terms, agreed.wire, 5, ())
    said = dict.fromkeys(("check_alone", "welcomed", "acknowledged", "hear"), ignore)
    return SimpleNamespace(contract=contract, seen=Seen(None), last=0, to_send=lambda received: ([], []), **said)


@asynccontextmanager
async def below_a_node(made: Stage, log: list[str]) -> AsyncIterator[asyncio.Task[bool]]:
    """From here on clients of the stage join by way of an aggregator."""
    agreed = made.agreed
    about = agreed.federation, agreed.digest, tuple(agreed.names), agreed.wire, 5, made.hall.limits
    work = Work(agreed.terms, agreed.text, *about)
    up = asyncio.Event()

    def note(event: str, **facts: Any) -> None:
        log.append(f"{event} {facts.get('client', facts.get('parent'))}")
        if event == "joined" and "parent" in facts:
            up.set()

    node = Node("node", Place(f"127.0.0.1:{made.port}"), lambda text: work, patience=Patience(0.01, 0.1), log=note)
    running = asyncio.create_task(node.run("127.0.0.1:0", asyncio.Event()))
    await asyncio.wait_for(up.wait(), SOON)
    made.port = node.port
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_an_aggregator_is_there_until_everybody_below_has_said_that_it_heard(tmp_path: Path) -> None:
    async def play() -> None:
        log: list[str] = []
        async with stage(tmp_path, ONE_ROUND) as made, below_a_node(made, log) as running:
            one, other = await to_the_end(made)
            await one.say(Goodbye(finished=True))
            await one.closed()
            other.call.cancel()
            await until_gone(made, 0, 1)
            assert log[-2:] == ["disconnected client 1", "lingering None"]
            assert not made.server.all_told.is_set()
            again = await come_back(made, 1)  # refused, were the aggregator gone
            await again.say(Goodbye(finished=True))
            await asyncio.wait_for(made.server.all_told.wait(), SOON)
            assert await asyncio.wait_for(running, SOON), "the run is over for the aggregator too"

    asyncio.run(play())


def test_an_aggregator_ends_after_its_parent_has_read_who_heard_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slowly the parent reads."""
    may_read, on_below = asyncio.Event(), ServerHouse.on_below

    async def slowly(self: ServerHouse, link: Link, name: str, message: VoidRound | Goodbye) -> None:
        await may_read.wait()
        await on_below(self, link, name, message)

    monkeypatch.setattr(ServerHouse, "on_below", slowly)

    async def play() -> None:
        log: list[str] = []
        async with stage(tmp_path, ONE_ROUND) as made, below_a_node(made, log) as running:
            for fake in await to_the_end(made):
                await fake.say(Goodbye(finished=True))
                await fake.closed()
            await until(lambda: {"disconnected client 0", "disconnected client 1"} <= set(log))
            for _ in range(100):  # a node that did not wait would hang up now
                await asyncio.sleep(0)
            assert made.server.untold() == ["client 0", "client 1"]
            may_read.set()
            assert await asyncio.wait_for(running, SOON)
            assert made.server.all_told.is_set()

    asyncio.run(play())


def test_an_aggregator_whose_parent_never_reads_ends_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregator, "DRAIN", 0.0)
    monkeypatch.setattr(ServerHouse, "on_below", lambda *said: asyncio.Event().wait())

    async def play() -> None:
        async with stage(tmp_path, ONE_ROUND) as made, below_a_node(made, []) as running:
            for fake in await to_the_end(made):
                await fake.say(Goodbye(finished=True))
            assert await asyncio.wait_for(running, SOON)

    asyncio.run(play())


def test_an_aggregator_does_not_wait_without_end_for_who_went_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregator, "LINGER", 0.0)

    async def play() -> None:
        async with stage(tmp_path, ONE_ROUND) as made, below_a_node(made, []) as running:
            for fake in await to_the_end(made):
                fake.call.cancel()
            assert await asyncio.wait_for(running, SOON)

    asyncio.run(play())
