"""Liveness: pings the clients, and declares absent those that are silent for too long or hold the others up.

A silence counts against a client only while the server hears somebody. While it hears nobody (its own network is down, its
machine was asleep, no client has come yet) no round is held up, and the silence says nothing about one client more than about
another: that time does not count. Otherwise a cut that outlasts every client's limit would make all of them absent, and the first
to be back would go on, perhaps to the end, alone. Time in which the server itself did not run (its process was stopped, its
machine overloaded) does not count either: what clients sent meanwhile has arrived and is not read yet. Nor does time in which
the server turned its clients away, for want of room on its disk, and in which they wait before they come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crescendo import system
from crescendo.network.protocol.wire_messages import Ping, Refusal
from crescendo.network.transport.retry import Backoff
from crescendo.storage.journal.journal_entries import Absent

if TYPE_CHECKING:
    from crescendo.network.server.grpc_server import NetworkServer


LONGEST_WAIT = 1.5 * Backoff.most  # seconds in which a client that was turned away is back


@dataclass(frozen=True)
class LivenessLimits:
    """Seconds that a client may be silent, a client that never came is waited for, and one that answers may hold a round up."""

    absent_after: float = 60.0
    gather: float = 3600.0
    hold_after: float = 86_400.0

    @property
    def ping_every(self) -> float:
        return self.absent_after / 4


class Liveness:
    """Heartbeats of one server's clients, and the decision that a client is absent."""

    def __init__(self, server: NetworkServer, limits: LivenessLimits) -> None:
        self._server, self._service, self._limits = server, server.service, limits
        self._silence = SilenceClock(len(self._service.agreement.names), system.monotonic())
        self._due_round, self._due_since = -1, system.monotonic()
        self._pings = 0
        self._counts_from = 0.0  # silence from then on counts

    async def run(self) -> None:
        """Check again and again, until cancelled."""
        every = self._limits.ping_every
        while True:
            began = system.monotonic()
            await asyncio.sleep(every)
            if system.monotonic() - began > 2 * every:
                self._silence.server_did_not_run(system.monotonic())
            await self.check()

    async def check(self) -> None:
        """Ping every client, and declare absent those that were silent for too long while others were heard."""
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
            self._due_since = now
        else:
            await self._check_clients(now)
        server.check_all_told()

    async def _check_clients(self, now: float) -> None:
        durable = self._service.durable
        self._silence.update(now, self._server.last_heard)
        if durable.k != self._due_round:
            self._due_round, self._due_since = durable.k, now
        known = durable.instances
        for c in range(len(self._service.agreement.names)):
            limit = self._limits.absent_after if c in known else self._limits.gather
            await self._check_client(c, now, self._silence.seconds(c) > limit)

    async def _check_client(self, c: int, now: float, too_silent: bool) -> None:
        server, service = self._server, self._service
        if too_silent and service.durable.present[c]:
            await self._declare_absent(c, "nothing was heard for too long; come back")
        elif c in server.sessions and service.waits_for(c):
            waited, k = now - max(self._due_since, server.sessions[c].came), service.durable.k
            if (
                waited > self._limits.hold_after
            ):  # it answers pings and sends no update; it may come back as one that was absent
                server.log("held_up", client=service.agreement.names[c], round=k, seconds=round(waited))
                await self._declare_absent(c, f"round {k} has waited {waited:.0f} seconds for this client; come back")

    async def _declare_absent(self, c: int, reason: str) -> None:
        """Journal the absence and close the client's stream, if any; a client that lives makes a new one."""
        await self._server.put(c, Absent(c))
        if c in self._server.sessions:
            self._server.sessions[c].close(Refusal(reason))


class SilenceClock:
    """Seconds of silence of ``clients`` clients; `update` it again and again, at any intervals.

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
        """``last_heard`` is when each client was last heard, by the clock that ``now`` is of."""
        since, self._updated = self._updated, now
        signs = {c: at for c, at in last_heard.items() if at > since}
        if signs:
            begin = since if self._heard_any else min(signs.values())
            self._silent = [
                now - signs[c] if c in signs else silent + now - begin for c, silent in enumerate(self._silent)
            ]
        self._heard_any = bool(signs)

    def server_did_not_run(self, now: float) -> None:
        """The server was held up until now: the time since the last update does not count."""
        self._updated, self._heard_any = now, False

    def seconds(self, c: int) -> float:
        """How long client c was silent while others were heard."""
        return self._silent[c]
