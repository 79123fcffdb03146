"""Local optimisers on flat tensors: plain steps, momentum and Adam. Their state lasts a round, since `reset` begins each."""

import math
from typing import Protocol

import numpy as np
import torch

from crescendo.core.arrays import Array
from crescendo.objectives.base import StepperState, stored

_DECAYS, _EPSILON = (0.9, 0.999), 1e-8  # Adam's own


class Optimiser(Protocol):
    """Moves the coordinates ``low..high-1`` of the weights downhill, with the schedule's step size."""

    def reset(self) -> None: ...
    def export(self) -> dict[str, Array]:
        """Export the state of the round so far."""

    def restore(self, state: StepperState) -> None: ...
    def step(self, weights: torch.Tensor, slopes: torch.Tensor, low: int, high: int, eta: float) -> None: ...


class _Plain:
    def reset(self) -> None:
        pass

    def export(self) -> dict[str, Array]:
        return {}

    def restore(self, state: StepperState) -> None:
        pass

    def step(self, weights: torch.Tensor, slopes: torch.Tensor, low: int, high: int, eta: float) -> None:
        weights[low:high].sub_(slopes[low:high], alpha=eta)


class _Momentum:
    """v <- m v + g, w <- w - eta v: heavy ball, as in `torch.optim.SGD`."""

    def __init__(self, like: torch.Tensor, momentum: float) -> None:
        self._velocity, self._momentum = torch.zeros_like(like), momentum

    def reset(self) -> None:
        self._velocity.zero_()

    def export(self) -> dict[str, Array]:
        return {"velocity": self._velocity.cpu().numpy()}

    def restore(self, state: StepperState) -> None:
        self._velocity.copy_(torch.tensor(stored(state, "velocity", self.export()["velocity"])))

    def step(self, weights: torch.Tensor, slopes: torch.Tensor, low: int, high: int, eta: float) -> None:
        velocity = self._velocity[low:high]
        velocity.mul_(self._momentum).add_(slopes[low:high])
        weights[low:high].sub_(velocity, alpha=eta)


class _Adam:
    """Adam with its usual decays, as in `torch.optim.Adam`."""

    def __init__(self, like: torch.Tensor) -> None:
        self._mean, self._square, self._steps = torch.zeros_like(like), torch.zeros_like(like), 0

    def reset(self) -> None:
        self._mean.zero_()
        self._square.zero_()
        self._steps = 0

    def export(self) -> dict[str, Array]:
        return {"mean": self._mean.cpu().numpy(), "square": self._square.cpu().numpy(), "steps": np.array(self._steps)}

    def restore(self, state: StepperState) -> None:
        mean, square, steps = (stored(state, name, value) for name, value in self.export().items())
        self._mean.copy_(torch.tensor(mean))
        self._square.copy_(torch.tensor(square))
        self._steps = int(steps)

    def step(self, weights: torch.Tensor, slopes: torch.Tensor, low: int, high: int, eta: float) -> None:
        self._steps += 1
        slope, mean, square = slopes[low:high], self._mean[low:high], self._square[low:high]
        mean.lerp_(slope, 1 - _DECAYS[0])
        square.mul_(_DECAYS[1]).addcmul_(slope, slope, value=1 - _DECAYS[1])
        first, second = (1 - decay**self._steps for decay in _DECAYS)
        spread = (square.sqrt() / math.sqrt(second)).add_(_EPSILON)
        weights[low:high].addcdiv_(mean, spread, value=-eta / first)


def optimiser_for(name: str, momentum: float, like: torch.Tensor) -> Optimiser:
    if name == "adam":
        return _Adam(like)
    return _Momentum(like, momentum) if momentum else _Plain()
