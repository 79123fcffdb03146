"""A quick accountant of another kind, as a test oracle for planners: one FFT of the tilted privacy loss.

It tilts the loss of each round towards the tail that matters, spreads it over a grid so that mean and variance are kept, and
composes all rounds by one FFT. It does not round to the safe side, and needs milliseconds. A test holds it to `oracle`.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

Floats = npt.NDArray[np.floating[Any]]
Stairs = tuple[tuple[int, int], ...]
Direction = Literal["remove", "add"]
_X = np.linspace(-12.0, 12.0, 1201)
_MASS = np.exp(-_X * _X / 2) / np.exp(-_X * _X / 2).sum()


def _atoms(rate: float, sigma: float, direction: Direction) -> tuple[Floats, Floats]:
    """The privacy loss of one round and its probability, at the points of a trapezium rule."""
    x, mass = _X * sigma, _MASS
    if direction == "remove":
        x, mass = np.concatenate([x, x + 1]), np.concatenate([(1 - rate) * mass, rate * mass])
    exponent = (2 * x - 1) / (2 * sigma * sigma)
    low = np.log1p(rate * np.expm1(np.minimum(exponent, 30.0)))
    high = exponent + math.log(rate) + np.log1p((1 - rate) / rate * np.exp(-np.maximum(exponent, 30.0)))
    loss = exponent if rate == 1 else np.where(exponent > 30, high, low)
    return (loss if direction == "remove" else -loss), mass


def epsilon_of(stairs: Stairs, records: int, sigma: float, delta: float, most: float = math.inf) -> float:
    """Epsilon of a schedule, the larger of both directions; of one direction where that is ``most`` or more."""
    found: list[float] = []
    for direction in ("remove", "add"):
        rounds = [(*_atoms(size / records, sigma, direction), count) for size, count in stairs]
        epsilon, interval = _composed(rounds, delta, 1.0)
        if interval > epsilon / 500 > 0:
            epsilon, _ = _composed(rounds, delta, max(epsilon / 500 / interval, 1 / 64))
        found.append(epsilon)
        if epsilon >= most:
            break
    return max(found)


def _tilted(theta: float, rounds: list[tuple[Floats, Floats, int]]) -> tuple[float, float, float]:
    """ln E[e^(theta L)] of the whole, and the mean and variance under that tilt."""
    log, mean, variance = 0.0, 0.0, 0.0
    for loss, mass, count in rounds:
        peak = float((theta * loss).max())
        weight = mass * np.exp(theta * loss - peak)
        total, middle = weight.sum(), (weight * loss).sum() / weight.sum()
        log += count * (peak + math.log(total))
        mean += count * middle
        variance += count * float((weight * (loss - middle) ** 2).sum() / total)
    return log, mean, variance


def _composed(rounds: list[tuple[Floats, Floats, int]], delta: float, finer: float) -> tuple[float, float]:
    """Epsilon, and the interval of the grid it was found on."""

    def beyond(log_theta: float) -> float:
        log, mean, _ = _tilted(math.exp(log_theta), rounds)
        return math.exp(log_theta) * mean - log + math.log(delta)

    low, high = -5.0, 5.0
    while beyond(high) < 0 and high < 30:
        high += 1
    while beyond(low) > 0 and low > -40:
        low -= 1
    theta = math.exp(brentq(beyond, low, high, xtol=1e-2) if beyond(low) < 0 < beyond(high) else high)
    log, mean, variance = _tilted(theta, rounds)
    if variance < 1e-10 * mean * mean:  # the loss is bounded, and delta below the chance of its bound
        theta = 1.0
        log, mean, variance = _tilted(theta, rounds)
    count = sum(n for _, _, n in rounds)
    h = finer * min(math.sqrt(variance) / 48, 0.05 * math.sqrt(variance / count))
    cells = 1 << max(9, math.ceil(math.log2(24 * math.sqrt(variance) / h)))
    transform = np.ones(cells // 2 + 1, complex)
    for loss, mass, n in rounds:
        weight = mass * np.exp(theta * loss - (theta * loss).max())
        weight = weight / weight.sum()
        at = np.rint(loss / h).astype(np.int64)
        off = loss / h - at  # three points around it keep mean and variance
        parts = ((-1, (off * off - off) / 2), (0, 1 - off * off), (1, (off * off + off) / 2))
        transform *= np.fft.rfft(sum(np.bincount((at + j) % cells, weight * part, cells) for j, part in parts)) ** n
    k = round(mean / h) - cells // 2 + np.arange(cells)
    pmf, loss = np.fft.irfft(transform, cells)[k % cells], k * h
    there = loss > 0  # all that an epsilon of 0 or more asks for
    prob = np.where(there, pmf, 0.0) * np.exp(np.where(there, np.minimum(log - theta * loss, 600.0), 0.0))
    above = np.cumsum(prob[::-1])[::-1]
    weighed = np.cumsum((prob * np.exp(-np.clip(loss, 0, 600)))[::-1])[::-1]

    def over(epsilon: float) -> float:
        i = int(np.searchsorted(loss, epsilon, side="right"))
        return (float(above[i]) - math.exp(min(epsilon, 600.0)) * float(weighed[i]) if i < cells else 0.0) - delta

    least = max(0.0, float(loss[0]))
    return (brentq(over, least, float(loss[-1]), xtol=1e-8) if over(least) > 0 else least), h


def sigma_for(stairs: Stairs, records: int, epsilon: float, delta: float, start: float) -> float:
    """The noise at which a schedule costs epsilon: a secant on logarithmic axes."""

    def over(log_sigma: float) -> float:
        return math.log(max(epsilon_of(stairs, records, math.exp(log_sigma), delta), 1e-9) / epsilon)

    x0, x1 = math.log(start), math.log(start)
    y0 = y1 = over(x0)
    x1 += min(max(0.7 * y0, -0.5), 0.5) or 1e-3
    for _ in range(60):
        y1 = over(x1)
        if abs(x1 - x0) < 2e-5 or y1 == y0:
            break
        x0, y0, x1 = x1, y1, x1 - min(max(y1 * (x1 - x0) / (y1 - y0), -0.7), 0.7)
    return math.exp(x1)
