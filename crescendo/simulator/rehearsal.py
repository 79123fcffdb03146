"""Rehearsal of a run: the sequence of calls that each client will receive, found without computing gradients.

The virtual clock does not depend on the values in a model: speeds, latencies, losses and crashes come from a separate
random stream, and the wait rule counts slots. So the same simulation, with small models that never change, asks every
client for the same slots, interrupted by the same broadcasts, as the run itself will.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from crescendo.core.client import Done, Wait, Work
from crescendo.core.messages import Broadcast, Update
from crescendo.core.sides import ClientSide, ServerSide
from crescendo.core.terms import Terms
from crescendo.errors import CrescendoError
from crescendo.simulator.simulation import Simulation
from crescendo.simulator.timing import Timing

_GOES_ON, _DISTURBED, _FINISHED = 0, -1, -2  # a positive number is a count of slots to run


class ClientScript:
    """The calls that one client will receive, in order."""

    def __init__(self) -> None:
        self._asked: list[int] = []
        self._at = 0

    def note(self, what: int) -> None:
        self._asked.append(what)

    def pass_on(self) -> None:
        """Move past the next call, which has happened."""
        self._at += 1

    def undisturbed(self) -> tuple[int, bool]:
        """Return the number of slots to run next, and True if the round is finished right after them.

        The number is 0 if an event changes the slots first. A broadcast can arrive between a round's last slot and
        its end.
        """
        at = self._at
        while at < len(self._asked) and self._asked[at] == _GOES_ON:
            at += 1
        if at == len(self._asked) or self._asked[at] < 0:
            return 0, False
        return self._asked[at], self._asked[at + 1 : at + 2] == [_FINISHED]


class _Actor:
    """A client that computes nothing and notes each call."""

    def __init__(self, terms: Terms, client: ClientSide) -> None:
        self.client, self.script = client, ClientScript()
        self._terms, self._has_begun = terms, False

    def next(self) -> Work | Wait | Done:
        return self.client.next()

    @property
    def round_is_full(self) -> bool:
        return self.client.round_is_full

    def begin(self) -> None:
        self.script.note(_GOES_ON)
        self._begin()

    def _begin(self) -> None:
        if not self._has_begun:
            self.client.start()
            self._has_begun = True

    def run(self, slots: int) -> None:
        self.script.note(slots)
        self._begin()
        self.client.advance(slots)

    def finish(self) -> Update:
        self.script.note(_FINISHED)
        self._has_begun = False
        low, high = self._terms.block(self.client.round, self._terms.blocks)
        return self.client.finish(np.zeros(high - low))

    def receive(self, broadcast: Broadcast) -> None:
        """Note a broadcast: it disturbs a round that has not begun, and one whose model it moves or that it ends."""
        i = self.client.round
        shift = self.client.receive(broadcast)
        goes_on = self._has_begun and self.client.round == i
        self.script.note(_GOES_ON if goes_on and shift is None else _DISTURBED)
        self._has_begun = goes_on

    def restart_round(self) -> None:
        self.script.note(_DISTURBED)
        self._has_begun = False
        self.client.restart_round()


def rehearsed(
    terms: Terms, server: ServerSide, clients: Sequence[ClientSide], timing: Timing, seed: int
) -> list[ClientScript]:
    """Return the script of each client, from a run on models of ``terms.blocks`` numbers until it ends or fails."""
    actors = [_Actor(terms, client) for client in clients]
    with suppress(CrescendoError):  # the run itself will raise it at the same point
        Simulation(terms, actors, server, timing, seed, wire="float64").run()
    return [actor.script for actor in actors]
