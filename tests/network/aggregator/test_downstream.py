"""Bad clients behind an aggregator: what they do stays with them, and their neighbours and the server do not notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from crescendo.core.messages import Settled
from crescendo.network.aggregator import upstream
from crescendo.network.aggregator.node import Node
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.tree_messages import Alive, NodeHello
from crescendo.network.protocol.wire_messages import TO_SERVER, Hello, Ping, VoidRound
from crescendo.network.server.aggregator_requests import AggregatorRequests
from crescendo.network.server.aggregator_streams import AggregatorSession
from crescendo.network.transport import pending_streams, rate_limits
from crescendo.network.transport.channels import JOIN, Endpoint
from crescendo.storage.journal.journal_entries import Absent
from tests.conformance.cases import case
from tests.network import raw_streams
from tests.network.attacks import RELAY, Attack, AttackedServer, attacked, each, refused, run_attack, waits
from tests.network.hostile_client import HostileClient
from tests.network.live_server import until
from tests.network.raw_streams import End, RawStream, channel_to
from tests.network.silent_streams import MANY, silent_streams, until_ended

FAR = case(
    run={"wire": "float32"},
    clients={"count": 3},
    schedule={"rounds": 9, "sizes": {"kind": "constant", "size": 30}, "wait": {"rounds": 7}},
    serve={"absent_after": 600.0},
)


@dataclass
class Below:
    """An aggregator in this process, the server above it, and the way to the aggregator."""

    above: AttackedServer
    node: Node
    channel: grpc.aio.Channel

    def client(self, c: int) -> HostileClient:
        return HostileClient(self.channel, self.above.agreed, c)

    async def finish(self, *good: int) -> None:
        """These train to the end behind the aggregator; the others are not there."""
        for c in set(range(self.above.agreed.terms.clients)) - set(good):
            await self.above.server.put(c, Absent(c))
        async with asyncio.timeout(raw_streams.DEADLINE):
            await asyncio.gather(*(self.client(c).train() for c in good))
        self.above.check()


@asynccontextmanager
async def below(folder: Path, raw: dict[str, Any] = FAR) -> AsyncIterator[Below]:
    async with attacked(folder, raw) as above:
        said: asyncio.Queue[str] = asyncio.Queue()
        place, stop = Endpoint(f"127.0.0.1:{above.port}"), asyncio.Event()
        node = Node("node", place, log=lambda event, **facts: said.put_nowait(event))
        running = asyncio.create_task(node.run("127.0.0.1:0", stop))
        try:
            async with asyncio.timeout(raw_streams.DEADLINE):
                while await said.get() != "joined":
                    pass
            async with channel_to(node.port) as channel:
                yield Below(above, node, channel)
        finally:
            stop.set()
            await running


def void(here: Below, i: int) -> pb.ToServer:
    said: pb.ToServer = TO_SERVER.encode(VoidRound(i, here.above.agreed.federation, here.above.agreed.digest))
    return said


# -- void rounds -----------------------------------------------------------------------------------------------------------


async def a_flood_of_void_rounds_does_not_go_up(folder: Path) -> None:
    """Rounds that cannot be, or were said to be void before, are answered where they come; who says them waits."""
    passed: list[int] = []
    on_below = AggregatorRequests.on_below

    async def count(self: AggregatorRequests, link: AggregatorSession, name: str, message: Any) -> None:
        passed.append(message.round)
        await on_below(self, link, name, message)

    with pytest.MonkeyPatch.context() as patch, waits(burst=20) as noted:
        patch.setattr(AggregatorRequests, "on_below", count)
        async with below(folder) as here:
            bad, good = here.client(0), here.client(1)
            await good.join()
            heard = await bad.fire(*[void(here, 8) for _ in range(40)], *[void(here, 0) for _ in range(40)])
            assert [one.refusal.round for one in heard if isinstance(one, pb.ToClient)] == [8] * 40
            assert passed == [0] and max(noted) > 0
            await good.fire(*good.update(0))
            while 0 not in good.settled or 0 not in bad.settled:
                await (good if 0 not in good.settled else bad).hear()
            await here.finish(1, 2)


async def one_that_says_much_does_not_keep_the_link_waiting_for_the_disk(folder: Path) -> None:
    async with below(folder) as here:
        bad = here.client(0)
        await bad.join()
        served = here.above.server
        assert bad.line is not None
        async with served.commit_queue.paused():  # the disk is slow
            await bad.line.say(*(void(here, i) for i in range(5)))
            await until(lambda: len(served.commit_queue) >= 4)
        await here.finish(0, 1, 2)


async def a_name_has_one_hello_on_its_way_up(folder: Path) -> None:
    """Also if it hangs up at once, again and again."""
    asked: list[str] = []
    on_hello = AggregatorRequests.on_hello

    async def count(self: AggregatorRequests, link: AggregatorSession, hello: Any) -> None:
        asked.append(hello.name)
        await on_hello(self, link, hello)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AggregatorRequests, "on_hello", count)
        async with below(folder) as here:
            async with here.above.server.commit_queue.paused():  # the disk is slow
                first = RawStream(here.channel)
                await first.say(TO_SERVER.encode(here.client(0).hello()))
                await until(lambda: bool(asked))
                first.cut()
                for _ in range(20):
                    line = RawStream(here.channel)
                    await line.say(TO_SERVER.encode(here.client(0).hello()))
                    answer = await line.hear()
                    assert isinstance(answer, pb.ToClient) and "come back" in answer.refusal.reason, answer
                assert asked == ["client 0"]
            await here.finish(1, 2)
            assert here.node.downstream._hellos == {} and 0 not in here.above.server.sessions


# -- streams and memory ------------------------------------------------------------------------------------------------------


async def a_name_has_one_stream_that_asks(folder: Path) -> None:
    async with below(folder) as here:
        lines = [RawStream(here.channel) for _ in range(30)]
        for line in lines:
            await line.say(TO_SERVER.encode(Hello("client 0", "0" * 32)))
            answer = await line.hear()
            assert isinstance(answer, pb.ToClient) and answer.HasField("welcome"), answer
        for line in lines[:-1]:
            assert isinstance(await line.hear(), End)
        assert lines[-1].end is None
        await here.finish(0, 1, 2)


async def streams_that_say_nothing_are_bounded_here_too(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending_streams, "SPARE", 10)
        async with below(folder) as here:
            room = here.node.downstream.pending.room
            async with silent_streams(here.node.port, JOIN, RELAY) as silent:
                await until_ended(silent, MANY - room)
                assert len(here.node.downstream.pending) <= room
                await here.finish(0, 1, 2)


async def a_round_that_nobody_can_have_finished_is_not_kept(folder: Path) -> None:
    async with below(folder) as here:
        bad = here.client(0)
        assert "no client can have finished" in refused(await bad.fire(*bad.update(8)))
        assert here.node.core is not None and not here.node.core.carries
        await here.finish(0, 1, 2)


async def after_a_loss_the_word_of_a_client_is_taken_here_too(folder: Path) -> None:
    """The server forgot part of what it broadcast, and does not know how far clients may have come; nor does the aggregator."""
    async with below(folder) as here:
        bad = here.client(0)
        await bad.join(acknowledged=Settled(4))
        assert bad.epoch == 1 and await bad.fire(*bad.update(8)) == []
        while 8 not in bad.settled:
            await bad.hear()


async def one_that_keeps_breaking_the_rules_is_shut_out_here_too(folder: Path) -> None:
    async with below(folder) as here:
        bad = here.client(0)
        assert rate_limits.STRIKES <= await bad.break_rules(most=100) < 100
        await here.finish(1, 2)


async def a_liar_behind_an_aggregator_does_not_write_to_the_journal_at_will(folder: Path) -> None:
    async with below(folder) as here:
        bad = here.client(0)
        for _ in range(100):
            await bad.join(epoch=bad.epoch, acknowledged=Settled(4))
        assert 5 < here.above.epochs_begun() < 50
        answer = await bad.join()
        assert isinstance(answer, pb.ToClient) and "too many" in answer.refusal.reason, answer


def test_what_waits_for_a_parent_that_does_not_read_is_bounded() -> None:
    async def fill() -> None:
        up, queue = Node("node", Endpoint("127.0.0.1:1")).upstream, asyncio.Queue[Any]()
        up._set_queue(queue)
        for n in range(upstream.MAX_QUEUED_UP):
            await asyncio.wait_for(up.room(), raw_streams.DEADLINE)
            up.send(Alive(n))
        waiting = asyncio.create_task(up.room())
        await asyncio.sleep(0)
        assert not up.is_free and not waiting.done()
        await up._next(queue)
        await asyncio.wait_for(waiting, raw_streams.DEADLINE)

    asyncio.run(fill())


def test_an_aggregator_that_does_not_read_is_hung_up_on() -> None:
    async def fill() -> None:
        link = AggregatorSession(NodeHello("node"), most=5)
        for n in range(5):
            link.send(Ping(n))
            assert not link.closed.is_set()
        link.send(Ping(5))
        assert link.closed.is_set() and len(link._queue) == 5

    asyncio.run(fill())


@pytest.mark.slow
@each(
    a_flood_of_void_rounds_does_not_go_up,
    one_that_says_much_does_not_keep_the_link_waiting_for_the_disk,
    a_name_has_one_hello_on_its_way_up,
    a_name_has_one_stream_that_asks,
    streams_that_say_nothing_are_bounded_here_too,
    a_round_that_nobody_can_have_finished_is_not_kept,
    after_a_loss_the_word_of_a_client_is_taken_here_too,
    one_that_keeps_breaking_the_rules_is_shut_out_here_too,
    a_liar_behind_an_aggregator_does_not_write_to_the_journal_at_will,
)
def test_bad_client_behind_an_aggregator(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)
