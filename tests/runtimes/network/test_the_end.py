"""Who has heard the end of a run: only who says so. A stream that was cut looks like one that was closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.runtimes.network import aggregator
from crescendo.runtimes.network.aggregator import Node, Work
from crescendo.runtimes.network.link import Patience, Place
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
            assert await one.hear() is None  # the server closes the stream
            await other.call.done_writing()
            await until_gone(made, 0, 1)
            made.server.look_who_knows()
            assert not made.server.all_told.is_set()
            again = await come_back(made, 1)
            await again.say(Goodbye(finished=True))
            await asyncio.wait_for(made.server.all_told.wait(), SOON)
            assert made.hall.durable.present.all(), "to be finished is not to leave"

    asyncio.run(play())


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


def test_an_aggregator_is_there_until_everybody_below_has_said_that_it_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregator, "LAST_WORDS", 0.0)

    async def play() -> None:
        log: list[str] = []
        async with stage(tmp_path, ONE_ROUND) as made, below_a_node(made, log) as running:
            one, other = await to_the_end(made)
            await one.say(Goodbye(finished=True))
            assert await one.hear() is None
            other.call.cancel()
            await until_gone(made, 0, 1)
            assert log[-2:] == ["disconnected client 1", "lingering None"]
            assert not made.server.all_told.is_set()
            again = await come_back(made, 1)  # refused, were the aggregator gone
            await again.say(Goodbye(finished=True))
            await asyncio.wait_for(made.server.all_told.wait(), SOON)
            assert await asyncio.wait_for(running, SOON), "the run is over for the aggregator too"

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
