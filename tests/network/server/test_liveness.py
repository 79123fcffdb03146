"""Who is waited for, for how long, and who has heard the end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crescendo import system
from crescendo.core.messages import Settled
from crescendo.network.protocol.wire_messages import TO_CLIENT, BroadcastPart, Goodbye, Ping, Pong, Refusal, Welcome
from crescendo.network.server import liveness
from crescendo.network.server.liveness import LivenessLimits, SilenceClock
from crescendo.network.transport.retry import Backoff
from tests.network.live_server import ONES, TWO, LiveServer, live_server, run_async, until
from tests.network.scripted_client import SOON, ScriptedClient

# -- silence, without a clock


@given(st.lists(st.tuples(st.floats(0.01, 100), st.booleans()), max_size=20))
def test_silence_is_counted_from_the_first_sign_and_only_while_somebody_is_heard(
    looks: list[tuple[float, bool]],
) -> None:
    """Client 0 comes and goes; client 1 is never heard. What counts against 1 is the time in which 0 was there."""
    now, counted, was_here, heard = 0.0, 0.0, False, dict[int, float]()
    here = SilenceClock(2, now)
    for step, is_heard in looks:
        before, now = now, now + step
        if is_heard:
            heard[0] = now - step / 4
            counted += now - (before if was_here else heard[0])
        was_here = is_heard
        here.update(now, heard)
        assert here.seconds(1) == pytest.approx(counted)
        assert not is_heard or here.seconds(0) == pytest.approx(step / 4)


def test_nobody_waits_longer_than_a_quarter_of_a_minute_to_try_again() -> None:
    waits = Backoff().waits()
    assert all(next(waits) <= 15.0 for _ in range(200))


# -- on a server

MANNERS = LivenessLimits(absent_after=600.0)  # in real time no test comes near the first ping
EVERY = MANNERS.ping_every


class Alive:
    """A client that answers pings in the background, until `gone`."""

    def __init__(self, fake: ScriptedClient, c: int) -> None:
        self.fake, self.c, self.k, self.refusal, self.answers = fake, c, -1, "", True
        self._wake = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while (raw := await self.fake.call.read()) is not grpc.aio.EOF:
            message = TO_CLIENT.decode(raw)
            if isinstance(message, Ping) and self.answers:
                await self.fake.say(Pong(message.number))
            elif isinstance(message, BroadcastPart):
                self.k = message.vector.about
                self._wake.set()
            elif isinstance(message, Refusal):
                self.refusal = message.reason

    async def until(self, k: int) -> None:
        while self.k < k:
            self._wake.clear()
            await asyncio.wait_for(self._wake.wait(), SOON)

    async def works(self, rounds: range) -> None:
        for round in rounds:
            await self.fake.send(round, ONES)
        await self.until(rounds.stop)

    async def gone(self, hang_up: bool = True) -> None:
        if hang_up:
            await self.fake.say(Goodbye(finished=True))
            await asyncio.wait_for(self._reading, SOON)
        self._reading.cancel()


class Clock:
    """The server's time: it passes when a test says so, however busy the machine is, and a little with each look at it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        patch.setattr(system, "monotonic", self.monotonic)

    def monotonic(self) -> float:
        self.now += 1e-6
        return self.now

    async def passes(self, on: LiveServer, pings: int, *answering: Alive) -> None:
        """So many pings go out, and these clients answer each of them."""
        for _ in range(pings):
            self.now += EVERY
            asked = self.now
            await on.server.liveness.check()
            await heard(on, asked, *answering)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def heard(on: LiveServer, since: float, *clients: Alive) -> None:
    await until(lambda: all(on.server.last_heard[one.c] > since for one in clients))


async def alive(on: LiveServer, c: int) -> Alive:
    return Alive(await on.join(c), c)


