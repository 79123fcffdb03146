"""Each record's own gradient of a torch module, many records at a time.

What a record's gradient is must depend on the model and that record alone, to the last bit: the certificate of `minibatch` rests
on it. Three things could break that. How many records are computed together: a chunk always has the same number, the last one is
padded. Threads: there is one. And a record's place in its chunk: a matrix product may add up in another order in some of its
rows. Which way of computing is free of the third depends on the shapes of the layers alone, so it is tried, at set-up and on
made-up numbers: the quickest way that gives a record the same bits at every place is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.func import grad, vmap

Parameters = dict[str, torch.Tensor]
LossOfOne = Callable[[Parameters, torch.Tensor, torch.Tensor], torch.Tensor]
_PROBES = 3  # made-up records, each of which must have one and the same gradient at every place


class PerRecord:
    """``rows(parameters, x, y)`` has one row a record. ``vectorised`` is False where no quick way is the same at every place."""

    def __init__(self, loss: LossOfOne, at_once: int, draws: bool) -> None:
        self.at_once = at_once
        self._chance = "different" if draws else "error"
        self._ways = (self._shared(loss), self._own(loss))
        self._alone = grad(loss)
        self._way: Callable[..., Parameters] | None = None
        self.vectorised = False

    def choose(self, parameters: Parameters, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        """Settle the way, on made-up records."""
        generator = torch.Generator().manual_seed(0)
        probes = [torch.rand(shape, generator=generator, dtype=dtype) for _ in range(_PROBES)]
        self._way = next((way for way in self._ways if self._same_everywhere(way, parameters, probes)), None)
        self.vectorised = self._way is not None

    def rows(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The gradients of a full chunk, or of any number one by one."""
        if self._way is not None:
            return _flat(self._way(parameters, x, y), parameters, len(x))
        each = [_flat(self._alone(parameters, x[k], y[k]), parameters, 1) for k in range(len(x))]
        return torch.cat(each)

    def _shared(self, loss: LossOfOne) -> Callable[..., Parameters]:
        """All records meet the same tensors of weights: the quickest."""
        found: Callable[..., Parameters] = vmap(grad(loss), in_dims=(None, 0, 0), randomness=self._chance)
        return found

    def _own(self, loss: LossOfOne) -> Callable[..., Parameters]:
        """Each record meets weights of its own: a product for each, all of the same kind."""
        mapped = vmap(grad(loss), in_dims=(0, 0, 0), randomness=self._chance)

        def way(parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> Parameters:
            each = {name: value.expand(len(x), *value.shape) for name, value in parameters.items()}
            found: Parameters = mapped(each, x, y)
            return found

        return way

    def _same_everywhere(
        self, way: Callable[..., Parameters], parameters: Parameters, probes: list[torch.Tensor]
    ) -> bool:
        for probe in probes:
            x, y = probe.expand(self.at_once, *probe.shape).contiguous(), torch.zeros(self.at_once, dtype=torch.int64)
            try:
                found = _flat(way(parameters, x, y), parameters, self.at_once)
            except Exception:  # code that cannot be mapped over records
                return False
            if self._chance == "error" and not torch.equal(found, found[:1].expand_as(found)):
                return False
        return True


def _flat(found: Parameters, parameters: Parameters, count: int) -> torch.Tensor:
    rows: Any = torch.cat([found[name].reshape(count, -1) for name in parameters], dim=1)
    return rows  # type: ignore[no-any-return]
