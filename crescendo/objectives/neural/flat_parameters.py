"""A module's trainable parameters as one flat vector, and back."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from crescendo.core.arrays import Floats, Vector
from crescendo.errors import ConfigError

_RANDOM = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout, nn.RReLU)


@dataclass(frozen=True)
class Layout:
    """Which parameters move, in the order of the vector. Tied weights are there once; frozen ones stay as they are."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, net: nn.Module) -> Layout:
        """The layout of a module's vector; ConfigError where its parameters cannot be one."""
        for name, parameter in net.named_parameters():
            if isinstance(parameter, nn.parameter.UninitializedParameter):
                raise ConfigError(f"{name} of {type(net).__name__} has no shape yet; call the module once on a record")
            if parameter.device.type != "cpu":
                raise ConfigError(
                    f"{name} of {type(net).__name__} is on {parameter.device}; move it to the CPU: net.cpu()"
                )
        moving = [(name, parameter) for name, parameter in net.named_parameters() if parameter.requires_grad]
        if not moving:
            raise ConfigError(
                f"{type(net).__name__} has no parameter that is trained; one with requires_grad is needed"
            )
        kinds = {parameter.dtype for _, parameter in moving}
        if len(kinds) > 1 or not kinds <= {torch.float32, torch.float64}:
            said = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
            raise ConfigError(f"{type(net).__name__} has parameters of {said}; all must be float32, or all float64")
        names, parameters = zip(*moving, strict=True)
        return cls(names, tuple(parameter.shape for parameter in parameters), kinds.pop())

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(shape.numel() for shape in self.shapes)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def split(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The parameters as views of a flat tensor: what is written to one shows in the other."""
        return [part.view(shape) for part, shape in zip(torch.split(flat, list(self.sizes)), self.shapes, strict=True)]

    def named(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        return dict(zip(self.names, self.split(flat), strict=True))

    def tensor(self, w: Vector) -> torch.Tensor:
        """A copy of a model in the module's own floats."""
        return torch.from_numpy(np.array(w, dtype=np.float64)).to(self.dtype)


def vector_of(net: nn.Module) -> Floats:
    """The parameters that move, in float64."""
    parts = [parameter.detach().reshape(-1) for parameter in net.parameters() if parameter.requires_grad]
    return np.asarray(torch.cat(parts).to(torch.float64).numpy())


def check_buffers(net: nn.Module) -> None:
    """Refuse layers that keep a statistic of the records they have seen: it is no part of the vector that is sent."""
    for name, layer in net.named_modules():
        if getattr(layer, "running_mean", None) is not None:
            raise ConfigError(
                f"the layer {name or 'itself'} ({type(layer).__name__}) keeps running statistics of the records, which no update "
                f"carries; use GroupNorm, or {type(layer).__name__}(..., track_running_stats=False)"
            )


def random_layers(net: nn.Module) -> tuple[str, ...]:
    """The layers that draw random numbers while a module is trained."""
    drawing = (
        (name, layer)
        for name, layer in net.named_modules()
        if isinstance(layer, _RANDOM) and getattr(layer, "p", 1) > 0
    )
    return tuple(f"the layer {name or 'itself'} ({type(layer).__name__})" for name, layer in drawing)


def private_copy(net: nn.Module) -> nn.Module:
    """A copy that can be moved without moving the user's own module."""
    try:
        return copy.deepcopy(net)
    except Exception as error:
        raise ConfigError(f"{type(net).__name__} cannot be copied: {type(error).__name__}: {error}") from error
