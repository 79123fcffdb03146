"""The least noise for a budget: a search that ends on the safe side."""

import math
from collections.abc import Callable

from crescendo_dp.errors import UsageError

MOST_SIGMA = 1e6
LEAST, MOST = 1e-2, MOST_SIGMA
_SLOPE = 1.2  # of epsilon over sigma, on logarithmic axes, before anything is known of it
_FURTHEST = 16.0  # in one step


def least_sigma(epsilon_of: Callable[[float], float], target: float, start: float, rtol: float = 0.004) -> float:
    """A sigma with epsilon_of(sigma) <= target < epsilon_of(sigma / (1 + rtol)), for an epsilon that falls as sigma rises.

    It goes where a straight line on logarithmic axes meets the target, and a third of ``rtol`` beyond it to either side, so that
    a few evaluations do. From one side alone it goes further beyond each time.

    >>> sigma = least_sigma(lambda sigma: 5 / sigma, 2.0, start=1.0)
    >>> 2.5 <= sigma < 2.511
    True
    """
    low = high = None
    sigma, slope, beyond, before = min(max(start, LEAST), MOST), _SLOPE, rtol / 3, None
    while True:
        spent = epsilon_of(sigma)
        here = sigma, spent
        if spent <= target:
            high = here
            if sigma <= LEAST:
                return sigma
        else:
            low = here
            if sigma >= MOST:
                nearest = (
                    f"the nearest epsilon is {1.01 * spent:.3g}" if math.isfinite(spent) else "ask for a larger delta"
                )
                raise UsageError(f"no sigma below {MOST:g} reaches epsilon = {target:g} at this delta; {nearest}")
        if low is not None and high is not None:
            if high[0] <= low[0] * (1 + rtol):
                return high[0]
            sigma = _meets(*low, *high, target) * (1 - rtol / 3 if here == high else 1 + rtol / 3)
            if not low[0] < sigma < high[0]:
                sigma = math.sqrt(low[0] * high[0])
            continue
        slope, before, beyond = _slope(before, here, slope), here, 4 * beyond
        step = min(_FURTHEST, (max(spent, target) / max(min(spent, target), 1e-300)) ** (1 / slope)) * (1 + beyond / 4)
        sigma = max(LEAST, sigma / min(step, 2.0)) if spent <= target else min(MOST, sigma * step)


def _slope(before: tuple[float, float] | None, here: tuple[float, float], slope: float) -> float:
    """By how many percent epsilon falls when sigma rises by one, between two evaluations; ``slope`` if they do not show it."""
    if before is None or not (min(before[1], here[1]) > 0 and max(before[1], here[1]) < math.inf):
        return slope
    return min(4.0, max(0.5, -math.log(here[1] / before[1]) / math.log(here[0] / before[0])))


def _meets(low: float, above: float, high: float, below: float, target: float) -> float:
    if not (0 < below < above < math.inf and target > 0):
        return math.sqrt(low * high)
    share = math.log(above / target) / math.log(above / below)
    return math.exp(math.log(low) + share * math.log(high / low))
