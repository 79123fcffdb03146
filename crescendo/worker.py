"""Worker: one client with its data, objective and mechanism. Runtimes drive a federation's clients through it alone."""

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
    """Runs the slots of a client's rounds, on the client's ``rows`` of ``data``.

    The mechanism draws the records of a round and makes its release. Without a mechanism, records are drawn uniformly with
    replacement and the displacement is sent unchanged. A restarted round draws the same records, from the stream of (seed,
    client, round). ``wire`` is the type of the floats sent: the client moves by the rounded update, as the server will see it. A
    private release that does not fit is cut to the largest float, since sending a round must not depend on its content.
    ``client`` is given for an algorithm other than the core's.
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
        """Return the work that the delay bound allows now."""
        return self.client.next()

    def begin(self) -> None:
        """Begin the current round, unless it has begun: lay it out, from the client's present model."""
        if not self.has_begun:
            self.lay_out(self.client.round, self.client.start())

    def run(self, slots: int) -> None:
        """Run ``slots`` slots of the current round, after beginning it if necessary."""
        self.begin()
        first = self.client.h
        self.client.advance(slots)
        self.compute(first, first + slots)

    @property
    def round_is_full(self) -> bool:
        """Whether all slots of the current round were run, so that `finish` is due."""
        return self.client.round_is_full

    def finish(self) -> Update:
        """Return the round's update, rounded to the wire type. The client goes on with its next round."""
        return self.send(self.released(self.client.round, self.client.frame))

    def send(self, released: Vector) -> Update:
        """Return the current round's update, given its release."""
        update = self.client.finish(released)
        self._slots = None
        return update

    def receive(self, broadcast: Broadcast) -> None:
        """Move to a newer global model, also in the middle of a round. The local model shifts with it and keeps its work."""
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
        """Return the current round's drawn records and the stepper's state, or None if the round cannot be resumed.

        A round cannot be resumed if it has not begun or its stepper has no export. Together with the client's state the export
        determines the round: its start follows from the state, its noise is not drawn yet, and the rest is in the terms. The
        arrays may belong to the stepper: read them at once.
        """
        made = None if self._slots is None else exported(self._stepper)
        if self._slots is None or made is None:
            return None
        drawn = {"rows": self._slots.rows} | ({} if self._slots.ends is None else {"ends": self._slots.ends})
        return drawn | {f"stepper.{name}": array for name, array in made.items()}

    def resume(self, client: ClientSide, state: Mapping[str, Array]) -> None:
        """Resume the current round of ``client`` from an exported state, at the slot of the export.

        Raise UsageError, and have no current round, if the state is not from this worker.
        """
        rows, ends = state.get("rows"), state.get("ends")
        whole = all(a is None or (a.dtype == np.int64 and a.ndim == 1) for a in (rows, ends))
        if rows is None or not whole or (len(rows) and not 0 <= rows.min() <= rows.max() < self._records):
            raise UsageError("a stored round names records that do not exist")
        slots = self._mechanism.laid_out(
            client.round, self._size, np.array(rows), None if ends is None else np.array(ends)
        )
        self._stepper.load(self._mechanism.start(client.start()))
        made = {name.removeprefix("stepper."): a for name, a in state.items() if name.startswith("stepper.")}
        resumed(self._stepper, made, slots)
        self.client, self._slots = client, slots

    # -- the numbers of a round: these read no counter of the client, so they may be computed while the client moves on -----

    @property
    def has_begun(self) -> bool:
        """Whether the current round is laid out."""
        return self._slots is not None

    def lay_out(self, i: int, model: Floats) -> None:
        """Draw the records of round i, which begins at ``model``."""
        self._slots = self._mechanism.draw(i, self._size)
        self._stepper.load(self._mechanism.start(model))

    def compute(self, first: int, last: int) -> None:
        """Run the slots from ``first`` up to but not including ``last``. A pause between slots does not change the result."""
        assert self._slots is not None
        self._stepper.advance(self._slots, first, last)

    def released(self, i: int, frame: Floats) -> Vector:
        """Return the release of round i, with its displacement measured from ``frame``, rounded to the wire type."""
        released = self._mechanism.release(i, self._mechanism.start(frame), self._stepper)
        if self._combined != 1.0:  # post-processing: the certificate covers the release before it
            released = released * self._combined
        return rounded(released, self._wire, self._mechanism.saturates)
