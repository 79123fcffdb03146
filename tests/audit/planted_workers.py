"""Workers, clients and outboxes with one bug each. The docstring is the bug; the audit must find every one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.audit.worst_cases.sent_again import open_outbox
from crescendo.core.arrays import Vector
from crescendo.core.client import Client
from crescendo.core.messages import Broadcast, Update
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.objectives.base import LoopStepper, Slots
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.worker import Worker

Floats = npt.NDArray[np.float64]


class KeepsQuietAboutEmptyDraws(Worker):
    """A round in which no record was drawn sends nothing."""

    def finish(self) -> Update:
        empty = self._slots is not None and not len(self._slots.rows)
        update = super().finish()
        return None if empty else update  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, eq=False)
class Counted(Update):
    """An update that says how many records it has."""

    records: int = 0


class TellsTheCount(Worker):
    """The message has the number of records drawn in it."""

    def finish(self) -> Update:
        records = 0 if self._slots is None else len(self._slots.rows)
        update = super().finish()
        return Counted(update.round, update.client, update.delta, records)


class StopsIfItDoesNotFit(Worker):
    """A release that is too large for the wire is an error, as it is without privacy."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._mechanism.saturates = False


class TruncatesOnNarrowWires(Worker):
    """On a wire narrower than float64 the model's own numbers are cut to the wire before noise is added."""

    def begin(self) -> None:
        super().begin()
        if self._wire != "float64":
            self._stepper.load(np.asarray(self._stepper.read(), dtype=np.float16).astype(np.float64))


# -- where the next round begins ---------------------------------------------------------------------------------------


class _Moves(Client):
    """A client that goes on from other displacements than it sent."""

    def __init__(self, terms: Terms, me: int, model: Vector) -> None:
        super().__init__(terms, me, model)
        self.moves: dict[int, Floats] = {}

    def _own_view(self) -> Floats:
        view = self._base.copy()
        for i in sorted(self._sent):
            low, high = self.terms.block(i, len(view))
            view[low:high] -= self.moves.get(i, self._sent[i])
        return view


class GoesOnUnnoised(Worker):
    """The next round begins at the model before noise."""

    sign = 0.0

    def __init__(self, terms: Terms, me: int, model: Vector, *rest: Any) -> None:
        super().__init__(terms, me, model, *rest)
        self.client: _Moves = _Moves(terms, me, model)

    def _here(self, i: int) -> bool:
        return True

    def finish(self) -> Update:
        i, start = self.client.round, self.client.frame
        low, high = self.client.terms.block(i, self._size)
        moved = start[low:high] - self._stepper.read()[low:high]
        update = super().finish()
        if self._here(i):
            self.client.moves[i] = moved + self.sign * (np.asarray(update.delta, dtype=np.float64) - moved)
        return update


class AddsWhatIsSubtracted(GoesOnUnnoised):
    """The paper's sign: noise is added to the model and to what is sent, which is subtracted."""

    sign = -1.0


class GoesOnUnnoisedForAWhile(GoesOnUnnoised):
    """Two rounds in the middle of the run are followed by rounds that begin at the model before noise."""

    def _here(self, i: int) -> bool:
        return abs(i - self.client.terms.rounds // 2) <= 1


class KeepsMomentum(Private):
    """Half of a round's sum of gradients is added to that of the next: state of the optimiser outlives its round."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        before = getattr(self, "_before", np.zeros_like(hidden))
        moving = hidden + 0.5 * (before if len(before) == len(hidden) else 0.0)
        self._before = moving
        return super()._noised(i, moving)


class RefreshesByStepIndex(Worker):
    """A broadcast in mid-round is taken in after the next third record: which one that is depends on who was drawn."""

    def __init__(self, terms: Terms, me: int, model: Vector, objective: Any, data: Records, *rest: Any) -> None:
        super().__init__(terms, me, model, objective, data, *rest)
        self._stepper: _Refreshed = _Refreshed(objective, data)

    def receive(self, broadcast: Broadcast) -> None:
        if self._slots is not None:
            self._stepper.pending = np.asarray(broadcast.model - self.client.frame, dtype=np.float64)
        super().receive(broadcast)


class _Refreshed(LoopStepper):
    def load(self, w: Vector) -> None:
        super().load(w)
        self.pending: Floats | None = None
        self._by, self._count = np.zeros_like(self._w), 0

    def read(self) -> Floats:
        return self._w - self._by

    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        for h in range(h0, h1):
            self._w *= 1 - slots.etas[h] * self._l2
            for row in slots.rows[slots.records(h)]:
                self._w -= slots.etas[h] * self._gradient(np.array([row]), slots.clip)
                self._count += 1
                if self.pending is not None and self._count % 3 == 0:
                    self._w, self._by, self.pending = self._w + self.pending, self._by + self.pending, None


# -- what is sent again ------------------------------------------------------------------------------------------------


class NoisesAgain(Worker):
    """What is sent again gets noise of its own."""

    def __init__(self, terms: Terms, me: int, model: Vector, *rest: Any) -> None:
        super().__init__(terms, me, model, *rest)

        class Fresh(Client):
            def unacknowledged(self) -> list[Update]:
                return [replace(u, delta=u.delta * np.float32(1.01)) for u in super().unacknowledged()]

        self.client = Fresh(terms, me, model)


# -- what is gone on with after a kill ----------------------------------------------------------------------------------


class DrawsAgainAfterAKill(Worker):
    """A round that is gone on with draws its records once more: one of before the kill may be in it twice."""

    def resume(self, client: Any, state: Any) -> None:
        super().resume(client, state)
        self._slots = self._mechanism.draw(client.round, self._size)


class StoresItsNoise(Worker):
    """The bits of a round's noise are drawn when it begins and stored with it, so whoever goes on with it can take them off."""

    _words: npt.NDArray[np.uint64] | None = None

    def begin(self) -> None:
        if self._slots is None:
            self._words = self._mechanism._source.words(self.client.round, self._size)  # type: ignore[attr-defined]
        super().begin()

    def export(self) -> dict[str, Any] | None:
        made = super().export()
        return None if made is None or self._words is None else made | {"words": self._words}

    def resume(self, client: Any, state: Any) -> None:
        super().resume(client, state)
        self._words = state["words"]

    def finish(self) -> Update:
        source: Any = self._mechanism._source  # type: ignore[attr-defined]
        source.words = lambda i, size: self._words
        try:
            return super().finish()
        finally:
            del source.words


def forgetful_outbox(path: Path) -> Any:
    """A ledger that takes a released round again, with whatever it is given."""
    ledger = open_outbox(path)
    ledger.release = lambda federation, round, event, data: data
    return ledger
