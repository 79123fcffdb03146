"""A stream that breaks half way: the next goes on with the update and the broadcast, and nothing is mixed, lost or repeated."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np
import pytest

from crescendo.core.messages import Settled
from crescendo.core.vectors import encode
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.resumption import Held, Resumed, resumed
from crescendo.network.protocol.vector_parts import Assembly, Part
from crescendo.network.protocol.wire_messages import BroadcastPart, Ping, Refusal, UpdatePart, Welcome
from crescendo.network.server.session import Session
from crescendo.storage.journal.journal_entries import Absent
from tests.conformance.cases import case
from tests.network.live_server import LiveServer, live_server, run_async, until
from tests.network.scripted_client import ScriptedClient
from tests.network.small_parts import use_small_parts

AHEAD: dict[str, Any] = case(
    clients={"count": 2},
    schedule={"rounds": 6, "sizes": {"kind": "constant", "size": 10}, "wait": {"rounds": 2}},
)
DATA = encode(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), "float64")  # 40 bytes: parts of 16, 16 and 8, or five small ones
OTHER = encode(np.array([1.0, 2.0, 3.0, 4.0, 6.0]), "float64")
ONES = np.ones(5)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_parts(monkeypatch)


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def held_of(data: bytes, length: int, about: int = 0) -> Held:
    return Held(about, length, sha256(data[:length])) if length else Held()


def update(on: LiveServer, data: bytes = DATA, how: Resumed | None = None, round: int = 0) -> list[UpdatePart]:
    return list(UpdatePart.split(round, data, "float64", on.agreed.federation, on.agreed.digest, how))


async def say(client: ScriptedClient, parts: Iterable[UpdatePart]) -> None:
    for part in parts:
        await client.say(part)


async def begun(on: LiveServer, parts: int) -> ScriptedClient:
    """A client of which so many parts of round 0 have come."""
    client = await on.join(0)
    await say(client, update(on)[:parts])
    await until(lambda: on.server._clients._open[0].assembly.held == 16 * parts)
    return client


async def cut(on: LiveServer, client: ScriptedClient) -> None:
    client.call.cancel()
    await until(lambda: 0 not in on.server.sessions)


async def joined(on: LiveServer, **changes: Any) -> tuple[ScriptedClient, Welcome]:
    client, answer = await on.say_hello(0, **changes)
    assert isinstance(answer, Welcome), answer
    return client, answer


# -- an update ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alive", [False, True], ids=["broken", "still alive here"])
@pytest.mark.parametrize("parts", [1, 2])
def test_an_update_goes_on_where_its_stream_broke(parts: int, alive: bool, tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, AHEAD) as on:
            older = await begun(on, parts)
            if not alive:
                await cut(on, older)
            client, welcome = await joined(on)
            assert welcome.held == held_of(DATA, 16 * parts)
            if alive:  # its ghost may say what it likes
                with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await say(older, update(on)[parts:])
            await say(client, update(on, how=resumed(DATA, welcome.held)))
            assert await client.acknowledged() == Settled(1)
            start = on.agreed.initial()
            np.testing.assert_array_equal(on.service.durable.model, start - np.frombuffer(DATA))
            assert not on.events("refused") and not on.events("alarm")

    run_async(play)


def test_a_line_that_breaks_at_every_part_carries_an_update_and_is_not_taken_for_abuse(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, AHEAD) as on:
            client, held = await begun(on, 1), 16
            while held < 32:
                await cut(on, client)
                client, welcome = await joined(on)
                assert welcome.held == held_of(DATA, held)
                await say(client, update(on, how=resumed(DATA, welcome.held))[:1])
                held += 8
                await until(lambda: on.server._clients._open[0].assembly.held == held)  # noqa: B023
            await cut(on, client)
            client, welcome = await joined(on)
            await say(client, update(on, how=resumed(DATA, welcome.held or Held())))
            assert await client.acknowledged() == Settled(1)
            assert on.server.rate_limits[0].strikes.take(0) == 0 and not on.events("refused")

    run_async(play)


def test_a_client_that_begins_again_is_heard_too(tmp_path: Path) -> None:
    """One of an older version does not know what is held, and one that was put back from a backup has other bytes."""

    async def play() -> None:
        async with live_server(tmp_path, AHEAD) as on:
            await cut(on, await begun(on, 2))
            client, _ = await joined(on)
            await say(client, update(on, OTHER))
            assert await client.acknowledged() == Settled(1)
            model = on.service.durable.model
            np.testing.assert_array_equal(model, on.agreed.initial() - np.frombuffer(OTHER))

    run_async(play)


WRONG: dict[str, Callable[[list[UpdatePart]], list[UpdatePart]]] = {
    "a mixture of two versions": lambda parts: [replace_vector(parts[0], whole=sha256(OTHER)), *parts[1:]],
    "another whole": lambda parts: [*parts[:-1], replace_vector(parts[-1], data=bytes(8))],
    "an earlier part": lambda parts: [replace_vector(parts[0], part=3)],
    "a later part": lambda parts: [replace_vector(parts[0], part=1)],
    "a part twice": lambda parts: [parts[0], parts[0]],
    "a part left out": lambda parts: [replace_vector(parts[0], part=3, parts=6)],
    "another length": lambda parts: [replace_vector(parts[0], numbers=4)],
}


def replace_vector(one: UpdatePart, **changes: Any) -> UpdatePart:
    return replace(one, vector=replace(one.vector, **changes))


@pytest.mark.parametrize("wrong", WRONG)
def test_whatever_does_not_fit_is_refused_in_a_sentence_and_begins_again(wrong: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, AHEAD) as on:
            await cut(on, await begun(on, 1))
            client, welcome = await joined(on)
            parts = update(on, how=resumed(DATA, welcome.held or Held()))
            await say(client, WRONG[wrong](parts))
            refusal = await client.hear_until(Refusal)
            assert refusal.reason.endswith("begin again with part 0") and not refusal.final
            await client.closed()
            assert on.service.durable.settled(0) == Settled(0) and not on.events("alarm")
            client, welcome = await joined(on)
            assert welcome.held is None
            await say(client, update(on))
            assert await client.acknowledged() == Settled(1)

    run_async(play)


def test_a_peer_that_never_finishes_is_kept_one_vector(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, AHEAD) as on:
            kept = on.server._clients._interrupted
            for i in range(20):
                client, _ = await joined(on)
                await say(client, update(on, round=i % 3)[:2])
                await until(lambda: on.server._clients._open[0].assembly.held == 32)
                await cut(on, client)
                await until(lambda: 0 not in on.server._clients._open)
                assert kept.bytes <= 2 * len(DATA)
            await on.join(0)
            assert kept.bytes == 0

    run_async(play)


# -- a broadcast -------------------------------------------------------------------------------------------------------


class Received:
    """What a client hears of broadcasts, put together as a client does."""

    def __init__(self, client: ScriptedClient) -> None:
        self._client, self._assembly, self.parts = client, Assembly(5), list[Part]()
        self.first: BroadcastPart | None = None

    async def whole(self) -> tuple[BroadcastPart, bytes]:
        """The first message of the next broadcast, and the bytes that come with it."""
        came, first = b"", None
        while True:
            part = await self._client.hear_until(BroadcastPart)
            first, came = (part, b"") if part.yours is not None else (first, came)
            came += bytes(part.vector.data)
            if part.vector.part + 1 == part.vector.parts:
                assert first is not None
                return first, came


async def model_at_join(on: LiveServer, c: int) -> bytes:
    client = await on.join(c)
    _, data = await Received(client).whole()
    await cut(on, client)
    return data


@pytest.mark.parametrize("length", [8, 16, 24, 32])
def test_a_broadcast_goes_on_where_its_stream_broke(length: int, tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, AHEAD) as on:
            data = await model_at_join(on, 0)
            client, welcome = await joined(on, held=held_of(data, length))
            first, rest = await Received(client).whole()
            assert rest == data[length:] and first.vector.whole == sha256(data) and first.yours == Settled(0)
            assert first.vector.part == length // 8
            assert welcome.held == Held(), "its line is bad in the other direction too"

    run_async(play)


@pytest.mark.parametrize("length", [7, 8, 40, 48])
def test_another_broadcast_or_a_false_claim_begins_with_part_0(length: int, tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, AHEAD) as on:
            data = await model_at_join(on, 0)
            lie = Held(0, length, sha256(b"another version")) if length == 8 else held_of(data + bytes(8), length)
            client, _ = await joined(on, held=lie)
            first, came = await Received(client).whole()
            assert came == data and first.vector.part == 0 and not first.vector.whole
            assert first.vector.parts == 5, "small parts, as the line is bad"

    run_async(play)


def test_a_broadcast_that_was_begun_is_finished_and_the_newest_follows(tmp_path: Path) -> None:
    """If each stream began with the newest, a line that needs longer than a round would never carry one."""

    async def play() -> None:
        async with live_server(tmp_path, AHEAD) as on:
            old = await model_at_join(on, 0)
            await on.server.put(0, Absent(0))
            other = await on.join(1)
            await other.send(0, ONES)
            await other.k(1)
            client, _ = await joined(on, held=held_of(old, 24))
            received = Received(client)
            first, rest = await received.whole()
            assert (first.vector.about, first.yours, rest) == (0, Settled(0), old[24:])
            first, rest = await received.whole()
            assert (first.vector.about, len(rest)) == (1, 40)

    run_async(play)


def test_a_model_that_moved_at_the_same_k_is_not_sent_beside_the_one_that_was_begun(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, AHEAD) as on:
            old = await model_at_join(on, 0)
            other = await on.join(1)
            await other.send(0, ONES)
            await other.acknowledged(Settled(1))
            client, _ = await joined(on, held=held_of(old, 16))
            received = Received(client)
            first, rest = await received.whole()
            assert (first.vector.about, first.yours, rest) == (0, Settled(0), old[16:])
            await client.send(0, ONES)
            first, rest = await received.whole()
            assert first.vector.about == 1, "nothing more at k = 0"

    run_async(play)


def test_a_new_epoch_ends_what_was_begun(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, AHEAD) as on:
            old = await model_at_join(on, 0)
            client, welcome = await joined(on, held=held_of(old, 16), k=3, acknowledged=Settled(1), last=0)
            assert welcome.epoch == 1
            first, came = await Received(client).whole()
            assert (first.epoch, came) == (1, old[16:]) or (first.epoch, first.vector.part) == (1, 0)

    run_async(play)


def test_a_model_that_is_in_the_client_s_memory_does_not_come_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, AHEAD) as on:
            client, _ = await joined(on, in_memory=True)
            other = await on.join(1)
            await client.send(0, ONES)
            await other.send(0, ONES)
            first, _ = await Received(client).whole()
            assert first.vector.about == 1, "the first that it hears is newer"
            await cut(on, client)
            client, _ = await joined(on, k=0, last=0, in_memory=True)
            first, _ = await Received(client).whole()
            assert first.vector.about == 1, "it says that it has another"

    run_async(play)


def test_a_ping_goes_out_between_two_parts_of_a_long_broadcast() -> None:
    written = list[Any]()
    session = Session(0)

    class Context:
        async def write(self, message: Any) -> None:
            written.append(message if isinstance(message, bytes) else message.WhichOneof("message"))
            if len(written) == 1:
                session.send(Ping(1))
            if len(written) == 4:
                session.close()

    async def play() -> None:
        session.publish(EncodedBroadcast(1, 0, DATA, "float64"), Settled(0))
        await session.write_all(Context())

    asyncio.run(play())
    assert [isinstance(one, bytes) for one in written] == [True, False, True, True]
