"""Composition of losses by an FFT of the exponentially tilted distribution, rounded upward throughout.

With p_j the losses of one round on a grid of interval h (see `privacy_loss`), take the tilted ones
q_j(k) = p_j(k) e^(skh) / M_j(s), where M_j(s) makes them sum to 1.
Convolution and tilting commute. So, with Q the convolution of all q_j and K = sum of ln M_j(s),

    delta(eps) = e^(K - s eps)  sum over kh > eps of  Q(k) e^(-s (kh - eps)) (1 - e^(-(kh - eps))).

An FFT gives every Q(k) with about the same absolute error. The tilt s is chosen so that Q has its bulk at the eps in question.
The error is then small against the Q(k) that matter, however small delta is. It is bounded, and added. With u = 2^-52:

1. *Forward.* An FFT of length N sums each output in log2 N stages, so the error of each is at most c log2(N) u times the sum
   of the inputs, which is 1 (Higham 2002, theorem 24.2, in the maximum norm; c = 8 allows for twiddle factors). Call it e.
2. *Powers and products.* If |x - y| <= e and both are at most A, then |x^n - y^n| <= n e A^(n-1). So the product F of all
   phi_j^n_j is off by at most G sum n_j e/A_j, where A_j = |phi_j| + e and G is the product of A_j^n_j; multiplying adds 4 u n_j.
   Frequencies with G < 1e-20 are not followed further; G is their error.
3. *Inverse.* The same bound as 1 for the mean of |F|, and the errors of 2 averaged.
4. *Wrapping.* The convolution is cyclic in a window of N cells, so mass outside is folded in. That only adds to the sum
   above, except for mass above the window: this is at most e^(K - s top) (1 - e^(-(top - eps))), and is added.
5. *Cut tails* count fully: n_j times the cut of each round.
6. *Tilting and sums* have relative errors, for which masses, M_j and sums are raised by the factors written in the code.

So every term is at least the true one, and epsilon is never below the truth. The FFT is numpy's (pocketfft). That its error is
at most e is assumed; a test compares it with exact sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from crescendo_dp.accounting.privacy_loss import Losses
from crescendo_dp.accounting.saddle_point import Aim, Direction
from crescendo_dp.arrays import Ints, Vector
from crescendo_dp.directed_rounding import cost_up

_Complex: TypeAlias = npt.NDArray[np.complexfloating[Any, Any]]

_U = float(np.finfo(float).eps)
FFT_ERROR = 8 * _U
_FOLLOWED = 1e-20


class Composed(NamedTuple):
    """The tilted loss of all rounds in a window: ``masses[j]`` (and at most ``error`` more) at (first + j) * interval."""

    masses: Vector
    error: float
    first: int
    interval: float
    tilt: float
    log_scale: float
    infinite: float

    @classmethod
    def of(
        cls,
        rounds: Sequence[tuple[Losses, int]],
        direction: Direction,
        aim: Aim,
        done: Callable[[], None] | None = None,
    ) -> Composed:
        """All rounds, each so many times, in one direction."""
        h = rounds[0][0].interval
        first = math.floor(aim.low / h)
        cells = 1 << max(6, math.ceil(math.log2(aim.high / h - first + 2)))
        e = FFT_ERROR * math.log2(cells)
        at: Ints = np.arange(cells // 2 + 1)
        product: _Complex = np.ones(len(at), complex)
        bound: Vector = np.ones(len(at))
        errors: Vector = np.zeros(len(at))
        both: Vector = (
            np.where((at == 0) | (at == cells // 2), 1.0, 2.0) / cells
        )  # a real signal's frequencies come in pairs
        lost = log_scale = infinite = 0.0
        for found, count in rounds:
            tilted, log_moment = _tilted(found, direction, aim.tilt)
            log_scale += count * log_moment + 4 * _U * count * (1 + abs(log_moment))
            infinite += count * found.cut
            phi: _Complex = np.fft.rfft(_folded(*tilted, cells))[at]
            most = np.abs(phi) + e
            bound *= np.exp(count * np.log(most) * (1 - 4 * _U) + 8 * _U * count)
            errors += count * (e / most + 4 * _U)
            keep = bound > _FOLLOWED
            if not keep.all():
                lost += 2 * float((bound * both)[~keep].sum())
                at, product, phi = at[keep], product[keep], phi[keep]
                bound, errors, both = bound[keep], errors[keep], both[keep]
            product *= _power(phi, count)
            if done is not None:
                done()
        spectrum = np.zeros(cells // 2 + 1, complex)
        spectrum[at] = product
        masses = np.roll(np.fft.irfft(spectrum, cells), -(first % cells))
        error = lost + float((both * bound * (np.minimum(errors, 2.0) + e)).sum()) * (1 + 1e-9)
        return cls(masses, error, first, h, aim.tilt, log_scale, infinite)

    def epsilon_at(self, delta: float, guess: float) -> tuple[float, float] | None:
        """The least epsilon >= 0 in the window at which delta is reached, rounded up, and the share of delta that is error.

        None if delta is not reached in the window.
        """
        start, x, weight, rest, log_unit = self._weighed(guess, -1)
        h, s = self.interval, self.tilt
        reached = math.exp(min(math.log(delta) - log_unit, 700.0))
        found = _crossing(weight, rest, h, reached) if reached > 0 else None
        if found is None:
            return None
        k, step = found
        return cost_up((start + k) * h + step), self.error * math.exp(-s * x[k]) / (s * (s + 1) * h) / reached

    def deltas(self, guess: float) -> _Deltas:
        """delta at every grid point of the window, rounded up."""
        start, _, weight, rest, log_unit = self._weighed(guess, self.first)
        total = _sums(weight, self.interval)[1] + rest
        with np.errstate(divide="ignore"):
            values = np.exp(np.minimum(np.log(total) + log_unit, 0.0)) * (1 + 1e-12)
        return _Deltas(start, np.minimum(values, 1.0), self.interval)

    def _weighed(self, guess: float, lowest: int) -> tuple[int, Vector, Vector, Vector, float]:
        """The first grid point, losses from the guess on, weights and the rest, and ln of the unit in which they are delta."""
        masses, error, first, h, s, log_scale, infinite = self
        centre = round(guess / h)
        start = max(first, lowest, centre - int(min(500 / (s * h), 2**62)))
        top = (first + len(masses) - centre) * h
        x = (np.arange(start, first + len(masses)) - centre) * h
        weight = (np.maximum(masses[start - first :], 0) + error) * np.exp(-s * x) * (1 + 8 * _U * (1 + abs(s * x)))
        log_unit = log_scale - s * centre * h
        log_unit += 16 * _U * (abs(log_scale) + abs(s * centre * h) + len(x))
        rest = math.exp(-s * top) * -np.expm1(x - top) + math.exp(min(math.log(infinite) - log_unit, 700.0)) * (
            1 + 1e-9
        )
        return start, x, weight, rest, log_unit


class _Deltas(NamedTuple):
    """Upper bounds on delta(y) at the grid points y from ``first`` on, which may be negative."""

    first: int
    values: Vector
    interval: float

    def at(self, k: Ints) -> Vector:
        """At any grid points; below the first, y0, by delta(y) <= 1 - e^(y - y0) (1 - delta(y0))."""
        steps = k - self.first
        below = -np.expm1(np.minimum(steps, 0) * self.interval) * (1 - self.values[0]) + self.values[0]
        inside = self.values[np.clip(steps, 0, len(self.values) - 1)]
        return np.where(steps < 0, np.minimum(below * (1 + 8 * _U), 1.0), inside)


def _sums(weight: Vector, h: float) -> tuple[Vector, Vector]:
    """B and the sums over ih > kh, see `_crossing`."""
    from scipy.signal import lfilter

    later = lfilter([1.0], [1.0, -math.exp(-h)], weight[::-1])[::-1]  # B(k) = weight(k) + e^-h B(k+1)
    return later, np.append(np.cumsum(later[:0:-1])[::-1], 0.0) * (-math.expm1(-h) * (1 + 8 * _U * len(weight)))


def _crossing(weight: Vector, rest: Vector, h: float, reached: float) -> tuple[int, float] | None:
    """Where the sum of weight(i) (1 - e^(-(ih - x))) over ih > x, and rest, falls to ``reached``: at x = k h + step.

    With B(k) = sum over i >= k of weight(i) e^(-(i-k)h), the sum at x = kh is (1 - e^-h) times the sum of all B(m) with m > k:
    nothing cancels. Between two grid points it is linear in e^x. ``rest`` falls with k.

    >>> k, step = _crossing(np.array([0.0, 0.0, 1.0]), np.zeros(3), 1.0, 1 - math.exp(-1.5))   # one loss of 2, at x = 1/2
    >>> k, round(step, 12)
    (0, 0.5)
    """
    later, total = _sums(weight, h)
    total = total + rest
    under = total <= reached
    if not under.any():
        return None
    k = int(np.argmax(under))
    if k == 0:
        return 0, 0.0
    falls = later[k] * math.exp(-h)
    return k - 1, min(h, math.log1p((total[k - 1] - reached) / falls)) if falls > 0 else h


def surely_below(
    rounds: Sequence[tuple[Losses, int]], direction: Direction, s: float, epsilon: float, delta: float
) -> bool:
    """Does Chernoff's bound at tilt s show that the rounds cost at most epsilon: e^(-sx) (1 - e^-x) <= s^s / (1+s)^(1+s)?"""
    log = -s * epsilon - math.log1p(s) - s * math.log1p(1 / s)
    log += sum(count * _tilted(found, direction, s)[1] for found, count in rounds)
    infinite = sum(count * found.cut for found, count in rounds)
    size = abs(s * epsilon) + sum(count for _, count in rounds)
    return math.exp(min(log + 32 * _U * (1 + abs(log) + size), 0.0)) + infinite < delta


