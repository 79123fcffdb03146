"""Mechanisms, workers, clients and certificates with one bug each. The docstring is the bug; the audit must find every one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.core.client import Client
from crescendo.core.messages import Broadcast, Update, Vector
from crescendo.core.setup import Terms
from crescendo.data.records import Records
from crescendo.objectives.base import IntArray, LoopStepper, Slots, Stepper, clipped
from crescendo.privacy.admission import admitted
from crescendo.privacy.audit.outbox import open_outbox
from crescendo.privacy.audit.subject import Maker, Subject
from crescendo.privacy.certificates import Certificate, largest_step
from crescendo.privacy.frozen import FrozenStepper
from crescendo.privacy.gaussian import noised
from crescendo.privacy.mechanisms import Private, masked
from crescendo.privacy.noise import Source
from crescendo.worker import Worker

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def planted(mechanism: type[Private] = Private, worker: type[Worker] = Worker, admission: bool = True) -> Maker:
    """How the audit makes a worker with the bug."""

    def make(subject: Subject, data: Records, rows: Ints, source: Source, model: Floats) -> Worker:
        if admission:
            data, sound = admitted(data, subject.certificate.norm_bound, subject.objective.intercept)
            kept = rows[sound[rows]]
            data, rows = data.take(kept), np.arange(len(kept))
        made = mechanism(subject.certificate, subject.me, rows, source)
        terms = subject.certificate.terms
        return worker(terms, subject.me, model, subject.objective, data, rows, 0, subject.wire, made)

    return make


def bound_on_x_only(subject: Subject, data: Records, rows: Ints, source: Source, model: Floats) -> Worker:
    """Records are scaled so that x is within R, where (x, 1) should be."""
    data, sound = admitted(data, subject.certificate.norm_bound, intercept=False)
    kept = rows[sound[rows]]
    return planted(admission=False)(subject, data.take(kept), np.arange(len(kept)), source, model)


# -- what a record's step is -------------------------------------------------------------------------------------------


class L2InsideTheClip(Private):
    """The L2 part is added to a record's gradient before clipping."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        class Loop(LoopStepper):
            def advance(self, slots: Slots, h0: int, h1: int) -> None:
                for h in range(h0, h1):
                    for row in slots.rows[slots.records(h)]:
                        gradient = np.asarray(self._objective.gradient(self._w, self._data, np.array([row])))
                        self._w -= slots.etas[h] * clipped(gradient + self._l2 * self._w, slots.clip or math.inf)

        return Loop(objective, data)


class ShrinksPerDrawnRecord(Private):
    """The L2 shrink is applied once for every drawn record, not once for every slot."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        class Loop(LoopStepper):
            def advance(self, slots: Slots, h0: int, h1: int) -> None:
                for h in range(h0, h1):
                    for row in slots.rows[slots.records(h)]:
                        self._w *= 1 - slots.etas[h] * self._l2
                        self._w -= slots.etas[h] * self._gradient(np.array([row]), slots.clip)

        return Loop(objective, data)


def _clipped_apart(gradient: Vector, clip: float) -> Vector:
    return np.concatenate([clipped(gradient[:-1], clip), clipped(gradient[-1:], clip)])


class ClipsTheInterceptApart(Private):
    """The gradient of x is clipped to C, and that of the intercept to C again."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        class Frozen(FrozenStepper):
            def _gradient(self, slots: Slots, rows: IntArray) -> Floats:
                each = [self._objective.gradient(self._start, self._data, rows[r : r + 1]) for r in range(len(rows))]
                return np.asarray(sum(_clipped_apart(g, slots.clip or math.inf) for g in each))

        class Loop(LoopStepper):
            def _gradient(self, rows: IntArray, clip: float | None) -> Vector:
                return _clipped_apart(self._objective.gradient(self._w, self._data, rows), clip or math.inf)

        return Frozen(objective, data) if self._certificate.mechanism == "minibatch" else Loop(objective, data)


class LetsNanThroughTheClip(Private):
    """The paper's formula, g / max(1, |g| / C), which hands on what is not a number."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        class Frozen(FrozenStepper):
            def _gradient(self, slots: Slots, rows: IntArray) -> Floats:
                each = [self._objective.gradient(self._start, self._data, rows[r : r + 1]) for r in range(len(rows))]
                return np.asarray(sum(g / max(1.0, float(np.linalg.norm(g)) / (slots.clip or math.inf)) for g in each))

        return Frozen(objective, data)


class MasksPerStep(Private):
    """Every record moves another block of coordinates; to be used with `WholeBlocks`."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        class Loop(LoopStepper):
            def load(self, w: Vector) -> None:
                super().load(w)
                self._count = 0

            def advance(self, slots: Slots, h0: int, h1: int) -> None:
                for h in range(h0, h1):
                    for row in slots.rows[slots.records(h)]:
                        size, blocks = len(self._w), int(slots.factor)
                        block = slice(
                            self._count % blocks * size // blocks, (self._count % blocks + 1) * size // blocks
                        )
                        step = slots.etas[h] * slots.factor
                        self._w[block] -= step * self._gradient(np.array([row]), slots.clip)[block]
                        self._count += 1

        return Loop(objective, data)


