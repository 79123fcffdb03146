"""Each record's own gradient of a torch module, many records at a time.

What a record's gradient is must depend on the model and that record alone, to the last bit: the certificate of `minibatch` rests
on it, and a record of large terms that cancel makes much of a last bit. Three things could break that. How many records are
computed together: a chunk always has the same number, the last one is padded. Threads: there is one. And a record's place in its
chunk: a product of one matrix of weights with all records adds up in another order in some of its rows (seen with 5 by 4
numbers). So each record meets weights of its own, as if they differed, in a product of its own; and at set-up made-up records
whose numbers span many magnitudes are computed at all places at once. If one of them differs from itself, or the code cannot be
mapped over records, they are computed one by one.
"""

from collections.abc import Callable

import torch
from torch.func import grad, vmap

Parameters = dict[str, torch.Tensor]
LossOfOne = Callable[[Parameters, torch.Tensor, torch.Tensor], torch.Tensor]
_PROBES = 24  # made-up records, each of which must have one and the same gradient at every place
_MAGNITUDES = 12.0  # powers of ten that their numbers span


class PerRecord:
    """``rows(parameters, x, y)`` has one row a record. ``vectorised``: they are computed a chunk at a time."""

    def __init__(self, loss: LossOfOne, at_once: int, draws: bool) -> None:
        self.at_once, self.vectorised, self._draws = at_once, False, draws
        chance = "different" if draws else "error"
        self._mapped: Callable[..., Parameters] = vmap(grad(loss), in_dims=(0, 0, 0), randomness=chance)
        self._alone: Callable[..., Parameters] = grad(loss)

    def choose(self, parameters: Parameters, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        """Settle, on made-up records, whether chunks will do."""
        generator = torch.Generator().manual_seed(0)
        probes = (_probe(shape, dtype, generator) for _ in range(_PROBES))
        self.vectorised = all(self._same_everywhere(parameters, probe) for probe in probes)

    def rows(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The gradients of a full chunk, or of any number one by one."""
        if self.vectorised:
            return self._chunk(parameters, x, y)
        return torch.cat([_flat(self._alone(parameters, x[k], y[k]), parameters, 1) for k in range(len(x))])

    def _chunk(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        each = {name: value.expand(len(x), *value.shape) for name, value in parameters.items()}
        return _flat(self._mapped(each, x, y), parameters, len(x))

    def _same_everywhere(self, parameters: Parameters, probe: torch.Tensor) -> bool:
        x, y = probe.expand(self.at_once, *probe.shape).contiguous(), torch.zeros(self.at_once, dtype=torch.int64)
        try:
            found = self._chunk(parameters, x, y)
        except Exception:  # code that cannot be mapped over records
            return False
        return self._draws or bool(torch.equal(found.nan_to_num(), found[:1].nan_to_num().expand_as(found)))


def _probe(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    signs = torch.rand(shape, generator=generator, dtype=dtype) * 2 - 1
    return signs * 10 ** (_MAGNITUDES * (torch.rand(shape, generator=generator, dtype=dtype) - 0.5))


def _flat(found: Parameters, parameters: Parameters, count: int) -> torch.Tensor:
    return torch.cat([found[name].reshape(count, -1) for name in parameters], dim=1)
