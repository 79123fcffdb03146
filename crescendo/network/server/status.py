"""What a server says about itself: nothing of it is secret, and all of it is published state."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Container, Mapping
from functools import partial
from typing import Any

from crescendo.core.messages import Settled
from crescendo.network.server.service import Service
from crescendo.network.server.session import Traffic
from crescendo.network.server.spending import Price, SpendingTracker
from crescendo.privacy.mechanisms.certificate import usual_delta


def federation_status(service: Service) -> dict[str, Any]:
    """The federation as a whole; quick enough for whoever asks every second."""
    certificate = service.limits.certificate
    return {
        "federation": service.agreement.federation,
        "terms": service.agreement.digest,
        "k": service.durable.k,
        "rounds": service.terms.rounds,
        "epoch": service.durable.epoch,
        "finished": service.finished,
        "late": service.durable.late,
        "mechanism": "none" if certificate is None else certificate.mechanism,
        "delta": service.agreement.delta,
    }


class StatusReporter:
    """Answers those who ask how it stands. Whoever asks while an answer is being made gets that one."""

    def __init__(
        self, service: Service, here: Container[int], heard: Mapping[int, float], traffic: Mapping[int, Traffic]
    ) -> None:
        certificate, delta = service.limits.certificate, service.agreement.delta
        spending = (
            None
            if certificate is None or delta is None
            else SpendingTracker(certificate, usual_delta(certificate, delta))
        )
        self._make = partial(_status, service, here, heard, traffic, spending)
        self._being_made: asyncio.Task[dict[str, Any]] | None = None

    async def answer(self) -> str:
        """The federation and its clients, as JSON."""
        if self._being_made is None or self._being_made.done():
            self._being_made = asyncio.create_task(self._make())
        return json.dumps(await asyncio.shield(self._being_made))  # whoever asked first may hang up


async def _status(
    service: Service,
    here: Container[int],
    heard: Mapping[int, float],
    traffic: Mapping[int, Traffic],
    spending: SpendingTracker | None,
) -> dict[str, Any]:
    """The federation and its clients, all as of one instant; accounting for what was spent may take seconds after it.

    ``heard`` says when each client was last heard of, on the clock of ``time.monotonic``.
    """
    reached = [service.durable.settled(c) for c in range(len(service.names))]
    found, present, known, now = (
        federation_status(service),
        service.durable.present,
        service.durable.instances,
        time.monotonic(),
    )
    clients = []
    for c, (name, settled) in enumerate(zip(service.names, reached, strict=True)):
        moved = traffic.get(c, Traffic())
        clients.append(
            {
                "name": name,
                "connected": c in here,
                "present": bool(present[c]),
                "joined": c in known,
                "round": _count(settled),
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


def _count(settled: Settled) -> int:
    return settled.below + len(settled.beyond)


def _spent(price: Price | None) -> dict[str, Any]:
    """``epsilon_is`` says how it was found; None: there is no privacy, or it is not known yet."""
    if price is None:
        return {"epsilon": None, "epsilon_is": None}
    if price.epsilon == math.inf:  # JSON has no such number
        return {"epsilon": None, "epsilon_is": "infinite"}
    return {"epsilon": price.epsilon, "epsilon_is": "tight" if price.tight else "bound"}
