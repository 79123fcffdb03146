"""Liveness: pings the clients, and declares absent those that are silent for too long or hold up the others.

The contract: when round k has been due for at most `hold_after` seconds without an accepted update of client c, the others go on,
whatever c or any other client sends and whenever it connects. The clock of a round and a client therefore runs on across streams;
only the client's update or its absence stops it. It is checked with each ping.

Time counts against a client only while the server hears another. While it hears none (its own network is down, its machine was
asleep, no client has joined yet) no round is held up, and silence is no evidence against any one client. Otherwise a network
failure longer than every client's limit would make all of them absent, and the first client to return would continue alone,
perhaps to the end. Time in which the server itself did not run (its process was stopped, its machine overloaded) counts only up
to one interval of the pings, because messages that arrived meanwhile are still unread. Time in which the server turned its
clients away because its disk was full, and in which they wait before they come back, does not count either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crescendo import system
from crescendo.network.protocol.wire_messages import Ping, Refusal
from crescendo.network.server.waiting.hold_clock import HoldClock
from crescendo.network.server.waiting.patience import Patience
from crescendo.network.transport.retry import Backoff
from crescendo.storage.journal.journal_entries import Absent, Received, Summed

if TYPE_CHECKING:
    from crescendo.network.server.grpc_server import NetworkServer
    from crescendo.network.server.service import Submission


HOLD_LEAST = 600.0  # default of the least seconds that a round waits for a client, however short rounds are
LONGEST_WAIT = 1.5 * Backoff.most  # seconds after which a client that was turned away has tried again


@dataclass(frozen=True)
class LivenessLimits:
    """Limits in seconds: how long a client may be silent, how long to wait for a client that has never joined (``gather``), and
    how long a round waits for a client: at most ``hold_after``, and at least ``hold_least`` if rounds are short."""

    absent_after: float = 60.0
    gather: float = 3600.0
    hold_after: float = 86_400.0
    hold_least: float = HOLD_LEAST

    @property
    def ping_every(self) -> float:
        return self.absent_after / 4


class Liveness:
    """Heartbeats of one server's clients, and the decision that a client is absent."""

    def __init__(self, server: NetworkServer, limits: LivenessLimits) -> None:
        self._server, self._service, self._limits = server, server.service, limits
        now, clients = system.monotonic(), len(self._service.agreement.names)
        self._silence, self._holds = SilenceClock(clients, now), HoldClock(clients, now)
        self.patience = Patience(self._service.agreement.terms, limits.hold_least, limits.hold_after)
        self._known = set(self._service.durable.instances)
        self._pings = 0
        self._counts_from = 0.0  # silence counts from this time on
        self._on_round()

    async def run(self) -> None:
        """Check at every interval, until cancelled."""
        every = self._limits.ping_every
        while True:
            began = system.monotonic()
            await asyncio.sleep(every)
            if system.monotonic() - began > 2 * every:
                self._silence.server_did_not_run(system.monotonic())
                self._holds.server_did_not_run(system.monotonic(), every)
            await self.check()

    # -- events --------------------------------------------------------------------------------------------------------

    def on_committed(self, batch: Collection[Submission]) -> None:
        """Take note of messages that are now on disk or refused."""
        now = system.monotonic()
        for one in batch:
            if one.taken:
                match one.message:
                    case Received(round, c):
                        self.patience.accepted(round, c, now)
                    case Summed(pairs):
                        for round, c in pairs:
                            self.patience.accepted(round, c, now)
        if self._service.durable.k != self._holds.round:
            self._on_round()

    def on_joined(self, c: int) -> None:
        """Take note of a new stream of client c. Its clock runs on, or begins if this is its first stream."""
        now = system.monotonic()
        self.patience.came(c, now)
        if c not in self._known:
            self._known.add(c)
            self._holds.begin(c, now)

    def _on_round(self) -> None:
        k, now = self._service.durable.k, system.monotonic()
        self._holds.due(k, now)
        self.patience.due(k, now)

    def waited(self, c: int) -> float | None:
        """Return the seconds that the due round has waited for client c; None if it does not wait for it."""
        return self._holds.seconds(c) if self._service.waits_for(c) else None

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Ping every client, and declare absent those that were silent or held up a round for too long."""
        server, now = self._server, system.monotonic()
        self._pings += 1
        for session in server.sessions.values():
            session.send(Ping(self._pings))
        self._service.measure_disk()
        async with server.commit_queue.paused():
            self._service.log_void()
        if self._service.turns_away:
            self._counts_from = now + LONGEST_WAIT
        if now < self._counts_from:
            self._silence.server_did_not_run(now)
            self._holds.server_did_not_run(now)
        else:
            self._holds.update(now, self._server.last_heard)
            self._silence.update(now, self._server.last_heard)
            await self._check_silence()
            await self._check_holds()
        server.check_all_told()

    async def _check_silence(self) -> None:
        server, durable = self._server, self._service.durable
        known, here = durable.instances, durable.present
        for c in range(len(self._service.agreement.names)):
            limit = self._limits.absent_after if c in known else self._limits.gather
            if self._silence.seconds(c) > limit and (here[c] or c in server.sessions):
                await self._declare_absent(c, "nothing was heard for too long; come back")

    async def _check_holds(self) -> None:
        """Declare absent the clients that hold up the round, if another connected client has done its part of it."""
        server, service = self._server, self._service
        k, known, here = service.durable.k, service.durable.instances, service.durable.present
        waiting = [c for c in known if service.waits_for(c)]
        if not any(here[c] for c in server.sessions.keys() - set(waiting)):
            return
        limit = self.patience.seconds
        for c in waiting:
            seconds = self._holds.seconds(c)
            if seconds > limit and service.durable.k == k and service.waits_for(c):
                facts = {"round": k, "seconds": round(seconds), "joins": service.returns.joins(c)}
                server.log("held_up", client=service.agreement.names[c], **facts)
                await self._declare_absent(c, f"round {k} has waited {seconds:.0f} seconds for this client; come back")

    async def _declare_absent(self, c: int, reason: str) -> None:
        """Journal the absence and close the client's stream, if any; a running client opens a new one."""
        if self._service.durable.present[c]:
            await self._server.put(c, Absent(c))
        if c in self._server.sessions:
            self._server.sessions[c].close(Refusal(reason))


