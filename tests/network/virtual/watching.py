"""Watches a run from outside: the liveness contract, and what must stay small, at regular looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crescendo.network.server.service import MOST_GAPS
from crescendo.network.transport.interrupted_streams import MOST_KEPT
from crescendo.network.transport.stream_writer import MAX_QUEUED

if TYPE_CHECKING:
    from tests.network.virtual.federation import Federation
    from tests.network.virtual.machine import Machine
    from tests.network.virtual.process import Process

UNCOUNTED = 900.0  # seconds that a client may be here, off probation, before rounds wait for it
SLACK = 90.0  # seconds: for slow disks and lines, and a server's first look after clients were turned away


class Watcher:
    """Look every `every` seconds."""

    def __init__(self, federation: Federation, quiet: float) -> None:
        self.federation, self.problems = federation, list[str]()
        shape = federation.shape
        self.every = shape.limits.ping_every / 2
        self._quiet = federation.loop.time() + quiet
        self._k, self._changed, self._waited, self._known = -1, 0.0, 0.0, 0
        self._process: Process | None = None
        self._others: set[int] = set()
        self._uncounted: dict[Any, float] = {}  # session -> since when rounds do not wait for its client
        self._over_since, self._highest, self._told = 0.0, -1, False
        self.longest_wait = 0.0

    def look(self) -> None:
        """One look; what is wrong is in `problems`."""
        federation = self.federation
        now, server = federation.loop.time(), federation.server
        self._look_at_end(now)
        service, network_server = server.noted.get("service"), server.noted.get("network_server")
        process = server.process
        if process is None or service is None or network_server is None:
            self._restart(now)
            return
        if process is not self._process or process.is_frozen or server.disk.is_ill:
            self._process = process
            self._restart(now)
        k, known = service.durable.k, len(service.durable.instances)
        if (k, known) != (self._k, self._known):
            self._k, self._known, self._changed, self._waited = k, known, now, 0.0
            self._others = set()
        self._look_at_wait(now, service, network_server)
        self._look_at_uncounted(now, service, network_server)
        self._look_at_progress(now, k)
        self._look_at_sizes(service, network_server)

    def _restart(self, now: float) -> None:
        self._changed, self._waited, self._others = now, 0.0, set()

    def _look_at_wait(self, now: float, service: Any, network_server: Any) -> None:
        """Others that have done their part of the round wait no longer than the contract says."""
        shape, k = self.federation.shape, service.durable.k
        if service.durable.finished:
            return
        here = {c for c in network_server.sessions if self._is_well(self.federation.clients[c])}
        done = {c for c in here if service.durable.present[c] and not service.waits_for(c)}
        if done & self._others:
            self._waited += self.every
            self.longest_wait = max(self.longest_wait, self._waited)
        self._others = done
        most = shape.hold_after + 3 * shape.limits.ping_every + SLACK
        if self._waited > most:
            names = [c for c in range(shape.clients) if service.waits_for(c)]
            self.problems.append(
                f"round {k} has waited {self._waited:.0f} s for clients {names}, and others were there; at most {most:.0f} s "
                f"are promised"
            )
            self._waited = 0.0

    def _look_at_uncounted(self, now: float, service: Any, network_server: Any) -> None:
        """Rounds wait for a client that is here, unless it is on probation."""
        federation, before = self.federation, self._uncounted
        here = {
            c: session for c, session in network_server.sessions.items() if federation.clients[c] in federation.honest
        }
        uncounted = [
            session
            for c, session in here.items()
            if self._is_well(federation.clients[c])
            and not (service.durable.finished or service.durable.present[c] or service.returns.on_probation(c))
        ]
        self._uncounted = {session: before.get(session, now) for session in uncounted}
        for session, since in self._uncounted.items():
            if now - since > UNCOUNTED:
                name = federation.clients[session.client].name
                self.problems.append(f"{name} is here since {now - since:.0f} s, and no round waits for it")
                self._uncounted[session] = now

    def _is_well(self, machine: Machine) -> bool:
        return (
            machine.runs and machine.process is not None and not machine.process.is_frozen and not machine.line.is_cut
        )

    def _look_at_progress(self, now: float, k: int) -> None:
        """Once faults have stopped, rounds complete."""
        shape = self.federation.shape
        if now < self._quiet or k == shape.rounds:
            return
        since = now - max(self._changed, self._quiet)
        most = shape.hold_after + 2 * shape.absent_after + 3 * shape.round_takes + 2 * SLACK
        if since > most:
            self.problems.append(
                f"no fault for {now - self._quiet:.0f} s, and round {k} does not complete for {since:.0f} s"
            )
            self._changed = now

    def _look_at_end(self, now: float) -> None:
        """Once faults have stopped and the last round is complete, every client hears of it."""
        shape, federation = self.federation.shape, self.federation
        if now < self._quiet or max(self._k, self._highest) < shape.rounds or self._told:
            self._over_since, self._highest = now, max(self._k, self._highest)
            return
        most = shape.hold_after + 2 * shape.absent_after + 3 * shape.round_takes + 600 + 2 * SLACK
        if now - self._over_since > most:
            missing = [one.name for one in federation.honest if not one.is_finished]
            self.problems.append(f"{now - self._over_since:.0f} s after the last round these have not ended: {missing}")
            self._told = True

    @property
    def gives_up(self) -> bool:
        """There is nothing to wait for any more."""
        return self._told or len(self.problems) > 20

    def _look_at_sizes(self, service: Any, server: Any) -> None:
        shape = self.federation.shape
        pairs = shape.rounds * shape.clients
        longest = max((len(one._queue) for one in server.sessions.values()), default=0)
        found = {
            "messages that wait for a client": (longest, MAX_QUEUED),
            "bytes of interrupted streams": (server._clients._interrupted.bytes, MOST_KEPT),
            "submissions that wait": (len(server.commit_queue), 20 * shape.clients + 64),
            "events that are not logged again": (len(service._logged), 3 * (pairs + shape.clients)),
            "gaps of a client": (
                max(len(service.durable.settled(c).beyond) for c in range(shape.clients)),
                MOST_GAPS + 1,
            ),
            "sessions": (len(server.sessions), shape.clients),
            "pending streams": (len(server._pending), server._pending.room),
        }
        large = [(what, size, most) for what, (size, most) in found.items() if size > most]
        self.problems += [f"{what}: {size}, and at most {most} are promised" for what, size, most in large]
