"""The liveness contract: no client holds the others up for longer than stated, whatever it sends and whenever it comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crescendo.core.messages import Settled
from crescendo.network.protocol.tree_messages import NodeHello
from crescendo.network.protocol.wire_messages import VoidRound, Welcome
from crescendo.network.server.aggregator_requests import AggregatorRequests
from crescendo.network.server.aggregator_streams import AggregatorSession
from crescendo.network.server.grpc_server import WAITED_FOR, NetworkServer
from crescendo.network.server.liveness import LivenessLimits
from crescendo.network.server.session import Session
from tests.network.live_server import run_async
from tests.network.server.service_play import ServicePlay, long_run, played
from tests.network.server.test_liveness import Clock, clock

__all__ = ["clock"]  # a fixture

HOLD = 30.0
LIMITS = LivenessLimits(absent_after=30.0, hold_after=HOLD, hold_least=HOLD)
EVERY = LIMITS.ping_every
LARGE = 40_000  # features: an update of 320 kB


class Unconnected:
    """A server that does not listen: a test lets clients in, speaks for them and lets time pass."""

    def __init__(self, play: ServicePlay, clock: Clock, limits: LivenessLimits, tree: bool = False) -> None:
        self.play, self.clock, self.limits = play, clock, limits
        self.server = NetworkServer(play.service, limits, log=play.service._log)
        self.node = AggregatorRequests(self.server) if tree else None
        self.links: dict[int, AggregatorSession] = {}
        self._next_check = clock.now + limits.ping_every

    @property
    def k(self) -> int:
        return self.play.durable.k

    async def joins(self, c: int, last: int = -1) -> Welcome:
        hello = self.play.hello(c, last)
        if self.node is None:
            session = await self.server.join(c, hello)
            assert isinstance(session, Session), session
            (welcome,) = [said for said in session._queue if isinstance(said, Welcome)]
        else:
            link = self.links[c] = self.node.new_link(NodeHello("north"), 1000)
            await self.node.on_hello(link, hello)
            (welcome,) = [said.message for said in link._queue if isinstance(getattr(said, "message", 0), Welcome)]
        return welcome

    async def dies(self, c: int) -> None:
        if self.node is not None:
            await self.node.on_gone(self.links[c], self.play.agreed.names[c])
        elif c in self.server.sessions:
            self.server.on_end(self.server.sessions[c])

    async def sends(self, c: int, *rounds: int) -> None:
        for i in rounds:
            await self.server.put(c, self.play.update(i, c))

    async def passes(self, seconds: float, *heard: int, until: Callable[[], bool] = lambda: False) -> float:
        """Let time pass; these clients answer pings as long as they have a stream. The seconds that it took."""
        began, end = self.clock.now, self.clock.now + seconds
        while self.clock.now < end and not until():
            self.clock.now = min(end, self._next_check)
            if self.clock.now == self._next_check:
                for c in heard:
                    if c in self.server.sessions:
                        self.server.last_heard[c] = self.clock.now - 0.01
                await self.server.liveness.check()
                self._next_check = self.clock.now + self.limits.ping_every
        return self.clock.now - began


@asynccontextmanager
async def unconnected(
    folder: Path, clock: Clock, limits: LivenessLimits = LIMITS, *, tree: bool = False, **run: Any
) -> AsyncIterator[Unconnected]:
    with played(folder, long_run(**{"rounds": 40, "ahead": 0, **run})) as play:
        on = Unconnected(play, clock, limits, tree)
        try:
            yield on
        finally:
            await on.server.commit_queue.close()


def flat_and_tree(test: Any) -> Any:
    return pytest.mark.parametrize("tree", [False, True], ids=["flat", "tree"])(test)


@flat_and_tree
@pytest.mark.parametrize("features", [4, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("down", [5.0, 30.0])
def test_a_client_that_crashes_as_it_joins_costs_the_others_two_waits(
    tmp_path: Path, clock: Clock, tree: bool, features: int, down: float
) -> None:
    async def play() -> None:
        async with unconnected(tmp_path, clock, tree=tree, features=features) as on:
            await on.joins(1)
            took = []
            for i in range(4):
                await on.sends(1, i)
                began = clock.now
                while on.k == i and clock.now < began + 300:
                    await on.joins(0)
                    await on.passes(1.0, 1)
                    await on.dies(0)
                    await on.passes(down, 1)
                assert on.k > i, f"round {i} has waited {clock.now - began:.0f} s for a client that crashes as it joins"
                took.append(clock.now - began)
            assert all(one <= HOLD + EVERY + 1 + down for one in took[:2]), took
            assert took[2:] == [0.0, 0.0], "from its second absence on rounds do not wait for it"

    run_async(play)


@flat_and_tree
def test_the_clock_of_a_round_runs_on_over_streams_and_an_accepted_update_stops_it(
    tmp_path: Path, clock: Clock, tree: bool
) -> None:
    async def play() -> None:
        async with unconnected(tmp_path, clock, tree=tree) as on:
            await on.joins(1)
            await on.joins(0)
            await on.sends(1, 0)
            for _ in range(3):
                await on.passes(EVERY, 0, 1)
                await on.dies(0)
                await on.joins(0)
            await on.sends(0, 0)
            assert on.k == 1 and on.server.liveness.waited(0) == 0.0
            await on.sends(1, 1)
            await on.passes(3 * EVERY, 0, 1)
            assert on.k == 1 and not on.play.events("held_up")
            assert on.server.liveness.waited(0) == pytest.approx(3 * EVERY, abs=0.1)
            await on.passes(2 * EVERY, 0, 1)
            assert on.k == 2 and [one["round"] for one in on.play.events("held_up")] == [1]

    run_async(play)


@flat_and_tree
@pytest.mark.parametrize("features", [4, LARGE], ids=["small", "large"])
def test_a_client_on_probation_loses_nothing_counts_as_late_and_is_waited_for_again(
    tmp_path: Path, clock: Clock, tree: bool, features: int
) -> None:
    async def play() -> None:
        async with unconnected(tmp_path, clock, tree=tree, features=features) as on:
            await on.joins(1)
            for i in range(2):
                assert (await on.joins(0)).start == i
                await on.sends(1, i)
                while on.k == i:
                    await on.passes(EVERY, 0, 1)
            assert (await on.joins(0)).start == 1, "it goes on with round 1, which it was to do and which is not void"
            await on.sends(1, 2, 3, 4)
            assert on.k == 5 and on.play.service.returns.on_probation(0)
            await on.passes(4 * HOLD, 0, 1)
            assert 0 in on.server.sessions, "its stream stays open"
            assert (await on.joins(0)).start == 1, "also when it comes by another stream"
            session = on.server.sessions[0]
            await on.sends(0, 1)
            assert on.play.applied(0, range(5)) == [1] and on.play.durable.late == 1
            told = on.links[0]._queue if tree else session._queue
            assert any(WAITED_FOR in str(one) for one in told) and session.closed.is_set()
            assert (await on.joins(0, last=1)).start == 5
            assert on.server.liveness.waited(0) is not None and on.play.durable.settled(0) == Settled(5)
            assert on.play.void(0, range(5)) == [0, 2, 3, 4], "it has charged none of these"

    run_async(play)


def test_a_client_that_is_silent_on_probation_keeps_no_stream(tmp_path: Path, clock: Clock) -> None:
    async def play() -> None:
        async with unconnected(tmp_path, clock) as on:
            await on.joins(1)
            for i in range(2):
                await on.joins(0)
                await on.sends(1, i)
                await on.passes(2 * HOLD, 1)
            await on.joins(0)
            session = on.server.sessions[0]
            await on.passes(2 * HOLD, 1)
            assert session.closed.is_set() and len(on.play.events("absent")) == 2

    run_async(play)


def test_no_client_is_held_up_while_none_has_done_its_round(tmp_path: Path, clock: Clock) -> None:
    """Rounds may take longer than was thought: the one that is done first goes on, and only then are the others late."""

    async def play() -> None:
        async with unconnected(tmp_path, clock) as on:
            for c in (0, 1):
                await on.joins(c)
            await on.passes(10 * HOLD, 0, 1)
            assert on.play.durable.present.all() and not on.play.events("held_up")
            await on.sends(1, 0)
            await on.passes(EVERY, 0, 1)
            assert on.k == 1

    run_async(play)


def test_time_in_which_the_others_are_not_heard_holds_nobody_up(tmp_path: Path, clock: Clock) -> None:
    async def play() -> None:
        async with unconnected(tmp_path, clock, replace(LIMITS, hold_after=4 * HOLD)) as on:
            for c in (0, 1):
                await on.joins(c)
            await on.sends(1, 0)
            await on.passes(20 * HOLD, 0)  # it works, and the line of the other is down
            waited = on.server.liveness.waited(0)
            assert waited is not None and waited <= 2 * EVERY and on.play.durable.present.tolist() == [True, False]

    run_async(play)


def test_an_overloaded_server_still_goes_on(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look comes far too late: an interval of each counts, or a flood could stop the clocks for good."""

    async def play() -> None:
        async with unconnected(tmp_path, clock) as on:
            for c in (0, 1):
                await on.joins(c)
            await on.sends(1, 0)
            looks = 0

            async def sleep(seconds: float) -> None:
                nonlocal looks
                looks += 1
                assert looks <= HOLD / EVERY + 3, "the clocks stand still"
                clock.now += 100 * seconds
                for c in (0, 1):
                    on.server.last_heard[c] = clock.now - 0.01
                if on.k == 1:
                    raise asyncio.CancelledError

            monkeypatch.setattr("crescendo.network.server.liveness.asyncio.sleep", sleep)
            with pytest.raises(asyncio.CancelledError):
                await on.server.liveness.run()

    run_async(play)


