"""The privacy loss of one Poisson-sampled Gaussian round, on a grid, rounded so that it can only overstate.

With mu = N(0, sigma^2), and the same moved by the sensitivity 1 with probability q, an outcome x has the loss
L(x) = ln(1 - q + q e^((2x-1)/(2 sigma^2))) when a record is removed, and -L(x) when one is added.

*Connect the dots* (Doroshenko and others 2022): cut the line of x where the loss passes a multiple of the interval h.
A piece with probability P under the first data set and Q under the second, and losses between kh and (k+1)h, is
replaced by two outcomes with losses exactly kh and (k+1)h and the same P and Q in all. The pair of distributions we get can be
turned into the true one by merging outcomes, so each delta(epsilon) of this pair, alone or composed, is at least the true one.

*One grid for both directions.* With t = e^(L-kh) - 1 and T = e^h - 1 the two outcomes of a piece have the masses

    e^(kh) integral of (1 - t/T) dmu     and     e^((k+1)h) integral of (t/T) dmu        when a record is removed,

and the same divided by e^(kh) and e^((k+1)h) when one is added: the two swap their roles.

*Rounding.* Both integrands are positive, so quadrature over t loses nothing to cancellation, and each mass is known to a small
relative error, which is added. Pieces too wide for quadrature (where the loss hardly depends on x) take differences of the normal
distribution instead, with their larger error added. Logarithms are kept: the masses go down to e^-700. delta is a sum
of products of masses with weights that are not negative, so masses that are not too small make a delta that is not too small.

*Tails.* Outcomes too rare to matter, a probability of at most ``cut`` on each side, count as losing everything.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from crescendo_dp.arrays import Vector

_U = float(np.finfo(float).eps)
_NARROW, _MIDDLE = 0.01, 0.5  # widths up to which 3 and 7 nodes leave less than rounding does


class Losses(NamedTuple):
    """ln of the probability of each loss (lowest + j) * interval when a record is removed; ``cut`` counts as infinite.

    When a record is added, the loss -k h has the probability of k h when one is removed, times e^(-kh).
    """

    lowest: int
    log_probs: Vector
    cut: float
    interval: float

    @classmethod
    def of(cls, rate: float, sigma: float, interval: float, cut: float) -> Losses:
        """One round with 0 < rate <= 1 and sigma > 0, whose tails are cut where at most ``cut`` >= 1e-300 is left on each side.

        >>> found = Losses.of(0.01, 1.0, 1 / 1024, 1e-28)
        >>> 0 <= float(np.exp(found.log_probs).sum()) - 1 < 1e-10
        True
        """
        least, most = span(rate, sigma, cut)
        low = math.floor(least / interval)
        high = max(math.ceil(most / interval), low + 1)
        k: Vector = np.arange(low, high).astype(float)
        edges = _score(np.arange(low, high + 1) * interval, rate, sigma)
        with np.errstate(invalid="ignore"):
            width = np.diff(edges) * np.maximum(np.maximum(np.abs(edges[1:]), np.abs(edges[:-1])), max(1.0, 1 / sigma))
        down, up = np.empty(len(k)), np.empty(len(k))  # ln of the masses at kh and at (k+1)h
        for nodes, least, most in ((3, -1.0, _NARROW), (7, _NARROW, _MIDDLE)):
            chosen = (width > least) & (width <= most)
            down[chosen], up[chosen] = _by_quadrature(k[chosen], rate, sigma, interval, nodes)
        chosen = ~(width <= _MIDDLE)
        down[chosen], up[chosen] = _by_difference(
            k[chosen], edges[:-1][chosen], edges[1:][chosen], rate, sigma, interval
        )
        probs = np.full(len(k) + 1, -math.inf)
        probs[:-1] = down
        probs[1:] = np.logaddexp(probs[1:], up) + 4 * _U * (1 + np.abs(up))
        return cls(low, probs, 2.001 * cut, interval)

    def coarser(self) -> Losses:
        """Return the same losses on every second grid point, as `of` does for twice the interval: dots of dots are dots.

        >>> fine, coarse = Losses.of(0.3, 2.0, 2**-10, 1e-28), Losses.of(0.3, 2.0, 2**-9, 1e-28)
        >>> again = fine.coarser()
        >>> again.lowest == coarse.lowest, bool(np.abs(np.exp(again.log_probs) - np.exp(coarse.log_probs)).max() < 1e-12)
        (True, True)
        """
        start = self.lowest % 2
        cells = start + len(self.log_probs)
        probs = np.full(cells + (cells + 1) % 2, -math.inf)
        probs[start:cells] = self.log_probs
        odd, even = probs[1::2], probs[::2].copy()
        share = math.log1p(math.exp(-self.interval))  # up: 1/(1 + e^-h)
        even[1:] = np.logaddexp(even[1:], odd - share)
        even[:-1] = np.logaddexp(even[:-1], odd - self.interval - share)
        return Losses((self.lowest - start) // 2, even, self.cut, 2 * self.interval)


def span(rate: float, sigma: float, cut: float) -> tuple[float, float]:
    """The losses between which all but ``cut`` on each side lies, whichever data set the outcome comes from."""
    from scipy.special import ndtri

    highest = max(-sigma * ndtri(cut / 2), 1 - sigma * ndtri(min(cut / (2 * rate), 0.5)))
    x = np.array([sigma * ndtri(cut), highest])
    least, most = loss_at((2 * x - 1) / (2 * sigma * sigma), rate)
    return float(least), float(most)


def loss_at(y: Vector, rate: Vector | float) -> Vector:
    """The loss ln(1 - q + q e^y) of an outcome x when a record is removed, with y = (2x-1)/(2 sigma^2).

    >>> float(loss_at(np.array(1000.0), 0.5)), float(loss_at(np.array(1000.0), 1.0))
    (999.3068528194401, 1000.0)
    """
    small, large = np.minimum(y, 700.0), np.maximum(y, 700.0)
    with np.errstate(divide="ignore"):
        rare = np.log1p(rate * np.expm1(small))
    return np.asarray(
        np.where(
            y > 700, large + np.log(rate) + np.log1p((1 - rate) / rate * np.exp(-large)), np.where(rate == 1, y, rare)
        )
    )


def _exponent(loss: Vector, rate: float) -> tuple[Vector, Vector]:
    """The y = (2x-1)/(2 sigma^2) with the given loss, minus infinity where no x has so small a loss; and a bound on its error."""
    if rate == 1:
        return loss, 4 * _U * np.abs(loss)
    ratio = np.maximum(np.expm1(np.minimum(loss, 1.0)) / rate, -1.0)
    with np.errstate(divide="ignore"):
        small = np.log1p(ratio)
        error = 8 * _U * (np.abs(small) + np.abs(ratio) / (1 + ratio))
    large = loss + np.log1p((rate - 1) * np.exp(-np.maximum(loss, 1.0))) - math.log(rate)
    return np.where(loss > 1, large, small), np.where(loss > 1, 8 * _U * (1 + loss - math.log(rate)), error)


def _score(loss: Vector, rate: float, sigma: float) -> Vector:
    """x / sigma of the outcome with the given loss."""
    return np.asarray(sigma * _exponent(loss, rate)[0] + 0.5 / sigma)


@lru_cache(maxsize=2)
def _gauss(nodes: int) -> tuple[tuple[float, float], ...]:
    """Nodes and weights of Gauss and Legendre on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return tuple((float(point + 1) / 2, float(weight) / 2) for point, weight in zip(points, weights, strict=True))


