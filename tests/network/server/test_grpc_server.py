"""The server against clients that come and go, repeat themselves, lie and fall silent."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

from crescendo import system
from crescendo.core.messages import Settled
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.vector_parts import Assembly
from crescendo.network.protocol.wire_messages import (
    TO_CLIENT,
    BroadcastPart,
    Goodbye,
    Hello,
    Refusal,
    VoidRound,
    Welcome,
)
from crescendo.network.server.session import Session
from crescendo.network.transport.rate_limits import TokenBucket
from crescendo.storage.journal.replay import replay
from tests.conformance.cases import PRIVATE, case
from tests.network.live_server import ONES, TWO, live_server, run_async
from tests.network.scripted_client import ScriptedClient


def test_the_terms_are_shown_to_whoever_is_named_and_nothing_is_registered(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            fake, answer = await on.say_hello(0, digest="")
            assert isinstance(answer, Welcome) and answer.terms == on.agreed.text
            await fake.say(Goodbye("the terms ask for too much"))
            assert await fake.hear() is None
            assert on.events("declined") == [
                {"event": "declined", "client": "client 0", "reason": "the terms ask for too much"}
            ]
            assert not on.service.durable.instances

    run_async(play)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "stranger"}, "not among the clients"),
        ({"federation": "another"}, "this is federation"),
        ({"digest": "0" * 64}, "other terms"),
        ({"last": 3}, "no client can have finished"),
        ({"k": 99}, "cannot be in this run"),
    ],
)
def test_a_hello_that_does_not_fit_is_refused_for_good(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            _, answer = await on.say_hello(0, **changes)
            assert isinstance(answer, Refusal) and answer.final and reason in answer.reason
            await on.join(1)

    run_async(play)


def test_another_instance_of_a_name_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            first = await on.join(0)
            _, answer = await on.say_hello(0, instance="f" * 32)
            assert isinstance(answer, Refusal) and answer.final and "another instance" in answer.reason
            assert on.events("alarm")
            await first.send(0, ONES)
            await first.acknowledged(Settled(1))

    run_async(play)


def test_the_newest_stream_of_a_client_counts_and_the_older_is_told(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            older = await on.join(0)
            await on.join(0)
            refusal = await older.hear_until(Refusal)
            assert refusal.final and "two copies" in refusal.reason

    run_async(play)


def test_a_client_whose_state_is_older_than_what_it_sent_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            first = await on.join(0)
            await first.send(0, ONES)
            await first.acknowledged()
            _, answer = await on.say_hello(0, last=-1)
            assert isinstance(answer, Refusal) and answer.final and "older than what it sent" in answer.reason

    run_async(play)


def test_an_update_sent_twice_is_applied_once_and_acknowledged_twice(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            fake = await on.join(0)
            for _ in range(2):
                await fake.send(0, ONES)
                await fake.acknowledged(Settled(1))
            assert on.service.durable.model.tolist() == [-1.0] * 5

    run_async(play)


def test_the_same_round_with_other_bytes_is_an_alarm_and_changes_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            fake = await on.join(0)
            await fake.send(0, ONES)
            await fake.acknowledged()
            await fake.send(0, 2 * ONES)
            refusal = await fake.hear_until(Refusal)
            assert refusal.final and "other bytes" in refusal.reason and on.events("alarm")
            assert on.service.durable.model.tolist() == [-1.0] * 5

    run_async(play)


async def _completes_a_round(on: Any, good: ScriptedClient, round: int) -> None:
    """The good client still trains: nothing waits for what was refused."""
    await good.send(round, ONES)
    await good.k(round + 1)


@pytest.mark.parametrize(
    "delta", [np.array([np.nan] * 5), np.array([np.inf, 0, 0, 0, 0])], ids=["not a number", "infinite"]
)
def test_an_update_that_is_not_finite_becomes_void_and_nobody_waits_for_it(delta: Any, tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            bad, good = await on.join(0), await on.join(1)
            await bad.send(0, delta.astype("<f8").tobytes())
            refusal = await bad.hear_until(Refusal)
            assert refusal.round == 0 and not refusal.final and "not finite" in refusal.reason
            await _completes_a_round(on, good, 0)
            assert on.service.durable.model.tolist() == [-1.0] * 5

    run_async(play)


@pytest.mark.slow
def test_an_update_longer_than_the_terms_allow_becomes_void(tmp_path: Path) -> None:
    private = case(
        clients={"count": 2}, schedule=TWO["schedule"], privacy={"mechanism": "minibatch", **PRIVATE, "records": 200}
    )

    async def play() -> None:
        async with live_server(tmp_path, private) as on:
            bad, good = await on.join(0), await on.join(1)
            longest = on.agreed.limits.longest(0, 0)
            await bad.send(0, ONES * longest)
            refusal = await bad.hear_until(Refusal)
            assert refusal.round == 0 and "not longer than" in refusal.reason
            await good.send(0, ONES * 0.9 * longest / np.sqrt(5))
            await good.k(1)

    run_async(play)


@pytest.mark.parametrize("what", ["too long", "other floats", "out of turn", "other terms", "twice hello"])
def test_a_broken_message_ends_the_stream_with_a_reason_and_the_others_go_on(what: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            bad, good = await on.join(0), await on.join(1)
            if what == "too long":
                await bad.send(0, np.ones(6))
            elif what == "other floats":
                await bad.send(0, np.ones(5, dtype="<f4").tobytes(), wire="float32")
            elif what == "out of turn":
                await bad.say(VoidRound(0, "another", on.agreed.digest))
            elif what == "other terms":
                await bad.say(VoidRound(0, on.agreed.federation, "0" * 64))
            else:
                await bad.say(Hello("client 0", "0" * 32))
            refusal = await bad.hear_until(Refusal)
            assert not refusal.final and refusal.round is None
            with pytest.raises((AssertionError, grpc.aio.AioRpcError)):
                await bad.hear_until(Welcome)
            again = await on.join(0)
            await again.say(VoidRound(0, on.agreed.federation, on.agreed.digest))
            await _completes_a_round(on, good, 0)

    run_async(play)


def test_a_client_that_keeps_breaking_the_protocol_is_asked_to_come_later(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            for _ in range(40):
                bad, answer = await on.say_hello(0)
                if isinstance(answer, Refusal):
                    assert "too many broken messages" in answer.reason and not answer.final
                    break
                await bad.say(VoidRound(0, "another", on.agreed.digest))
                await bad.hear_until(Refusal)
            else:
                pytest.fail("it was let in for ever")
            await on.join(1)

    run_async(play)


def test_a_server_put_back_from_a_backup_begins_a_new_epoch(tmp_path: Path) -> None:
    async def play() -> None:
        folder, backup = tmp_path / "served", tmp_path / "backup"
        async with live_server(folder, TWO) as on:
            fake = await on.join(0)
            await fake.send(0, ONES)
            await fake.acknowledged()
        shutil.copytree(folder, backup)
        async with live_server(folder, TWO) as on:
            fake = await on.join(0, last=0, acknowledged=Settled(1))
            await fake.send(1, ONES)
            await fake.acknowledged(Settled(2))
        shutil.rmtree(folder)
        backup.rename(folder)
        async with live_server(folder, TWO) as on:
            fake, answer = await on.say_hello(0, last=1, acknowledged=Settled(2))
            assert isinstance(answer, Welcome) and (answer.epoch, answer.received) == (1, Settled(1))
            assert on.events("new_epoch")
            await fake.say(VoidRound(1, on.agreed.federation, on.agreed.digest))
            await fake.acknowledged(Settled(2))

    run_async(play)


def test_a_server_that_is_opened_again_goes_on_bit_for_bit(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            fake = await on.join(0)
            await fake.send(0, ONES / 3)
            await fake.acknowledged()
            model = on.service.durable.model
        async with live_server(tmp_path, TWO) as on:
            assert on.service.durable.model.tobytes() == model.tobytes() == replay(tmp_path).tobytes()
            _, answer = await on.say_hello(0, last=0)
            assert isinstance(answer, Welcome) and (answer.epoch, answer.received) == (0, Settled(1))

    run_async(play)


@pytest.mark.slow
def test_a_model_of_many_parts_travels_both_ways(tmp_path: Path) -> None:
    """Ten million numbers: 40 MB, ten times what gRPC takes in one message."""
    large = case(
        run={"wire": "float32"},
        clients={"count": 1},
        schedule={**TWO["schedule"], "rounds": 2},
        serve={"features": 9_999_999},
    )
    numbers = 10_000_000
    delta = np.arange(numbers, dtype=np.float32) % 1000

    async def play() -> None:
        async with live_server(tmp_path, large) as on:
            fake = await on.join(0)
            await fake.k(0)
            await fake.send(0, delta)
            assembly = Assembly(numbers, ("float32",))
            while True:
                message = await fake.hear()
                if isinstance(message, BroadcastPart) and message.vector.about == 1:
                    data = assembly.add(message.vector)
                    if data is not None:
                        break
            assert np.array_equal(np.frombuffer(data, dtype="<f4"), -delta)

    run_async(play)


class SlowContext:
    """A stream whose reader takes nothing until it is let."""

    def __init__(self) -> None:
        self.let, self.written = asyncio.Event(), list[Any]()

    async def write(self, message: Any) -> None:
        await self.let.wait()
        self.written.append(
            TO_CLIENT.decode(pb.ToClient.FromString(message) if isinstance(message, bytes) else message)
        )


def test_a_slow_reader_gets_only_the_newest_broadcast_and_acknowledgement() -> None:
    async def play() -> None:
        context, peer = SlowContext(), Session(0)
        writing = asyncio.create_task(peer.write_all(context))
        for k in range(1, 100):
            peer.publish(EncodedBroadcast(k, 0, ONES.tobytes(), "float64"), Settled(k))
            peer.acknowledge(Settled(k), 0)
            await asyncio.sleep(0)
        context.let.set()
        while not any(getattr(message, "vector", None) and message.vector.about == 99 for message in context.written):
            await asyncio.sleep(0)  # lets the writer run
        peer.close()
        await writing
        broadcasts = [message.vector.about for message in context.written if hasattr(message, "vector")]
        assert broadcasts in ([99], [1, 99]) and len(context.written) <= 5

    run_async(play)


def test_a_bucket_lets_a_burst_through_and_then_asks_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "monotonic", lambda: 0.0)
    bucket = TokenBucket(burst=3, rate=1.0)
    assert [bucket.take() > 0 for _ in range(4)] == [False, False, False, True]


def test_what_happens_to_the_files_while_it_serves_is_logged(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            on.service.durable.notes.append("a snapshot could not be written")
            await on.join(0)
            assert [event["note"] for event in on.events("journal")] == ["a snapshot could not be written"]

    run_async(play)


@pytest.mark.slow
def test_a_refused_update_that_comes_again_and_again_takes_one_line_of_the_log(tmp_path: Path) -> None:
    """One client of the federation could write 50 lines a second, without end."""

    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            client = await on.join(0)
            nothing = np.full(5, np.nan, on.agreed.wire).tobytes()
            for round in (*[0] * 20, *range(10**6, 10**6 + 20)):
                await client.send(round, nothing)
                await client.hear_until(Refusal)
            assert [line["round"] for line in on.events("refused")] == [0, 10**6]

    run_async(play)
