"""Bounds of streams, connections and rates: at one less, at the bound and at one more, with a peer that does not stop."""

from __future__ import annotations

import asyncio
import itertools
import resource
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from crescendo import system
from crescendo.errors import UsageError
from crescendo.logs.peer_text import cleaned
from crescendo.network.protocol.codec import TERMS
from crescendo.network.protocol.resumption import PART
from crescendo.network.protocol.tree_messages import MANY
from crescendo.network.protocol.wire_messages import Ping
from crescendo.network.server.session import Session
from crescendo.network.transport import (
    channels,
    descriptors,
    error_translation,
    interrupted_streams,
    log_summaries,
    pending_streams,
    rate_limits,
)
from crescendo.network.transport.channels import LARGEST_MESSAGE, LARGEST_SENT_UP, MAX_STREAMS
from crescendo.network.transport.descriptors import ENOUGH, FEWEST, RESERVE
from crescendo.network.transport.interrupted_streams import LONGEST_KEPT, MOST_KEPT, Interrupted, InterruptedStreams
from crescendo.network.transport.log_summaries import INTERVAL, LINES, MOST_KEYS, SummarisedLog
from crescendo.network.transport.pending_streams import DECISION_TIMEOUT, HELLO_TIMEOUT, LONGEST_HOLD, PendingStreams
from crescendo.network.transport.rate_limits import LONGEST_WAIT, RateLimits, StatusLimits, TokenBuckets
from crescendo.network.transport.retry import Backoff
from crescendo.network.transport.stream_writer import CLOSE_TIMEOUT, MAX_QUEUED
from crescendo.network.transport.wording import MOST_RANGES, ranges
from tests.bounds.edges import around
from tests.network.transport.test_interrupted_streams import vector
from tests.network.transport.test_pending_streams import From
from tests.network.transport.test_rate_limits import Clock, clock

__all__ = ["clock"]  # a fixture


def run_virtually(
    play: Callable[[asyncio.AbstractEventLoop, Callable[[float], None]], Coroutine[Any, Any, None]],
) -> None:
    """Run on a loop whose clock a test moves."""

    async def run() -> None:
        loop, moved = asyncio.get_running_loop(), [0.0]
        real = loop.time
        loop.time = lambda: real() + moved[0]  # type: ignore[method-assign]

        def move(seconds: float) -> None:
            moved[0] += seconds

        await play(loop, move)

    asyncio.run(run())


async def turns(many: int = 5) -> None:
    for _ in range(many):
        await asyncio.sleep(0)


# -- streams that have not said who they are ---------------------------------------------------------------------------


@around(pending_streams.SPARE)
def test_so_many_silent_streams_are_pending(many: int) -> None:
    async def play() -> None:
        pending = PendingStreams(names=0)
        streams = [asyncio.create_task(stand(pending)) for _ in range(many)]
        await turns()
        assert len(pending) == min(many, pending_streams.SPARE) == min(many, pending.room)
        assert sum(one.done() for one in streams) == max(0, many - pending.room)
        for one in streams:
            one.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    asyncio.run(play())


async def stand(pending: PendingStreams) -> None:
    async with pending.counted(From("10.0.0.1")):
        await asyncio.Event().wait()


@pytest.mark.parametrize("late", [-1.0, 0.0, 1.0])
def test_a_stream_has_so_many_seconds_to_say_hello(late: float) -> None:
    async def play(loop: asyncio.AbstractEventLoop, move: Callable[[float], None]) -> None:
        silent = asyncio.create_task(stand(PendingStreams(0)))
        await turns()
        move(HELLO_TIMEOUT + late)
        await turns()
        assert silent.done() is (late >= 0.0)
        silent.cancel()
        await asyncio.gather(silent, return_exceptions=True)

    run_virtually(play)


