"""What broken streams have left is bounded in bytes and time, and what two peers share is counted once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import numpy as np
import pytest

from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.resumption import Unfinished
from crescendo.network.transport import interrupted_streams
from crescendo.network.transport.interrupted_streams import NOTHING, Interrupted, InterruptedStreams, SentLast


def played(play: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(play())


def vector(length: int) -> Unfinished:
    return Unfinished(0, "float64", length // 8, np.zeros(length, np.uint8).data, 16, held=16)


def sent(length: int) -> SentLast:
    return SentLast(EncodedBroadcast(0, 0, bytes(length), "float64"), None)


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupted_streams, "MOST_KEPT", 1000)


def test_the_peer_that_broke_off_first_is_forgotten_first() -> None:
    async def play() -> None:
        kept = InterruptedStreams()
        for peer in range(50):
            kept.keep(peer, Interrupted(vector(240)))
            assert kept.bytes <= 1000
        assert [kept.take(peer) != NOTHING for peer in range(50)] == [False] * 46 + [True] * 4
        assert kept.bytes == 0

    played(play)


def test_four_vectors_are_kept_however_long_they_are() -> None:
    async def play() -> None:
        kept = InterruptedStreams()
        for peer in range(9):
            kept.keep(peer, Interrupted(vector(8000)))
        assert [kept.take(peer) != NOTHING for peer in range(9)] == [False] * 5 + [True] * 4

    played(play)


def test_a_peer_has_one_place_and_a_broadcast_counts_once() -> None:
    async def play() -> None:
        kept, last = InterruptedStreams(), sent(160)
        for peer in (1, 1, 2, 3, 2):
            kept.keep(peer, Interrupted(vector(80), last))
        assert kept.bytes == 3 * 80 + 160
        assert kept.take(2).down is last and kept.take(2) == NOTHING
        kept.keep(1, NOTHING)
        kept.keep(3, Interrupted(None, sent(240)))
        assert kept.bytes == 240
        kept.close()
        assert kept.bytes == 0

    played(play)


def test_what_is_too_old_is_forgotten_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        loop, kept, now = asyncio.get_running_loop(), InterruptedStreams(), [0.0]
        real, calls = loop.time, list[float]()
        monkeypatch.setattr(loop, "time", lambda: now[0])

        def call_at(when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
            calls.append(when)
            return asyncio.TimerHandle(when, callback, (), loop)

        monkeypatch.setattr(loop, "call_at", call_at)
        for at, peer in ((0.0, "a"), (10.0, "b")):
            now[0] = at
            kept.keep(peer, Interrupted(vector(80)))
        assert calls[-1] == interrupted_streams.LONGEST_KEPT
        now[0] = calls[-1]
        kept._expire()
        assert kept.bytes == 80 and calls[-1] == interrupted_streams.LONGEST_KEPT + 10.0
        now[0] = calls[-1]
        kept._expire()
        assert kept.bytes == 0
        monkeypatch.setattr(loop, "time", real)

    played(play)
