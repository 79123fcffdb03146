"""A whole federation, literally: events in a list, one slot at a time, the server and clients of `tests.paper`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
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
    closest: float = np.inf  # the least time between two events of one party: where it is tiny, rounding may swap them


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
    """Event after event until all rounds are in. ``step(w, c, i, h)`` is the displacement of one slot.

    A slot takes 1/speed and is computed on the model as it is when the slot begins; a message takes ``latency``. At one
    instant messages come before slots that begin, so that these know the news.
    """
    n = len(shares[0])
    server, told = PaperServer(model, shares), Told(model, 0, 0.0)
    clients = [PaperClient(c, model, shares, rule) for c in range(n)]
    mail: list[tuple[float, int, int, tuple[Any, ...]]] = []  # arrival, number, receiver (n is the server), message
    begins: list[float | None] = list(starts)  # when each client's next slot begins; None: waiting or done
    posted = 0

    def post(to: int, sent: float, *message: Any) -> None:
        nonlocal posted
        mail.append((sent + latency, posted, to, message))
        posted += 1

    def begin_slot(c: int, now: float) -> None:
        me = clients[c]
        me.skip_empty_rounds()
        if me.done() or me.must_wait():
            begins[c] = None
            return
        i, h = me.i, me.h
        told.gradients.append(Gradient(c, i, h, me.k, contains(me.w())))
        update = me.slot(lambda w: step(w, c, i, h))
        begins[c] = now + 1.0 / speeds[c]
        if update is not None:
            post(n, now + 1.0 / speeds[c], *update)

    def open_letter(to: int, message: tuple[Any, ...], now: float) -> None:
        if to < n:
            clients[to].isr_receive(*message)
            if begins[to] is None:
                begins[to] = now
            return
        before = server.k
        server.isr_receive("update", *message)
        if server.k > before:
            told.broadcasts.append((now, server.k, server.v.copy()))
            for c in range(n):
                post(c, now, server.v.copy(), server.k, server.rounds_of(c))

    while server.k < len(shares):
        events = sorted(
            [(when, c) for c, when in enumerate(begins) if when is not None] + [letter[:3:2] for letter in mail]
        )
        assert events, f"deadlock at k={server.k}, t={told.seconds}"
        now = told.seconds = events[0][0]
        for party in {who for _, who in events}:
            times = [when for when, who in events if who == party]
            told.closest = min([told.closest, *(later - sooner for sooner, later in pairwise(times))])
        if mail and min(letter[0] for letter in mail) == now:
            letter = min(mail, key=lambda letter: letter[:2])
            mail.remove(letter)
            open_letter(*letter[2:], now)
        else:
            begin_slot(begins.index(now), now)
    told.model, told.k = server.v, server.k
    return told
