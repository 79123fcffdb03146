"""What a server says about itself: nothing of it is secret, and all of it is published state."""

from __future__ import annotations

import time
from typing import Any

from crescendo.core.messages import Settled
from crescendo.privacy.accountant import account
from crescendo.privacy.certificates import Certificate
from crescendo.privacy.events import tally
from crescendo.runtimes.network.hall import Hall
from crescendo.runtimes.network.peers import Peer


def status_of(hall: Hall, peers: dict[int, Peer], heard: dict[int, float], began: float) -> dict[str, Any]:
    """The federation and its clients, as plain data.

    Of each client: how many of its rounds are settled, how many it is behind k (negative: ahead), whether rounds wait for it,
    and an upper bound on the epsilon of what it has sent.
    """
    durable, now, terms = hall.durable, time.monotonic(), hall.terms
    present = durable.present
    clients = []
    for c, name in enumerate(hall.names):
        settled, peer = durable.settled(c), peers.get(c)
        clients.append(
            {
                "name": name,
                "connected": peer is not None,
                "present": bool(present[c]),
                "joined": c in durable.instances,
                "round": settled.below + len(settled.beyond),
                "lag": durable.k - settled.below,
                "waited_for": bool(present[c]) and not hall.finished and durable.k not in settled,
                "silent_seconds": round(now - heard.get(c, began), 1),
                "bytes_up": 0 if peer is None else peer.bytes_up,
                "bytes_down": 0 if peer is None else peer.bytes_down,
                "epsilon": spent(hall.limits.certificate, hall.delta, c, settled),
            }
        )
    return {
        "federation": hall.federation,
        "terms": hall.digest,
        "k": durable.k,
        "rounds": terms.rounds,
        "epoch": durable.epoch,
        "finished": hall.finished,
        "late": durable.late,
        "mechanism": "none" if hall.limits.certificate is None else hall.limits.certificate.mechanism,
        "delta": hall.delta,
        "clients": clients,
    }


def spent(certificate: Certificate | None, delta: float | None, c: int, settled: Settled) -> float | None:
    """An upper bound, by Renyi divergence, on what the settled rounds cost client c; None without privacy."""
    if certificate is None or delta is None:
        return None
    rounds = [*range(settled.below), *settled.beyond]
    events = tally(event for i in rounds if (event := certificate.event(i, c)) is not None)
    return account(events, delta, quick=True).epsilon if events else 0.0