def test_a_client_that_comes_for_the_first_time_has_all_its_time(tmp_path: Path, clock: Clock) -> None:
    async def play() -> None:
        async with unconnected(tmp_path, clock) as on:
            await on.joins(1)
            await on.sends(1, 0)
            await on.passes(1800.0, 1)  # less than `gather`
            assert on.k == 0
            await on.joins(0)
            assert await on.passes(2 * HOLD, 0, 1, until=lambda: on.k == 1) >= HOLD

    run_async(play)


ACTS = st.lists(
    st.tuples(st.sampled_from(["join", "die", "pong", "update", "void", "older copy"]), st.floats(0.1, 45.0)),
    max_size=15,
)


class Hostile:
    """Clients 0 to ``count`` - 1, which join, die, answer, send and claim as they like."""

    def __init__(self, on: Unconnected, count: int) -> None:
        self.on, self.count = on, count

    async def does(self, c: int, act: str) -> None:
        on = self.on
        last, here = on.play.durable.last(c), c in on.server.sessions
        if act == "join" or act == "older copy":
            with suppress(AssertionError):  # it is refused
                await on.joins(c, last=max(-1, last - (act == "older copy")))
        elif here and act == "die":
            await on.dies(c)
        elif here and act == "pong":
            on.server.last_heard[c] = on.clock.now
        elif here and act == "update":
            await on.sends(c, min(last + 1, on.k))
        elif here and act == "void":
            await on.server.put(c, VoidRound(on.k, on.play.agreed.federation, on.play.agreed.digest))


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=ACTS, tree=st.booleans(), count=st.integers(1, 2))
def test_whatever_clients_do_a_round_that_another_has_done_goes_on_in_time(
    tmp_path_factory: pytest.TempPathFactory, clock: Clock, acts: list[tuple[str, float]], tree: bool, count: int
) -> None:
    """The last client is sound, and does each round at once."""

    async def play() -> None:
        folder = tmp_path_factory.mktemp("play")
        async with unconnected(folder, clock, tree=tree, clients=count + 1, rounds=2000) as on:
            sound, hostile, due = count, Hostile(on, count), (-1, 0.0)
            for c in range(count + 1):
                await on.joins(c)
            for at, (act, seconds) in enumerate(acts):
                await hostile.does(at % count, act)
                end = clock.now + seconds
                while clock.now < end:
                    if on.k != due[0]:
                        due = on.k, clock.now
                        await on.sends(sound, on.k)
                    assert clock.now - due[1] <= HOLD + 2 * EVERY, f"round {on.k} is held up by {act}"
                    await on.passes(min(EVERY, end - clock.now), sound)

    run_async(play)
