"""An accountant of another kind, as a test oracle: no grid of losses and no FFT.

With L the total privacy loss, delta(eps) = E[(1 - e^(eps-L))+]. The Laplace transform of (1 - e^-x)+ is 1/(z(z+1)), so

    delta(eps) = 1/(2 pi i)  integral over Re z = c of  E[e^(zL)] e^(-z eps) / (z (z+1)) dz      for any c > 0.

E[e^(zL)] is the product over rounds of one-dimensional Gaussian integrals. Through the saddle point the integrand falls
off fast and the trapezium rule converges exponentially, so the result is good to many digits at any delta. It is meant for enough
rounds (20 or so) that the integrand does fall off; where it does not, `Unfit` is raised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

Complex = npt.NDArray[np.complexfloating[Any, Any]]
Rounds = Sequence[tuple[float, float, int]]  # (rate, sigma, count)
Direction = Literal["remove", "add"]

ACCURACY = 1e-6  # of delta and so, or better, of epsilon


class Unfit(Exception):
    """The integrand does not fall off."""


def log_moment(z: Complex, rate: float, sigma: float, direction: Direction, reach: float) -> Complex:
    """ln E[e^(zL)] of one round by the trapezium rule in x, which converges exponentially for such an integrand.

    Outcomes beyond ``reach`` deviations are left out: their e^(zL) can be all of E[e^(zL)], and they are nothing to delta.
    """
    steepest = rate / (rate + (1 - rate) * math.exp(-min((1 + 2 * reach * sigma) / (2 * sigma * sigma), 700.0)))
    step = min(sigma / 8, sigma * sigma / max(8.0, steepest * float(np.abs(z.imag).max())))
    if (1 + 2 * reach * sigma) / step > 20_000:
        raise Unfit
    x = np.arange(-reach * sigma, 1 + reach * sigma, step)
    y = (2 * x - 1) / (2 * sigma * sigma)
    with np.errstate(divide="ignore"):
        loss = y if rate == 1 else np.logaddexp(math.log1p(-rate), math.log(rate) + y)
        small = np.abs(y) < 1
        loss = np.where(small, np.log1p(rate * np.expm1(np.where(small, y, 0.0))), loss)
    log_density = -(x * x) / (2 * sigma * sigma) - math.log(sigma * math.sqrt(2 * math.pi)) + math.log(step)
    if direction == "remove":
        log_density = log_density + loss  # drawn from the mixture
    else:
        loss = -loss
    exponent = log_density[None, :] + z[:, None] * loss[None, :]
    peak = exponent.real.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(exponent - peak).sum(axis=1)) + peak[:, 0])


def total(z: Complex, rounds: Rounds, direction: Direction, reach: float) -> Complex:
    return np.asarray(sum(count * log_moment(z, rate, sigma, direction, reach) for rate, sigma, count in rounds))


def log_delta_of(epsilon: float, rounds: Rounds, direction: Direction, reach: float) -> tuple[float, float]:
    """ln delta at epsilon in one direction, and its derivative."""

    def height(log_c: float) -> float:
        c = np.array([math.exp(log_c)], complex)
        return float(
            total(c, rounds, direction, reach)[0].real - c[0].real * epsilon - np.log(c[0].real * (c[0].real + 1))
        )

    scale = math.sqrt(sum(n * q * q * math.expm1(min(s**-2, 3.0)) for q, s, n in rounds))
    span = (math.log(0.01 / scale), math.log(200 / scale))
    c = math.exp(minimize_scalar(height, bounds=span, method="bounded", options={"xatol": 0.01}).x)
    real = total(np.array([c * 0.999, c, c * 1.001], complex), rounds, direction, reach).real
    curve = max((real[0] - 2 * real[1] + real[2]) / (c / 1000) ** 2, 0.0) + 1 / c**2 + 1 / (1 + c) ** 2
    step = min(1 / (3 * math.sqrt(curve)), c / 4)
    value = slope = 0.0
    peak = real[1] - c * epsilon
    for start in range(0, 1600, 32):
        t = (start + np.arange(32)) * step
        z = c + 1j * t
        part = np.exp(total(z, rounds, direction, reach) - z * epsilon - peak) / (z * (z + 1))
        weight = np.where(t == 0, 0.5, 1.0)
        value += float((part.real * weight).sum())
        slope -= float(((part * z).real * weight).sum())
        if np.abs(part).max() < ACCURACY / 1000 * abs(value):
            if value <= 0:
                raise Unfit
            return math.log(value * step / math.pi) + peak, slope / value
    raise Unfit


def delta_of(epsilon: float, rounds: Rounds, direction: Direction, reach: float = 14.0) -> float:
    """delta at epsilon, in one direction, where it is far above what lies beyond ``reach`` deviations."""
    return math.exp(log_delta_of(epsilon, rounds, direction, reach)[0])


def epsilon_of(delta: float, rounds: Rounds, guess: float) -> float:
    """The larger epsilon of the two directions, by Newton's method from ``guess``, a little too large at most."""
    found, reach = 0.0, math.sqrt(-2 * math.log(delta * ACCURACY / 100 / sum(count for _, _, count in rounds)))
    for direction in ("remove", "add"):
        epsilon = guess
        for _ in range(8):
            log, slope = log_delta_of(epsilon, rounds, direction, reach)
            step = (log - math.log(delta)) / slope
            epsilon -= step
            if epsilon < 0.8 * guess or abs(step) < 1e-7 * guess:
                break
        found = max(found, epsilon)
    return found
