"""Parameters are looked at once, when an object is made: a wrong one stops there, with one sentence."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.errors import UsageError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

LIMIT = 2**62  # no count of anything may pass this, so that int64 sums are exact


def whole(name: str, value: Any, least: int = 0) -> int:
    """``value`` as an int from ``least`` to 2**62. A float or a bool is a slip of the caller, so it is refused.

    >>> whole("d", np.int64(3))
    3
    >>> whole("d", 1.0)
    Traceback (most recent call last):
    crescendo.errors.UsageError: d must be a whole number, got 1.0
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{name} must be a whole number, got {value!r}") from None
    if isinstance(value, bool | np.bool):
        raise UsageError(f"{name} must be a whole number, got {value!r}")
    if number < least:
        raise UsageError(f"{name} must be {least} or more, got {number}")
    if number > LIMIT:
        raise UsageError(f"{name} must be 2**62 or less, got {number:.3g}")
    return number


def real(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf
) -> float | int:
    """``value`` as a finite number with ``least <= value <= most`` and ``value > above``; an int stays an int.

    >>> real("eta", 0.5, above=0), real("scale", np.float32(2))
    (0.5, 2.0)
    >>> real("eta", float("nan"), above=0)
    Traceback (most recent call last):
    crescendo.errors.UsageError: eta must be a finite number, got nan
    """
    if isinstance(value, bool | np.bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise UsageError(f"{name} must be a number, got {value!r}")
    number = value.item() if isinstance(value, np.generic) else value
    try:
        finite = math.isfinite(number)
    except OverflowError:  # an int too large for a float
        finite = False
    if not finite:
        raise UsageError(f"{name} must be a finite number, got {number!r}")
    if number <= above:
        raise UsageError(f"{name} must be more than {above:g}, got {number!r}")
    if number < least:
        raise UsageError(f"{name} must be {least:g} or more, got {number!r}")
    if number > most:
        raise UsageError(f"{name} must be {most:g} or less, got {number!r}")
    return number


def kind(name: str, value: Any, wanted: type) -> None:
    """Refuse a ``value`` that is not a ``wanted``."""
    if not isinstance(value, wanted):
        raise UsageError(f"{name} must be a {wanted.__name__}, got {value!r}")


def settle(owner: object, **values: object) -> None:
    """Store checked values in a frozen dataclass, so that numpy scalars print and compare as plain numbers."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)