def _tilted(found: Losses, direction: Direction, s: float) -> tuple[tuple[int, Vector], float]:
    """The lowest loss and the tilted masses, and ln M."""
    k = found.lowest + np.arange(len(found.log_probs))
    if direction == "remove":
        lowest, exponent = found.lowest, found.log_probs + s * found.interval * k
    else:
        lowest, exponent = -int(k[-1]), (found.log_probs - (1 + s) * found.interval * k)[::-1]
    peak = float(exponent.max())
    # relative errors: of the exponent, and of its parts, which are no larger than the range of the exponents kept
    size = np.abs(found.log_probs) + np.abs((1 + s) * found.interval * k)
    size = size if direction == "remove" else size[::-1]
    masses = np.exp(exponent - peak)
    masses *= 1 + 8 * _U * np.where(np.isfinite(size), 2 + size, 0)
    total = float(masses.sum())
    masses /= total
    return (lowest, masses * (1 + 4 * _U)), peak + math.log(total) + 4 * _U * (1 + abs(peak))


def _folded(lowest: int, masses: Vector, cells: int) -> Vector:
    """Masses laid around a circle of so many cells."""
    start = lowest % cells
    laid = np.zeros(-(-(start + len(masses)) // cells) * cells)
    laid[start : start + len(masses)] = masses
    return np.asarray(laid.reshape(-1, cells).sum(axis=0))


def _power(x: _Complex, count: int) -> _Complex:
    """x^count by squaring, whose error grows with count and no faster."""
    result: _Complex | None = None
    while count:
        if count % 2:
            result = x if result is None else result * x
        count //= 2
        if count:
            x = x * x
    if result is None:
        raise AssertionError("a round happens at least once")
    return result