def test_after_a_cut_that_nobody_was_heard_in_the_first_to_be_back_does_not_go_on_alone(
    tmp_path: Path, clock: Clock
) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO, MANNERS) as on:
            for c in (0, 1):
                await on.join(c)
            await clock.passes(on, 8)  # both are cut off for twice as long as a client may be silent
            assert on.service.durable.present.tolist() == [True, True] and not on.events("absent")
            back = await alive(on, 0)
            await back.fake.send(0, ONES)
            await clock.passes(on, 3, back)
            also = await alive(on, 1)  # it comes a little later, and is waited for
            await also.works(range(1))
            assert on.service.durable.settled(1).below == 1
            for client in (back, also):
                await client.gone(hang_up=False)

    run_async(play)


def test_a_client_that_stays_away_holds_nothing_up_and_is_lingered_for_at_the_end(tmp_path: Path, clock: Clock) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO, MANNERS) as on:
            away, here = await on.join(0), await alive(on, 1)
            await clock.passes(on, 3, here)
            assert not on.events("absent")
            await clock.passes(on, 3, here)
            assert (await away.hear_until(Refusal)).reason.startswith("nothing was heard")
            await here.works(range(6))
            await here.gone()
            await until(lambda: on.server.untold() == ["client 0"])
            assert on.server.finished.is_set() and not on.server.all_told.is_set()
            again = await alive(on, 0)
            await again.until(6)
            await again.gone()
            await asyncio.wait_for(on.server.all_told.wait(), SOON)

    run_async(play)


def test_a_silent_client_is_absent_and_on_its_return_goes_on_where_the_others_are(tmp_path: Path, clock: Clock) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO, MANNERS) as on:
            silent, good = await on.join(0), await alive(on, 1)
            await good.fake.send(0, ONES)
            await clock.passes(on, 6, good)
            assert (await silent.hear_until(Refusal)).reason.startswith("nothing was heard")
            await good.works(range(1, 4))
            _, answer = await on.say_hello(0)
            assert isinstance(answer, Welcome) and answer.start == 4 and answer.received == Settled(4)
            await good.gone(hang_up=False)

    run_async(play)


def test_a_client_that_answers_and_never_sends_is_not_waited_for_for_ever(tmp_path: Path, clock: Clock) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO, replace(MANNERS, hold_after=600.0)) as on:
            here, idle = await alive(on, 0), await alive(on, 1)
            await here.fake.send(0, ONES)
            await until(lambda: not on.service.waits_for(0))
            await clock.passes(on, 3, here, idle)
            assert not on.events("held_up")
            idle.answers = False  # gRPC drops what the server says last if this side is just writing
            await clock.passes(on, 1, here)
            await until(lambda: idle.refusal.startswith("round 0 has waited"))
            await here.until(1)
            assert [event["client"] for event in on.events("held_up")] == ["client 1"]
            assert not on.service.durable.present[1] and not on.events("absent")[1:]
            back = await alive(on, 1)  # and may come back, to go on with round 1
            await asyncio.gather(back.works(range(1, 2)), here.works(range(1, 2)))
            for client in (here, back):
                await client.gone(hang_up=False)

    run_async(play)


def test_time_in_which_the_server_did_not_run_is_nobody_s_silence(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a client said meanwhile has arrived and is not read when the server goes on: it must not count as absent."""

    async def play() -> None:
        async with live_server(tmp_path, TWO, MANNERS) as on:
            here = [await alive(on, c) for c in (0, 1)]
            naps, asked = iter((EVERY, EVERY, 100 * EVERY, EVERY)), clock.now

            async def sleep(seconds: float) -> None:
                nonlocal asked
                await heard(on, asked, *here)
                clock.now += next(naps)
                asked = clock.now

            await on.server.liveness.check()
            monkeypatch.setattr(liveness, "asyncio", SimpleNamespace(sleep=sleep))
            with pytest.raises(RuntimeError, match="StopIteration"):
                await on.server.liveness.run()
            assert not on.events("absent") and on.service.durable.present.all()
            for client in here:
                await client.gone(hang_up=False)

    run_async(play)
