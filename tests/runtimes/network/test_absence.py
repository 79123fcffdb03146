"""Who is waited for, for how long, and who has heard the end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crescendo.runtimes.network.attendance import Attendance
from crescendo.runtimes.network.link import Patience
from crescendo.runtimes.network.watch import Manners
from crescendo.runtimes.wire_messages import BroadcastPart, Goodbye, Ping, Pong, Refusal, from_server
from tests.runtimes.network.stage import ONES, SOON, TWO, Fake, played, stage, until

# -- silence, without a clock


@given(st.lists(st.tuples(st.floats(0.01, 100), st.booleans()), max_size=20))
def test_silence_is_counted_from_the_first_sign_and_only_while_somebody_is_heard(
    looks: list[tuple[float, bool]],
) -> None:
    """Client 0 comes and goes; client 1 is never heard. What counts against 1 is the time in which 0 was there."""
    now, counted, was_here, heard = 0.0, 0.0, False, dict[int, float]()
    here = Attendance(2, now)
    for step, is_heard in looks:
        before, now = now, now + step
        if is_heard:
            heard[0] = now - step / 4
            counted += now - (before if was_here else heard[0])
        was_here = is_heard
        here.look(now, heard)
        assert here.silent(1) == pytest.approx(counted)
        assert not is_heard or here.silent(0) == pytest.approx(step / 4)


def test_nobody_waits_longer_than_a_quarter_of_a_minute_to_try_again() -> None:
    waits = Patience().waits()
    assert all(next(waits) <= 15.0 for _ in range(200))


# -- on a server


class Alive:
    """A fake that answers pings in the background, until `gone`."""

    def __init__(self, fake: Fake) -> None:
        self.fake, self.k = fake, -1
        self._bell = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while (raw := await self.fake.call.read()) is not grpc.aio.EOF:
            message = from_server(raw)
            if isinstance(message, Ping):
                with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # the server has just closed the stream
                    await self.fake.say(Pong(message.number))
            elif isinstance(message, BroadcastPart):
                self.k = message.vector.about
                self._bell.set()

    async def until(self, k: int) -> None:
        while self.k < k:
            self._bell.clear()
            await asyncio.wait_for(self._bell.wait(), SOON)

    async def works(self, rounds: range) -> None:
        for round in rounds:
            await self.fake.send(round, ONES)
        await self.until(rounds.stop)

    async def gone(self, hang_up: bool = True) -> None:
        if hang_up:
            await self.fake.say(Goodbye(finished=True))
            await asyncio.wait_for(self._reading, SOON)
        self._reading.cancel()


@pytest.mark.slow
def test_after_a_cut_that_nobody_was_heard_in_the_first_to_be_back_does_not_go_on_alone(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, TWO, Manners(absent_after=0.4)) as on:
            one, two = await on.join(0), await on.join(1)
            for fake in (one, two):  # both are cut off for twice as long as a client may be silent
                assert (await fake.hear_until(Ping, lambda ping: ping.number >= 8)).number == 8
            assert on.hall.durable.present.tolist() == [True, True] and not on.events("absent")
            back = Alive(await on.join(0))
            await back.fake.send(0, ONES)
            also = Alive(await on.join(1))  # it comes a little later, and is waited for
            await also.works(range(1))
            assert on.hall.durable.settled(1).below == 1
            for alive in (back, also):
                await alive.gone(hang_up=False)

    played(play)


@pytest.mark.slow
def test_a_client_that_stays_away_holds_nothing_up_and_is_lingered_for_at_the_end(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, TWO, Manners(absent_after=0.4)) as on:
            away, here = await on.join(0), Alive(await on.join(1))
            assert (await away.hear_until(Refusal)).reason.startswith("nothing was heard")
            await here.works(range(6))
            await here.gone()
            await _until_told(on, ["client 0"])
            assert on.server.finished.is_set() and not on.server.all_told.is_set()
            again = Alive(await on.join(0))
            await again.until(6)
            await again.gone()
            await asyncio.wait_for(on.server.all_told.wait(), SOON)

    played(play)


@pytest.mark.slow
def test_a_client_that_answers_and_never_sends_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, TWO, Manners(absent_after=2.0, hold_after=0.1)) as on:
            here = Alive(await on.join(0))
            await here.fake.send(0, ONES)
            idle = await on.join(1)
            for _ in range(20):  # it answers, as long as it is asked
                said = await idle.hear_until(Ping | Refusal)
                if isinstance(said, Refusal):
                    break
                await idle.say(Pong(said.number))
            assert said.reason.startswith("round 0 has waited")
            await here.until(1)
            assert [event["client"] for event in on.events("held_up")] == ["client 1"] and not on.hall.durable.present[
                1
            ]
            back = Alive(await on.join(1))  # and may come back, to go on with round 1
            await asyncio.gather(back.works(range(1, 2)), here.works(range(1, 2)))
            for alive in (here, back):
                await alive.gone(hang_up=False)

    played(play)


async def _until_told(on: Any, left: list[str]) -> None:
    """The server notices the end of a stream a moment after the client does."""
    await until(lambda: on.server.untold() == left)
