"""Protocols for the sides of a federation: the core's `Server` and `Client`, or those of a rival algorithm.

A runtime drives one `ServerSide` and a `WorkerSide` per client. `crescendo.worker.Worker` works for any `ClientSide`,
so a rival algorithm is one file in `crescendo.algorithms` with a server and a client.
"""

from typing import Protocol, runtime_checkable

from crescendo.core.arrays import Floats, Vector
from crescendo.core.client import Done, Wait, Work
from crescendo.core.messages import Broadcast, Update
from crescendo.core.terms import Terms


class ServerSide(Protocol):
    """Takes updates, and signals a broadcast whenever ``k``, the number of its model, has risen."""

    k: int
    late: int  # updates that came after the server had moved on without them

    @property
    def model(self) -> Floats: ...
    @property
    def finished(self) -> bool:
        """True once no more updates are expected."""

    def receive(self, update: Update) -> bool:
        """Apply one update; return True if k rose, so that a Broadcast is due. Raise `DuplicateUpdate` for a repetition."""

    def broadcast(self, c: int) -> Broadcast:
        """Return the current broadcast for client c."""

    def absent(self, c: int) -> bool:
        """Declare client c absent; return True if k rose."""

    def back(self, c: int, last: int) -> int:
        """Readmit client c, whose last sent round is ``last``; return the round at which it must resume."""


@runtime_checkable
class CallingServer(Protocol):
    """A server that broadcasts to clients of its choice at any time, instead of to all clients whenever ``k`` rises."""

    def called(self) -> list[int]:
        """Return the clients due a broadcast, each once: a second call without a new event returns no clients."""


@runtime_checkable
class TimedServer(Protocol):
    """A server that continues without late clients."""

    @property
    def deadline(self) -> float | None:
        """The seconds from the start, and from each rise of ``k``, until `expire` is due; None for never."""

    def expire(self) -> bool:
        """Handle a deadline that passed while k stood still; return True if k rose."""


class ClientSide(Protocol):
    """One client's counters and models: it is at slot ``h`` of ``round``, and its newest broadcast has number ``k``."""

    terms: Terms
    round: int
    h: int
    k: int

    def next(self) -> Work | Wait | Done:
        """Return the action allowed now."""

    def start(self) -> Floats:
        """Begin the round and return its start model."""

    @property
    def frame(self) -> Floats:
        """The model from which the current round's displacement is measured."""

    def advance(self, slots: int) -> None:
        """Count ``slots`` more slots of the round as run."""

    @property
    def round_is_full(self) -> bool:
        """True once all slots of the current round were run and `finish` is due."""

    def finish(self, delta: Vector) -> Update:
        """Finish the round with ``delta``, the displacement as the server will decode it, and move to the next round."""

    def is_news(self, broadcast: Broadcast) -> bool:
        """Return True if the broadcast is newer than the last one."""

    def receive(self, broadcast: Broadcast) -> Floats | None:
        """Apply a newer global model; return the shift of the current round's local model, or None.

        A client that moves to another round instead has abandoned the current one.
        """

    def unacknowledged(self) -> list[Update]:
        """Return the sent updates that are in no broadcast yet, oldest first."""

    def restart_round(self) -> None:
        """Discard the unfinished round, as a crash does."""

    def resume(self, round: int) -> None:
        """Resume at ``round`` after an absence."""


class WorkerSide(Protocol):
    """One client's work: a client together with the code that computes its slots."""

    @property
    def client(self) -> ClientSide: ...
    @property
    def round_is_full(self) -> bool: ...
    def next(self) -> Work | Wait | Done: ...
    def begin(self) -> None:
        """Begin the current round, unless it has begun."""

    def run(self, slots: int) -> None:
        """Run ``slots`` slots of the current round, beginning it if necessary."""

    def finish(self) -> Update:
        """Return the current round's update; the client moves to its next round."""

    def receive(self, broadcast: Broadcast) -> None: ...
    def restart_round(self) -> None: ...
