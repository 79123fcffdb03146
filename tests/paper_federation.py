"""A whole federation, literally: events in a list, one slot at a time, the server and clients of `tests.paper`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.paper import Gradient, PaperClient, PaperServer, Rule, Shares, Vector


@dataclass
class Told:
    """What happened in a literal run."""

    model: Vector
    k: int
    seconds: float
    gradients: list[Gradient] = field(default_factory=list)
    broadcasts: list[tuple[float, int, Vector]] = field(default_factory=list)
    closest: float = np.inf  # the least time between two events: where it is tiny, rounding may swap them


def paper_federation(
    model: Vector,
    shares: Shares,
    rule: Rule,
    step: Callable[[Vector, int, int, int], Vector],
    speeds: Sequence[float],
    starts: Sequence[float],
    latency: float,
    contains: Callable[[Vector], frozenset[int]] = lambda w: frozenset(),
) -> Told:
    """Event after event until all rounds are in: a slot takes 1/speed and is computed as it ends, a message takes ``latency``.

    ``step(w, c, i, h)`` is the displacement of one slot. A client that must wait begins its slot when the broadcast comes.
    """
    n = len(shares[0])
    server, told = PaperServer(model, shares), Told(model, 0, 0.0)
    clients = [PaperClient(c, model, shares, rule) for c in range(n)]
    mail: list[tuple[float, int, int, tuple[Any, ...]]] = []  # time, number, receiver (n is the server), message
    ends: list[float | None] = [None] * n  # when the slot in hand ends; None: waiting or done
    posted = 0

    def begin(c: int, now: float) -> None:
        clients[c].skip_empty_rounds()
        ends[c] = None if clients[c].done() or clients[c].must_wait() else max(now, starts[c]) + 1.0 / speeds[c]

    def post(to: int, *message: Any) -> None:
        nonlocal posted
        mail.append((told.seconds + latency, posted, to, message))
        posted += 1

    for c in range(n):
        begin(c, starts[c])
    while server.k < len(shares):
        slots = [(end, c) for c, end in enumerate(ends) if end is not None]
        assert slots or mail, f"deadlock at k={server.k}, t={told.seconds}"
        times = sorted({when for when, _ in slots} | {when for when, *_ in mail})
        if len(times) > 1:
            told.closest = min(told.closest, times[1] - times[0])
        told.seconds = times[0]
        if slots and min(slots)[0] == told.seconds:  # at the same instant, a slot that ends comes before a message
            c = min(slots)[1]
            me = clients[c]
            i, h = me.i, me.h
            told.gradients.append(Gradient(c, i, h, me.k, contains(me.w())))
            update = me.slot(lambda w, c=c, i=i, h=h: step(w, c, i, h))  # type: ignore[misc]
            if update is not None:
                post(n, *update)
            begin(c, told.seconds)
            continue
        letter = min(mail, key=lambda letter: letter[:2])
        mail.remove(letter)
        to, message = letter[2:]
        if to < n:
            clients[to].isr_receive(*message)
            if ends[to] is None:
                begin(to, told.seconds)
            continue
        before = server.k
        server.isr_receive("update", *message)
        if server.k > before:
            told.broadcasts.append((told.seconds, server.k, server.v.copy()))
            for c in range(n):
                post(c, server.v.copy(), server.k, server.rounds_of(c))
    told.model, told.k = server.v, server.k
    return told
