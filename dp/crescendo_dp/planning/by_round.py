"""Noise by round: how to spread noise over rounds of different sizes so that its sum over all rounds is least.

Over a run the noise adds to the model a variance of sum_i sigma_i^2, in units of the largest change by one record. Its
least value at equal (epsilon, delta) is sought among one sigma for each step of a staircase.

With v = sigma^2, a round's cost at a whole order of Renyi divergence is ln sum_k w_k e^(c_k / v), the logarithm of a sum of
exponentials of convex functions of v, so it is convex in v. It follows that rounds of one rate want one sigma, and that the best
v of a step is where the slope of its cost is the same for every step: a table of slopes and one number to search for. The tight
accountant chooses the order: at equal noise, the one whose sigmas cost the least epsilon. It then scales all
sigmas by one factor, so that only their shape rests on Renyi divergence.
"""

from __future__ import annotations

import math

import numpy as np

from crescendo_dp.arrays import Vector
from crescendo_dp.planning.sigmas import Sigmas
from crescendo_dp.planning.staircase import Staircase
from crescendo_dp.planning.target import Target

_POINTS = np.linspace(-9.0, 9.0, 181)  # of the trapezium rule, in standard deviations
_GRID = np.exp(np.linspace(-2.5, 1.0, 71))  # of sigma, over the one sigma for all
_ORDERS = np.exp(np.linspace(math.log(0.2), math.log(1e5), 60))  # less one
_STRIDE = 0.8  # from one order to the next
_STEPS = 8
_WORTH = 0.998  # of the noise: what gains less is not worth a second sigma


def spread(target: Target, stairs: Staircase, sigma: float) -> Sigmas:
    """A sigma for each step with the least sum of squares over all rounds; ``sigma`` for all where nothing is gained.

    >>> target, stairs = Target(1.0, 1e-5, 10_000, 10_016), Staircase(((16, 1), (5000, 2)))
    >>> sigma = target.sigma(stairs)
    >>> small, large = spread(target, stairs, sigma).values()
    >>> small < sigma / 2, 0.99 * sigma < large < 1.01 * sigma
    (True, True)
    """
    same, few = Sigmas.constant(sigma), _few(stairs)
    if len(few) < 2:
        return same
    order, less = _order(target, few, sigma)
    shape = None if order is None else _Table(target, stairs, sigma).shape(order)
    if shape is None:
        return same
    before = stairs.aggregated((sigma,) * len(stairs))
    expected = less * before / stairs.aggregated(shape)
    if not 0 < expected < math.inf:  # an epsilon that floats cannot tell from 0 is met by any shape
        return same
    found = target.scaled(stairs, [expected * one for one in shape])
    if stairs.aggregated(found) >= _WORTH * before:
        return same
    return Sigmas(tuple((rounds, one) for (_, rounds), one in zip(stairs, found, strict=True)))


def _few(stairs: Staircase) -> Staircase:
    """About as large, in at most eight steps: enough to choose an order by."""
    groups = np.array_split(np.arange(len(stairs)), min(len(stairs), _STEPS))
    found = []
    for group in groups:
        rounds = sum(stairs[j][1] for j in group)
        found.append((round(sum(stairs[j][0] * stairs[j][1] for j in group) / rounds), rounds))
    return Staircase.merged(found)


def _order(target: Target, stairs: Staircase, sigma: float) -> tuple[float | None, float]:
    """The order whose sigmas have the least epsilon at equal noise, and about how much less noise they need; None for none.

    delta is about the least over z of e^(K(z) - z epsilon) / (z (z + 1)), with K(z) = ln E[e^(zL)] of all rounds. The order that
    matters is about that z, and lower where small rounds have heavy tails, so the search goes down from there. The amount of
    noise saved moves the point at which orders are compared, so the search is repeated.
    """
    table, same = _Table(target, stairs, sigma), (sigma,) * len(stairs)
    plain = target.spent(stairs, sigma)
    slope = target.slope(stairs, sigma)
    start = min(_ORDERS, key=lambda z: table.cost(z) - z * target.epsilon - math.log(z * (z + 1)))
    orders = [z for z in start * _STRIDE ** np.arange(-1, 12) if table.shape(z) is not None]
    best, less = None, 1.0
    for _ in range(3):
        order, spent = _least(target, stairs, table, orders, less * stairs.aggregated(same))
        if order == best:
            break
        best, less = order, less * min(1.0, spent / plain) ** (1 / slope)
    return best, less


