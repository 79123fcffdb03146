"""A client of a server that says nonsense, says it without end, or says nothing: it goes on, it says so, and it stays small."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.core.messages import Settled
from crescendo.errors import Refused
from crescendo.federation.agreement import build_terms
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client import terms_request
from crescendo.network.client.client_session import _Connection
from crescendo.network.client.join import join
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.wire_messages import SERVICE, TO_CLIENT, TO_SERVER, FromServer, Ping, Refusal, Welcome
from crescendo.network.transport.channels import Endpoint, listen
from crescendo.network.transport.retry import Backoff
from crescendo.network.transport.stream_writer import MAX_QUEUED
from tests.cli.joining_clients import OPEN, records
from tests.network.live_server import TWO, live_server, run_async, until
from tests.network.scripted_client import SOON

AGREED = build_terms(terms_text(read(TWO)))
ROUNDS = AGREED.terms.rounds
ENOUGH = Refusal("that is all", final=True)

Say = Callable[[FromServer], Awaitable[None]]
Script = Callable[[int, Say, list[dict[str, Any]]], Awaitable[None]]  # takes the number of the stream that joins


def welcome(start: int = 0) -> Welcome:
    return Welcome(AGREED.text, AGREED.federation, 0, 0, start, Settled(0))


def lines_of_a_client_of(script: Script, folder: Path) -> list[dict[str, Any]]:
    """What a real client logs whose server does as the script says, until it sends ``ENOUGH``."""
    log, joins = list[dict[str, Any]](), 0

    async def serve(requests: Any, context: Any) -> None:
        nonlocal joins

        async def say(message: FromServer) -> None:
            await context.write(TO_CLIENT.encode(message))

        if not TO_SERVER.decode(await context.read()).digest:
            await say(welcome())
            await context.read()
            return
        joins += 1
        await script(joins, say, log)

    def take_part(port: int) -> None:
        source, policy = RecordSource(str(records(folder))), Policy.model_validate(OPEN)
        where, backoff = Endpoint(f"127.0.0.1:{port}"), Backoff(0.02, 0.2, give_up=SOON)
        join(where, "client 0", source, folder / "client", policy, log=note, backoff=backoff)

    def note(event: str, **facts: Any) -> None:
        log.append({"event": event, **facts})

    async def play() -> None:
        handler = grpc.stream_stream_rpc_method_handler(
            serve, request_deserializer=pb.ToServer.FromString, response_serializer=pb.ToClient.SerializeToString
        )
        server, port = await listen([grpc.method_handlers_generic_handler(SERVICE, {"Join": handler})], "127.0.0.1:0")
        try:
            with pytest.raises(Refused, match="that is all"):
                await asyncio.to_thread(take_part, port)
        finally:
            await server.stop(0)

    run_async(play)
    return log


def events(log: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [line for line in log if line["event"] == name]


@pytest.mark.slow
def test_a_start_beyond_the_last_round_is_not_taken(tmp_path: Path) -> None:
    """The client gave every round up and waited for an end that could not come."""

    async def script(stream: int, say: Say, log: list[dict[str, Any]]) -> None:
        await say(welcome(2**53 - 1 if stream == 1 else ROUNDS))
        await until(lambda: len(events(log, "disconnected" if stream == 1 else "joined")) == 1)
        if stream > 1:
            await say(ENOUGH)

    log = lines_of_a_client_of(script, tmp_path)
    (broken,) = events(log, "disconnected")
    assert f"this run has {ROUNDS} rounds" in broken["reason"]
    assert [line["start"] for line in events(log, "joined")] == [ROUNDS]
    assert {line["next"] for line in events(log, "rounds_void")} <= {ROUNDS}


@pytest.mark.slow
def test_a_hello_without_an_answer_is_logged_and_ever_more_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client waited for ever without a word."""
    monkeypatch.setattr(terms_request, "SILENCE", 0.05)

    async def script(stream: int, say: Say, log: list[dict[str, Any]]) -> None:
        await until(lambda: any(line["seconds"] for line in events(log, "unanswered")))
        await say(ENOUGH)

    log = lines_of_a_client_of(script, tmp_path)
    said = [line["seconds"] for line in events(log, "unanswered")]
    assert 2 <= len(said) <= 12 and said[-1] >= 1 and not events(log, "joined")


@pytest.mark.slow
def test_refusals_without_end_take_one_line_for_each_round(tmp_path: Path) -> None:
    """A server could write 20,000 lines of a kilobyte into a client's log in seconds."""

    async def script(stream: int, say: Say, log: list[dict[str, Any]]) -> None:
        await say(welcome())
        if stream > 1:
            await say(ENOUGH)
            return
        for i in range(200):
            await say(Refusal(f"no {i}", round=i % ROUNDS))
        await say(Refusal("no", round=ROUNDS))
        await until(lambda: len(events(log, "disconnected")) == 1)

    log = lines_of_a_client_of(script, tmp_path)
    assert [line["round"] for line in events(log, "refused")] == [*range(ROUNDS), None]
    assert "which this run does not have" in events(log, "disconnected")[0]["reason"]


def test_pings_that_nobody_waits_for_take_no_memory() -> None:
    async def play() -> None:
        nothing: Any = None
        connection = _Connection(nothing, nothing, "", nothing, asyncio.Event())
        connection._outgoing = asyncio.Queue()
        for i in range(3 * MAX_QUEUED):
            connection._on_ping(Ping(i))
        assert connection._outgoing.qsize() == MAX_QUEUED

    run_async(play)


@pytest.mark.slow
def test_what_asks_for_the_status_is_remembered_by_who_it_is_and_not_by_its_words(tmp_path: Path) -> None:
    """Every token was kept, of 8 MB each: 24 requests held 192 MB, and a thousand of them would have held 8 GB."""

    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            for i in range(8):
                assert await Endpoint(f"127.0.0.1:{on.port}", show=partial(str, i)).status(SOON)
            kept = on.server._status_limits._buckets._buckets
            assert set(kept) == {"address 127.0.0.1", "party 127.0.0.1"}
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await Endpoint(f"127.0.0.1:{on.port}", show=lambda: "x" * (4 << 20)).status(SOON)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # nobody sends so much up

    run_async(play)
