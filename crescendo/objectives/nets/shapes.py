"""What the networks of ours are in any library: the choices there are, and the shapes of their layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from crescendo.errors import ConfigError

ACTIVATIONS, POOLS = ("relu", "tanh"), ("max", "mean")
_SIDE = 28


def chosen(name: str, value: str, known: Sequence[str]) -> str:
    """The value of an option, if it is known.

    >>> chosen("pool", "mean", POOLS)
    'mean'
    """
    if value not in known:
        raise ConfigError(f"objective.options.{name} must be {' or '.join(map(repr, known))}, not {value!r}")
    return value


def scales(gain: float, centre: float, spread: float) -> tuple[float, float, float]:
    """The options of that name, if they are numbers that a model can begin with.

    >>> scales(1, 0.5, 0.25)
    (1.0, 0.5, 0.25)
    """
    for name, value in (("gain", gain), ("centre", centre), ("spread", spread)):
        sound = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not sound or (value <= 0 and name != "centre"):
            raise ConfigError(
                f"objective.options.{name} must be a number{'' if name == 'centre' else ' above 0'}, not {value!r}"
            )
    return float(gain), float(centre), float(spread)


def image_side(features: int) -> int:
    """Of the square grey images that LeNet-5 reads."""
    if features != _SIDE**2:
        raise ConfigError(
            f"lenet reads grey images of {_SIDE} x {_SIDE}, {_SIDE**2} numbers, and these records have {features}; take mlp"
        )
    return _SIDE


def widths(features: int, hidden: int | Sequence[int], classes: int) -> tuple[int, ...]:
    """The width of every layer of a perceptron, from the record to its classes.

    >>> widths(784, 64, 10), widths(4, (), 3)
    ((784, 64, 10), (4, 3))
    """
    between = tuple(hidden) if isinstance(hidden, Sequence) else (hidden,)
    sides = (features, *between, classes)
    if not all(isinstance(side, int) and not isinstance(side, bool) and side >= 1 for side in sides):
        raise ConfigError(
            f"layers have a whole number of outputs, 1 or more; got hidden = {hidden!r}, classes = {classes!r}"
        )
    return sides


def first_bound(shape: Sequence[int]) -> float:
    """Torch's own: first weights and biases are uniform within 1 / sqrt(inputs), and ``shape`` is that of the weights.

    >>> first_bound((6, 1, 5, 5))
    0.2
    """
    return 1 / math.sqrt(math.prod(shape[1:]))
