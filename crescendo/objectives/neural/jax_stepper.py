"""One client's JAX parameters and the compiled loop that moves them, at most a few hundred records a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.objectives.base import Slots, StepperState, stored
from crescendo.objectives.neural.jax_programs import LocalSteps, corrections, first_state
from crescendo.objectives.neural.neural_stepper import NeuralStepper

if TYPE_CHECKING:
    from crescendo.data.records import Records
    from crescendo.objectives.neural.jax_model import JaxModel


class JaxStepper(NeuralStepper):
    """Moves a copy of the leaves. All calls use one program for rounds of any size, so a round may stop anywhere."""

    def __init__(self, model: JaxModel, data: Records) -> None:
        super().__init__(model)
        self._model, self._records = model, model.records(data)
        self._programs = model.programs(data)
        self._per_call = max(1, self._programs.records // model.batch)
        self._held: list[Any] = model.leaves.leaves(self._origin)
        self._reset()

    def _reset(self) -> None:
        self._state = first_state(self._model.optimiser, self._model.momentum, self._held)
        self._slopes: list[Any] = [np.zeros_like(leaf) for leaf in self._held]
        self._taken = 0

    def _put(self, w: Floats) -> None:
        self._held = self._model.leaves.leaves(w)

    def _in_full(self) -> Floats:
        return self._model.leaves.vector(self._held)

    def export(self) -> StepperState:
        return self._exported() | self._numbers() | {"taken": np.array(self._taken)}

    def restore(self, state: StepperState, slots: Slots) -> None:
        found = [stored(state, name, numbers) for name, numbers in self._numbers().items()]
        taken = int(stored(state, "taken", np.array(self._taken)))
        held, slopes, *means = [self._model.leaves.split(numbers) for numbers in found]
        self._go_on(state)
        self._held, self._slopes, self._state, self._taken = held, slopes, means, taken

    def _numbers(self) -> dict[str, Array]:
        """Return the state laid out like the leaves, each part as one array in the leaves' own floats."""
        kept = {"held": self._held, "slopes": self._slopes}
        kept |= {f"optimiser.{k}": leaves for k, leaves in enumerate(self._state)}
        return {
            name: np.concatenate([np.asarray(leaf, dtype=self._model.dtype).ravel() for leaf in leaves])
            for name, leaves in kept.items()
        }

    def _advance(self, slots: Slots, h0: int, h1: int) -> None:
        plan, mask = _Plan(slots, h0, h1, self._model.batch, self._model.l2), self._mask(slots)
        for first in range(0, len(plan.has), self._per_call):
            self._call(slots, plan, slice(first, first + self._per_call), mask)

    def _mask(self, slots: Slots) -> list[Array]:
        if slots.block is None:
            return []
        moves = np.zeros(len(self._origin), dtype=np.bool_)
        moves[slice(*slots.block)] = True
        return self._model.leaves.split(moves)

    def _call(self, slots: Slots, plan: _Plan, part: slice, mask: list[Array]) -> None:
        model, drawn, takes = self._model, slots.ends is not None, plan.takes[part]
        numbers = self._taken + np.cumsum(takes)
        first, spread = corrections(model.optimiser, np.maximum(numbers, 1))
        x, y, weight = self._gathered(slots, plan, part)
        told = (plan.eta[part] / first, spread, plan.shrink[part])
        eta, spread, shrink = (self._padded(numbers).astype(model.dtype) for numbers in told)
        steps = LocalSteps(x, y, weight, eta, spread, shrink, self._padded(plan.has[part]), self._padded(takes))
        carried = (self._held, self._state, self._slopes)[: 2 + drawn]
        rule = (model.optimiser, model.momentum, drawn)
        self._held, self._state, *rest = self._programs.walk(*rule, carried, steps, len(takes), mask)
        self._slopes, self._taken = rest[0] if drawn else self._slopes, self._taken + int(takes.sum())

    def _padded(self, numbers: Array) -> Array:
        return np.concatenate([numbers, np.zeros(self._per_call - len(numbers), dtype=numbers.dtype)])

    def _gathered(self, slots: Slots, plan: _Plan, part: slice) -> tuple[Array, Array, Array]:
        """Return the records of these steps. An empty place of a batch gets its first record, with weight 0."""
        batch, dtype, has = self._model.batch, self._model.dtype, np.flatnonzero(plan.has[part])
        places = plan.low[part][has, None] + np.arange(batch)
        there = places < plan.high[part][has, None]
        rows = slots.rows[np.where(there, places, places[:, :1])]
        x = np.zeros((self._per_call, batch, *self._records.shape), dtype)
        y, weight = np.zeros((self._per_call, batch), np.int32), np.zeros((self._per_call, batch), dtype)
        found = self._records.of(rows.ravel())
        x[has], y[has] = found[0].reshape(-1, *x.shape[1:]), found[1].reshape(-1, batch)
        weight[has] = there * plan.weight[part][has, None]
        return x, y, weight


class _Plan:
    """Slots as steps of the program: records low..high-1 of the round, at most a batch of them in each.

    A batch's slots without a drawn record count too: a drawn batch is a sum over ``batch``, which is public, and the
    model shrinks once for it even if no record was drawn. With batches of one, each record is a step.
    """

    def __init__(self, slots: Slots, h0: int, h1: int, batch: int, l2: float) -> None:
        at = np.arange(h0, h1)
        at = at[((at + 1) % batch == 0) | (at + 1 == len(slots))]  # the last slots of batches
        drawn = slots.ends is not None
        ends = np.arange(len(slots) + 1) if slots.ends is None else np.concatenate([[0], slots.ends])
        low, high = ends[at - at % batch], ends[at + 1]
        parts = np.maximum(-(-(high - low) // batch), 1 if l2 else 0)
        slot = np.repeat(np.arange(len(at)), parts)
        within = np.arange(len(slot)) - np.repeat(np.cumsum(parts) - parts, parts)
        self.low = low[slot] + within * batch
        self.high = np.minimum(self.low + batch, high[slot])
        self.has = self.high > self.low
        self.takes = self.has & ((within == parts[slot] - 1) | (batch == 1))
        self.weight = np.full(len(slot), 1.0 / batch) if drawn else 1.0 / np.maximum(self.high - self.low, 1)
        self.eta = slots.etas[at][slot] * slots.factor
        self.shrink = np.where(within == 0, 1.0 - self.eta * l2, 1.0)
