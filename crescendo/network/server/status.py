"""Status: what a server says about itself. Nothing of it is secret, and all of it is published state."""

import asyncio
import json
import math
import time
from collections.abc import Container, Mapping
from functools import partial
from typing import Any

from crescendo.network.server.service import Service
from crescendo.network.server.session import Traffic
from crescendo.network.server.spending import Price, SpendingTracker


class StatusReporter:
    """Answers status requests. A request that comes while an answer is being made gets that one."""

    def __init__(
        self, service: Service, connected: Container[int], heard: Mapping[int, float], traffic: Mapping[int, Traffic]
    ) -> None:
        certificate, delta = service.agreement.certificate, service.agreement.delta
        spending = None
        if certificate is not None and delta is not None:
            spending = SpendingTracker(certificate, certificate.usual_delta(delta))
        self._make = partial(_status, service, connected, heard, traffic, spending)
        self._being_made: asyncio.Task[dict[str, Any]] | None = None

    async def answer(self) -> str:
        """The federation and its clients, as JSON."""
        if self._being_made is None or self._being_made.done():
            self._being_made = asyncio.create_task(self._make())
        return json.dumps(await asyncio.shield(self._being_made))  # the first that asked may hang up


async def _status(
    service: Service,
    connected: Container[int],
    heard: Mapping[int, float],
    traffic: Mapping[int, Traffic],
    spending: SpendingTracker | None,
) -> dict[str, Any]:
    """The federation and its clients, all as of one instant; accounting for what was spent may take seconds after it.

    ``heard`` says when each client was last heard of, on the clock of ``time.monotonic``.
    """
    durable, names, now = service.durable, service.agreement.names, time.monotonic()
    reached = [durable.settled(c) for c in range(len(names))]
    found, present, known = service.status(), durable.present, durable.instances
    clients = []
    for c, (name, settled) in enumerate(zip(names, reached, strict=True)):
        moved = traffic.get(c, Traffic())
        clients.append(
            {
                "name": name,
                "connected": c in connected,
                "present": bool(present[c]),
                "joined": c in known,
                "round": settled.below + len(settled.beyond),
                "lag": found["k"] - settled.below,
                "waited_for": bool(present[c]) and not found["finished"] and found["k"] not in settled,
                "silent_seconds": round(now - heard[c], 1) if c in heard else None,
                "bytes_up": moved.up,
                "bytes_down": moved.down,
            }
        )
    prices = await spending.of(reached) if spending is not None else [None] * len(clients)
    for client, price in zip(clients, prices, strict=True):
        client.update(_spent(price))
    return {**found, "clients": clients}


def _spent(price: Price | None) -> dict[str, Any]:
    """``epsilon_is`` says how it was found; None: there is no privacy, or it is not known yet."""
    if price is None:
        return {"epsilon": None, "epsilon_is": None}
    if price.epsilon == math.inf:  # JSON has no such number
        return {"epsilon": None, "epsilon_is": "infinite"}
    return {"epsilon": price.epsilon, "epsilon_is": "tight" if price.tight else "bound"}