class SilenceClock:
    """Seconds of silence of ``clients`` clients; call `update` repeatedly, at any intervals.

    >>> clock = SilenceClock(2, now=0.0)
    >>> clock.update(10.0, {})                   # no client has come: nothing is counted
    >>> clock.update(20.0, {0: 18.0})            # the first sign of life of client 0
    >>> clock.seconds(0), clock.seconds(1)
    (2.0, 2.0)
    >>> clock.update(30.0, {0: 29.0})
    >>> clock.seconds(0), clock.seconds(1)
    (1.0, 12.0)
    >>> clock.server_did_not_run(100.0)
    >>> clock.update(110.0, {0: 101.0})
    >>> clock.seconds(0), clock.seconds(1)
    (9.0, 21.0)
    """

    def __init__(self, clients: int, now: float) -> None:
        self._silent, self._updated, self._heard_any = [0.0] * clients, now, False

    def update(self, now: float, last_heard: Mapping[int, float]) -> None:
        """Count the time since the last update. ``last_heard`` is when each client was last heard, on the clock of ``now``."""
        since, self._updated = self._updated, now
        signs = {c: at for c, at in last_heard.items() if at > since}
        if signs:
            begin = since if self._heard_any else min(signs.values())
            self._silent = [
                now - signs[c] if c in signs else silent + now - begin for c, silent in enumerate(self._silent)
            ]
        self._heard_any = bool(signs)

    def server_did_not_run(self, now: float) -> None:
        """Ignore the time since the last update, because the server did not run."""
        self._updated, self._heard_any = now, False

    def seconds(self, c: int) -> float:
        """Return how long client c was silent while others were heard."""
        return self._silent[c]