def _least(
    target: Target, stairs: Staircase, table: _Table, orders: list[float], noise: float
) -> tuple[float | None, float]:
    """The first order, going down, after which epsilon at this aggregated noise rises, and that epsilon."""
    best, least = None, math.inf
    for z in orders:
        shape = table.shape(z)
        assert shape is not None
        spent = target.spent(stairs, tuple(one * noise / stairs.aggregated(shape) for one in shape))
        if spent > least:
            break
        best, least = z, spent
    return best, least


class _Table:
    """The cost of each step at any sigma, and the sigmas at which all have the same slope."""

    def __init__(self, target: Target, stairs: Staircase, sigma: float) -> None:
        rates = np.array([size / target.records for size, _ in stairs])
        self._counts = np.array([rounds for _, rounds in stairs])
        self._alone, self._losses = _Losses(rates, np.array([sigma])), _Losses(rates, sigma * _GRID)
        self._shapes: dict[float, tuple[float, ...] | None] = {}

    def cost(self, z: float) -> float:
        """K(z) for one sigma in all rounds."""
        return float((self._counts * self._alone.moments(z)[:, 0]).sum())

    def shape(self, z: float) -> tuple[float, ...] | None:
        """The sigmas of equal slope that cost the same at this order; None where the table holds none."""
        if z not in self._shapes:
            self._shapes[z] = self._shape(z)
        return self._shapes[z]

    def _shape(self, z: float) -> tuple[float, ...] | None:
        grid, costs, most = self._losses.sigmas, self._losses.moments(z), self.cost(z)
        slopes = np.maximum.accumulate(np.gradient(costs, grid**2, axis=1), axis=1)  # rising to 0, as costs are convex

        def sigmas(log_slope: float) -> Vector:
            return np.exp([np.interp(-math.exp(log_slope), row, np.log(grid)) for row in slopes])

        def over(log_slope: float) -> float:
            rows = zip(sigmas(log_slope), costs, self._counts, strict=True)
            return float(sum(count * np.interp(one, grid, row) for one, row, count in rows)) - most

        from scipy.optimize import brentq

        flattest, steepest = (math.log(max(1e-300, -one)) for one in (slopes[:, -2].max(), slopes[:, 1].min()))
        if over(steepest) <= 0 or over(flattest) >= 0:
            return None
        return tuple(sigmas(brentq(over, flattest, steepest, xtol=1e-6)).tolist())


class _Losses:
    """The privacy loss of a round at the points of a trapezium rule, for each rate and each sigma; far tails are left out."""

    def __init__(self, rates: Vector, sigmas: Vector) -> None:
        self.sigmas = sigmas
        q, s = rates[:, None, None], sigmas[None, :, None]
        exponent = (2 * np.concatenate([_POINTS * s, 1 + _POINTS * s], axis=2) - 1) / (2 * s * s)
        normal = np.exp(-_POINTS * _POINTS / 2) / np.exp(-_POINTS * _POINTS / 2).sum()
        with np.errstate(divide="ignore"):  # a rate of 1 leaves nothing out
            self._loss = np.logaddexp(np.log1p(-q), np.log(q) + exponent)
            self._mass = np.log(np.concatenate([(1 - q) * normal, q * normal], axis=2))

    def moments(self, z: float) -> Vector:
        """ln E[e^(zL)], a row for each rate and a column for each sigma."""
        tilted = self._mass + z * self._loss
        peak = tilted.max(axis=2, keepdims=True)
        return np.asarray((np.log(np.exp(tilted - peak).sum(axis=2, keepdims=True)) + peak)[:, :, 0])
