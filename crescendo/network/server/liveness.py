"""Liveness: pings the clients, and declares absent those that were silent for too long or hold the others up."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crescendo.network.protocol.wire_messages import Ping, Refusal
from crescendo.network.server.last_heard import Attendance, Waiting
from crescendo.network.server.service import Silence

if TYPE_CHECKING:
    from crescendo.network.server.grpc_server import NetworkServer


@dataclass(frozen=True)
class Manners:
    """How long a client may be silent, one that never came is waited for, and one that answers may hold a round up."""

    absent_after: float = 60.0
    gather: float = 3600.0
    hold_after: float = 86_400.0

    @property
    def ping_every(self) -> float:
        return self.absent_after / 4


class Watch:
    """Looks after the clients of one server."""

    def __init__(self, server: NetworkServer, manners: Manners) -> None:
        self._server, self._hall, self._manners = server, server.hall, manners
        self._attendance = Attendance(len(self._hall.names), time.monotonic())
        self._waiting = Waiting(time.monotonic())
        self._pings = 0

    async def keep_looking(self) -> None:
        every = self._manners.ping_every
        while True:
            began = time.monotonic()
            await asyncio.sleep(every)
            if time.monotonic() - began > 2 * every:
                self._attendance.did_not_run(time.monotonic())
            await self.look()

    async def look(self) -> None:
        """Ping every client, and declare absent those that were silent for too long while others were heard."""
        server, now = self._server, time.monotonic()
        self._pings += 1
        for peer in server.peers.values():
            peer.say(Ping(self._pings))
        self._attendance.look(now, server.heard_at)
        self._waiting.look(now, self._hall.durable.k)
        known = self._hall.durable.instances
        for c in range(len(self._hall.names)):
            patience = self._manners.absent_after if c in known else self._manners.gather
            await self._look_at(c, self._attendance.silent(c) > patience)
        async with server.line.held():
            self._hall.log_void()
        server.look_who_knows()

    async def _look_at(self, c: int, too_silent: bool) -> None:
        server, hall = self._server, self._hall
        if too_silent and hall.durable.present[c]:
            await server.put(c, Silence())
            if c in server.peers:  # a stream that nobody answers on; a client that lives makes a new one
                server.peers[c].close(Refusal("nothing was heard for too long; come back"))
        elif c in server.peers and hall.waits_for(c):
            await self._stop_waiting(c, self._waiting.seconds(server.peers[c].came))

    async def _stop_waiting(self, c: int, seconds: float) -> None:
        """Whoever answers and does not send is waited for long, not for ever. It may come back, as one that was absent."""
        server, k = self._server, self._hall.durable.k
        if seconds > self._manners.hold_after:
            server.log("held_up", client=self._hall.names[c], round=k, seconds=round(seconds))
            await server.put(c, Silence())
            if c in server.peers:
                server.peers[c].close(Refusal(f"round {k} has waited {seconds:.0f} seconds for this client; come back"))
