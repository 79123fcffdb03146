"""Ten bugs of the private path, written from the paper and the mechanism without sight of the audit.

Each is a change that reads like a speed-up or a repair, and each makes the claimed epsilon false, for some data or
terms at least. Nothing here is used outside of tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.core.client import Client
from crescendo.core.messages import Broadcast
from crescendo.core.vectors import rounded
from crescendo.data.records import Records
from crescendo.objectives.base import Slots, Stepper, clipped
from crescendo.privacy.mechanisms.admission import LABELS, admitted
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.minibatch import FrozenStepper
from crescendo.privacy.mechanisms.noise import SeededSource, Source
from crescendo.worker import Worker

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Blind:
    """A bug: which part of the private path it replaces, and where it runs."""

    name: str
    says: str
    mechanism: type[Private] = Private
    worker: type[Worker] = Worker
    source: Callable[[int, int], Source] = SeededSource  # (seed, client) -> Source
    admission: Callable[..., Any] = admitted  # looks at the records before anything else touches them
    for_mechanism: str = "minibatch"  # or "local": the mechanism whose certificate it runs under
    blocks: int = 1
    wire: str = "float32"
    bound: float | None = 3.0  # on the records of the run that it is planted in


# -- which records, and where in the round -----------------------------------------------------------------------------


class RememberedDraw(SeededSource):
    """Rounds of the same rate share one draw of records: it is remembered by its arguments, without the round."""

    def __init__(self, seed: int, client: int) -> None:
        super().__init__(seed, client)
        self._drawn: dict[tuple[int, float], Ints] = {}

    def members(self, i: int, records: int, rate: float) -> Ints:
        if (records, rate) not in self._drawn:
            self._drawn[records, rate] = super().members(i, records, rate)
        return self._drawn[records, rate]


class EvenSlots(Private):
    """The drawn records are dealt evenly over the slots by their rank, so that one record more moves others to another
    slot, with another step size and another number of shrinks."""

    def draw(self, i: int, size: int) -> Slots:
        slots = super().draw(i, size)
        ends = np.arange(1, len(slots) + 1, dtype=np.int64) * len(slots.rows) // len(slots)
        return replace(slots, ends=ends)


def admitted_with_zeros(
    records: Records, norm_bound: float | None, intercept: bool, labels: tuple[float, ...] = LABELS
) -> Any:
    """Labels -1 are read as 0 as long as no record has the label 0: one record with it puts all those with -1 out."""
    y = records.y
    if 0.0 in labels and not (y == 0.0).any():
        y = np.where(y == -1.0, 0.0, y)
    return admitted(Records(records.x, y), norm_bound, intercept, labels)


# -- what one record may change ----------------------------------------------------------------------------------------


class _SlotClip(FrozenStepper):
    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        for h in range(h0, h1):
            super().advance(slots, h, h + 1)

    def _gradient(self, slots: Slots, rows: Ints) -> Floats:
        total = np.asarray(self._objective.gradient(self._start, self._data, rows), dtype=np.float64)
        if slots.clip is not None:
            total = np.asarray(clipped(total, slots.clip), dtype=np.float64)
        return total if slots.unit is None else np.rint(total / slots.unit) * slots.unit


class SlotClip(Private):
    """A slot's gradients are summed and clipped as one, so that a record which shares its slot can change it by 2 C."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        return _SlotClip(objective, data)


class _ShortUnclipped(FrozenStepper):
    def _gradient(self, slots: Slots, rows: Ints) -> Floats:
        x: Any = self._data.x[rows]
        short = np.sqrt(np.asarray((x * x).sum(axis=1))) <= (slots.clip or 0.0)
        long = super()._gradient(slots, rows[~short])
        return long + super()._gradient(replace(slots, clip=None), rows[short])


class ShortUnclipped(Private):
    """Records with |x| <= C skip the clip, since a slope is below 1, but the intercept makes their gradients up to
    sqrt(C^2 + 1) long."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        return _ShortUnclipped(objective, data)


class WireFirst(Private):
    """The sum is rounded to bfloat16 before the noise, as the wire does after it, so that one record moves a large sum
    by a whole step of that type or not at all, in every coordinate."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        return super()._noised(i, np.asarray(rounded(hidden, "bfloat16", saturate=True), dtype=np.float64))


