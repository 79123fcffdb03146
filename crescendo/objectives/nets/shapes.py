"""Options and layer shapes of the built-in networks, the same in any library."""

from __future__ import annotations

import math
from collections.abc import Sequence

from crescendo.errors import ConfigError

ACTIVATIONS, POOLS = ("relu", "tanh"), ("max", "mean")
_SIDE = 28


def chosen(name: str, value: str, known: Sequence[str]) -> str:
    """Return the value of an option, or refuse an unknown one.

    >>> chosen("pool", "mean", POOLS)
    'mean'
    """
    if value not in known:
        raise ConfigError(f"objective.options.{name} must be {' or '.join(map(repr, known))}, not {value!r}")
    return value


def scales(gain: float, centre: float, spread: float) -> tuple[float, float, float]:
    """Return the options gain, centre and spread, or refuse invalid numbers.

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
    """Return the side of the square grey images that LeNet-5 reads."""
    if features != _SIDE**2:
        raise ConfigError(
            f"lenet reads grey images of {_SIDE} x {_SIDE}, {_SIDE**2} numbers, but these records have {features}; use mlp"
        )
    return _SIDE


def widths(features: int, hidden: int | Sequence[int], classes: int) -> tuple[int, ...]:
    """Return the width of every layer of a perceptron, from the record to the classes.

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
    """Return torch's bound: initial weights and biases are uniform within 1 / sqrt(inputs); ``shape`` is the weights'.

    >>> first_bound((6, 1, 5, 5))
    0.2
    """
    return 1 / math.sqrt(math.prod(shape[1:]))
