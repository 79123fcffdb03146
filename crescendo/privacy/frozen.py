"""The stepper of the `minibatch` mechanism: every gradient of a round is taken at the model the round began with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crescendo.errors import UsageError
from crescendo.objectives.base import Slots, check_segment, clipped

if TYPE_CHECKING:
    from crescendo.data.records import Records

Floats = npt.NDArray[np.float64]
FIRST = np.zeros(1, dtype=np.int64)


class FrozenStepper:
    """Sums eta times each record's clipped gradient at a model that stays where it is.

    L2 is a shrink of that model, once per public slot, whatever was drawn: it depends on no record. Because of the
    frozen model one record changes the sum by its own clipped gradient and nothing else, for any objective.
    """

    def __init__(self, objective: Any, data: Records) -> None:
        self._objective, self._data, self._l2 = objective, data, float(getattr(objective, "l2", 0.0))
        self._start: Floats = np.zeros(0)
        self._sum: Floats = np.zeros(0)
        self._shrink: Floats = np.zeros(0)

    def load(self, w: npt.NDArray[Any]) -> None:
        self._start = np.array(w, dtype=np.float64)
        self._sum, self._shrink = np.zeros_like(self._start), np.ones_like(self._start)

    def translate(self, by: npt.NDArray[Any]) -> None:
        raise UsageError("a private round uses one start model; take broadcasts in between rounds")

    def read(self) -> Floats:
        return self._start * self._shrink - self._sum

    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        check_segment(slots, h0, h1, len(self._start))
        if h0 == h1:
            return
        lo, hi = slots.block or (0, len(self._start))
        step = float(slots.etas[h0]) * slots.factor
        if (slots.etas[h0:h1] != slots.etas[h0]).any():
            raise UsageError('the minibatch mechanism takes one step size per round; set schedule.steps.per = "round"')
        if self._l2:
            self._shrink[lo:hi] *= (1.0 - step * self._l2) ** (h1 - h0)
        rows = slots.rows[slots.records(h0).start : slots.records(h1 - 1).stop]
        if len(rows):
            self._sum[lo:hi] += step * self._gradient(slots, rows)[lo:hi]

    def _gradient(self, slots: Slots, rows: npt.NDArray[np.int64]) -> Floats:
        """The sum of the rows' gradients, each clipped.

        A model that cannot clip by itself may be anybody's code. It is shown one record at a time, alone, and on copies, so
        that what it says of a record cannot depend on another, nor move the start model.
        """
        if getattr(self._objective, "clips", False):
            return np.asarray(self._objective.gradient(self._start, self._data, rows, slots.clip), dtype=np.float64)
        total = np.zeros_like(self._start)
        for r in range(len(rows)):
            alone, start = self._data.take(rows[r : r + 1]), self._start.copy()
            try:
                gradient = np.asarray(self._objective.gradient(start, alone, FIRST), dtype=np.float64)
            except (
                Exception
            ):  # to stop for one record would tell that it is there; it counts as 0, like one that is not finite
                continue
            total += gradient if slots.clip is None else clipped(gradient, slots.clip)
        return total
