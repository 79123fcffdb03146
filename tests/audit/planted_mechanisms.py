"""Mechanisms and certificates with one bug each. The docstring is the bug; the audit must find every one.

`planted_noise.py`, `planted_workers.py` and `planted_sources.py` have more of them; `planted_bugs.py` has the list of all and the
way to run the audit on one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.audit.driving.subject import Maker, Subject
from crescendo.core.arrays import Ints, Vector
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.objectives.base import LoopStepper, Slots, Stepper, clipped
from crescendo.privacy.mechanisms.admission import admitted
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.minibatch import FrozenStepper
from crescendo.privacy.mechanisms.noise import Source
from crescendo.worker import Worker

Floats = npt.NDArray[np.float64]


def planted(mechanism: type[Private] = Private, worker: type[Worker] = Worker, admission: bool = True) -> Maker:
    """How the audit makes a worker with the bug."""

    def make(subject: Subject, data: Records, rows: Ints, source: Source, model: Floats) -> Worker:
        if admission:
            data, sound = admitted(data, subject.certificate.norm_bound, subject.objective.traits.intercept)
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


def scaled_by_the_longest(subject: Subject, data: Records, rows: Ints, source: Source, model: Floats) -> Worker:
    """Features are divided by the length of the longest record, which is a record's own affair."""
    data, sound = admitted(data, subject.certificate.norm_bound, subject.objective.traits.intercept)
    kept = rows[sound[rows]]
    data = data.take(kept)
    longest = float(np.linalg.norm(data.x, axis=1).max(initial=0.0)) if isinstance(data.x, np.ndarray) else 1.0
    data = Records(data.x / max(longest, 1.0), data.y)
    return planted(admission=False)(subject, data, np.arange(len(kept)), source, model)


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
            def _gradient(self, slots: Slots, rows: Ints) -> Floats:
                each = [self._objective.gradient(self._start, self._data, rows[r : r + 1]) for r in range(len(rows))]
                return np.asarray(sum(_clipped_apart(g, slots.clip or math.inf) for g in each))

        class Loop(LoopStepper):
            def _gradient(self, rows: Ints, clip: float | None) -> Vector:
                return _clipped_apart(self._objective.gradient(self._w, self._data, rows), clip or math.inf)

        return Frozen(objective, data) if self._certificate.mechanism == "minibatch" else Loop(objective, data)


class LetsNanThroughTheClip(Private):
    """The paper's formula, g / max(1, |g| / C), which hands on what is not a number."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        class Frozen(FrozenStepper):
            def _gradient(self, slots: Slots, rows: Ints) -> Floats:
                each = [self._objective.gradient(self._start, self._data, rows[r : r + 1]) for r in range(len(rows))]
                return np.asarray(sum(g / max(1.0, float(np.linalg.norm(g)) / (slots.clip or math.inf)) for g in each))

        return Frozen(objective, data)


class ClipsTheSum(Private):
    """The sum of the gradients is clipped to the number of records times C, not each of them to C."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        class Frozen(FrozenStepper):
            def _gradient(self, slots: Slots, rows: Ints) -> Floats:
                total = np.asarray(self._objective.gradient(self._start, self._data, rows), dtype=np.float64)
                return np.asarray(clipped(total, len(rows) * (slots.clip or math.inf)))

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
        return Slots(rows, etas, np.arange(1, len(rows) + 1), self._terms.moving(i, size), clip=self._certificate.clip)


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


class DrawsTooOften(Private):
    """Records are drawn at a rate a fifth above the certified one."""

    def draw(self, i: int, size: int) -> Slots:
        right = self._source
        self._source = _Faster(right)
        try:
            return super().draw(i, size)
        finally:
            self._source = right


class _Faster:
    simulated = True

    def __init__(self, behind: Source) -> None:
        self._behind = behind

    def members(self, i: int, records: int, rate: float) -> Ints:
        return self._behind.members(i, records, min(1.0, 1.2 * rate))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)


# -- what is certified -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeavesTheFactorOut(Certificate):
    """The sensitivity lacks the factor D of masks."""

    def sensitivity(self, i: int, c: int) -> float:
        return self.terms.largest_step(i, c) * self.clip * (1 + self.slack)


@dataclass(frozen=True)
class ChargesForMoreNoise(Certificate):
    """The ledger is charged for a tenth more noise than there is."""

    def event(self, i: int, c: int) -> Any:
        event = super().event(i, c)
        return None if event is None else replace(event, sigma=1.1 * event.sigma)


