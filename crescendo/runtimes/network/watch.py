"""The server's rounds through the house: who is there, who has been silent for too long, and who holds the others up."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crescendo.runtimes.network.attendance import Attendance, Waiting
from crescendo.runtimes.network.hall import Silence
from crescendo.runtimes.wire_messages import Ping, Refusal

if TYPE_CHECKING:
    from crescendo.runtimes.network.server import NetworkServer


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

    async def go_round(self) -> None:
        """Ask who is there, and declare absent whoever was silent for too long while others were heard; again and again."""
        server, clients, number = self._server, len(self._hall.names), 0
        attendance, waiting = Attendance(clients, time.monotonic()), Waiting(time.monotonic())
        while True:
            await asyncio.sleep(self._manners.ping_every)
            number += 1
            for peer in server.peers.values():
                peer.say(Ping(number))
            attendance.look(time.monotonic(), server.heard_at)
            waiting.look(time.monotonic(), self._hall.durable.k)
            known = self._hall.durable.instances
            for c in range(clients):
                patience = self._manners.absent_after if c in known else self._manners.gather
                await self._look_at(c, attendance.silent(c) > patience, waiting)
            async with server.line.held():
                self._hall.log_void()
            server.look_who_knows()

    async def _look_at(self, c: int, too_silent: bool, waiting: Waiting) -> None:
        server, hall = self._server, self._hall
        if too_silent and hall.durable.present[c]:
            await server.put(c, Silence())
            if c in server.peers:  # a stream that nobody answers on; a client that lives makes a new one
                server.peers[c].close(Refusal("nothing was heard for too long; come back"))
        elif c in server.peers and hall.waits_for(c):
            await self._stop_waiting(c, waiting.seconds(server.peers[c].came))

    async def _stop_waiting(self, c: int, seconds: float) -> None:
        """Whoever answers and does not send is waited for long, not for ever. It may come back, as one that was absent."""
        server, k = self._server, self._hall.durable.k
        if seconds > self._manners.hold_after:
            server.log("held_up", client=self._hall.names[c], round=k, seconds=round(seconds))
            await server.put(c, Silence())
            if c in server.peers:
                server.peers[c].close(Refusal(f"round {k} has waited {seconds:.0f} seconds for this client; come back"))
