"""Stepper of the built-in regressions: checks and lays out a round, then runs the compiled loops.

Importing this module loads numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from crescendo.core.arrays import Array, Floats, Vector
from crescendo.errors import UsageError
from crescendo.objectives.base import Slots, StepperState, stored

if TYPE_CHECKING:
    from crescendo.data.records import Records
    from crescendo.objectives.linear.linear_model import LinearModel


class CompiledStepper:
    """A local model moved by compiled loops: ``scale * u`` on the block, ``u`` elsewhere; see `margin_kernels`."""

    def __init__(self, objective: LinearModel, data: Records) -> None:
        self._objective, self._data, self._labels = objective, data, objective.labels_of(data.y)
        self._slots: Slots | None = None
        self._run: Callable[[Floats, float, int, int], float] | None = None
        self.load(np.zeros(objective.size))

    def load(self, w: Vector) -> None:
        if np.shape(w) != (self._objective.size,):
            raise UsageError(f"a model of {self._objective.size} coordinates was due, got shape {np.shape(w)}")
        self._u, self._scale, self._block = np.array(w, self._objective.dtype), 1.0, (0, self._objective.size)

    def read(self) -> Floats:
        w, (lo, hi) = self._u.astype(np.float64), self._block
        w[lo:hi] *= self._scale
        return w

    def translate(self, by: Vector) -> None:
        self._u, self._scale = (self.read() + by).astype(self._objective.dtype), 1.0

    def export(self) -> StepperState:
        return {"u": self._u, "scale": np.array(self._scale), "block": np.array(self._block)}

    def restore(self, state: StepperState, slots: Slots) -> None:
        scale, block = stored(state, "scale", np.array(1.0)), stored(state, "block", np.array(self._block))
        if tuple(block) not in ((0, self._objective.size), slots.block):
            raise UsageError(f"a stored round has moved the block {block.tolist()}, which is not its own")
        self._u, self._scale = stored(state, "u", self._u), float(scale)
        self._block = (int(block[0]), int(block[1]))

    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        if slots is not self._slots:
            self._lay_out(slots)
        slots.check(h0, h1, self._objective.size)
        block = slots.block or (0, self._objective.size)
        if (
            block != self._block
        ):  # a scale belongs to one block, and a round has one block, so this never happens within a round
            self.translate(np.zeros(self._objective.size))
            self._block = block
        assert self._run is not None
        self._scale = self._run(self._u, self._scale, h0, h1)

    def _lay_out(self, slots: Slots) -> None:
        """Check the rows, which compiled code trusts, and bind the arguments that are constant over the round."""
        data, size, features = self._data, self._objective.size, self._objective.features
        if len(slots.rows) and not 0 <= slots.rows.min() <= slots.rows.max() < len(data):
            raise UsageError(f"a slot names a record outside 0..{len(data) - 1}")
        rows, etas = _own(slots.rows, np.int64), _own(slots.etas, np.float64)
        ends = _own(slots.ends if slots.ends is not None else [], np.int64)
        lo, hi = (int(edge) for edge in (slots.block or (0, size)))
        rest: Any = (lo, hi, float(slots.factor), float(self._objective.l2), float(slots.clip or 0.0))
        rest = (*rest, *self._objective.loop_arguments)
        advance_dense, advance_sparse = self._objective.stepping()
        x: Any = data.x
        y = self._labels

        def dense(u: Floats, scale: float, h0: int, h1: int) -> float:
            return float(advance_dense(u, scale, x, features, y, rows, ends, etas, h0, h1, *rest))

        def sparse(u: Floats, scale: float, h0: int, h1: int) -> float:
            arrays = x.data, x.indices, x.indptr
            return float(advance_sparse(u, scale, *arrays, features, y, rows, ends, etas, h0, h1, *rest))

        self._run, self._slots = dense if isinstance(x, np.ndarray) else sparse, slots


def _own(values: Any, kind: type) -> Array:
    """Return a contiguous writable array of this type, so that a loop is not compiled again for read-only arguments."""
    array: Array = np.ascontiguousarray(values, dtype=kind)
    return array if array.flags.writeable else array.copy()