@dataclass(frozen=True)
class WholeBlocks(Terms):
    """All coordinates are sent in every round, though the factor of masks is taken."""

    def block(self, i: int, size: int) -> tuple[int, int]:
        return 0, size


# -- who is drawn ------------------------------------------------------------------------------------------------------


class SamplesWithReplacement(Private):
    """One record a slot, drawn uniformly from all, as the paper does."""

    def draw(self, i: int, size: int) -> Slots:
        etas = self._terms.etas(i, self._me)
        self._source.members(i, len(self._rows), 1.0)
        rows = self._rows[(self._source.tags(i, len(etas)) * len(self._rows)).astype(np.int64)]
        return Slots(rows, etas, np.arange(1, len(rows) + 1), masked(self._terms, i, size), clip=self._certificate.clip)


class CutsTheDraw(Private):
    """A draw of more records than slots is cut to the slots."""

    def draw(self, i: int, size: int) -> Slots:
        slots = super().draw(i, size)
        assert slots.ends is not None
        return replace(slots, rows=slots.rows[: len(slots)], ends=np.minimum(slots.ends, len(slots)))


class CountsItsRecords(Private):
    """The rate is taken from the true number of records."""

    def draw(self, i: int, size: int) -> Slots:
        right, true = self._certificate, (max(len(self._rows), self._terms.share(i, self._me)),)
        self._certificate = replace(right, records=true)
        try:
            return super().draw(i, size)
        finally:
            self._certificate = right


# -- what is sent ------------------------------------------------------------------------------------------------------


def with_noise(source: Source, i: int, hidden: Floats, scale: float) -> Floats:
    return (
        noised(hidden, scale, source.words(i, len(hidden)), lambda number: source.more(i, number)) if scale else hidden
    )


class ForgetsTheStepInTheNoise(Private):
    """The noise is for a sum of gradients, and is added to a displacement."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        scale = self._certificate.sigma(i) * self._certificate.clip
        return with_noise(self._source, i, hidden, scale)


class RepeatsItsNoise(Private):
    """Every round has the same noise."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        return with_noise(self._source, 0, hidden, self._certificate.noise_scale(i, self._me))


class DividesByTheDraw(Private):
    """A mean over the records drawn, times the number expected."""

    def draw(self, i: int, size: int) -> Slots:
        slots = super().draw(i, size)
        self._factor = len(slots) / max(1, len(slots.rows))
        return slots

    def _noised(self, i: int, hidden: Floats) -> Floats:
        return super()._noised(i, hidden * self._factor)


class DividesNoiseAndAll(DividesByTheDraw):
    """The noisy sum is divided by the number drawn, which its noise then tells."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        return Private._noised(self, i, hidden) * self._factor


class KeepsQuietAboutEmptyDraws(Worker):
    """A round in which no record was drawn sends nothing."""

    def finish(self) -> Update:
        empty = self._slots is not None and not len(self._slots.rows)
        update = super().finish()
        return None if empty else update  # type: ignore[return-value]


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

    def finish(self) -> Update:
        i, start = self.client.round, self.client.frame
        low, high = self.client.terms.block(i, self._size)
        moved = start[low:high] - self._stepper.read()[low:high]
        update = super().finish()
        self.client.moves[i] = moved + self.sign * (np.asarray(update.delta, dtype=np.float64) - moved)
        return update


class AddsWhatIsSubtracted(GoesOnUnnoised):
    """The paper's sign: noise is added to the model and to what is sent, which is subtracted."""

    sign = -1.0


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


def forgetful_outbox(path: Path) -> Any:
    """A ledger that takes a released round again, with whatever it is given."""
    ledger = open_outbox(path)
    ledger.release = lambda federation, round, event, data: data
    return ledger


# -- what is certified -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeavesTheFactorOut(Certificate):
    """The sensitivity lacks the factor D of masks."""

    def sensitivity(self, i: int, c: int) -> float:
        return largest_step(self.terms, i, c) * self.clip * (1 + self.slack)
