"""Rounding to the safe side, wherever an epsilon depends on it: costs, noise and lengths up, remainders down."""

import math
from fractions import Fraction


def sum_up(numbers: list[float]) -> float:
    """The least float that is not below the exact sum; 0 for a negative one.

    >>> sum_up([0.1] * 10) >= 10 * Fraction(0.1), sum([0.1] * 10) >= 10 * Fraction(0.1)
    (True, False)
    """
    if math.inf in numbers:
        return math.inf
    exact = sum(map(Fraction, numbers), Fraction(0))
    near = float(exact)
    return max(0.0, near if Fraction(near) >= exact else math.nextafter(near, math.inf))


def down(whole: float | Fraction, part: float) -> float:
    """whole - part, never more than the exact difference nor less than 0."""
    if part >= whole:
        return 0.0
    if whole == math.inf:
        return math.inf
    exact = Fraction(whole) - Fraction(part)
    near = float(exact)
    return near if Fraction(near) <= exact else math.nextafter(near, 0.0)


def cost_up(epsilon: float) -> float:
    """An epsilon by more than floats can have lost of it, and never below 0."""
    return max(0.0, epsilon * (1 + 1e-12))


def noise_up(sigma: float) -> float:
    """To five digits, never down.

    >>> noise_up(1.234561), noise_up(20.0)
    (1.2346, 20.0)
    """
    scale = 10.0 ** (4 - math.floor(math.log10(sigma)))
    return math.ceil(sigma * scale) / scale


def length_up(length: float) -> float:
    """To two digits: both sides compute it, and the last bits of the first model's length may differ between them.

    >>> length_up(0.0), length_up(123.4), length_up(0.0456)
    (0.0, 130.0, 0.046)
    """
    if not 0 < length < math.inf:
        return length
    shown = f"{length:.1e}"
    if float(shown) >= length:
        return float(shown)
    digits, power = shown.split("e")
    return float(f"{float(digits) + 0.1:.1f}e{power}")
