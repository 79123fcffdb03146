"""Where to look: the tilt, the interval and the window with which losses are composed for a given delta.

Nothing here has to be exact. Any tilt, interval and window give an upper bound (see `tilted_fft`); good ones give a tight one.
They come from the saddle point: with K(s) = ln E[e^(sL)] of the total loss L, and s where delta is reached,

    epsilon = K'(s) - 1/s - 1/(1+s),    ln delta = K(s) - s epsilon - ln(s (1+s)) - ln(2 pi (K''(s) + 1/s^2 + 1/(1+s)^2)) / 2.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from crescendo_dp.accounting import privacy_loss
from crescendo_dp.arrays import Vector
from crescendo_dp.events import Counted

Direction = Literal["remove", "add"]

_ACCURACY = 0.0003  # the share of epsilon that the interval is chosen for
_MOST_CELLS = 1 << 20  # of one round, and of the window
_STEPS = 60
_NEGLIGIBLE = 18.0  # -ln of what is


@dataclass(frozen=True)
class Aim:
    """The tilt s, the interval, and the losses between which the composed loss is looked at."""

    tilt: float
    guess: float
    interval: float
    low: float
    high: float


class Moments:
    """K and its derivatives, for one direction and losses up to ``upto``, by the trapezium rule over x."""

    def __init__(self, counted: Counted, direction: Direction, cut: float, upto: float = math.inf) -> None:
        rate, sigma = (np.array([getattr(event, name) for event, _ in counted])[:, None] for name in ("rate", "sigma"))
        self.counts = np.array([float(count) for _, count in counted])
        reach = math.sqrt(-2 * math.log(cut))
        least = float(sigma.min())
        nodes = int(np.clip(6 * (2 * reach + 1 / least) * max(1.0, 1 / least), 200, 2000))
        score = -reach + (2 * reach + 1 / sigma) * np.linspace(0, 1, nodes)[None, :]
        y = (score - 0.5 / sigma) / sigma
        removed = privacy_loss.loss_at(y, rate)
        base = -score * score / 2
        self.loss, self.base = (removed, base + removed) if direction == "remove" else (-removed, base)
        peak = self.base.max(axis=1, keepdims=True)
        self.base = self.base - peak - np.log(np.exp(self.base - peak).sum(axis=1, keepdims=True))
        self.base = np.where(self.loss > upto, -math.inf, self.base)
        spans = [privacy_loss.span(event.rate, event.sigma, cut) for event, _ in counted]
        self.finest_power = 2.0 ** math.ceil(math.log2(max(most - least for least, most in spans) / _MOST_CELLS))

    def log(self, s: float) -> float:
        exponent = s * self.loss + self.base
        peak = exponent.max(axis=1, keepdims=True)
        return float(self.counts @ (peak[:, 0] + np.log(np.exp(exponent - peak).sum(axis=1))))

    def deviation(self, s: float) -> float:
        return math.sqrt(self.at(s)[2])

    def interval(self, sizes: Vector, s: float, scale: float, deviation: float) -> float:
        """A power of two for which the dots add about 0.03% of ``scale`` to epsilon.

        Dots h apart add a variance of about h^2/6 to a loss, or h |L| if that is less, and variance v adds v (1+s)/2 to epsilon.
        """
        h = 2.0 ** math.floor(math.log2(max(deviation / 16, scale / 2048)))
        for _ in range(_STEPS):
            if self.counts @ np.minimum(h * h / 6, h * sizes) * (1 + s) / 2 <= _ACCURACY * scale:
                break
            h /= 2
        return max(h, self.finest_power)

    def at(self, s: float) -> tuple[float, float, float, Vector]:
        """K, K', K'' and each round's mean absolute loss under the tilt."""
        exponent = s * self.loss + self.base
        peak = exponent.max(axis=1, keepdims=True)
        weight = np.exp(exponent - peak)
        total = weight.sum(axis=1, keepdims=True)
        weight /= total
        mean = (weight * self.loss).sum(axis=1)
        spread = (weight * (self.loss - mean[:, None]) ** 2).sum(axis=1)
        sizes = (weight * np.abs(self.loss)).sum(axis=1)
        log = float(self.counts @ (peak + np.log(total))[:, 0])
        return log, float(self.counts @ mean), float(self.counts @ spread), sizes

    def aim(self, delta: float, known: float | None = None, scale: float = 0.0) -> Aim:
        """The tilt at which delta is reached, or an epsilon that is ``known`` by now; and an interval for 0.03% of epsilon.

        ``scale`` is the epsilon in question where that of these moments is only a part of it.
        """
        wanted = math.log(delta)

        def too_small(s: float) -> bool:
            log_delta, epsilon = self._reached(s)
            return log_delta > wanted if known is None else epsilon < known

        low = high = 1 / self.deviation(0.0)
        for _ in range(_STEPS):
            if too_small(low):
                break
            low /= 2
        for _ in range(_STEPS):
            if not too_small(high):
                break
            high *= 2
        while high > 1.001 * low:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if too_small(middle) else (low, middle)
        log, mean, variance, sizes = self.at(low)
        deviation = max(math.sqrt(variance), 1 / low)
        guess = max(self._reached(low)[1] if known is None else known, 0.0)
        interval = self.interval(sizes, low, max(guess, deviation / 50, scale), deviation)
        tilts = [t / deviation for t in (0.5, 1, 2, 4, 8)]
        bottom = max((log - self.log(low - t) - _NEGLIGIBLE) / t for t in tilts)  # Chernoff's bound
        bottom, top = min(bottom, guess - deviation, -interval), max(guess, mean) + 2 * _NEGLIGIBLE / low
        found = Aim(low, guess, interval, bottom, top)
        return replace(found, interval=max(interval, coarsest(found)))

    def _reached(self, s: float) -> tuple[float, float]:
        """ln delta and epsilon of a saddle point."""
        log, mean, variance, _ = self.at(s)
        epsilon = mean - 1 / s - 1 / (1 + s)
        curve = variance + s**-2 + (1 + s) ** -2
        return log - s * epsilon - math.log(s) - math.log1p(s) - math.log(2 * math.pi * curve) / 2, epsilon


def coarsest(*aims: Aim) -> float:
    """The least power of two at which no window has more cells than there is memory for."""
    return 2.0 ** math.ceil(math.log2(max(aim.high - aim.low for aim in aims) / _MOST_CELLS))
