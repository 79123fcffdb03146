"""Each record's own gradient of a torch module, many records at a time.

What a record's gradient is must depend on the model and that record alone, to the last bit (`probes`). Three things could break
that. How many records are computed together: a chunk always has the same number, the last one is padded. Threads: there is one.
And a record's place in its chunk: a product of one matrix of weights with all records adds up in another order in some of its
rows (seen with 5 by 4 numbers). So each record meets weights of its own, as if they differed, in a product of its own; and that
is tried at set-up. If one record differs from itself, or the code cannot be mapped over records, they are computed one by one.

A module may keep something of what it has seen, a count or a hidden state. So it is made anew before every call of its code.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch.func import grad, vmap

from crescendo.core.arrays import Array
from crescendo.objectives.neural.clipping import Parts
from crescendo.objectives.neural.probes import independent

Parameters = dict[str, torch.Tensor]
LossOfOne = Callable[[Parameters, torch.Tensor, torch.Tensor], torch.Tensor]


class PerRecord:
    """``rows(parameters, x, y)`` has, for each parameter, one row a record. ``vectorised``: they are computed a chunk at a time.

    ``renew`` is called before each call of the code that ``loss`` runs: what that code keeps ends there.
    """

    def __init__(self, loss: LossOfOne, at_once: int, draws: bool, renew: Callable[[], None]) -> None:
        self.at_once, self.vectorised, self._draws, self._renew = at_once, False, draws, renew
        chance = "different" if draws else "error"
        self._mapped: Callable[..., Parameters] = vmap(grad(loss), in_dims=(0, 0, 0), randomness=chance)
        self._loss = loss

    def choose(self, parameters: Parameters, shape: tuple[int, ...], dtype: np.dtype[np.floating]) -> None:
        """Settle, on made-up records, whether chunks will do."""
        device = next(iter(parameters.values())).device

        def chunk(x: Array, y: Array) -> Array:
            records = (torch.from_numpy(array).to(device) for array in (x, y))
            return np.concatenate(self._chunk(parameters, *records), axis=1)

        self.vectorised = independent(chunk, self.at_once, shape, dtype, self._draws)

    def rows(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> Parts:
        """The gradients of a full chunk, or of any number one by one: for each parameter a row a record."""
        if self.vectorised:
            return self._chunk(parameters, x, y)
        each = [self._one(parameters, x[k], y[k]) for k in range(len(x))]
        return [np.concatenate(rows) for rows in zip(*each, strict=True)]

    def _one(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> Parts:
        """By the plain backward pass, which takes code that `torch.func` does not: one that writes into its buffers, say."""
        self._renew()
        moving = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        found = torch.autograd.grad(self._loss(moving, x, y), list(moving.values()), materialize_grads=True)
        return [part.reshape(1, part.numel()).cpu().numpy() for part in found]

    def _chunk(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> Parts:
        self._renew()
        each = {name: value.expand(len(x), *value.shape) for name, value in parameters.items()}
        found = self._mapped(each, x, y)
        return [found[name].reshape(len(x), value.numel()).cpu().numpy() for name, value in parameters.items()]
