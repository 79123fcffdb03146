"""The sides of a federation as a driver sees them: the core's `Server` and `Client`, or those of a rival algorithm.

A runtime drives one `ServerSide` and a `WorkerSide` per client. `crescendo.worker.Worker` works for any `ClientSide`, so a rival
algorithm is one file in `crescendo.algorithms` with a server and a client.
"""

from typing import Protocol, runtime_checkable

from crescendo.core.arrays import Floats, Vector
from crescendo.core.client import Done, Wait, Work
from crescendo.core.messages import Broadcast, Update
from crescendo.core.terms import Terms


class ServerSide(Protocol):
    """Takes updates and says when to tell the clients: whenever ``k``, the number of its model, has risen."""

    k: int
    late: int  # updates that came after the server had gone on without them

    @property
    def model(self) -> Floats: ...
    @property
    def finished(self) -> bool:
        """Nothing more is expected."""

    def receive(self, update: Update) -> bool:
        """Apply one update. True if k rose, so that a Broadcast is due. A repeated one raises `DuplicateUpdate`."""

    def broadcast(self, c: int) -> Broadcast:
        """What to tell client c now."""

    def absent(self, c: int) -> bool:
        """Client c has been silent for too long. True if k rose."""

    def back(self, c: int, last: int) -> int:
        """Client c is here again, and the last round it sent is ``last``. The round it has to go on with."""


@runtime_checkable
class CallingServer(Protocol):
    """A server that answers the clients it chooses, whether or not ``k`` rose, in place of telling all whenever it does."""

    def called(self) -> list[int]:
        """The clients to be told now, each of them once: asking again without a new event names nobody."""


@runtime_checkable
class TimedServer(Protocol):
    """A server that goes on without those who are late."""

    @property
    def deadline(self) -> float | None:
        """The seconds after each rise of ``k``, and after the start, at which `expire` is due; None for never."""

    def expire(self) -> bool:
        """The deadline has passed and k is what it was. True if k rose."""


class ClientSide(Protocol):
    """One client's counters and models: it stands at slot ``h`` of ``round``, and its newest broadcast has number ``k``."""

    terms: Terms
    round: int
    h: int
    k: int

    def next(self) -> Work | Wait | Done:
        """What it may do now."""

    def start(self) -> Floats:
        """Begin the round: the model to start from."""

    @property
    def frame(self) -> Floats:
        """The model that the displacement of the round in hand is measured from."""

    def advance(self, slots: int) -> None:
        """``slots`` more slots of the round were run."""

    @property
    def round_is_full(self) -> bool:
        """All slots of the round in hand were run; `finish` is due."""

    def finish(self, delta: Vector) -> Update:
        """The round is done, and ``delta`` is its displacement as the server will decode it. Goes on with the next round."""

    def is_news(self, broadcast: Broadcast) -> bool:
        """Does the broadcast say more than this client has heard?"""

    def receive(self, broadcast: Broadcast) -> Floats | None:
        """Take in a newer global model. What to add to the local model of the round in hand, or None for nothing.

        A client that goes on with another round instead has given the round in hand up.
        """

    def unacknowledged(self) -> list[Update]:
        """What was sent and is in no broadcast yet, oldest first."""

    def restart_round(self) -> None:
        """Forget the unfinished round, as a crash does."""

    def resume(self, round: int) -> None:
        """Go on with ``round`` after an absence."""


class WorkerSide(Protocol):
    """One client's work: a client joined to whatever computes its slots."""

    @property
    def client(self) -> ClientSide: ...
    @property
    def round_is_full(self) -> bool: ...
    def next(self) -> Work | Wait | Done: ...
    def begin(self) -> None:
        """Begin the round in hand, unless it has begun."""

    def run(self, slots: int) -> None:
        """Run ``slots`` slots of the round in hand; begins the round if need be."""

    def finish(self) -> Update:
        """What is sent of the round in hand; the client goes on with its next round."""

    def receive(self, broadcast: Broadcast) -> None: ...
    def restart_round(self) -> None: ...
