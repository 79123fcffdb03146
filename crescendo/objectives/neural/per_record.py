"""Per-record gradients of a torch module, many records at a time.

A record's gradient must depend only on the model and that record, to the last bit (`probes`). Three things could
break this. The number of records computed together: a chunk always has the same size, and the last one is padded.
Threads: only one is used. And a record's position in its chunk: a product of one weight matrix with all records adds
up in another order in some of its rows (seen with 5 by 4 numbers). So each record gets its own copy of the weights
and its own product, and set-up tries this. If a record's gradient varies, or the code cannot be mapped over records,
records are computed one by one.

A module may keep state, such as a count or a hidden state, so it is reset before every call of its code.
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
    """``rows(parameters, x, y)`` gives, for each parameter, one row per record; ``vectorised`` computes a chunk at a
    time.

    ``renew`` resets the state of the user's code before each call by ``loss``.
    """

    def __init__(self, loss: LossOfOne, at_once: int, draws: bool, renew: Callable[[], None]) -> None:
        self.at_once, self.vectorised, self._draws, self._renew = at_once, False, draws, renew
        chance = "different" if draws else "error"
        self._mapped: Callable[..., Parameters] = vmap(grad(loss), in_dims=(0, 0, 0), randomness=chance)
        self._loss = loss

    def choose(self, parameters: Parameters, shape: tuple[int, ...], dtype: np.dtype[np.floating]) -> None:
        """Decide on made-up records if chunks can be used."""
        device = next(iter(parameters.values())).device

        def chunk(x: Array, y: Array) -> Array:
            records = (torch.from_numpy(array).to(device) for array in (x, y))
            return np.concatenate(self._chunk(parameters, *records), axis=1)

        self.vectorised = independent(chunk, self.at_once, shape, dtype, self._draws)

    def rows(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> Parts:
        """Return the gradients of a full chunk, or of any number one by one: for each parameter one row per record."""
        if self.vectorised:
            return self._chunk(parameters, x, y)
        each = [self._one(parameters, x[k], y[k]) for k in range(len(x))]
        return [np.concatenate(rows) for rows in zip(*each, strict=True)]

    def _one(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> Parts:
        """Use the plain backward pass, which accepts code that `torch.func` does not, such as writes into buffers."""
        self._renew()
        moving = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        found = torch.autograd.grad(self._loss(moving, x, y), list(moving.values()), materialize_grads=True)
        return [part.reshape(1, part.numel()).cpu().numpy() for part in found]

    def _chunk(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> Parts:
        self._renew()
        each = {name: value.expand(len(x), *value.shape) for name, value in parameters.items()}
        found = self._mapped(each, x, y)
        return [found[name].reshape(len(x), value.numel()).cpu().numpy() for name, value in parameters.items()]
