"""Streams that say nothing, or too little: they are bounded, and nobody else is kept out by them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.wire_messages import TO_SERVER
from crescendo.network.transport import pending_streams
from crescendo.network.transport.channels import JOIN, STATUS, Endpoint
from crescendo.network.transport.pending_streams import PendingStreams
from tests.network import raw_streams
from tests.network.attacks import RELAY, Attack, Patch, attacked, each, each_without, run_attack, succeeds
from tests.network.raw_streams import RawStream, channel_to
from tests.network.silent_streams import MANY, silent_streams, until_ended


class From:
    """A stream from somewhere that says nothing."""

    def __init__(self, address: str) -> None:
        self._address = address

    def peer(self) -> str:
        return f"ipv4:{self._address}:1"


def test_a_stream_ends_whose_first_message_was_cancelled_as_it_left() -> None:
    """The other side may have the message, and act on it, before this side's write returns."""

    async def cancel_a_write(first: object, context: Any) -> list[Any]:
        writing = asyncio.create_task(context.write(b"welcome"))
        await asyncio.sleep(0)  # it has been handed to gRPC
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        return []

    async def serve(requests: Any, context: Any) -> None:
        await PendingStreams(1).serve(context, cancel_a_write, bytes)

    async def run() -> None:
        server = grpc.aio.server()
        port = server.add_insecure_port("127.0.0.1:0")
        join = grpc.stream_stream_rpc_method_handler(serve)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", {"Join": join}),))
        await server.start()
        async with channel_to(port) as channel:
            for _ in range(5):
                stream = channel.stream_stream("/test/Join")()
                await stream.write(b"hello")
                async with asyncio.timeout(raw_streams.DEADLINE):
                    while await stream.read() is not grpc.aio.EOF:
                        pass
                    assert await stream.code() is grpc.StatusCode.OK
        await server.stop(None)

    asyncio.run(run())


async def stand(pending: PendingStreams, address: str) -> None:
    async with pending.counted(From(address)):
        await asyncio.Event().wait()


def test_a_flood_of_silent_streams_evicts_its_own_streams_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_streams, "SPARE", 10)

    async def come() -> None:
        pending = PendingStreams(0)
        quiet = asyncio.create_task(stand(pending, "10.0.0.1"))
        await asyncio.sleep(0)
        crowd = [asyncio.create_task(stand(pending, "10.0.0.2")) for _ in range(30)]
        await asyncio.wait(crowd, timeout=raw_streams.DEADLINE, return_when=asyncio.FIRST_COMPLETED)
        assert len(pending) == 10 and not quiet.done()
        gone = [task.done() for task in crowd]
        assert gone == sorted(gone, reverse=True), "the oldest go first"
        for task in (quiet, *crowd):
            task.cancel()
        await asyncio.gather(quiet, *crowd, return_exceptions=True)
        assert len(pending) == 0

    asyncio.run(come())


async def those_that_say_nothing_make_room_for_those_that_do(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending_streams, "SPARE", 10)
        async with attacked(folder) as here:
            good, late = [here.client(c) for c in (0, 1)], here.client(2)
            for client in good:
                await client.join()
            room = here.server._pending.room
            async with silent_streams(here.port, JOIN, RELAY, STATUS) as silent:
                await until_ended(silent, MANY - room)
                assert len(here.server._pending) <= room
                answer = await late.join()
                assert isinstance(answer, pb.ToClient) and answer.HasField("welcome"), answer
                assert await Endpoint(f"127.0.0.1:{here.port}").status(raw_streams.DEADLINE)
                await asyncio.gather(*(client.behave() for client in (*good, late)))


async def one_name_does_not_fill_the_line_with_hellos(folder: Path) -> None:
    """Its streams are many, and what waits for the disk is one hello."""
    async with attacked(folder) as here:
        async with here.server.commit_queue.paused():  # the disk is slow
            lines = [RawStream(here.channel) for _ in range(30)]
            for line in lines:
                await line.say(TO_SERVER.encode(here.client(0).hello()))
            heard = [asyncio.create_task(line.hear()) for line in lines]
            async with asyncio.timeout(raw_streams.DEADLINE):
                while sum(task.done() for task in heard) < len(lines) - 1:
                    await asyncio.wait([task for task in heard if not task.done()], return_when=asyncio.FIRST_COMPLETED)
            assert len(here.server.commit_queue) <= 1
            answers = [task.result() for task in heard if task.done()]
            assert all(isinstance(one, pb.ToClient) and "come back" in one.refusal.reason for one in answers), answers
        await asyncio.gather(*heard)
        await here.finish(0, 1, 2)


@pytest.mark.slow
@each(
    those_that_say_nothing_make_room_for_those_that_do,
    one_name_does_not_fill_the_line_with_hellos,
)
def test_streams(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


def first_come_first_served(patch: Patch) -> None:
    make = grpc.aio.server
    patch.setattr(grpc.aio, "server", lambda options: make(options=options, maximum_concurrent_rpcs=16))


def room_for_everybody(patch: Patch) -> None:
    patch.setattr(PendingStreams, "_evict", lambda self: None)
    patch.setattr(raw_streams, "DEADLINE", 1.0)


@pytest.mark.slow
@each_without(
    (first_come_first_served, those_that_say_nothing_make_room_for_those_that_do),
    (room_for_everybody, those_that_say_nothing_make_room_for_those_that_do),
)
def test_without_the_guard_the_attack_is_seen_to_succeed(
    planted: Callable[[Patch], None], attack: Attack, tmp_path: Path, monkeypatch: Patch
) -> None:
    planted(monkeypatch)
    succeeds(attack, tmp_path)
