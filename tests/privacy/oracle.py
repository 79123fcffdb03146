"""An accountant of another kind, as a test oracle: no grid of losses and no FFT.

With L the total privacy loss, delta(eps) = E[(1 - e^(eps-L))+]. The Laplace transform of (1 - e^-x)+ is 1/(z(z+1)), so

    delta(eps) = 1/(2 pi i)  integral over Re z = c of  E[e^(zL)] e^(-z eps) / (z (z+1)) dz      for any c > 0.

E[e^(zL)] is the product over rounds of one-dimensional Gaussian integrals. Through the saddle point the integrand falls
off fast and the result is good to many digits at any delta. Slow: it is meant for a few distinct rounds, and for
enough rounds (20 or so) that the integrand does fall off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar

Complex = npt.NDArray[np.complexfloating[Any, Any]]
Rounds = Sequence[tuple[float, float, int]]  # (rate, sigma, count)
Direction = Literal["remove", "add"]


def log_moment(z: Complex, rate: float, sigma: float, direction: Direction) -> Complex:
    """ln E[e^(zL)] of one round by the trapezium rule in x, which converges exponentially for such an integrand."""
    reach = max(1.0, float(z.real.max()) + 1)  # the tilted Gaussian sits no further out than this
    high = 1 + reach + 12 * sigma if direction == "remove" else 12 * sigma
    step = min(sigma, sigma * sigma) / 12
    x = np.arange(-12 * sigma, high, step)
    loss = np.log1p(rate * np.expm1((2 * x - 1) / (2 * sigma * sigma)))
    log_density = -(x * x) / (2 * sigma * sigma) - math.log(sigma * math.sqrt(2 * math.pi)) + math.log(step)
    if direction == "remove":
        log_density = log_density + loss  # drawn from the mixture
    else:
        loss = -loss
    exponent = log_density[None, :] + z[:, None] * loss[None, :]
    peak = exponent.real.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(exponent - peak).sum(axis=1)) + peak[:, 0])


def total(z: Complex, rounds: Rounds, direction: Direction) -> Complex:
    return np.asarray(sum(count * log_moment(z, rate, sigma, direction) for rate, sigma, count in rounds))


def delta_of(epsilon: float, rounds: Rounds, direction: Direction) -> float:
    """delta at epsilon, in one direction."""

    def height(log_c: float) -> float:
        c = np.array([math.exp(log_c)], complex)
        return float(total(c, rounds, direction)[0].real - c[0].real * epsilon - np.log(c[0].real * (c[0].real + 1)))

    c = math.exp(minimize_scalar(height, bounds=(-3, 6), method="bounded", options={"xatol": 0.05}).x)
    real = total(np.array([c - 1e-3, c, c + 1e-3], complex), rounds, direction).real
    width = 1 / math.sqrt(max((real[0] - 2 * real[1] + real[2]) / 1e-6, 1e-12) + 1 / c**2)  # of the hump over t
    t = width * np.sinh(np.linspace(0, 9, 1500)) / 8
    z = c + 1j * t
    value = np.concatenate([np.exp(total(part, rounds, direction) - part * epsilon) for part in np.array_split(z, 30)])
    return float(np.trapezoid((value / (z * (z + 1))).real, t) / math.pi)


def epsilon_of(delta: float, rounds: Rounds, guess: float) -> float:
    """The larger epsilon of the two directions, near ``guess``."""

    def miss(epsilon: float, direction: Direction) -> float:
        return math.log(max(delta_of(epsilon, rounds, direction), 1e-300) / delta)

    found = []
    for direction in ("remove", "add"):
        low, high = 0.9 * guess, 1.05 * guess
        if direction == "add" and miss(low, "add") <= 0:
            continue  # adding costs less than removing by far
        found.append(float(brentq(lambda e, d=direction: miss(e, d), low, high, xtol=1e-4 * guess)))
    return max(found)
