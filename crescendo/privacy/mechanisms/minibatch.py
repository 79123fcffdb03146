"""The `minibatch` mechanism: every gradient of a round at its start model, so that any model can be certified."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, cast

import numpy as np

from crescendo.core.arrays import Array, Floats, Ints
from crescendo.errors import UsageError
from crescendo.objectives.base import (
    ClippingObjective,
    LayeredObjective,
    Objective,
    Slots,
    Stepper,
    StepperState,
    clipped,
    isolate,
    stored,
)
from crescendo.privacy.mechanisms.certificate import Certificate, Requirement
from crescendo.privacy.mechanisms.proposal import Proposal
from crescendo.privacy.mechanisms.rounding import U

if TYPE_CHECKING:
    from crescendo.data.records import Records

_FINEST = 40  # a clipped gradient has at most 2^41 units


class Minibatch(Proposal):
    """Hides the sum of clipped gradients; the start model is not part of it, so its bound is the run's reach."""

    name, takes_layers = "minibatch", True

    def requirements(self) -> list[Requirement]:
        holds = self.terms.steps.per == "round" or self.terms.rounds == 0
        says = 'minibatch takes one step size per round, and these change within a round; schedule.steps.per = "round" would pass'
        plain = self.objective.traits.plain_steps
        takes = "minibatch takes one plain step by the sum of a round's gradients, and this model has an optimiser of its own; "
        return [
            Requirement("one step size per round", float(not holds), 0.0, holds, says),
            Requirement(
                "plain steps", float(not plain), 0.0, plain, takes + 'optimiser = "sgd" or batch-clip would pass'
            ),
            self.shrink(),
        ]

    def bound(self, least: float, most: float) -> float:
        return most

    @property
    def unit(self) -> float:
        return _unit(self.clip, float(self.drawn.max()))

    def slack(self, bound: float) -> float:
        """Return the slack derived at the top of `rounding`."""
        size, drawn = self.objective.size, float(self.drawn.max())
        return math.sqrt(size) / 2 * self.unit / self.clip + (size + 8 + 4 * drawn + 16) * U

    def remedy(self, bound: float, least: float, first: float) -> str:
        return "a smaller model or fewer records per round would pass"

    @classmethod
    def stepper(cls, objective: Objective, data: Records) -> Stepper:
        return FrozenStepper(objective, data)

    @classmethod
    def parts(cls, certificate: Certificate, i: int, start: Floats, stepper: Stepper) -> tuple[Floats, Floats | float]:
        """Hide the sum; the pull of L2 is added after the noise, since it is a function of the public start model."""
        if isinstance(stepper, FrozenStepper):
            return stepper.gradients(), stepper.decay()
        return super().parts(certificate, i, start, stepper)


def _unit(clip: float, drawn: float) -> float:
    """Return the finest power of two to which clipped gradients can be rounded so that ``drawn`` of them add up exactly.

    >>> _unit(1.0, 1000) == 2.0**-40, _unit(0.1, 2e8) == 2.0**-4 * 2.0**-23
    (True, True)
    """
    bits = min(_FINEST, 51 - math.ceil(math.log2(max(drawn, 1.0))))
    return math.ldexp(1.0, math.frexp(clip)[1] - 1 - bits)


def _first() -> Ints:
    """Return the row number of a record that is passed alone: a new array each time, since a user's code may write to it."""
    return np.zeros(1, dtype=np.int64)


