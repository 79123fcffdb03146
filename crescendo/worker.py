"""One client's work: a Client joined to its data, objective and mechanism. It is the only thing that a runtime drives."""

from collections.abc import Mapping

import numpy as np

from crescendo.core.arrays import Array, Floats, Ints, Vector
from crescendo.core.client import Client, Done, Wait, Work
from crescendo.core.messages import Broadcast, Update
from crescendo.core.sides import ClientSide
from crescendo.core.terms import Terms
from crescendo.core.vectors import rounded
from crescendo.data.records import Records
from crescendo.errors import UsageError
from crescendo.objectives.base import Objective, Slots, exported, resumed
from crescendo.privacy.mechanisms.mechanism import Mechanism, Plain


class Worker:
    """Runs the slots of a client's rounds, on its own rows of ``data``.

    The mechanism says which records a round has and what of it is sent; without one, records are drawn uniformly with
    replacement and the displacement is sent as it is. A round that is restarted draws the same records, from the stream
    of (seed, client, round). ``wire`` is the type of the floats that are sent: the client moves by what it sent,
    rounded as the server will see it. A private release that does not fit is cut to the largest float there is: whether a
    round is sent must not depend on what is in it. ``client`` is given if it is another algorithm's than the core's.
    """

    def __init__(
        self,
        terms: Terms,
        me: int,
        model: Vector,
        objective: Objective,
        data: Records,
        rows: Ints,
        seed: int,
        wire: str = "float32",
        mechanism: Mechanism | None = None,
        client: ClientSide | None = None,
    ) -> None:
        if mechanism is None and not len(rows):  # a private client without records sends noise like any other
            raise UsageError(f"client {me} has no records; give every client at least one")
        self.client = Client(terms, me, model) if client is None else client
        self._size, self._wire, self._combined, self._records = objective.size, wire, terms.combined, len(data)
        self._mechanism = Plain(terms, me, rows, seed) if mechanism is None else mechanism
        self._mechanism.check(terms, objective)
        self._stepper = self._mechanism.stepper(objective, data)
        self._slots: Slots | None = None

    def next(self) -> Work | Wait | Done:
        """What the delay bound allows now."""
        return self.client.next()

    def begin(self) -> None:
        """Begin the round in hand, unless it has begun: lay it out, from the model as the client has it now."""
        if not self.has_begun:
            self.lay_out(self.client.round, self.client.start())

    def run(self, slots: int) -> None:
        """Run ``slots`` slots of the round in hand; begins the round if need be."""
        self.begin()
        first = self.client.h
        self.client.advance(slots)
        self.compute(first, first + slots)

    @property
    def round_is_full(self) -> bool:
        """All slots of the round in hand were run; `finish` is due."""
        return self.client.round_is_full

    def finish(self) -> Update:
        """What is sent of the round, rounded to the wire, as an update; the client goes on with its next round."""
        return self.send(self.released(self.client.round, self.client.frame))

    def send(self, released: Vector) -> Update:
        """The round in hand as an update, once its release is computed."""
        update = self.client.finish(released)
        self._slots = None
        return update

    def receive(self, broadcast: Broadcast) -> None:
        """Take in a newer global model, in the middle of a round too: the local model moves along, the work done stays."""
        i = self.client.round
        shift = self.client.receive(broadcast)
        if self.client.round != i:  # it gave the round up
            self._slots = None
        elif shift is not None and self._slots is not None:
            self._stepper.translate(shift)

    def restart_round(self) -> None:
        """Forget the unfinished round, as a crash does."""
        self.client.restart_round()
        self._slots = None

    def export(self) -> dict[str, Array] | None:
        """The records that were drawn for the round in hand and what was made of them; None if there is nothing to go on with.

        None too if the stepper cannot say. With the client's own state it is all that the round rests on: where it began follows
        from that, its noise is not drawn yet, and the rest is in the terms. Arrays may be the stepper's own: read them at once.
        """
        made = None if self._slots is None else exported(self._stepper)
        if self._slots is None or made is None:
            return None
        drawn = {"rows": self._slots.rows} | ({} if self._slots.ends is None else {"ends": self._slots.ends})
        return drawn | {f"stepper.{name}": array for name, array in made.items()}

    def resume(self, client: ClientSide, state: Mapping[str, Array]) -> None:
        """Go on from an exported state with the round that ``client`` is in, at the slot where it was exported.

        UsageError, and no round is in hand, if the state is not one of this worker's.
        """
        rows, ends = state.get("rows"), state.get("ends")
        whole = all(a is None or (a.dtype == np.int64 and a.ndim == 1) for a in (rows, ends))
        if rows is None or not whole or (len(rows) and not 0 <= rows.min() <= rows.max() < self._records):
            raise UsageError("a stored round names records that are not there")
        slots = self._mechanism.laid_out(
            client.round, self._size, np.array(rows), None if ends is None else np.array(ends)
        )
        self._stepper.load(self._mechanism.start(client.start()))
        made = {name.removeprefix("stepper."): a for name, a in state.items() if name.startswith("stepper.")}
        resumed(self._stepper, made, slots)
        self.client, self._slots = client, slots

    # -- the numbers of a round: no counter of the client's is read, so that they may be computed while it is ---------------

    @property
    def has_begun(self) -> bool:
        """The round in hand is laid out."""
        return self._slots is not None

    def lay_out(self, i: int, model: Floats) -> None:
        """Draw round i, which begins at ``model``."""
        self._slots = self._mechanism.draw(i, self._size)
        self._stepper.load(self._mechanism.start(model))

    def compute(self, first: int, last: int) -> None:
        """Run the slots from ``first`` up to but not ``last``. Stopping between slots, and going on, changes nothing."""
        assert self._slots is not None
        self._stepper.advance(self._slots, first, last)

    def released(self, i: int, frame: Floats) -> Vector:
        """What is sent of round i, whose displacement is measured from ``frame``, rounded to the wire."""
        released = self._mechanism.release(i, self._mechanism.start(frame), self._stepper)
        if self._combined != 1.0:  # a post-processing: the release is certified as it is
            released = released * self._combined
        return rounded(released, self._wire, self._mechanism.saturates)
