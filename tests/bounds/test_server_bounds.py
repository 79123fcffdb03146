"""Bounds of the server, at one less, at the bound and at one more: after an absence, and with a peer that means harm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo import system
from crescendo.core.messages import Settled
from crescendo.errors import PeerError
from crescendo.network.protocol.tree_messages import NodeHello
from crescendo.network.protocol.wire_messages import VoidRound
from crescendo.network.server import commit_queue, health, service, spending
from crescendo.network.server.admitted_streams import POLL, WARNING, AdmittedStreams
from crescendo.network.server.aggregator_streams import (
    SPARE_AGGREGATORS,
    TOGETHER,
    AggregatorSession,
    AggregatorStreams,
)
from crescendo.network.server.commit_queue import MAX_BATCH
from crescendo.network.server.health import LONGEST
from crescendo.network.server.history_check import MAX_WAIT, HistoryCheck
from crescendo.network.server.liveness import HOLD_LEAST, LONGEST_WAIT, Liveness, LivenessLimits
from crescendo.network.server.service import MOST_GAPS, MOST_VOIDED
from crescendo.network.server.session import LARGE, MAX_IN_FLIGHT_PER_CLIENT, Session
from crescendo.network.server.waiting.patience import FEWEST, NEWEST, TIMES, Patience
from crescendo.network.server.waiting.returns import CHANCES, Returns
from crescendo.network.transport.connections import LOOK_EVERY, UNDER_FLOOD, Connections
from crescendo.network.transport.pending_streams import PendingStreams, TryLater
from crescendo.network.transport.retry import Backoff
from crescendo.storage.upkeep.disk_room import MARGIN, DiskRoom, Room, Usage
from crescendo.storage.upkeep.disk_room import WARNING as TIMES_THE_RESERVE
from tests.bounds.edges import around
from tests.bounds.test_transport_bounds import run_virtually, turns
from tests.core.sums import FOUR
from tests.network.server.service_play import BelowANode, away, long_run, played
from tests.network.server.test_commit_queue import Played, play
from tests.network.server.test_flapping import unconnected
from tests.network.server.test_gaps import liar
from tests.network.server.test_health import Say, with_health
from tests.network.server.test_liveness import Clock, clock

__all__ = ["clock"]  # a fixture

# -- gaps, and what becomes void for them ------------------------------------------------------------------------------


@pytest.mark.slow
@around(MOST_GAPS)
def test_a_client_may_leave_so_many_gaps(many: int, tmp_path: Path) -> None:
    """At the bound itself, with a client that lies about what it has sent while it was absent."""
    with played(tmp_path, long_run(2 * MOST_GAPS + 20, ahead=2 * MOST_GAPS + 10)) as on:
        liar(on, last=2 * MOST_GAPS + 9)
        on.voids(1, range(1, 2 * many - 2, 2))
        on.sends(1, [2 * MOST_GAPS + 9])
        assert len(on.durable.settled(1).beyond) == many
        on.sends(1, [2 * MOST_GAPS + 8])  # it is over the bound once that is on disk
        assert on.void(1, [0]) == ([0] if many > MOST_GAPS else [])


FEW = 5  # gaps, in place of `MOST_GAPS`


@around(MOST_VOIDED)
def test_so_many_rounds_become_void_at_once(many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_GAPS", FEW)
    with played(tmp_path, long_run(300, ahead=290)) as on:
        liar(on, last=280)
        on.sends(1, range(many, many + 2 * FEW + 1, 2))
        (answered,) = on.batch((1, on.update(280, 1)))
        assert len(answered.answers) == min(many, MOST_VOIDED) == on.durable.settled(1).rounds - FEW - 2 or many < 0


@pytest.mark.parametrize("gone", [MOST_GAPS - 1, MOST_GAPS, MOST_GAPS + 1])
def test_an_absence_of_any_number_of_rounds_is_no_gap(gone: int, tmp_path: Path) -> None:
    with played(tmp_path, long_run(MOST_GAPS + 40, ahead=4)) as on:
        for c in (0, 1):
            on.joins(c)
        on.is_absent(0)
        on.voids(1, range(gone))
        on.joins(0, last=3)
        on.sends(0, range(4))
        assert on.applied(0, range(4)) == [0, 1, 2, 3] and len(on.durable.settled(0).beyond) <= 1


# -- the disk thread ---------------------------------------------------------------------------------------------------


@around(MAX_BATCH)
def test_so_many_messages_are_written_with_one_sync(many: int) -> None:
    async def body(on: Played) -> None:
        async with on.queue.paused():
            waiting = on.add(*range(many))
        on.disk.may_end.release(2)
        await asyncio.gather(*waiting)
        assert list(map(len, on.taken)) == ([many] if many <= MAX_BATCH else [MAX_BATCH, 1])
        await on.queue.close()

    play(body)


@around(1000)
def test_a_batch_is_full_at_so_many_bytes(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit_queue.MAX_BATCH_BYTES == 4 << 20
    monkeypatch.setattr(commit_queue, "MAX_BATCH_BYTES", 1000)

    async def body(on: Played) -> None:
        async with on.queue.paused():
            waiting = [*on.add(0, size=many), *on.add(1)]
        on.disk.may_end.release(2)
        await asyncio.gather(*waiting)
        assert list(map(len, on.taken)) == ([2] if many < 1000 else [1, 1])
        await on.queue.close()

    play(body)


@around(MAX_IN_FLIGHT_PER_CLIENT)
def test_so_many_messages_of_one_client_wait_for_the_disk(many: int, tmp_path: Path, clock: Clock) -> None:
    """A client that sends on and on is not read further; another is."""

    async def sends() -> None:
        async with unconnected(tmp_path, clock, rounds=200) as on:
            await on.joins(0)
            session = on.server.sessions[0]
            about = on.play.agreed.federation, on.play.agreed.digest
            async with on.server.commit_queue.paused():
                pouring = [asyncio.create_task(on.server.on_void(session, VoidRound(i, *about))) for i in range(many)]
                for _ in range(5):
                    await asyncio.sleep(0)
                assert len(on.server.commit_queue) == min(many, MAX_IN_FLIGHT_PER_CLIENT)
            await asyncio.gather(*pouring)

    asyncio.run(sends())


@around(LARGE)
def test_of_large_messages_one_of_a_client_waits_for_the_disk(many: int, tmp_path: Path, clock: Clock) -> None:
    async def sends() -> None:
        async with unconnected(tmp_path, clock) as on:
            await on.joins(0)
            session = on.server.sessions[0]
            async with on.server.commit_queue.paused():
                pouring = [asyncio.create_task(on.server.on_update(session, i, bytes(many))) for i in range(3)]
                for _ in range(5):
                    await asyncio.sleep(0)
                assert len(on.server.commit_queue) == (1 if many > LARGE else 3)
            await asyncio.gather(*pouring)

    asyncio.run(sends())


# -- how long rounds wait ----------------------------------------------------------------------------------------------


@around(CHANCES)
def test_a_client_has_so_many_absences_before_no_round_waits_for_it(many: int) -> None:
    returns = Returns()
    for _ in range(many):
        returns.joined(0)
        returns.absent(0)
    assert returns.on_probation(0) is (many >= CHANCES) and not returns.on_probation(1)


def measured(many: int, seconds: float, least: float = 0.5, most: float = 3600.0) -> float:
    """How long a round waits when ``many`` updates took so long each."""
    patience = Patience(FOUR, least, most)
    for _ in range(many):
        patience._took.append(seconds)
    return patience.seconds


@around(FEWEST)
def test_so_many_updates_are_measured_before_their_median_counts(many: int) -> None:
    assert measured(many, 2.0) == (3600.0 if many < FEWEST else TIMES * 2.0)


@pytest.mark.parametrize("times", [-1, 0, 1])
def test_a_round_waits_for_so_many_medians_within_the_operators_limits(times: int) -> None:
    limits = {"least": 10.0, "most": 100.0}
    assert measured(FEWEST, (100.0 + times) / TIMES, **limits) == min(100.0, 100.0 + times)
    assert measured(FEWEST, (10.0 + times) / TIMES, **limits) == max(10.0, 10.0 + times)
    assert measured(FEWEST, 1.0, least=500.0, most=100.0) == 100.0, "the most is the operator's word"


@around(NEWEST)
def test_the_median_is_of_so_many_updates(many: int) -> None:
    patience = Patience(FOUR, 0.5, 3600.0)
    for n in range(many + 1):
        patience._took.append(1000.0 if n == 0 else 1.0)
    assert len(patience._took) == min(many + 1, NEWEST) and (1000.0 in patience._took) is (many < NEWEST)


def test_the_least_and_the_most_that_a_round_waits_are_what_is_said() -> None:
    limits = LivenessLimits()
    assert limits.hold_least == HOLD_LEAST and limits.ping_every == limits.absent_after / 4
    assert 1.5 * Backoff.most == LONGEST_WAIT, "whoever was turned away is back before silence counts again"


@pytest.mark.parametrize("more", [-0.1, 0.0, 0.1])
@pytest.mark.parametrize("limit", ["absent_after", "hold_after", "gather"])
def test_rounds_wait_for_a_silent_a_slow_and_an_unknown_client_so_long(
    limit: str, more: float, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server looks once in each interval of the pings. The silence of a client that never came counts from the first sign."""
    limits = LivenessLimits(absent_after=40.0, hold_after=80.0, hold_least=80.0, gather=120.0)
    bound = getattr(limits, limit)

    async def waits() -> None:
        async with unconnected(tmp_path, clock, limits) as on:
            monkeypatch.setattr(system, "monotonic", lambda: clock.now)  # not a little more with each look
            on.server.liveness = Liveness(on.server, limits)
            clock.now += 1.0
            for c in (1,) if limit == "gather" else (0, 1):
                await on.joins(c)
            await on.sends(1, 0)
            began = clock.now
            await on.server.liveness.check()
            heard = (0, 1) if limit == "hold_after" else (1,)
            while clock.now < began + bound + more:
                clock.now = min(clock.now + 10.0, began + bound + more)
                on.server.last_heard.update(dict.fromkeys(heard, clock.now))
                await on.server.liveness.check()
            assert (on.k > 0) is (more > 0), (limit, more, on.k)

    asyncio.run(waits())


