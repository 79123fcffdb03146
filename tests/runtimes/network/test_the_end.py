"""Who has heard the end of a run: only who says so. A stream that was cut looks like one that was closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from crescendo.runtimes.network import uplink
from crescendo.runtimes.network.aggregator import Node, Work
from crescendo.runtimes.network.client import _Talk
from crescendo.runtimes.network.link import Patience, Place
from crescendo.runtimes.network.logs import quiet
from crescendo.runtimes.network.member import Contract, Seen
from crescendo.runtimes.wire_messages import Goodbye
from tests.conformance.cases import case
from tests.runtimes.network.stage import SOON, Fake, Stage, stage, until

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


def test_an_aggregator_is_there_until_everybody_has_said_that_it_heard(tmp_path: Path) -> None:
    """Also those that it knows nothing of: it may have been started anew, and they may be on their way to it."""

    async def play() -> None:
        log: list[str] = []
        async with stage(tmp_path, ONE_ROUND) as made:
            _, other = await to_the_end(made)
            other.call.cancel()
            await until_gone(made, 1)
            async with below_a_node(made, log) as running:
                one = await come_back(made, 0)
                await one.say(Goodbye(finished=True))
                await one.closed()
                await until(lambda: made.server.untold() == ["client 1"])
                assert "disconnected client 0" in log and not running.done()
                again = await come_back(made, 1)  # refused, were the aggregator gone
                await again.say(Goodbye(finished=True))
                await asyncio.wait_for(made.server.all_told.wait(), SOON)
                await made.server.stop()
                assert await asyncio.wait_for(running, SOON), "the run is over for the aggregator too"

    asyncio.run(play())


def test_the_end_goes_down_a_tree_of_aggregators(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, ONE_ROUND) as made, below_a_node(made, []) as upper, below_a_node(made, []) as lower:
            for fake in await to_the_end(made):
                await fake.say(Goodbye(finished=True))
            await asyncio.wait_for(made.server.all_told.wait(), SOON)
            await made.server.stop()
            assert all(await asyncio.wait_for(asyncio.gather(upper, lower), SOON))

    asyncio.run(play())


def test_an_aggregator_waits_for_a_server_that_is_started_again_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was stopped before everybody had heard."""

    async def play() -> None:
        log: list[str] = []
        async with AsyncExitStack() as stack:
            async with stage(tmp_path, ONE_ROUND) as made:
                parent = made.port
                running = await stack.enter_async_context(below_a_node(made, log))
                one, _ = await to_the_end(made)
                await one.say(Goodbye(finished=True))
            async with stage(tmp_path, ONE_ROUND, port=parent) as again:
                again.port = made.port
                await until(lambda: log.count(f"joined 127.0.0.1:{parent}") == 2)
                await come_back(again, 1)
                assert not running.done()
            monkeypatch.setattr(uplink, "LINGER", 0.0)
            assert await asyncio.wait_for(running, SOON)

    asyncio.run(play())
