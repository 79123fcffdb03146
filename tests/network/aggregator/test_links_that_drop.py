"""An aggregator's line that drops: its sums and broadcasts go on, for every client behind it, and nothing is applied twice."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.core.messages import Settled, Sum
from crescendo.core.vectors import encode
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.aggregator.node import Node
from crescendo.network.aggregator.upstream import Upstream
from crescendo.network.client.join import join
from crescendo.network.protocol.resumption import Held, Resumed, resumed
from crescendo.network.protocol.tree_messages import (
    RELAY,
    TO_NODE,
    TO_PARENT,
    Above,
    Acks,
    Alive,
    Below,
    NodeHello,
    NodeWelcome,
    SumPart,
    WordPart,
)
from crescendo.network.protocol.wire_messages import Hello, Refusal, Welcome
from crescendo.network.server.aggregator_streams import AggregatorSession
from crescendo.network.transport.channels import Endpoint, StreamBroken
from crescendo.network.transport.retry import Backoff
from crescendo.objectives import ModelFile
from crescendo.storage.journal.journal_entries import Received, Summed
from crescendo.storage.journal.replay import replay
from tests.cli.joining_clients import OPEN, records
from tests.conformance.cases import case
from tests.network.final_checks import entries_in, pairs_in
from tests.network.live_server import LiveServer, live_server, run_async, until
from tests.network.proxy import CutOnce
from tests.network.scripted_client import SOON
from tests.network.small_parts import use_small_parts
from tests.network.wide_model import KIND, wide

TWO: dict[str, Any] = case(
    clients={"count": 2},
    schedule={"rounds": 6, "sizes": {"kind": "constant", "size": 10}, "wait": {"rounds": 2}},
)
PAIRS = ((0, 0), (0, 1))
TOTAL = Sum(PAIRS, np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
DATA = encode(TOTAL.delta, "float64")  # 40 bytes: parts of 16, 16 and 8, or five small ones


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_parts(monkeypatch)


class ScriptedNode:
    """An aggregator's stream, on which a test says what it wants."""

    def __init__(self, on: LiveServer, call: Any) -> None:
        self._on, self.call = on, call

    @classmethod
    async def joined(cls, on: LiveServer, held: Held | None = None) -> tuple[ScriptedNode, NodeWelcome]:
        manager = Endpoint(f"127.0.0.1:{on.port}").channel()
        channel = await manager.__aenter__()
        on._open.append(manager)
        serialize, parse = TO_PARENT.whole.SerializeToString, TO_NODE.whole.FromString
        node = cls(on, channel.stream_stream(RELAY, request_serializer=serialize, response_deserializer=parse)())
        await node.say(NodeHello("node", held=held))
        welcome = await node.hear()
        assert isinstance(welcome, NodeWelcome), welcome
        return node, welcome

    async def say(self, *messages: Any) -> None:
        for message in messages:
            await self.call.write(TO_PARENT.encode(message))

    async def hear(self) -> Any:
        return TO_NODE.decode(await asyncio.wait_for(self.call.read(), SOON))

    async def hear_until(self, kind: Any) -> Any:
        while not isinstance(message := await self.hear(), kind):
            pass
        return message

    async def brings(self, c: int, **changes: Any) -> None:
        """A client comes by way of this aggregator."""
        agreed, name = self._on.agreed, self._on.agreed.names[c]
        hello = Hello(name, f"{c:032x}", agreed.federation, agreed.digest, **changes)
        await self.say(Below(name, hello))
        answer = await self.hear_until(Above)
        assert isinstance(answer.message, Welcome), answer

    async def model(self) -> tuple[WordPart, bytes]:
        """The first part of the next broadcast, and the bytes that come with it."""
        first, came = await self.hear_until(WordPart), b""
        part = first
        while True:
            came += bytes(part.part.vector.data)
            if part.part.vector.part + 1 == part.part.vector.parts:
                return first, came
            part = await self.hear_until(WordPart)

    async def cut(self) -> None:
        links = len(self._on.server._aggregators.links)
        self.call.cancel()
        await until(lambda: len(self._on.server._aggregators.links) < links)


def sum_parts(on: LiveServer, how: Resumed | None = None) -> list[SumPart]:
    return sum_of(on, TOTAL, how)


def sum_of(on: LiveServer, total: Sum, how: Resumed | None = None) -> list[SumPart]:
    data = encode(total.delta, "float64")
    return list(SumPart.split(total, data, "float64", on.agreed.federation, on.agreed.digest, how))