@dataclass(frozen=True)
class ChargesForFewerDraws(Certificate):
    """Rates are taken of one record more than is declared."""

    def rate(self, i: int, c: int) -> float:
        return self.terms.share(i, c) / (self.records[c] + 1)


# -- a displacement that is clipped as a whole -------------------------------------------------------------------------


class _Whole(Private):
    """`batch-clip`, with another way from a round's displacement to what is hidden."""

    def release(self, i: int, start: Floats, stepper: Stepper) -> Floats:
        block = slice(*self._terms.block(i, len(start)))
        with np.errstate(all="ignore"):
            return self._noised(i, self._cut(start[block] - stepper.read()[block], start[block]))

    def _cut(self, moved: Floats, start: Floats) -> Floats:
        raise NotImplementedError


class ClipsEachLayer(_Whole):
    """The displacement of the weights is clipped to S, and that of the intercept to S again."""

    def _cut(self, moved: Floats, start: Floats) -> Floats:
        return np.asarray(_clipped_apart(moved, self._certificate.clip))


class ClipsBeforeL2(_Whole):
    """The pull of L2 at the model that a round reached is added to the clipped displacement."""

    def _cut(self, moved: Floats, start: Floats) -> Floats:
        pull = self._certificate.objective.traits.l2 * self._terms.largest_step(0, self._me)
        return np.asarray(clipped(moved, self._certificate.clip) + pull * (start - moved))


class ClipsInHalfFloats(_Whole):
    """The length of the displacement is computed in float16, in which a long one has none."""

    def _cut(self, moved: Floats, start: Floats) -> Floats:
        length = float(np.sqrt(np.sum(moved.astype(np.float16) ** 2, dtype=np.float16)))
        return moved * min(1.0, self._certificate.clip / length) if 0 < length < math.inf else moved


class ClipsEachCoordinate(_Whole):
    """Every number of the displacement is cut to S, not the length of all."""

    def _cut(self, moved: Floats, start: Floats) -> Floats:
        return np.clip(np.nan_to_num(moved), -self._certificate.clip, self._certificate.clip)


class ClipsByTheRecords(_Whole):
    """The displacement is clipped to S for each of the drawn records, as if they were clipped one by one."""

    def draw(self, i: int, size: int) -> Slots:
        slots = super().draw(i, size)
        self._drawn = len(slots.rows)
        return slots

    def _cut(self, moved: Floats, start: Floats) -> Floats:
        return np.asarray(clipped(moved, self._certificate.clip * max(1, self._drawn)))


class ClipsToTheLastLength(_Whole):
    """The clip is the length of the round before, where that was longer than half of S."""

    def _cut(self, moved: Floats, start: Floats) -> Floats:
        clip = getattr(self, "_last", self._certificate.clip)
        found: Floats = np.asarray(clipped(moved, clip), dtype=np.float64)
        self._last = max(float(np.linalg.norm(found)), self._certificate.clip / 2)
        return found


class SendsNoNoiseOfEmptyDraws(ClipsByTheRecords):
    """A round that drew nobody sends its displacement, which is public, without noise."""

    def _cut(self, moved: Floats, start: Floats) -> Floats:
        return np.asarray(clipped(moved, self._certificate.clip))

    def _noised(self, i: int, hidden: Floats) -> Floats:
        return super()._noised(i, hidden) if self._drawn else hidden


class KeepsItsVelocity(Private):
    """The optimiser's momentum goes on from round to round."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        class Heavy(LoopStepper):
            velocity: Any = 0.0

            def _gradient(self, rows: Ints, clip: float | None) -> Vector:
                self.velocity = 0.5 * self.velocity + super()._gradient(rows, clip)
                return np.asarray(self.velocity)

        return Heavy(objective, data)


class CentresByAllRecords(Private):
    """The features of the drawn records are taken relative to the mean of all, drawn or not."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        x = np.asarray(data.x)
        return super().stepper(objective, Records(x - x.mean(axis=0) if len(x) else x, data.y))


@dataclass(frozen=True)
class NoiseForOneClip(Certificate):
    """Noise is for a sensitivity of S, as if a record could not turn a displacement round."""

    def sensitivity(self, i: int, c: int) -> float:
        return self.clip * (1 + self.slack)
