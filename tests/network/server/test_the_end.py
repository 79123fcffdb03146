"""Who has heard the end of a run: only who says so. A stream that was cut looks like one that was closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crescendo.logs import quiet
from crescendo.network.aggregator import upstream
from crescendo.network.aggregator.node import Node
from crescendo.network.client.client_session import _Connection
from crescendo.network.client.seen import Seen
from crescendo.network.protocol.wire_messages import Goodbye
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from tests.network.live_server import ONE_ROUND, LiveServer, live_server, to_the_end, until
from tests.network.scripted_client import SOON, ScriptedClient


async def until_gone(made: LiveServer, *clients: int) -> None:
    await until(lambda: not any(c in made.server.sessions for c in clients))


async def come_back(made: LiveServer, c: int) -> ScriptedClient:
    """After a cut; for a moment there may be nobody."""
    fake = await made.join(c, last=0, k=1, acknowledged=made.service.durable.settled(c))
    await fake.k(1)
    return fake


def test_a_client_whose_stream_closed_without_a_word_is_waited_for(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, ONE_ROUND) as made:
            one, other = await to_the_end(made)
            await one.say(Goodbye(finished=True))
            await one.closed()
            await other.call.done_writing()
            await until_gone(made, 0, 1)
            made.server.check_all_told()
            assert not made.server.all_told.is_set()
            lost = [facts["client"] for facts in made.events("disconnected")]
            assert lost == ["client 1"], "the one that said goodbye is not lost"
            again = await come_back(made, 1)
            await again.say(Goodbye(finished=True))
            await asyncio.wait_for(made.server.all_told.wait(), SOON)
            assert made.service.durable.present.all(), "to be finished is not to leave"

    asyncio.run(play())


def test_a_client_that_ends_while_it_reconnects_says_goodbye_all_the_same(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, ONE_ROUND) as made:
            one, other = await to_the_end(made)
            await other.say(Goodbye(finished=True))
            one.call.cancel()  # in the instant in which it heard of the end
            over = asyncio.Event()
            over.set()
            talk = _Connection(Endpoint(f"127.0.0.1:{made.port}"), nothing_to_do(made), f"{0:032x}", quiet, over)
            await asyncio.wait_for(talk.one_stream(), SOON)
            await asyncio.wait_for(made.server.all_told.wait(), SOON)

    asyncio.run(play())


def nothing_to_do(made: LiveServer) -> Any:
    """Client 0 after its last round."""
    agreed, ignore = made.agreed, lambda *said: None
    said = dict.fromkeys(("check_alone", "welcomed", "acknowledged", "hear"), ignore)
    return SimpleNamespace(
        agreement=agreed,
        me=0,
        name="client 0",
        seen=Seen(None),
        introduce=lambda: 0,
        to_send=lambda received: ([], []),
        **said,
    )


@asynccontextmanager
async def below_a_node(made: LiveServer, log: list[str]) -> AsyncIterator[asyncio.Task[bool]]:
    """From here on clients of the server join by way of an aggregator."""
    up = asyncio.Event()

    def note(event: str, **facts: Any) -> None:
        log.append(f"{event} {facts.get('client', facts.get('parent'))}")
        if event == "joined" and "parent" in facts:
            up.set()

    node = Node("node", Endpoint(f"127.0.0.1:{made.port}"), backoff=Backoff(0.01, 0.1), log=note)
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
        async with live_server(tmp_path, ONE_ROUND) as made:
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
        async with (
            live_server(tmp_path, ONE_ROUND) as made,
            below_a_node(made, []) as upper,
            below_a_node(made, []) as lower,
        ):
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
            async with live_server(tmp_path, ONE_ROUND) as made:
                parent = made.port
                running = await stack.enter_async_context(below_a_node(made, log))
                one, _ = await to_the_end(made)
                await one.say(Goodbye(finished=True))
            async with live_server(tmp_path, ONE_ROUND, port=parent) as again:
                again.port = made.port
                await until(lambda: log.count(f"joined 127.0.0.1:{parent}") == 2)
                await come_back(again, 1)
                assert not running.done()
            monkeypatch.setattr(upstream, "LINGER", 0.0)
            assert await asyncio.wait_for(running, SOON)

    asyncio.run(play())