def _by_quadrature(k: Vector, rate: float, sigma: float, interval: float, nodes: int) -> tuple[Vector, Vector]:
    base, down, up = None, np.zeros(len(k)), np.zeros(len(k))
    full = math.expm1(interval)
    for share, weight in _gauss(nodes):
        loss = k * interval + math.log1p(share * full)
        y, off = _exponent(loss, rate)
        x = sigma * y + 0.5 / sigma
        density = loss - y - x * x / 2  # ln of dmu/dt, but for a constant
        if base is None:
            base = density
        density = weight / (1 + share * full) * np.exp(density - base)
        down += (1 - share) * density
        up += share * density
    if base is None:
        raise AssertionError("quadrature has nodes")
    logs = base + k * interval + (math.log(full * sigma / math.sqrt(2 * math.pi)) - math.log(rate))
    # What rounding does to the logarithm of a density: y is known to `off`, x to sigma * off and its own rounding.
    error = 16 * _U * (1 + np.abs(logs) + np.abs(loss) + x * x) + 2 * off
    error = error + 2 * (np.abs(x) + 1) * (sigma * off + 4 * _U * (sigma * np.abs(y) + 0.5 / sigma))
    return logs + np.log(down) + error, logs + interval + np.log(up) + error


def _by_difference(
    k: Vector, left: Vector, right: Vector, rate: float, sigma: float, interval: float
) -> tuple[Vector, Vector]:
    still, error = _log_mass(left, right)
    moved, error_moved = _log_mass(left - 1 / sigma, right - 1 / sigma)
    at, mean = k * interval, loss_at(moved - still, rate)
    excess = mean - at  # between 0 and h
    slope = np.exp(np.minimum(moved - still + math.log(rate) - mean, 0.0))
    off = slope * (error + error_moved) + 8 * _U * (np.abs(at) + np.abs(mean))
    most, least = np.clip(excess + off, 0, interval), np.clip(excess - off, 0, interval)
    scale = at + still + error + 8 * _U * (1 + np.abs(at) + np.abs(still)) - math.log(-math.expm1(-interval))
    with np.errstate(divide="ignore"):
        return scale + np.log(-np.expm1(least - interval)), scale + np.log(np.expm1(most))


def _log_mass(left: Vector, right: Vector) -> tuple[Vector, Vector]:
    """ln of the standard normal probability between left and right, and a bound on its error."""
    from scipy.special import log_ndtr

    flip = left > 0
    near, far = np.where(flip, -left, right), np.where(flip, -right, left)  # both in the lower half where they can be
    near, far = log_ndtr(near), log_ndtr(far)
    gap = -np.expm1(far - near)
    return near + np.log(gap), 8 * _U * (1 + np.abs(near)) * (1 + np.exp(far - near) / gap)