def held_of(data: bytes, length: int) -> Held:
    return Held(0, length, hashlib.sha256(data[:length]).digest())


def has_come(on: LiveServer, length: int) -> bool:
    return on.server._aggregators._open["node"].assembly.held == length


@pytest.mark.parametrize("alive", [False, True], ids=["broken", "still alive here"])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_sum_goes_on_where_its_stream_broke(parts: int, alive: bool, tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            older, _ = await ScriptedNode.joined(on)
            for c in (0, 1):
                await older.brings(c)
            await older.say(*sum_parts(on)[:parts])
            await until(lambda: has_come(on, 16 * parts))
            if not alive:
                await older.cut()
            node, welcome = await ScriptedNode.joined(on)
            assert welcome.held == held_of(DATA, 16 * parts)
            for c in (0, 1):
                await node.brings(c, last=0)
            await node.say(*sum_parts(on, resumed(DATA, welcome.held)))
            acks = await node.hear_until(Acks)
            assert {c: ack.yours for c, ack in acks.yours.items()} == {0: Settled(1), 1: Settled(1)}
            if alive:  # two aggregators of one name: each has what it sent, and the server takes each pair once
                await older.say(*sum_parts(on)[parts:])
                await older.hear_until(Acks)
            np.testing.assert_array_equal(on.service.durable.model, on.agreed.initial() - TOTAL.delta)

    run_async(play)


def test_parts_of_a_sum_that_do_not_fit_are_refused_and_the_next_stream_begins_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            node, _ = await ScriptedNode.joined(on)
            await node.say(*sum_parts(on)[:1])
            await until(lambda: has_come(on, 16))
            await node.cut()
            node, _ = await ScriptedNode.joined(on)
            await node.say(*sum_parts(on, Resumed(16, bytes(32))))
            refusal = await node.hear_until(Refusal)
            assert "another SHA-256" in refusal.reason
            await until(lambda: not on.server._aggregators.links)
            _, welcome = await ScriptedNode.joined(on)
            assert welcome.held is None and on.service.durable.settled(0) == Settled(0)

    run_async(play)


@pytest.mark.parametrize("length", [8, 16, 32])
def test_a_broadcast_goes_on_for_the_clients_that_are_back(length: int, tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            node, _ = await ScriptedNode.joined(on)
            await node.brings(0)
            first, data = await node.model()
            assert set(first.yours) == {0}
            await node.cut()
            node, welcome = await ScriptedNode.joined(on, held_of(data, length))
            assert welcome.held == Held()
            await node.brings(0)
            first, rest = await node.model()
            assert (set(first.yours), rest) == ({0}, data[length:])
            await node.brings(1)  # of whom that one said nothing
            first, whole = await node.model()
            assert (set(first.yours), whole) == ({1}, data)

    run_async(play)


def test_a_broadcast_goes_on_also_if_another_client_is_back_first(tmp_path: Path) -> None:
    """It is to hear the same bytes. They used to begin anew for it, as it was not among their receivers, on every stream."""

    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            node, _ = await ScriptedNode.joined(on)
            await node.brings(0)
            _, data = await node.model()
            await node.cut()
            node, _ = await ScriptedNode.joined(on, held_of(data, 16))
            await node.brings(1)
            first, rest = await node.model()
            assert (set(first.yours), rest) == ({0, 1}, data[16:])

    run_async(play)


@pytest.mark.parametrize("back", [(0, 1), (1, 0)])
@pytest.mark.parametrize("length", [0, 16])
def test_on_a_bad_line_the_model_goes_out_once_for_clients_that_come_one_by_one(
    length: int, back: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def all_are_there(link: AggregatorSession) -> None:
        await until(lambda: len(link.sessions) == 2)

    monkeypatch.setattr(AggregatorSession, "_gather", all_are_there)

    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            node, _ = await ScriptedNode.joined(on)
            await node.brings(0)
            _, data = await node.model()
            await node.cut()
            node, _ = await ScriptedNode.joined(on, held_of(data, length) if length else Held())
            for c in back:
                await node.brings(c)
            first, rest = await node.model()
            assert (set(first.yours), rest) == ({0, 1}, data[length:])

    run_async(play)


def test_another_model_of_the_same_round_is_not_taken_for_it(tmp_path: Path) -> None:
    """An update came meanwhile: what is said of the clients' rounds with the newer bytes does not hold for the older."""

    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            node, _ = await ScriptedNode.joined(on)
            await node.brings(1)
            await node.model()
            await node.brings(0)
            _, data = await node.model()
            part = sum_of(on, Sum(PAIRS[1:], TOTAL.delta))
            await node.say(*part)
            await node.hear_until(Acks)
            await node.cut()
            node, _ = await ScriptedNode.joined(on, held_of(data, 16))
            await node.brings(1, last=0)
            first, newer = await node.model()
            assert set(first.yours) == {1} and len(newer) == len(data) and newer != data

    run_async(play)


def test_an_aggregator_whose_line_broke_before_a_first_part_asks_for_small_ones(tmp_path: Path) -> None:
    """A part that takes longer than the line lasts would never come."""

    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            upstream = Node("node", Endpoint(f"127.0.0.1:{on.port}")).upstream
            welcome = Welcome(on.agreed.text, on.agreed.federation, 0, 0, 0, Settled(0))
            said = iter([Above("client 0", welcome)])

            async def read(stream: Any) -> Any:
                if (message := next(said, None)) is None:
                    raise StreamBroken("it broke")
                return message

            upstream._node.agree(NodeWelcome(on.agreed.text, on.agreed.federation))
            upstream._set_queue(asyncio.Queue())
            upstream._read = read  # type: ignore[method-assign]
            with pytest.raises(StreamBroken):
                await upstream._read_all(None)  # type: ignore[arg-type]
            assert upstream._line_broke

    run_async(play)


def test_a_client_that_has_the_model_is_sent_none_by_this_way_either(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            node, _ = await ScriptedNode.joined(on)
            await node.brings(0, in_memory=True)
            await node.brings(1)
            first, _ = await node.model()
            assert set(first.yours) == {1}

    run_async(play)


def test_the_answer_to_a_ping_goes_out_between_two_parts_of_a_sum() -> None:
    upstream = Upstream(None, Endpoint("nowhere:1"), Backoff())  # type: ignore[arg-type]

    async def play() -> list[Any]:
        upstream._set_queue(asyncio.Queue())
        parts: Iterable[SumPart] = SumPart.split(TOTAL, DATA, "float64", "f", "ab" * 32)
        kinds = list[Any]()
        for message in upstream._with_overtaking(parts):
            kinds.append(message.WhichOneof("message"))
            if len(kinds) in (1, 4):
                upstream.send(Alive(1))
        upstream.send(Alive(2))
        return [*kinds, upstream._queue.qsize() if upstream._queue is not None else None]

    assert asyncio.run(play()) == ["sum", "alive", "sum", "sum", "alive", 1]


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 3_000, 6_000, 9_000, 12_500, 17_000, 30_000])
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_cut_at_any_byte_of_an_aggregator_s_line_loses_nothing(
    way: str, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_parts(monkeypatch, 2048, 256)
    rounds = 3

    async def play() -> None:
        async with (
            live_server(tmp_path / "served", wide(2000, rounds)) as on,
            CutOnce(on.port, way, after) as line,
        ):
            joined, stop = asyncio.Event(), asyncio.Event()

            def note(event: str, **facts: Any) -> None:
                if event == "joined":
                    joined.set()

            node = Node("node", Endpoint(f"127.0.0.1:{line.port}"), backoff=Backoff(0.01, 0.05), log=note)
            running = asyncio.create_task(node.run("127.0.0.1:0", stop))
            await asyncio.wait_for(joined.wait(), SOON)

            def take_part(c: int) -> Any:
                source, policy, model = (
                    RecordSource(str(records(tmp_path))),
                    Policy.model_validate(OPEN),
                    ModelFile.read(KIND),
                )
                where, backoff = Endpoint(f"127.0.0.1:{node.port}"), Backoff(0.01, 0.05, give_up=SOON)
                return join(where, f"client {c}", source, tmp_path / f"c{c}", policy, model=model, backoff=backoff)

            done = await asyncio.gather(*(asyncio.to_thread(take_part, c) for c in (0, 1)))
            assert [one.last for one in done] == [rounds - 1] * 2
            stop.set()
            await running
            assert on.service.durable.model.tobytes() == replay(tmp_path / "served").tobytes()

    run_async(play)
    entries = [entry for entry in entries_in(tmp_path / "served") if isinstance(entry, Received | Summed)]
    assert sorted(pair for entry in entries for pair in pairs_in(entry)) == [
        (i, c) for i in range(rounds) for c in (0, 1)
    ]
