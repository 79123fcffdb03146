"""Bounds from guesses: the most right guesses that a private run allows, and the privacy that more of them deny."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crescendo.audit.canaries.trade_off import TradeOff


@dataclass(frozen=True)
class Guesses:
    """``right`` of ``made`` guesses about ``canaries`` canaries; ``made`` was fixed before the run."""

    canaries: int
    made: int
    right: int

    def denies(self, curve: TradeOff, level: float) -> bool:
        """Return True if this many right guesses have a chance below ``level`` in every run that is as private as ``curve``.

        Probabilities are chosen from the top, each as small as the inequalities (see the package's docstring) allow. Putting all
        of ``level`` on the observed count constrains the others least. A larger tail anywhere enlarges all tails below it.

        >>> import math
        >>> [Guesses(100, 100, right).denies(TradeOff([math.log(3)], [0.0]), 0.05) for right in (82, 83)]
        [False, True]
        >>> from scipy.stats import binom                       # randomised response, the worst case
        >>> [bool(binom.sf(right - 1, 100, 0.75) < 0.05) for right in (82, 83)]
        [False, True]
        """
        if not self.made:
            return False
        right, wrong = level * self.right, level * (self.made - self.right)  # M times the two sums over i >= j
        for i in range(self.right - 1, -1, -1):
            needed = self.canaries * curve.least(right / self.canaries)
            if needed > wrong:
                right += i / (self.made - i) * (needed - wrong)
                wrong = needed
                if right + wrong > self.made:
                    return True
        return False

    def p_value(self, curve: TradeOff) -> float:
        """Return the least level, to a percent, at which the guesses deny ``curve``; 1 if there is none.

        >>> import math
        >>> round(Guesses(100, 100, 83).p_value(TradeOff([math.log(3)], [0.0])), 3)
        0.043
        """
        if not self.denies(curve, 1.0):
            return 1.0
        low, high = 1e-12, 1.0
        while high > 1.01 * low:
            middle = (low * high) ** 0.5
            low, high = (low, middle) if self.denies(curve, middle) else (middle, high)
        return high


def last_denied(denied: Callable[[float], bool], low: float, high: float, steps: int) -> float | None:
    """Find, from below, where ``denied`` turns from true at ``low`` to false; None if it is false at ``low``.

    >>> last_denied(lambda epsilon: epsilon < 2.0, 0.0, 8.0, steps=10)
    1.9921875
    """
    if not denied(low):
        return None
    if denied(high):
        return high
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if denied(middle) else (low, middle)
    return low