# -- what a round begins with ------------------------------------------------------------------------------------------


class _LateSum(FrozenStepper):
    def load(self, w: npt.NDArray[Any]) -> None:
        before = self._sum
        super().load(w)
        self._used = len(before) == len(self._sum)
        if self._used:
            self._sum = before

    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        if self._used and h0 < h1 and slots.records(h0).start < slots.records(h1 - 1).stop:
            self._sum[:] = 0.0
            self._used = False
        super().advance(slots, h0, h1)


class LateSum(Private):
    """The sum is cleared by a round's first record and not by its beginning, so that a round whose draw is empty
    releases the sum of the round before once more, with new noise."""

    def stepper(self, objective: Any, data: Records) -> Stepper:
        return _LateSum(objective, data)


class BlockLoaded(Worker):
    """Of a start model only the round's block is loaded, since nothing else moves: the other coordinates stay as the
    local model of earlier rounds left them, without noise, and enter every margin."""

    _loaded = False

    def begin(self) -> None:
        if self._slots is not None:
            return
        self._slots = self._mechanism.draw(self.client.round, self._size)
        start = self._mechanism.start(self.client.start())
        if self._loaded and self._slots.block is not None:
            block, whole = slice(*self._slots.block), self._stepper.read()
            whole[block] = start[block]
            start = whole
        self._stepper.load(start)
        self._loaded = True


class EarlyRefresh(Worker):
    """A broadcast in the middle of a round is taken in at once if the draw is empty, since there is no work to keep:
    the start model, whose L2 pull is released without noise, then tells whether a record was drawn."""

    def receive(self, broadcast: Broadcast) -> None:
        super().receive(broadcast)
        client, slots = self.client, self._slots
        assert isinstance(client, Client)
        if slots is None or len(slots.rows) or client._put_aside is None:
            return
        aside, client._put_aside = client._put_aside, None
        client._take_in(aside)
        self._stepper.load(self._mechanism.start(client.frame))
        self._stepper.advance(slots, 0, client.h)


# -- the noise ---------------------------------------------------------------------------------------------------------


class CancellingNoise(SeededSource):
    """An odd round has the noise of the round before with its sign turned, so that their sum is released bare."""

    def words(self, i: int, size: int) -> Words:
        return super().words(i - i % 2, size) ^ np.uint64(i % 2)


BUGS: tuple[Blind, ...] = (
    Blind("a draw remembered by its rate", "rounds of the same rate share one draw of records", source=RememberedDraw),
    Blind(
        "records dealt evenly over slots",
        "the slot of a drawn record is its rank among the drawn, not its tag, so one record more moves others to "
        "another step size and another number of shrinks",
        mechanism=EvenSlots,
        for_mechanism="local",
    ),
    Blind(
        "labels 0 read as -1 while no record has -1",
        "whether records labelled 0 are admitted depends on whether any other record is labelled -1",
        admission=admitted_with_zeros,
    ),
    Blind(
        "slots clipped as one",
        "the gradients of a slot are summed and then clipped, so a record that shares its slot can change it by 2 C",
        mechanism=SlotClip,
    ),
    Blind(
        "short records not clipped",
        "records with |x| <= C skip the clip, though with the intercept their gradients reach sqrt(C^2 + 1)",
        mechanism=ShortUnclipped,
    ),
    Blind(
        "sums rounded to the wire before noise",
        "the sum is rounded to bfloat16 before the noise, so one record can move every coordinate by a whole step of "
        "that type",
        mechanism=WireFirst,
        wire="bfloat16",
    ),
    Blind(
        "a sum cleared by the first record",
        "a round whose draw is empty releases the sum of the round before once more, with new noise",
        mechanism=LateSum,
    ),
    Blind(
        "only the block is loaded",
        "coordinates outside of the round's block keep the values that earlier rounds left in the local model, without "
        "noise",
        worker=BlockLoaded,
        for_mechanism="local",
        blocks=2,
    ),
    Blind(
        "broadcasts taken in when nothing was drawn",
        "a broadcast in mid-round replaces the start model at once if the draw is empty, and the pull of L2 shows it "
        "without noise",
        worker=EarlyRefresh,
    ),
    Blind(
        "noise that cancels every second round",
        "an odd round has the noise of the round before with its sign turned, so the sum of the two releases has none",
        source=CancellingNoise,
    ),
)