# -- room on the disk --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize(
    ("times", "below", "above", "before"),
    [
        (1.0, Room.NONE, Room.LITTLE, Room.ENOUGH),
        (TIMES_THE_RESERVE, Room.LITTLE, Room.ENOUGH, Room.ENOUGH),
        (1.0 + MARGIN, Room.NONE, Room.LITTLE, Room.NONE),
        (TIMES_THE_RESERVE + MARGIN, Room.LITTLE, Room.ENOUGH, Room.LITTLE),
    ],
)
def test_each_limit_of_the_disk(times: float, below: Room, above: Room, before: Room, more: int) -> None:
    room = DiskRoom(Path(), 1000, lambda folder: Usage(1000 * times + more, 1e13))
    room._room = before
    assert room.measured() is (below if more < 0 else above)


# -- streams, aggregators and pages ------------------------------------------------------------------------------------


@around(SPARE_AGGREGATORS)
def test_so_many_aggregators_have_streams_beside_one_for_each_client(many: int) -> None:
    from types import SimpleNamespace

    from crescendo.network.protocol.versions import OURS

    agreement: Any = SimpleNamespace(federation="f", digest="d", names=("a", "b", "c"))
    host: Any = SimpleNamespace(admit=lambda *words: None, version=OURS, role="server", agreement=agreement)
    pending = PendingStreams(names=3)
    streams = AggregatorStreams(
        host, pending, Connections(pending), AdmittedStreams(host.admit, lambda event, **f: None)
    )
    streams.links = dict.fromkeys(range(3 + many))  # type: ignore[arg-type]
    if many < SPARE_AGGREGATORS:
        assert streams._admitted(NodeHello("node"), None) is agreement
    else:
        with pytest.raises(TryLater, match="no room for another aggregator"):
            streams._admitted(NodeHello("node"), None)


