"""Status: a server's report on its federation and clients. It contains only public state, and no secrets."""

import asyncio
import json
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from crescendo import system
from crescendo.logs import Log, quiet
from crescendo.network.protocol.tree_messages import NodeVersion
from crescendo.network.protocol.versions import PeerVersion, program_of
from crescendo.network.server.liveness import Liveness
from crescendo.network.server.service import Service
from crescendo.network.server.session import Traffic
from crescendo.network.server.spending import Price, SpendingTracker


class Parties(NamedTuple):
    """The versions that all parties reported: the server, clients by number, and aggregators at any depth."""

    server: PeerVersion
    clients: Mapping[int, PeerVersion | None]  # of those that have joined since the server was started
    aggregators: Callable[[], Iterable[NodeVersion]]

    def of_client(self, c: int) -> dict[str, Any]:
        """Return version, build and protocol of a client; None for each before it has joined."""
        if c not in self.clients:
            return {"version": None, "build": None, "protocol": None}
        version = self.clients[c]
        build = None if version is None else version.build or None
        return {"version": program_of(version), "build": build, "protocol": self.server.common(version)}

    def of_others(self) -> dict[str, Any]:
        """Return the versions of the server and the aggregators."""
        found = [{"name": node.name, "version": node.program} for node in self.aggregators()]
        return {
            "version": self.server.program,
            "build": self.server.build,
            "aggregators": sorted(found, key=lambda node: node["name"]),
        }


class StatusReporter:
    """Answers status requests. Requests that arrive while an answer is being made share it."""

    def __init__(
        self,
        service: Service,
        connected: Container[int],
        heard: Mapping[int, float],
        traffic: Mapping[int, Traffic],
        parties: Parties,
        liveness: Liveness,
        costs: Sequence[float] = (),
        log: Log = quiet,
    ) -> None:
        certificate, delta = service.agreement.certificate, service.agreement.delta
        self._spending: SpendingTracker | None = None
        if certificate is not None and delta is not None:
            self._spending = SpendingTracker(certificate, certificate.usual_delta(delta), costs, log=log)
        self._make = partial(_status, service, connected, heard, traffic, parties, liveness, self._spending)
        self._being_made: asyncio.Task[dict[str, Any]] | None = None

    async def close(self) -> None:
        """Stop accounting; a pending answer gets the numbers known so far."""
        if self._spending is not None:
            await self._spending.close()

    async def answer(self) -> str:
        """Return the federation and its clients as JSON."""
        if self._being_made is None or self._being_made.done():
            self._being_made = asyncio.create_task(self._make())
        return json.dumps(await asyncio.shield(self._being_made))  # the first peer that asked may hang up


async def _status(
    service: Service,
    connected: Container[int],
    heard: Mapping[int, float],
    traffic: Mapping[int, Traffic],
    parties: Parties,
    liveness: Liveness,
    spending: SpendingTracker | None,
) -> dict[str, Any]:
    """Return the federation and its clients at one instant; accounting for their spending may take seconds after it.

    ``heard`` is when each client was last heard, on the clock of ``time.monotonic``.
    """
    durable, names, now = service.durable, service.agreement.names, system.monotonic()
    reached = [durable.settled(c) for c in range(len(names))]
    found, present, known = {**service.status(), **parties.of_others()}, durable.present, durable.instances
    found["hold_seconds"] = round(liveness.patience.seconds, 1)
    clients = []
    for c, (name, settled) in enumerate(zip(names, reached, strict=True)):
        moved = traffic.get(c, Traffic())
        clients.append(
            {
                "name": name,
                "connected": c in connected,
                "present": bool(present[c]),
                "joined": c in known,
                "round": settled.rounds,
                "lag": found["k"] - settled.below,
                "waited_for": bool(present[c]) and not found["finished"] and found["k"] not in settled,
                "waited_seconds": _rounded(liveness.waited(c)),
                "joins_without_update": service.returns.joins(c),
                "on_probation": service.returns.on_probation(c),
                "silent_seconds": _rounded(now - heard[c] if c in heard else None),
                "bytes_up": moved.up,
                "bytes_down": moved.down,
                **parties.of_client(c),
            }
        )
    prices = await spending.of(reached) if spending is not None else [None] * len(clients)
    for client, price in zip(clients, prices, strict=True):
        client.update(_spent(price))
    return {**found, "clients": clients}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _spent(price: Price | None) -> dict[str, Any]:
    """Return a client's epsilon and its kind in ``epsilon_is``; None: there is no privacy, or it is not known yet."""
    if price is None:
        return {"epsilon": None, "epsilon_is": None}
    if price.epsilon == math.inf:  # JSON has no such number
        return {"epsilon": None, "epsilon_is": "infinite"}
    return {"epsilon": price.epsilon, "epsilon_is": "tight" if price.tight else "bound"}
