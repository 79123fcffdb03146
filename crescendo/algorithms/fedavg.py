"""FedAvg (McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017).

In round k every client starts at the model w_k, takes its local steps and sends the displacement D_c = w_k -
w_{k+1}^c. The server waits for all clients, and moves by their mean::

    w_{k+1} = w_k - rate  sum_{c in S} p_c D_c / sum_{c in S} p_c

For rate = 1 this is the mean of the clients' models, as in the paper. S is the set of all clients not declared
absent. With a deadline, S is the set of clients whose displacements arrive within that many seconds of the broadcast
of w_k (Bonawitz et al., "Towards Federated Learning at Scale", 2019). The others abandon the round when w_{k+1}
reaches them, and their displacements in transit are dropped. If none has arrived by the deadline, the first arrival
ends the round.

All clients take the same number of local steps. With the same number of epochs instead, so that steps are in
proportion to records, the fixed point is not that of sum p_c F_c (Wang et al., "Tackling the Objective Inconsistency
Problem", 2020), the objective here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from crescendo.algorithms.rival_options import RivalOptions
from crescendo.core.arrays import Floats, Vector
from crescendo.core.client import Done, Wait, Work
from crescendo.core.messages import Broadcast, DuplicateUpdate, Pair, Settled, Update
from crescendo.core.terms import Terms
from crescendo.errors import PeerError
from crescendo.schedules.parameters import NOT_NEGATIVE, POSITIVE


@dataclass(frozen=True)
class FedAvgOptions(RivalOptions):
    rate: Annotated[float, POSITIVE, "the server's step size: 1 is the mean of the clients' models"] = 1.0
    deadline: Annotated[
        float, NOT_NEGATIVE, "virtual seconds after which a round ends without stragglers; 0: never"
    ] = 0.0


class FedAvgServer:
    """Waits for every present client, or for the deadline; then moves by the mean, weighted by p_c.

    >>> from crescendo.schedules import ConstantSizes, ConstantSteps
    >>> terms = Terms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.75, 0.25), rounds=3, ahead=0)
    >>> server = FedAvgServer(terms, np.zeros(1), FedAvgOptions())
    >>> server.receive(Update(0, 0, np.array([4.0]))), server.receive(Update(0, 1, np.array([8.0])))
    (False, True)
    >>> server.model, server.k
    (array([-5.]), 1)
    """

    def __init__(self, terms: Terms, model: Vector, options: FedAvgOptions) -> None:
        self.k, self.late = 0, 0
        self.model: Floats = np.array(model, dtype=np.float64)
        self.deadline = options.deadline or None
        self._terms, self._rate = terms, options.rate
        self._present = set(range(terms.clients))
        self._waiting = self._expected()  # the clients that round k waits for
        self._arrived: dict[int, Vector] = {}  # in round k
        self._missed: set[Pair] = set()  # pairs whose update missed its round and has not come yet
        self._overdue = False

    @property
    def finished(self) -> bool:
        """True once the last round has ended."""
        return self.k >= self._terms.rounds

    def receive(self, update: Update) -> bool:
        """Keep one update of round k; return True if it ends the round."""
        i, c = update.round, update.client
        if not 0 <= c < self._terms.clients or i > self.k:
            raise PeerError(f"client {c} cannot have finished round {i} while the server is in round {self.k}; dropped")
        if i < self.k and (i, c) in self._missed:
            self._missed.discard((i, c))
            self.late += 1
            raise DuplicateUpdate(f"round {i} ended without client {c}, whose update is dropped", void=((i, c),))
        if i < self.k or c in self._arrived:
            raise DuplicateUpdate(f"client {c} already sent round {i}; dropped, not applied twice")
        self._arrived[c] = update.delta
        self._waiting.discard(c)
        return self._end_if_due()

    def broadcast(self, c: int) -> Broadcast:
        """Return the model of round k. All earlier rounds are settled, since their updates are of no more use."""
        return Broadcast(self.model, self.k, Settled(self.k))

    def absent(self, c: int) -> bool:
        self._present.discard(c)
        self._waiting.discard(c)
        return self._end_if_due()

    def back(self, c: int, last: int) -> int:
        """Readmit a client from the next round on, so that the others need not wait for it; if alone, from this round on."""
        self._present.add(c)
        if self._waiting or last >= self.k:
            return self.k + 1
        self._waiting = {c} & self._expected()
        return self.k

    def expire(self) -> bool:
        self._overdue = True
        return self._end_if_due()

    def _end_if_due(self) -> bool:
        """End round k if all expected clients have sent, or if any has and the deadline has passed."""
        before = self.k
        if self._arrived and (self._overdue or not self._waiting):
            self._move(self._arrived)
            shares = self._terms.shares(self.k).tolist()
            self._missed.update((self.k, c) for c, slots in enumerate(shares) if slots and c not in self._arrived)
            self._arrived, self._overdue, self.k = {}, False, self.k + 1
            self._waiting = self._expected()
        return self.k > before

    def _expected(self) -> set[int]:
        """Return the present clients with slots in round k."""
        return {c for c, slots in enumerate(self._terms.shares(self.k).tolist()) if slots and c in self._present}

    def _move(self, arrived: Mapping[int, Vector]) -> None:
        """Move by the mean displacement, weighted by p_c, into a new array, so that earlier broadcasts stay valid."""
        self.model = self.model - self._rate * weighted_mean(arrived, self._terms.weights)


def weighted_mean(arrived: Mapping[int, Vector], weights: tuple[float, ...]) -> Floats:
    """Return sum p_c D_c / sum p_c, added in client order for any order of arrival.

    >>> weighted_mean({1: np.array([2.0]), 0: np.array([5.0])}, (0.25, 0.5, 0.25))
    array([3.])
    """
    total = sum(weights[c] for c in arrived)
    parts = [np.asarray(arrived[c], dtype=np.float64) * (weights[c] / total) for c in sorted(arrived)]
    return np.asarray(np.sum(parts, axis=0), dtype=np.float64)


class FedAvgClient:
    """Runs each round from the server's model of that round, and waits for the next one."""

    def __init__(self, terms: Terms, me: int, model: Vector) -> None:
        self.terms, self._me = terms, me
        self.round, self.h, self.k = 0, 0, 0
        self.frame: Floats = np.array(model, dtype=np.float64)
        self._begun = False
        self._sent: Update | None = None

    def next(self) -> Work | Wait | Done:
        if self.round >= self.terms.rounds:
            return Done()
        slots = self.terms.share(self.round, self._me)
        return Work(self.round, self.h, slots - self.h) if self.round <= self.k and slots else Wait()

    def start(self) -> Floats:
        self._begun = True
        return self.frame.copy()

    def advance(self, slots: int) -> None:
        self.h += slots

    @property
    def round_is_full(self) -> bool:
        return self._begun and self.h == self.terms.share(self.round, self._me)

    def finish(self, delta: Vector) -> Update:
        self._sent = Update(self.round, self._me, delta)
        self.resume(self.round + 1)
        return self._sent

    def is_news(self, broadcast: Broadcast) -> bool:
        return broadcast.k > self.k

    def receive(self, broadcast: Broadcast) -> None:
        """Begin the server's round; abandon a current round, which the server ended without this client."""
        if self.is_news(broadcast):
            self.k, self.frame = broadcast.k, np.array(broadcast.model, dtype=np.float64)
            self.resume(broadcast.k)

    def unacknowledged(self) -> list[Update]:
        return [self._sent] if self._sent is not None and self._sent.round >= self.k else []

    def restart_round(self) -> None:
        self.resume(self.round)

    def resume(self, round: int) -> None:
        self.round, self.h, self._begun = round, 0, False
