"""Tasks at the clients' own pace: the common part of FedAsync and FedBuff.

The run's gradients are divided into numbered tasks of equally many local steps. The server gives a task with its
newest model to every client at the start, and to each client whose update has just arrived. No client waits for
another, and a fast one does more tasks. A task's number is the client's ``round``; the tasks of one client have
rising numbers. A client that crashes keeps its task, and restarts it from the newest model when it returns.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from crescendo.core.arrays import Floats, Vector
from crescendo.core.client import Done, Wait, Work
from crescendo.core.messages import Broadcast, DuplicateUpdate, Settled, Update
from crescendo.core.terms import Terms
from crescendo.core.vectors import rounded
from crescendo.errors import PeerError


@dataclass(frozen=True, slots=True, eq=False)
class Task(Broadcast):
    """A start model and the number of the task; a number equal to the total means that no task is left."""

    task: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class StampedUpdate(Update):
    """An update with the version of the server's model it started from."""

    version: int = 0


class TaskServer(ABC):
    """Assigns tasks and receives updates; ``_take`` applies an update to the model."""

    def __init__(self, terms: Terms, model: Vector, wire: str = "float64") -> None:
        self.k, self.late = 0, 0
        self.model: Floats = np.array(model, dtype=np.float64)
        self._terms, self._wire = terms, wire
        self._task = [min(c, terms.rounds) for c in range(terms.clients)]  # the current task of each client
        self._next, self._done = min(terms.clients, terms.rounds), 0
        self._given: list[dict[int, Vector]] = [{0: self.model} for _ in self._task]  # version -> model, for that task
        self._called: list[int] = []
        self._as_sent: tuple[int, Vector] = (0, self.model)  # the newest version sent, as decoded

    @property
    def finished(self) -> bool:
        """True once every task is done."""
        return self._done == self._terms.rounds

    def receive(self, update: Update) -> bool:
        """Apply an update and give its client the next task; return True if the model moved."""
        i, c = update.round, update.client
        if not 0 <= c < self._terms.clients or not 0 <= i < self._terms.rounds or i > self._task[c]:
            raise PeerError(f"client {c} was never given task {i}; its update is dropped")
        if i < self._task[c]:
            raise DuplicateUpdate(f"client {c} already sent task {i}; dropped, not applied twice")
        if not isinstance(update, StampedUpdate) or update.version not in self._given[c]:
            raise PeerError(f"task {i} of client {c} does not name the sent model that it started from")
        start, before = self._given[c][update.version], self.k
        self._done += 1
        self._take(update, self.k - update.version, start)
        self._give(c)
        return self.k > before

    @abstractmethod
    def _take(self, update: StampedUpdate, staleness: int, start: Vector) -> None:
        """Apply an update that started at the model ``start``; the server has moved ``staleness`` times since."""

    def _give(self, c: int) -> None:
        self._task[c] = self._next
        self._given[c] = {}
        if self._next < self._terms.rounds:
            self._next += 1
            self._called.append(c)

    def called(self) -> list[int]:
        called, self._called = self._called, []
        return called

    def broadcast(self, c: int) -> Broadcast:
        """Return client c's task with the newest model; remember the models sent with each task, as decoded."""
        task = self._task[c]
        if self._as_sent[0] != self.k:  # the first model is not rounded: it was never sent
            self._as_sent = (self.k, rounded(self.model, self._wire))
        self._given[c][self.k] = self._as_sent[1]
        return Task(self.model, self.k, Settled(task), task=task)

    def absent(self, c: int) -> bool:
        """Do nothing: the server waits for no client."""
        return False

    def back(self, c: int, last: int) -> int:
        return self._task[c]


class TaskClient:
    """Does one task after the other, each from the model sent with it."""

    def __init__(self, terms: Terms, me: int, model: Vector) -> None:
        self.terms, self._me = terms, me
        self.round, self.h, self.k = min(me, terms.rounds), 0, 0
        self.frame: Floats = np.array(model, dtype=np.float64)
        self._begun, self._idle = False, False
        self._sent: StampedUpdate | None = None

    def next(self) -> Work | Wait | Done:
        if self.round >= self.terms.rounds:
            return Done()
        return Wait() if self._idle else Work(self.round, self.h, self.terms.share(self.round, self._me) - self.h)

    def start(self) -> Floats:
        self._begun = True
        return self.frame.copy()

    def advance(self, slots: int) -> None:
        self.h += slots

    @property
    def round_is_full(self) -> bool:
        return self._begun and self.h == self.terms.share(self.round, self._me)

    def finish(self, delta: Vector) -> Update:
        self._sent = StampedUpdate(self.round, self._me, delta, self.k)
        self.h, self._begun, self._idle = 0, False, True
        return self._sent

    def is_news(self, broadcast: Broadcast) -> bool:
        """Return True for a new task, or a newer model for a task to restart."""
        if not isinstance(broadcast, Task):
            return False
        anew = broadcast.task == self.round and not self._idle and not self._begun and broadcast.k > self.k
        return broadcast.task > self.round or anew

    def receive(self, broadcast: Broadcast) -> None:
        if isinstance(broadcast, Task) and self.is_news(broadcast):
            self.k, self.frame = broadcast.k, np.array(broadcast.model, dtype=np.float64)
            if broadcast.task > self.round:
                self._sent = None
            self.round, self.h, self._begun, self._idle = broadcast.task, 0, False, False

    def unacknowledged(self) -> list[Update]:
        return [] if self._sent is None else [self._sent]

    def restart_round(self) -> None:
        self.h, self._begun = 0, False

    def resume(self, round: int) -> None:
        """Restart the round: the server keeps a client's task for it."""
        self.restart_round()
