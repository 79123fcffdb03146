"""LeNet-5 and a multi-layer perceptron as torch modules; `jax_nets` has the same networks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from crescendo.objectives.nets.shapes import ACTIVATIONS, POOLS, chosen, image_side, scales, widths

_BENDS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}
_SHRINKS: dict[str, type[nn.Module]] = {"max": nn.MaxPool2d, "mean": nn.AvgPool2d}


class Standardised(nn.Module):
    """Records as rows or grey images, minus ``centre`` and over ``spread``: public numbers, not computed from data."""

    def __init__(self, shape: Sequence[int], centre: float, spread: float) -> None:
        super().__init__()
        self.shape, (_, self.centre, self.spread) = tuple(shape), scales(1.0, centre, spread)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.reshape(len(x), *self.shape) - self.centre) / self.spread


def lenet(
    features: int,
    classes: int = 10,
    activation: str = "relu",
    pool: str = "max",
    gain: float = 1.0,
    centre: float = 0.0,
    spread: float = 1.0,
) -> nn.Module:
    """Return LeNet-5 for 28 x 28 images as in most papers: 61,706 numbers for 10 classes."""
    side = image_side(features)
    bend, shrink = _BENDS[chosen("activation", activation, ACTIVATIONS)], _SHRINKS[chosen("pool", pool, POOLS)]
    layers = (
        ("enter", Standardised((1, side, side), centre, spread)),
        *(("conv1", nn.Conv2d(1, 6, 5, padding=2)), ("bend1", bend()), ("pool1", shrink(2))),
        *(("conv2", nn.Conv2d(6, 16, 5)), ("bend2", bend()), ("pool2", shrink(2)), ("flat", nn.Flatten())),
        *(("fc1", nn.Linear(400, 120)), ("bend3", bend())),
        *(("fc2", nn.Linear(120, 84)), ("bend4", bend())),
        ("fc3", nn.Linear(84, classes)),
    )
    return _scaled(nn.Sequential(OrderedDict(layers)), gain)


def mlp(
    features: int,
    classes: int = 10,
    hidden: int | Sequence[int] = 64,
    activation: str = "relu",
    gain: float = 1.0,
    centre: float = 0.0,
    spread: float = 1.0,
) -> nn.Module:
    """Return a multi-layer perceptron with hidden layers of these widths."""
    sides, bend = widths(features, hidden, classes), _BENDS[chosen("activation", activation, ACTIVATIONS)]
    layers = OrderedDict[str, nn.Module](enter=Standardised((features,), centre, spread))
    for k in range(1, len(sides)):
        layers[f"fc{k}"] = nn.Linear(sides[k - 1], sides[k])
        if k + 1 < len(sides):
            layers[f"bend{k}"] = bend()
    return _scaled(nn.Sequential(layers), gain)


def _scaled(net: nn.Module, gain: float) -> nn.Module:
    """Multiply torch's initial weights, uniform within 1 / sqrt(inputs), by ``gain``, but not the biases."""
    gain, *_ = scales(gain, 0.0, 1.0)
    with torch.no_grad():
        for value in net.parameters():
            if value.ndim > 1:
                value.mul_(gain)
    return net