@around(LONGEST)
def test_a_question_to_the_health_page_is_so_long_at_most(many: int) -> None:
    head, end = b"GET /healthz HTTP/1.1\r\nX: ", b"\r\n\r\n"

    async def ask(say: Say) -> None:
        question = head + b"x" * (many - len(head)) + end  # what stands before the end of it counts
        try:
            answer = await say(question)
        except ConnectionError:
            answer = b""
        assert answer.startswith(b"HTTP/1.1 200") is (many <= LONGEST)

    with_health(ask)


@around(health.MOST_OPEN)
def test_the_health_page_has_so_many_connections(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer one takes the place of the oldest."""
    monkeypatch.setattr(health, "PATIENCE", 300.0)

    async def ask(say: Say) -> None:
        silent = [asyncio.create_task(say(b"GET")) for _ in range(many - 1)]
        for _ in range(20):
            await asyncio.sleep(0.001)
        last = asyncio.create_task(say(b"GET"))
        oldest = silent[0] if silent else last
        if many > health.MOST_OPEN:
            await asyncio.wait([*silent, last], return_when=asyncio.FIRST_COMPLETED, timeout=60)
        else:
            for _ in range(20):
                await asyncio.sleep(0.001)
        assert oldest.done() is (many > health.MOST_OPEN) and not last.done()
        for one in (*silent, last):
            one.cancel()
        await asyncio.gather(*silent, last, return_exceptions=True)

    with_health(ask)


def test_the_health_page_waits_so_many_seconds_for_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def wait_for(reading: Any, timeout: float) -> Any:
        waited.append(timeout)
        reading.close()
        raise TimeoutError

    async def ask(say: Say) -> None:
        monkeypatch.setattr(asyncio, "wait_for", wait_for)
        with suppress(ConnectionError):
            assert await say(b"GET") == b""
        monkeypatch.undo()

    with_health(ask)
    assert waited == [health.PATIENCE]


def tracker_of(prices: int, kept: int) -> tuple[Any, list[Any]]:
    """A tracker with so many prices that are not tight and so many numbers kept; and what it asks its accountant."""
    asked: list[Any] = []

    @asynccontextmanager
    async def quick() -> AsyncIterator[Any]:
        async def epsilon(events: Any, delta: float) -> float:
            asked.append(events)
            return 1.0

        yield epsilon

    tracker: Any = spending.SpendingTracker.__new__(spending.SpendingTracker)
    tracker._delta, tracker._accountants = 1e-6, quick
    tracker._prices = {c: spending.Price(1, ((f"event {c}", 1),), 2.0) for c in range(prices)}  # type: ignore[arg-type]
    tracker._kept = {((f"older {n}", 1),): 1.0 for n in range(kept)}
    return tracker, asked


@around(spending.MOST_KEPT)
def test_so_many_tight_numbers_are_kept(many: int) -> None:
    tracker, _ = tracker_of(prices=1, kept=many)
    asyncio.run(tracker._tighten())
    assert len(tracker._kept) == (many + 1 if many < spending.MOST_KEPT else 1) and tracker._prices[0].tight


@around(spending.AT_ONCE)
def test_one_question_asks_for_so_many_tight_numbers(many: int) -> None:
    tracker, asked = tracker_of(prices=many, kept=0)
    asyncio.run(tracker._tighten())
    assert len(asked) == min(many, spending.AT_ONCE)


def test_a_server_that_ends_waits_so_many_seconds_for_the_history(tmp_path: Path) -> None:
    waited: list[float] = []

    class Stuck:
        def start(self) -> None: ...
        def join(self, timeout: float) -> None:
            waited.append(timeout)

    check = HistoryCheck(tmp_path, lambda event, **facts: None)
    check._thread = Stuck()  # type: ignore[assignment]
    with check:
        pass
    assert waited == [MAX_WAIT]


def test_keys_and_connections_are_looked_at_so_often() -> None:
    """What is revoked, expires or floods is seen within so many seconds; `test_admitted_streams` and
    `test_connection_floods` see it happen."""
    assert POLL <= 1.0 and UNDER_FLOOD < LOOK_EVERY <= 1.0 and WARNING == 7 * 86_400


def test_the_bound_on_gaps_lies_beyond_any_sound_client(tmp_path: Path) -> None:
    """An aggregator takes 256 rounds of a client before it has passed on the first; with masks each other one is a gap."""
    from crescendo.core.aggregator import HELD_PER_CHILD

    assert MOST_GAPS >= 4 * HELD_PER_CHILD
    with played(tmp_path, long_run(340, ahead=11, blocks=3)) as on:
        away(on, 300, 11)
        BelowANode(on, 2).sends({0: range(11), 1: range(300, 310)})
        assert on.durable.settled(0) == Settled(300)


def test_a_model_of_numbers_that_a_wire_cannot_carry_is_refused(tmp_path: Path) -> None:
    with played(tmp_path, long_run(10, ahead=1)) as on:
        for c in (0, 1):
            on.joins(c)
        beyond = np.full(on.agreed.numbers(0), 1e308)
        message = on.update(0, 0)
        (answered,) = on.batch((0, type(message)(0, 0, message.wire, beyond.tobytes())))
        assert not answered.taken and on.void(0, [0]) == [0]
        with pytest.raises(PeerError):
            on.durable.submit(type(message)(0, 0, message.wire, b""), beyond[:1])


def test_a_session_begins_with_all_its_room() -> None:
    session = Session(0)
    assert session.in_flight._value == MAX_IN_FLIGHT_PER_CLIENT and session.large_in_flight._value == 1


@pytest.mark.parametrize("late", [-0.1, 0.0, 0.1])
def test_on_a_bad_line_the_first_model_waits_so_long_for_the_other_clients(late: float) -> None:
    async def waits(loop: asyncio.AbstractEventLoop, move: Any) -> None:
        gathering = asyncio.create_task(AggregatorSession(NodeHello("node"))._gather())
        await turns()
        move(TOGETHER + late)
        await turns()
        assert gathering.done() is (late >= 0.0)
        gathering.cancel()
        await asyncio.gather(gathering, return_exceptions=True)

    run_virtually(waits)
