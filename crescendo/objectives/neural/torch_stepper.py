"""Stepper of a torch module: plain steps on records drawn one by one or in local batches."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch
import xxhash
from torch import nn

from crescendo.core.arrays import Floats, Ints
from crescendo.errors import ConfigError
from crescendo.objectives.base import Slots, StepperState, stored
from crescendo.objectives.neural.flat_parameters import private_copy
from crescendo.objectives.neural.neural_stepper import NeuralStepper
from crescendo.objectives.neural.optimisers import optimiser_for

if TYPE_CHECKING:
    from crescendo.data.records import Records
    from crescendo.objectives.neural.torch_model import TorchModel


class TorchStepper(NeuralStepper):
    """Moves a copy of the module. Its parameters and their gradients are views of two flat tensors, so a step is one line."""

    def __init__(self, model: TorchModel, data: Records) -> None:
        super().__init__(model)
        self._model, self._records = model, model.tensors(data)
        layout = model.layout
        self._net = private_copy(model.net).train()
        self._flat, self._slope = (
            torch.zeros(layout.size, dtype=layout.dtype, device=layout.device),
            torch.zeros(layout.size, dtype=layout.dtype, device=layout.device),
        )
        of_name = dict(self._net.named_parameters()) | dict(self._net.named_buffers())
        for name, value, slope in zip(layout.names, layout.split(self._flat), layout.split(self._slope), strict=True):
            of_name[name].data = value
            if of_name[name].requires_grad:
                of_name[name].grad = slope
        self._loss = copy.deepcopy(model.loss) if isinstance(model.loss, nn.Module) else model.loss
        self._optimiser = optimiser_for(model.optimiser, model.momentum, self._flat)

    def _reset(self) -> None:
        self._optimiser.reset()

    def _put(self, w: Floats) -> None:
        if self._flat.device.type != "cpu":
            self._flat.copy_(self._model.layout.tensor(w))
            return
        with np.errstate(all="ignore"):  # with numpy: torch would wake its other threads to copy a large model
            np.copyto(self._flat.numpy(), w, casting="same_kind")

    def _in_full(self) -> Floats:
        return np.array(self._flat.cpu().numpy(), dtype=np.float64)  # a copy, also of float64

    def export(self) -> StepperState:
        """Export the state; random layers need none, since they draw by the round's records and the slot."""
        kept = {name: value.cpu().numpy() for name, value in self._kept().items()}
        return self._exported() | {"flat": self._flat.cpu().numpy()} | self._optimiser.export() | kept

    def restore(self, state: StepperState, slots: Slots) -> None:
        kept = {name: stored(state, name, value.cpu().numpy()) for name, value in self._kept().items()}
        flat = stored(state, "flat", self._flat.cpu().numpy())
        self._optimiser.restore(state)
        self._go_on(state)
        self._flat.copy_(torch.tensor(flat))
        for name, value in self._kept().items():
            value.copy_(torch.tensor(kept[name]))

    def _kept(self) -> dict[str, torch.Tensor]:
        """Return the bytes of every buffer outside the vector, such as a layer's count of batches.

        They are the buffers' own memory: writing into them sets the buffers.
        """
        inside = {"net": self._net, "loss": self._loss} if isinstance(self._loss, nn.Module) else {"net": self._net}
        return {
            f"{part}.{name}": buffer.detach().view(-1).view(torch.uint8)
            for part, module in inside.items()
            for name, buffer in module.named_buffers()
            if part == "loss" or name not in self._model.layout.names
        }

    def _advance(self, slots: Slots, h0: int, h1: int) -> None:
        batch = self._model.batch
        seed = self._seed(slots) if self._model.draws else 0
        for h in range(h0, h1):
            if (h + 1) % batch and h + 1 < len(slots):
                continue
            if self._model.draws:
                torch.manual_seed(seed + h)
            if slots.ends is None:
                self._one_step(slots, h, slots.rows[h - h % batch : h + 1])
            else:
                self._drawn_steps(slots, h, slots.rows[slots.records(h - h % batch).start : slots.records(h).stop])

    def _seed(self, slots: Slots) -> int:
        """Return the seed of a round's random layers: from its rows, and in a private round from its start model instead."""
        drawn = np.ascontiguousarray(slots.rows).tobytes()
        public = b"" if slots.ends is None else self._origin.tobytes()
        return xxhash.xxh3_64_intdigest(drawn + public) >> 1

    def _one_step(self, slots: Slots, h: int, rows: Ints) -> None:
        self._downhill(rows)
        self._shrink(slots, h)
        self._step(slots, h)

    def _drawn_steps(self, slots: Slots, h: int, rows: Ints) -> None:
        """Step by the records drawn into a batch's slots, maybe none: their summed gradient over ``batch``, which is
        public.

        With batches of one, a slot takes one step per record, like every stepper.
        """
        self._shrink(slots, h)
        batch = self._model.batch
        groups = [rows] if batch > 1 else [rows[k : k + 1] for k in range(len(rows))]
        for group in groups:
            if len(group):
                self._downhill(group)
                self._slope.mul_(len(group) / batch)
                self._step(slots, h)

    def _shrink(self, slots: Slots, h: int) -> None:
        if self._model.l2:
            low, high = slots.block or (0, self._model.trained_numbers)
            self._flat[low:high].mul_(1.0 - float(slots.etas[h]) * slots.factor * self._model.l2)

    def _step(self, slots: Slots, h: int) -> None:
        low, high = slots.block or (0, self._model.trained_numbers)
        self._optimiser.step(self._flat, self._slope, low, high, float(slots.etas[h]) * slots.factor)

    def _downhill(self, rows: Ints) -> None:
        """Write the mean gradient of these records into the flat tensor behind the parameters' gradients."""
        self._slope.zero_()
        x, y = self._records.of(rows)
        try:
            outputs = self._net(x)
        except ValueError as error:
            if len(rows) > 1 or not self._model.running_layer:
                raise
            raise ConfigError(
                f"{self._model.running_layer} needs two records or more, and a step had one; set batch to 2 or more, and "
                "schedule.sizes so that every client's rounds are whole batches"
            ) from error
        self._model.mean(self._loss(outputs, y)).backward()  # type: ignore[no-untyped-call]
