"""Outputs of a torch module: a check that cross-entropy can read them, and the predicted class."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from crescendo.errors import ConfigError


def check_outputs(outputs: Any, loss: Any, classes: int, name: str) -> None:
    """Raise ConfigError unless cross-entropy can read the outputs: one row per record, one number per class.

    A user's own loss may read any outputs.

    >>> check_outputs(torch.zeros(1, 3), nn.CrossEntropyLoss(), 3, "Net")
    >>> check_outputs(torch.zeros(1, 1), nn.CrossEntropyLoss(), 2, "Net")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    crescendo_dp.errors.ConfigError: Net gives 1 number for a record, and cross-entropy needs one for each of 2
    classes; ...
    """
    if loss is not nn.functional.cross_entropy and not isinstance(loss, nn.CrossEntropyLoss):
        return
    if not isinstance(outputs, torch.Tensor):
        raise ConfigError(
            f"{name} gives a {type(outputs).__name__}, and cross-entropy needs a tensor; return the outputs alone from "
            "forward, or give a loss of your own"
        )
    if outputs.ndim != 2:
        raise ConfigError(
            f"{name} gives outputs of shape {tuple(outputs.shape)}, and cross-entropy needs a row for each record, with a "
            "number for each class; end with nn.Flatten, say, or give a loss of your own"
        )
    width = outputs.shape[1]
    if width < max(classes, 2):
        raise ConfigError(
            f"{name} gives {width} number{'s' if width != 1 else ''} for a record, and cross-entropy needs one for each of "
            f"{classes} classes; make its last layer that wide, or give a loss of your own"
        )


def decided(outputs: torch.Tensor) -> torch.Tensor:
    """Return each record's predicted class: the largest output, or the sign of a single one.

    >>> decided(torch.tensor([[0.1, 0.9], [0.8, 0.2]])), decided(torch.tensor([-1.0, 2.0]))
    (tensor([1, 0]), tensor([0, 1]))
    """
    if outputs.ndim > 1 and outputs.shape[1] > 1:
        return outputs.argmax(dim=1)
    return (outputs.reshape(len(outputs)) > 0).to(torch.int64)
