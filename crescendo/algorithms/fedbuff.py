"""FedBuff (Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022).

A client downloads the newest model w^t, takes its local steps and sends the displacement D = w^t - y, without waiting for others
and without applying its own updates that are on the way. The server collects K displacements in a buffer, then moves::

    w^{t+1} = w^t - eta_g / K  sum_i s(tau_i) D_i,     s(tau) = 1 / sqrt(1 + tau)

where tau_i is how many moves the server made between the download and the arrival. Here t is a broadcast's ``k``, a client's
local steps are its slots of a round of the terms, and what is left in the buffer at the end of the run is not applied.
"""

import math
from dataclasses import dataclass

import numpy as np

from crescendo.core.arrays import Floats, Vector
from crescendo.core.client import Done, Work
from crescendo.core.messages import Broadcast, DuplicateUpdate, Update
from crescendo.core.settled import SettledRounds
from crescendo.core.terms import Terms
from crescendo.errors import PeerError, UsageError


@dataclass(frozen=True, slots=True, eq=False)
class StampedUpdate(Update):
    """An update that says which model of the server it began with."""

    version: int = 0


def staleness_weight(tau: int) -> float:
    """s(tau) = 1 / sqrt(1 + tau): an update that is based on an old model counts less.

    >>> staleness_weight(0), staleness_weight(3)
    (1.0, 0.5)
    """
    return 1 / math.sqrt(1 + tau)


class FedBuffServer:
    """Moves the model by the weighted mean of every ``buffer`` updates, times ``rate``.

    >>> from crescendo.schedules import ConstantSizes, ConstantSteps
    >>> terms = Terms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=3, ahead=1)
    >>> server = FedBuffServer(terms, np.zeros(1), buffer=2, rate=0.5)
    >>> server.receive(StampedUpdate(0, 0, np.array([4.0]))), server.receive(StampedUpdate(1, 0, np.array([8.0])))
    (False, True)
    >>> server.model, server.k
    (array([-3.]), 1)
    """

    def __init__(self, terms: Terms, model: Vector, buffer: int = 10, rate: float = 1.0) -> None:
        if terms.blocks > 1:
            raise UsageError(f"FedBuff moves all coordinates in every round; leave out the {terms.blocks} blocks")
        if terms.combine != "sum":
            raise UsageError('FedBuff takes the mean of its buffer by itself; leave out clients.combine = "mean"')
        if buffer < 1 or not 0 < rate < math.inf:
            raise UsageError(f"FedBuff needs a buffer of at least 1 and a rate above 0, got {buffer} and {rate}")
        self.k, self.late = 0, 0
        self.model = np.array(model, dtype=np.float64)
        self._terms, self._buffer, self._rate = terms, buffer, rate
        self._sum, self._held = np.zeros_like(self.model), 0
        self._arrived = SettledRounds(terms)

    @property
    def finished(self) -> bool:
        """Every client has sent every round."""
        return all(self._arrived.of(c).below == self._terms.rounds for c in range(self._terms.clients))

    def receive(self, update: Update) -> bool:
        """Add one update to the buffer. True if that filled it, so that the model moved."""
        i, c = update.round, update.client
        if not isinstance(update, StampedUpdate) or not 0 <= update.version <= self.k:
            raise PeerError(f"round {i} of client {c} does not say which of the {self.k + 1} models it began with")
        if self._arrived.has(i, c):
            raise DuplicateUpdate(f"client {c} already sent round {i}; dropped, not applied twice")
        self._arrived.mark(i, c)
        self._sum = self._sum + staleness_weight(self.k - update.version) * update.delta
        self._held += 1
        if self._held < self._buffer:
            return False
        self.model = self.model - self._rate * (self._sum / self._buffer)
        self._sum, self._held, self.k = np.zeros_like(self.model), 0, self.k + 1
        return True

    def broadcast(self, c: int) -> Broadcast:
        return Broadcast(self.model, self.k, self._arrived.of(c))

    def absent(self, c: int) -> bool:
        """The server waits for nobody, so an absence changes nothing."""
        return False

    def back(self, c: int, last: int) -> int:
        return last + 1


class FedBuffClient:
    """Works without pause, each round from the newest model that it had heard of when the round began."""

    def __init__(self, terms: Terms, me: int, model: Vector) -> None:
        self.terms, self._me = terms, me
        self.round, self.h, self.k = 0, 0, 0
        self.frame: Floats = np.array(model, dtype=np.float64)
        self._begun = False
        self._newest: Broadcast | None = None  # put aside for the next round
        self._sent: dict[int, StampedUpdate] = {}
        self.resume(0)

    def next(self) -> Work | Done:
        if self.round >= self.terms.rounds:
            return Done()
        return Work(self.round, self.h, self.terms.share(self.round, self._me) - self.h)

    def start(self) -> Floats:
        self._begun = True
        return self.frame.copy()

    def advance(self, slots: int) -> None:
        self.h += slots

    @property
    def round_is_full(self) -> bool:
        return self._begun and self.h == self.terms.share(self.round, self._me)

    def finish(self, delta: Vector) -> Update:
        update = self._sent[self.round] = StampedUpdate(self.round, self._me, delta, self.k)
        self.resume(self.round + 1)
        return update

    def receive(self, broadcast: Broadcast) -> None:
        """A newer model is for the next round: the round in hand goes on undisturbed."""
        if broadcast.k > (self.k if self._newest is None else self._newest.k):
            self._newest = broadcast
        if not self._begun:
            self._take_newest()

    def unacknowledged(self) -> list[Update]:
        return list(self._sent.values())

    def restart_round(self) -> None:
        self.resume(self.round)

    def resume(self, round: int) -> None:
        """Go on with ``round``, or the next one in which this client has a share."""
        while round < self.terms.rounds and not self.terms.share(round, self._me):
            round += 1
        self.round, self.h, self._begun = round, 0, False
        self._take_newest()

    def _take_newest(self) -> None:
        if self._newest is not None:
            news, self._newest = self._newest, None
            self.frame, self.k = np.array(news.model, dtype=np.float64), news.k
            self._sent = {i: update for i, update in self._sent.items() if i not in news.yours}
