"""Peers that send too much, or nothing: they wait for themselves, and nobody else does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.wire_messages import TO_SERVER, Hello, Pong, VoidRound
from crescendo.network.transport import channels, pending_streams, rate_limits
from crescendo.network.transport.stream_writer import StreamWriter
from tests.network import raw_streams
from tests.network.attacks import Attack, Patch, attacked, each, each_without, run_attack, succeeds, waits
from tests.network.hostile_client import HostileClient
from tests.network.raw_streams import End, RawStream, channel_to

pytestmark = pytest.mark.slow


async def a_flood_waits_for_itself(folder: Path) -> None:
    """Messages that change nothing are read at a bounded rate once the burst is used up; others are not held up."""
    with waits(burst=20) as noted:
        async with attacked(folder) as here:
            bad = here.client(0)
            repeat = bad.update(0)
            assert await bad.fire(*repeat, *[TO_SERVER.encode(Pong(n)) for n in range(40)], *repeat * 20) == []
            assert max(noted) > 0, "nobody had to wait"
            await here.finish(0, 1, 2)


async def one_that_keeps_breaking_the_rules_is_shut_out(folder: Path) -> None:
    async with attacked(folder) as here:
        bad = here.client(0)
        assert rate_limits.STRIKES <= await bad.break_rules(most=100) < 100
        await here.finish(1, 2)


async def who_says_nothing_is_hung_up_on(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending_streams, "HELLO_TIMEOUT", 0.05)
        async with attacked(folder) as here:
            lines = [RawStream(here.channel) for _ in range(30)]
            for line in lines:
                assert isinstance(await line.hear(), End)
            patch.undo()  # those that do say who they are may be slow
            await here.finish(0, 1, 2)


async def a_compressed_bomb_is_not_unpacked(folder: Path) -> None:
    async with attacked(folder) as here, channel_to(here.port, grpc.Compression.Gzip) as channel:
        line = RawStream(channel)
        await line.say(b"\x7a\x80\x80\x80\x10" + bytes(32 << 20))
        end = await line.hear()
        assert isinstance(end, End) and end.code == grpc.StatusCode.RESOURCE_EXHAUSTED, end
        await here.finish(0, 1, 2)


async def questions_about_the_terms_leave_room_for_others(folder: Path) -> None:
    async with attacked(folder) as here:
        lines = [RawStream(here.channel) for _ in range(100)]
        for line in lines:
            await line.say(TO_SERVER.encode(Hello("client 0", "0" * 32)))
            await line.hear()
        answer = await here.client(1).join()
        assert isinstance(answer, pb.ToClient) and answer.HasField("welcome"), answer


async def refusals_do_not_pile_up_for_one_that_does_not_read(folder: Path) -> None:
    most = 0
    send = StreamWriter.send

    def note(self: StreamWriter, message: Any) -> None:
        nonlocal most
        send(self, message)
        most = max(most, len(self._queue))

    narrow = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamWriter, "send", note)
        async with attacked(folder) as here, channel_to(here.port, options=narrow) as channel:
            bad = HostileClient(channel, here.agreed, 0)
            await bad.fire()
            assert bad.line is not None
            about = here.agreed.federation, here.agreed.digest
            for n in range(8000):
                await bad.line.say(TO_SERVER.encode(VoidRound(10**9 + n, *about)))
    assert 100 < most < 1000, most


@each(
    a_flood_waits_for_itself,
    one_that_keeps_breaking_the_rules_is_shut_out,
    who_says_nothing_is_hung_up_on,
    a_compressed_bomb_is_not_unpacked,
)
def test_bad_peer(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


@each(
    questions_about_the_terms_leave_room_for_others,
    refusals_do_not_pile_up_for_one_that_does_not_read,
)
def test_what_once_was_a_hole(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


# -- guards taken away ---------------------------------------------------------------------------------------------------


def nobody_has_to_wait(patch: Patch) -> None:
    patch.setattr(rate_limits.TokenBucket, "take", lambda self, amount=1.0: 0.0)


def no_limit_on_a_message(patch: Patch) -> None:
    unlimited = [(name, -1 if "receive" in name else value) for name, value in channels.SERVER_OPTIONS]
    patch.setattr(channels, "SERVER_OPTIONS", unlimited)


def silence_is_waited_out(patch: Patch) -> None:
    patch.setattr(pending_streams.PendingStreams, "first_message", lambda self, context: context.read())
    patch.setattr(raw_streams, "DEADLINE", 0.5)


@each_without(
    (nobody_has_to_wait, a_flood_waits_for_itself),
    (nobody_has_to_wait, one_that_keeps_breaking_the_rules_is_shut_out),
    (no_limit_on_a_message, a_compressed_bomb_is_not_unpacked),
    (silence_is_waited_out, who_says_nothing_is_hung_up_on),
)
def test_without_the_guard_the_attack_is_seen_to_succeed(
    planted: Callable[[Patch], None], attack: Attack, tmp_path: Path, monkeypatch: Patch
) -> None:
    planted(monkeypatch)
    succeeds(attack, tmp_path)