@pytest.mark.parametrize("late", [-1.0, 0.0, 1.0])
def test_a_client_has_so_many_seconds_to_decide_about_terms(late: float) -> None:
    class Undecided:
        async def write(self, message: Any) -> None: ...
        async def read(self) -> Any:
            await asyncio.Event().wait()

    async def play(loop: asyncio.AbstractEventLoop, move: Callable[[float], None]) -> None:
        from crescendo.core.messages import Settled
        from crescendo.network.protocol.wire_messages import Welcome

        welcome = Welcome("terms", "f", 0, 0, 0, Settled(0))
        asked = asyncio.create_task(pending_streams.TermsRequests().answer("a", welcome, Undecided()))
        await turns()
        move(DECISION_TIMEOUT + late)
        await turns()
        assert asked.done() is (late >= 0.0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

    run_virtually(play)


@pytest.mark.parametrize("more", [-1.0, 0.0, 1.0])
def test_an_answer_is_held_back_for_so_many_seconds(more: float) -> None:
    async def play(loop: asyncio.AbstractEventLoop, move: Callable[[float], None]) -> None:
        pending = PendingStreams(0)
        held = asyncio.create_task(pending.hold(From("10.0.0.1"), LONGEST_HOLD + more))
        await turns()
        move(min(LONGEST_HOLD + more, LONGEST_HOLD) + 0.001)
        await turns()
        assert held.done() and held.result()

    run_virtually(play)


# -- rates -------------------------------------------------------------------------------------------------------------


def taken_at_once(take: Callable[[], float]) -> int:
    """How often one may take before it has to wait."""
    return next(n for n in range(10_000) if take() > 0)


def test_what_one_client_may_do_at_once_and_each_second(clock: Clock) -> None:
    """One less than the burst, the burst, and one more, after which it has to wait; a second later it may do the rate."""
    limits = RateLimits()
    for bucket, burst, rate in (
        (limits.useless, rate_limits.USELESS_BURST, rate_limits.USELESS_RATE),
        (limits.strikes, rate_limits.STRIKES, rate_limits.FORGIVEN),
        (limits._joins, rate_limits.JOINS, rate_limits.JOIN_RATE),
    ):
        assert taken_at_once(bucket.take) == burst
        assert bucket.take(0) == pytest.approx(1 / rate)
        clock.now += 2.01 / rate
        assert [bucket.take() > 0 for _ in range(2)] == [False, True]


@around(rate_limits.STRIKES)
def test_so_many_broken_messages_shut_a_name_out(many: int, clock: Clock) -> None:
    limits = RateLimits()
    for _ in range(many):
        limits.strikes.take(1)
    assert limits.struck_out is (many > rate_limits.STRIKES)
    clock.now += 1 / rate_limits.FORGIVEN
    assert not limits.struck_out, "time away is forgiveness"


def test_what_one_address_may_ask_at_once_and_each_second(clock: Clock) -> None:
    for burst, rate in (
        (rate_limits.REFUSALS, rate_limits.REFUSAL_RATE),
        (rate_limits.STATUSES, rate_limits.STATUS_RATE),
    ):
        buckets = TokenBuckets(burst, rate)
        assert taken_at_once(lambda: buckets.take("10.0.0.1")) == burst and buckets.take("10.0.0.2") == 0.0  # noqa: B023
        clock.now += 2.01 / rate
        assert [buckets.take("10.0.0.1") > 0 for _ in range(2)] == [False, True]


def test_a_status_request_waits_for_so_many_seconds_at_most(clock: Clock) -> None:
    limits, waits = StatusLimits(), list[float]()
    while (wait := limits.wait("10.0.0.1")) is not None:
        waits.append(wait)
    assert waits[-1] == LONGEST_WAIT + 1 / rate_limits.STATUS_RATE and waits[-2] == LONGEST_WAIT
    assert len(waits) == rate_limits.STATUSES + LONGEST_WAIT * rate_limits.STATUS_RATE + 1


@around(rate_limits.MOST_KEYS)
def test_so_many_addresses_are_remembered(many: int, clock: Clock) -> None:
    buckets = TokenBuckets(1.0, 1.0)
    for n in range(many):
        buckets.take(str(n))
    assert len(buckets._buckets) == min(many, rate_limits.MOST_KEYS)
    assert ("0" in buckets._buckets) is (many <= rate_limits.MOST_KEYS)


# -- what waits to be read ---------------------------------------------------------------------------------------------


@around(MAX_QUEUED)
def test_a_stream_whose_peer_does_not_read_is_closed_at_so_many_messages(many: int) -> None:
    session = Session(0)
    for n in range(many):
        session.send(Ping(n))
    assert len(session._queue) == min(many, MAX_QUEUED)
    assert session.closed.is_set() is (many > MAX_QUEUED)


@pytest.mark.parametrize("late", [-1.0, 0.0, 1.0])
def test_a_peer_has_so_many_seconds_to_read_the_last_messages(late: float) -> None:
    class Deaf:
        async def write(self, message: Any) -> None:
            await asyncio.Event().wait()

    async def silent() -> None:
        await asyncio.Event().wait()

    async def play(loop: asyncio.AbstractEventLoop, move: Callable[[float], None]) -> None:
        session = Session(0)
        session.send(Ping(1))
        running = asyncio.create_task(session.run(Deaf(), silent(), lambda error: None))  # type: ignore[arg-type,return-value]
        await turns()
        session.close()
        await turns()
        move(CLOSE_TIMEOUT + late)
        await turns(20)
        assert running.done() is (late >= 0.0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtually(play)


@around(1000)
def test_so_many_bytes_of_broken_streams_are_kept(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_KEPT == 256 << 20
    monkeypatch.setattr(interrupted_streams, "MOST_KEPT", 1000)

    async def play() -> None:
        kept = InterruptedStreams()
        for peer in range(9):
            kept.keep(peer, Interrupted(vector(100)))
        kept.keep("last", Interrupted(vector(many - 900)))
        assert kept.bytes == (many if many <= 1000 else many - 100)
        kept.close()

    asyncio.run(play())


@pytest.mark.parametrize("late", [-1.0, 0.0, 1.0])
def test_what_a_broken_stream_left_is_kept_for_so_long_while_its_peer_is_away(late: float) -> None:
    async def play(loop: asyncio.AbstractEventLoop, move: Callable[[float], None]) -> None:
        kept = InterruptedStreams()
        kept.keep("a", Interrupted(vector(80)))
        move(LONGEST_KEPT + late)
        await turns()
        assert kept.bytes == (80 if late < 0 else 0)
        kept.close()

    run_virtually(play)


# -- the log -----------------------------------------------------------------------------------------------------------


@around(LINES)
def test_a_peer_has_so_many_lines_of_a_kind_in_the_log(many: int) -> None:
    said: list[str] = []

    async def play() -> None:
        log = SummarisedLog(lambda event, **facts: said.append(event))
        for _ in range(many):
            log("refused", "10.0.0.1")
        log.close()

    asyncio.run(play())
    assert said == ["refused"] * min(many, LINES) + ["repeated"] * (many > LINES)


@around(MOST_KEYS)
def test_so_many_peers_have_lines_of_their_own(many: int) -> None:
    async def play() -> None:
        log = SummarisedLog(lambda event, **facts: None)
        for n in range(many):
            log("refused", f"10.0.0.{n}")
        assert len(log._repeated) == many and (("refused", log_summaries.OTHERS) in log._repeated) is (many > MOST_KEYS)
        log("refused", "one more")
        assert len(log._repeated) <= MOST_KEYS + 1
        log.close()

    asyncio.run(play())


@pytest.mark.parametrize("late", [-1.0, 0.0, 1.0])
def test_a_peer_has_its_lines_again_after_so_many_seconds(late: float) -> None:
    said: list[str] = []

    async def play(loop: asyncio.AbstractEventLoop, move: Callable[[float], None]) -> None:
        log = SummarisedLog(lambda event, **facts: said.append(event))
        for _ in range(LINES + 1):
            log("refused", "10.0.0.1")
        move(INTERVAL + late)
        await turns()
        assert said.count("repeated") == (late >= 0)
        log.close()

    run_virtually(play)


@around(error_translation.LONGEST)
def test_so_much_of_what_the_other_side_wrote_is_shown(many: int) -> None:
    from crescendo.network.transport.error_translation import LONGEST

    assert len(cleaned("x" * many, LONGEST)) == min(many, LONGEST)


@around(MOST_RANGES)
def test_so_many_ranges_of_rounds_are_named(many: int) -> None:
    words = ranges(range(0, 2 * many, 2))
    assert ("others" in words) is (many > MOST_RANGES)


# -- connections -------------------------------------------------------------------------------------------------------


@around(FEWEST)
def test_a_server_starts_with_so_many_connections_at_least(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = len(descriptors.open_now()) + RESERVE + many
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert descriptors.connections(0) == many
    if many < FEWEST:
        with pytest.raises(UsageError, match="too few for connections"):
            descriptors.shortage(0)
    else:
        assert descriptors.shortage(1) is not None


@around(ENOUGH)
def test_no_more_descriptors_are_used_than_are_enough(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (many, many))
    assert descriptors.connections(0) == min(many, ENOUGH) - len(descriptors.open_now()) - RESERVE


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_each_name_and_so_many_others_have_a_descriptor(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = descriptors.needed(5) + more
    assert limit == 2 * 5 + descriptors.SPARE + 2 * RESERVE + more
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert (descriptors.shortage(5) is None) is (more >= 0)


def test_grpc_is_told_the_largest_messages_and_how_many_streams_a_connection_has() -> None:
    """The terms in four bytes a letter, and a part of a vector beside the updates of a sum, fit; more is not read at all."""
    server, client = dict(channels.SERVER_OPTIONS), dict(channels.CLIENT_OPTIONS)
    assert client["grpc.max_receive_message_length"] == LARGEST_MESSAGE == 4 * TERMS + (64 << 10)
    assert server["grpc.max_receive_message_length"] == LARGEST_SENT_UP == PART + 16 * MANY + (64 << 10)
    assert server["grpc.max_concurrent_streams"] == MAX_STREAMS


def test_a_client_is_back_within_so_many_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the server was away: doubled from the first wait up to the most, and spread by half."""
    for spread in (0.5, 1.0, 1.5):
        monkeypatch.setattr(system, "uniform", lambda low, high: spread)  # noqa: B023
        waits = Backoff().waits()
        found = [next(waits) / spread for _ in range(20)]
        assert found[0] == pytest.approx(Backoff.first) and max(found) == found[-1] == pytest.approx(Backoff.most)
        assert all(later <= 2.001 * earlier for earlier, later in itertools.pairwise(found))
