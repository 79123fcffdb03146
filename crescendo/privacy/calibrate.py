"""The least noise for a budget: a search that ends on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

from crescendo.errors import UsageError

LEAST, MOST = 1e-2, 1e8


def least_sigma(epsilon_of: Callable[[float], float], target: float, start: float, rtol: float = 0.004) -> float:
    """A sigma with epsilon_of(sigma) <= target < epsilon_of(sigma / (1 + rtol)), for an epsilon that falls as sigma rises.

    Between two sigmas that hold the answer it looks where a straight line on logarithmic axes meets the target,
    and a third of ``rtol`` to either side of it, so that a few evaluations do.

    >>> sigma = least_sigma(lambda sigma: 5 / sigma, 2.0, start=1.0)
    >>> 2.5 <= sigma < 2.511
    True
    """
    low = high = min(max(start, LEAST), MOST)
    above = below = epsilon_of(low)
    while above <= target:  # go down for a sigma that is too small
        if low <= LEAST:
            return low
        high, below = low, above
        low = max(LEAST, low / max(1.02, min(2.0, 1.05 * target / above if above > 0 else 2.0)))
        above = epsilon_of(low)
    while below > target:  # go up for one that is enough
        if high >= MOST:
            nearest = f"the nearest epsilon is {1.01 * below:.3g}" if math.isfinite(below) else "ask for a larger delta"
            raise UsageError(f"no sigma below {MOST:g} reaches epsilon = {target:g} at this delta; {nearest}")
        low, above = high, below
        high = min(MOST, high * max(1.02, min(16.0, 1.05 * below / target)))
        below = epsilon_of(high)
    side = 1
    while high > low * (1 + rtol):
        middle = _meets(low, above, high, below, target) * (1 + side * rtol / 3)
        if not low < middle < high:
            middle = math.sqrt(low * high)
        found = epsilon_of(middle)
        if found > target:
            low, above, side = middle, found, 1
        else:
            high, below, side = middle, found, -1
    return high


def _meets(low: float, above: float, high: float, below: float, target: float) -> float:
    if not (0 < below < above < math.inf and target > 0):
        return math.sqrt(low * high)
    share = math.log(above / target) / math.log(above / below)
    return math.exp(math.log(low) + share * math.log(high / low))
