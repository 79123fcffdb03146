"""Each record's own gradient of a torch module, many records at a time.

What a record's gradient is must depend on the model and that record alone, to the last bit: the certificate of `minibatch` rests
on it, and a record of large terms that cancel makes much of a last bit. Three things could break that. How many records are
computed together: a chunk always has the same number, the last one is padded. Threads: there is one. And a record's place in its
chunk: a product of one matrix of weights with all records adds up in another order in some of its rows (seen with 5 by 4
numbers). So each record meets weights of its own, as if they differed, in a product of its own; and at set-up made-up records
whose numbers span many magnitudes are computed at all places at once, and beside each other. If one of them differs from itself,
or the code cannot be mapped over records, they are computed one by one.

A module may keep something of what it has seen, a count or a hidden state. So it is made anew before every call of its code.
"""

import math
from collections.abc import Callable

import torch
from torch.func import grad, vmap

Parameters = dict[str, torch.Tensor]
LossOfOne = Callable[[Parameters, torch.Tensor, torch.Tensor], torch.Tensor]
_PROBES = 24  # made-up records, each of which must have one and the same gradient at every place
_MAGNITUDES = 12.0  # powers of ten that their numbers span
_COMPANY = (math.nan, 1e30, 0.0)  # numbers of a record beside which the others must have it too


class PerRecord:
    """``rows(parameters, x, y)`` has one row a record. ``vectorised``: they are computed a chunk at a time.

    ``renew`` is called before each call of the code that ``loss`` runs: what that code keeps ends there.
    """

    def __init__(self, loss: LossOfOne, at_once: int, draws: bool, renew: Callable[[], None]) -> None:
        self.at_once, self.vectorised, self._draws, self._renew = at_once, False, draws, renew
        chance = "different" if draws else "error"
        self._mapped: Callable[..., Parameters] = vmap(grad(loss), in_dims=(0, 0, 0), randomness=chance)
        self._loss = loss

    def choose(self, parameters: Parameters, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        """Settle, on made-up records, whether chunks will do."""
        generator = torch.Generator().manual_seed(0)
        probes = [_probe(shape, dtype, generator) for _ in range(_PROBES)]
        self.vectorised = all(self._same_everywhere(parameters, probe) for probe in probes) and (
            self._draws or all(self._same_beside(number, parameters, torch.stack(probes)) for number in _COMPANY)
        )

    def rows(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The gradients of a full chunk, or of any number one by one."""
        if self.vectorised:
            return self._chunk(parameters, x, y)
        return torch.cat([self._one(parameters, x[k], y[k]) for k in range(len(x))])

    def _one(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """By the plain backward pass, which takes code that `torch.func` does not: one that writes into its buffers, say."""
        self._renew()
        moving = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        found = torch.autograd.grad(self._loss(moving, x, y), list(moving.values()), materialize_grads=True)
        return torch.cat([part.reshape(-1) for part in found])[None]

    def _chunk(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self._renew()
        each = {name: value.expand(len(x), *value.shape) for name, value in parameters.items()}
        return _flat(self._mapped(each, x, y), parameters, len(x))

    def _same_everywhere(self, parameters: Parameters, probe: torch.Tensor) -> bool:
        x, y = probe.expand(self.at_once, *probe.shape).contiguous(), torch.zeros(self.at_once, dtype=torch.int64)
        try:
            found = self._chunk(parameters, x, y)
        except Exception:  # code that cannot be mapped over records
            return False
        return self._draws or bool(torch.equal(found.nan_to_num(), found[:1].nan_to_num().expand_as(found)))

    def _same_beside(self, number: float, parameters: Parameters, probes: torch.Tensor) -> bool:
        """Whether records have the same gradients beside one made of ``number`` as beside one like the first of them."""
        x, y = probes[torch.arange(self.at_once) % len(probes)], torch.zeros(self.at_once, dtype=torch.int64)
        other = x.clone()
        other[0] = number
        try:
            found, due = self._chunk(parameters, other, y), self._chunk(parameters, x, y)
        except Exception:  # a record on which the code fails is computed by itself, and so are those beside it
            return True
        return bool(torch.equal(found[1:].nan_to_num(), due[1:].nan_to_num()))


def _probe(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    signs = torch.rand(shape, generator=generator, dtype=dtype) * 2 - 1
    return signs * 10 ** (_MAGNITUDES * (torch.rand(shape, generator=generator, dtype=dtype) - 0.5))


def _flat(found: Parameters, parameters: Parameters, count: int) -> torch.Tensor:
    return torch.cat([found[name].reshape(count, -1) for name in parameters], dim=1)
