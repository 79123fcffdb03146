"""Conversion of a module's trainable parameters, followed by its layers' running statistics, to a flat vector and back."""

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
    """The parameters that move, in the order of the vector. Tied weights appear once; frozen ones are left out.

    Running statistics are its tail, from ``trained`` on: the layers move them, without gradient or L2.
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    dtype: torch.dtype
    parameters: int  # number of names that are parameters
    device: torch.device

    @classmethod
    def of(cls, net: nn.Module) -> Layout:
        """Return the layout of a module's vector; raise ConfigError if its parameters cannot form one."""
        for name, parameter in (*net.named_parameters(), *net.named_buffers()):
            if isinstance(parameter, nn.parameter.UninitializedParameter | nn.parameter.UninitializedBuffer):
                raise ConfigError(f"{name} of {type(net).__name__} has no shape yet; call the module once on a record")
        moving = [(name, parameter) for name, parameter in net.named_parameters() if parameter.requires_grad]
        device = _device_of(net)
        if not moving:
            raise ConfigError(f"{type(net).__name__} has no trainable parameter; one with requires_grad is needed")
        kinds = {parameter.dtype for _, parameter in moving}
        if len(kinds) > 1 or not kinds <= {torch.float32, torch.float64}:
            said = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
            raise ConfigError(f"{type(net).__name__} has parameters of {said}; all must be float32, or all float64")
        tail = _statistics(net)
        names, values = zip(*moving, *tail, strict=True)
        if odd := [name for name, value in tail if value.dtype not in kinds]:
            raise ConfigError(
                f"{odd[0]} of {type(net).__name__} has other floats than the parameters; make them the same"
            )
        return cls(names, tuple(value.shape for value in values), kinds.pop(), len(moving), device)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(shape.numel() for shape in self.shapes)

    @property
    def trained(self) -> int:
        """The count of numbers that are parameters."""
        return sum(self.sizes[: self.parameters])

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def split(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Return the parameters as views of a flat tensor, sharing its memory."""
        return [part.view(shape) for part, shape in zip(torch.split(flat, list(self.sizes)), self.shapes, strict=True)]

    def named(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return tensors by name for calls of the module; statistics are copies, detached from gradients.

        Late updates may sum to a negative variance, which counts as 0.
        """
        found = dict(zip(self.names, self.split(flat), strict=True))
        for name in self.names[self.parameters :]:
            kept = found[name].detach().clone()
            found[name] = kept.clamp_(min=0) if name.endswith("running_var") else kept
        return found

    def tensor(self, w: Vector) -> torch.Tensor:
        """Return a copy of a model in the module's own floats, on its device."""
        return torch.from_numpy(np.array(w, dtype=np.float64)).to(self.dtype).to(self.device)


def vector_of(net: nn.Module) -> Floats:
    """Return the moving parameters and the running statistics, in float64."""
    moving = [parameter for parameter in net.parameters() if parameter.requires_grad]
    parts = [value.detach().reshape(-1) for value in (*moving, *(value for _, value in _statistics(net)))]
    return in_float64(torch.cat(parts))


def in_float64(tensor: torch.Tensor) -> Floats:
    """Return its numbers on the CPU, moved before conversion, since not every device has float64."""
    return np.asarray(tensor.cpu().to(torch.float64).numpy())


def device_named(name: str | torch.device, instead: str = "leave device out to compute on the CPU") -> torch.device:
    """Return a torch device; raise ConfigError, with the advice ``instead``, if it is unknown, missing or unusable."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except Exception as error:
        said = (
            (str(error).splitlines() or [type(error).__name__])[0].split(". ")[0].rstrip(".")
        )  # torch's message may be pages long
        raise ConfigError(f"torch cannot compute on device {str(name)!r} ({said}); {instead}") from error
    return device


def _device_of(net: nn.Module) -> torch.device:
    """Return the single device of a module."""
    found: dict[torch.device, str] = {}
    for name, value in (*net.named_parameters(), *net.named_buffers()):
        found.setdefault(value.device, name)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise ConfigError(
            f"{first} of {type(net).__name__} is on {one} and {second} on {other}; move the whole module to one device"
        )
    return device_named(next(iter(found), "cpu"), f"move {type(net).__name__} to the CPU")


def running_layer(net: nn.Module) -> str | None:
    """Return the first layer that keeps running statistics of its records."""
    for name, _ in _statistics(net):
        layer, _, _ = name.rpartition(".")
        return f"the layer {layer or 'itself'} ({type(net.get_submodule(layer)).__name__})"
    return None


def _statistics(net: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return running means and variances by name; counts of batches stay with each client."""
    return [(name, value) for name, value in net.named_buffers() if name.endswith(("running_mean", "running_var"))]


def random_layers(net: nn.Module) -> tuple[str, ...]:
    """Return the layers that draw random numbers in training."""
    drawing = (
        (name, layer)
        for name, layer in net.named_modules()
        if isinstance(layer, _RANDOM) and getattr(layer, "p", 1) > 0
    )
    return tuple(f"the layer {name or 'itself'} ({type(layer).__name__})" for name, layer in drawing)


def private_copy(net: nn.Module) -> nn.Module:
    """Return a copy that can move without changing the user's module."""
    try:
        return copy.deepcopy(net)
    except Exception as error:
        raise ConfigError(f"{type(net).__name__} cannot be copied: {type(error).__name__}: {error}") from error
