"""A client that behaves badly harms itself: it waits, over all its streams, and is let in again later."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crescendo import system
from crescendo.network.protocol.wire_messages import Refusal
from crescendo.network.transport import rate_limits
from crescendo.network.transport.rate_limits import (
    STRUCK_OUT,
    TOO_OFTEN,
    RateLimits,
    StatusLimits,
    TokenBucket,
    TokenBuckets,
)
from tests.conformance.cases import CASES
from tests.network.live_server import live_server


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        patch.setattr(system, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_bucket_says_how_long_to_wait_and_refills_no_further_than_it_was(clock: Clock) -> None:
    bucket = TokenBucket(burst=3.0, rate=2.0)
    assert [bucket.take() for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    clock.now += 0.5
    assert bucket.take(0) == 0.5
    clock.now += 1e6
    assert [bucket.take() for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_who_joins_too_often_may_come_back_later_however_often_it_asked(clock: Clock) -> None:
    one = RateLimits()
    assert [one.may_join() for _ in range(100)] == [None] * 100
    assert one.may_join() is None  # the one that is owed
    assert {one.may_join() for _ in range(10_000)} == {TOO_OFTEN}
    clock.now += 1.0
    assert [one.may_join() for _ in range(3)] == [None, TOO_OFTEN, TOO_OFTEN]


def test_who_sends_broken_messages_may_not_join_until_it_is_forgiven(clock: Clock) -> None:
    one = RateLimits()
    one.strikes.take(21)
    assert one.may_join() == STRUCK_OUT
    clock.now += 5.0
    assert one.may_join() is None


def test_status_waits_by_address_and_by_party_and_is_turned_away_if_its_turn_is_far(clock: Clock) -> None:
    limits = StatusLimits()
    assert [limits.wait("address a", "party p") for _ in range(20)] == [0.0] * 20
    assert [limits.wait("address a", "party p") for _ in range(3)] == [0.25, 0.5, 0.75]
    assert limits.wait("address b", "party p") == 1.0 == limits.wait("address a", "party q")
    assert limits.wait("address b", "party q") == 0.0
    while limits.wait("address a", "party p") is not None:
        pass
    assert limits.wait("address a", "party p") is None
    clock.now += 1.0
    assert limits.wait("address a", "party p") is not None, "asking did not make it worse"


def test_addresses_without_end_are_not_remembered_without_end(clock: Clock) -> None:
    buckets = TokenBuckets(1.0, 1.0)
    for n in range(rate_limits.MOST_KEYS + 1):
        assert buckets.take(str(n)) == 0.0
    assert len(buckets._buckets) == rate_limits.MOST_KEYS
    assert buckets.take(str(rate_limits.MOST_KEYS)) == 1.0 and buckets.take("0") == 0.0


@pytest.mark.slow
def test_one_that_joins_again_and_again_is_told_so_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "JOINS", 5.0)
    monkeypatch.setattr(rate_limits, "JOIN_RATE", 1e-9)

    async def play() -> None:
        async with live_server(tmp_path, CASES["in step"]) as on:
            for _ in range(6):
                await on.join(0)
            _, answer = await on.say_hello(0)
            assert answer == Refusal(TOO_OFTEN)
            await on.join(1)

    asyncio.run(play())