class FrozenStepper:
    """Sums each record's clipped gradient at a frozen model.

    Since the model is frozen, one record changes the sum by exactly its clipped gradient, for any objective. Each gradient is
    rounded to multiples of the round's unit before it is added, so the sum is exact in any order: its rounding error does not
    depend on the other drawn records.

    L2 shrinks that model once per public slot, whatever was drawn. The shrink depends on no record, so it is kept apart from
    the sum and added after the release.
    """

    def __init__(self, objective: Objective, data: Records) -> None:
        isolate(objective)
        self._objective, self._data, self._l2 = objective, data, objective.traits.l2
        self._start: Floats = np.zeros(0)
        self._sum: Floats = np.zeros(0)
        self._step, self._slots, self._block = 0.0, 0, slice(0)

    def load(self, w: Array) -> None:
        self._start = np.array(w, dtype=np.float64)
        self._sum = np.zeros_like(self._start)
        self._step, self._slots, self._block = 0.0, 0, slice(0, len(self._start))

    def translate(self, by: Array) -> None:
        raise UsageError("a private round uses one start model; take broadcasts in between rounds")

    def gradients(self) -> Floats:
        """Return the step size times the exact sum on the moving coordinates: the only part that depends on records."""
        return self._step * self._sum[self._block]

    def decay(self) -> Floats:
        """Return the movement of the same coordinates by L2: a function of the public start model."""
        kept = (1.0 - self._step * self._l2) ** self._slots
        return self._start[self._block] * (1.0 - kept)

    def read(self) -> Floats:
        moved = self._start.copy()
        moved[self._block] -= self.decay() + self.gradients()
        return moved

    def export(self) -> StepperState:
        """Export the exact sum and its number of slots, but not the start model, which the caller loads again."""
        return {"sum": self._sum, "slots": np.array(self._slots)}

    def restore(self, state: StepperState, slots: Slots) -> None:
        total, count = stored(state, "sum", self._sum), int(stored(state, "slots", np.array(0)))
        if not 0 <= count <= len(slots):
            raise UsageError(f"a stored round of {len(slots)} slots has a sum of {count}")
        self._sum, self._slots = total, count
        if count:
            self._move(slots)

    def _move(self, slots: Slots) -> None:
        self._step = float(slots.etas[0]) * slots.factor
        self._block = slice(*(slots.block or (0, len(self._start))))

    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        slots.check(h0, h1, len(self._start))
        if h0 == h1:
            return
        if (slots.etas[h0:h1] != slots.etas[0]).any():
            raise UsageError('the minibatch mechanism takes one step size per round; set schedule.steps.per = "round"')
        self._move(slots)
        self._slots += h1 - h0
        rows = slots.rows[slots.records(h0).start : slots.records(h1 - 1).stop]
        if len(rows):
            self._sum += self._gradient(slots, rows)

    def _gradient(self, slots: Slots, rows: Ints) -> Floats:
        """Return the sum of the rows' clipped gradients.

        A model that cannot clip may be arbitrary code. It sees one record at a time, on copies, so that its gradient of a
        record cannot depend on another record and its code cannot change the start model.
        """
        if self._objective.traits.clips:
            if slots.layers is not None:
                by_layer = cast(LayeredObjective, self._objective).gradient
                return by_layer(self._start, self._data, rows, slots.clip, unit=slots.unit, layers=slots.layers)
            able = cast(ClippingObjective, self._objective)
            return able.gradient(self._start, self._data, rows, slots.clip, unit=slots.unit)
        total = np.zeros_like(self._start)
        for r in range(len(rows)):
            total += self._alone(slots, rows[r : r + 1])
        return total

    def _alone(self, slots: Slots, row: Ints) -> Floats:
        """Return one record's gradient, clipped and rounded; 0 if the code fails, since an error would reveal the record.

        The code may set numpy to raise: that setting ends with its call, and the arithmetic on its answer ignores errors.
        """
        try:
            with np.errstate():
                given = self._objective.gradient(self._start.copy(), self._data.take(row), _first())
            gradient = np.array(given, dtype=np.float64)
            if gradient.shape != self._start.shape:
                return np.zeros_like(self._start)
            with np.errstate(all="ignore"):
                if slots.layers is not None:
                    gradient = slots.layers.clipped(gradient)
                elif slots.clip is not None:
                    gradient = np.asarray(clipped(gradient, slots.clip), dtype=np.float64)
                return gradient if slots.unit is None else np.rint(gradient / slots.unit) * slots.unit
        except BaseException as error:  # a user's code may even call sys.exit
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # a person pressed Ctrl-C; on other threads only the code itself can have raised it
            return np.zeros_like(self._start)
