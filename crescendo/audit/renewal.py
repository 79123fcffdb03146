"""Renewal: replaces a tested statistic by a fresh draw, so that the next test is independent of it.

Take numbers whose law under a sound mechanism is known, and a statistic T of them. Draw T' from the law of T, and change the
numbers as little as possible so that their statistic becomes T'. The renewed numbers have the law of the old ones and are
independent of T, since they keep only information that T does not contain. Tests of T and then of the renewed numbers are
therefore exactly independent, and Šidák's rule over them gives a uniform p-value. The second test can still detect its fault,
since nothing but T has changed.

Each function returns the statistic, then the renewed numbers. Fresh numbers come from the auditor's ``rng``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crescendo.core.arrays import Bools, Floats, Ints, Uints

_Rng = np.random.Generator

_MASKS = [np.uint64(1 << bit) for bit in range(64)]
_TOGETHER = 8192  # words whose bits are counted together: they stay in the fastest cache


# -- normal numbers ----------------------------------------------------------------------------------------------------


def sums(scores: Floats, place: Ints, rng: _Rng) -> tuple[Floats, Floats]:
    """Return the sum of standard normal scores at every place, over the root of their number, and renew the scores.

    >>> scores, rng = np.array([3.0, 1.0, 5.0]), np.random.default_rng(1)
    >>> totals, renewed = sums(scores, np.array([0, 0, 1]), rng)
    >>> totals.round(3), bool(np.isclose(renewed[0] - renewed[1], 2.0)), bool(renewed[2] == 5.0)
    (array([2.828, 5.   ]), True, False)
    """
    root = np.sqrt(np.bincount(place))
    totals = np.bincount(place, scores) / root
    return totals, scores + ((rng.standard_normal(len(totals)) - totals) / root)[place]


def squares(numbers: Floats, place: Ints, rng: _Rng) -> tuple[Floats, Floats]:
    """Return the sum of squares of standard normal numbers at every place, chi-squared of their number, and renew them."""
    count = np.bincount(place)
    totals: Floats = np.bincount(place, np.square(numbers)).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = np.sqrt(rng.chisquare(np.maximum(count, 1)) / totals)
    return totals, numbers * np.where(np.isfinite(factor), factor, 1.0)[place]


def spread(scores: Floats, rng: _Rng) -> tuple[float, Floats]:
    """Return the sum of squares of n > 1 standard normal scores about their mean, chi-squared of n - 1, and renew them."""
    mean = float(scores.mean())
    total = float(np.square(scores - mean).sum())
    fresh = float(rng.chisquare(scores.size - 1))
    return total, mean + (scores - mean) * (np.sqrt(fresh / total) if total > 0 else 1.0)


def coefficients(directions: Floats, numbers: Floats, rng: _Rng) -> tuple[Floats, Floats]:
    """Return the coefficients of columns of standard normal numbers along directions made orthonormal, and renew the columns.

    The directions are columns too, fixed before the numbers. Along orthonormal directions the coefficients are independent
    standard normal numbers. A direction of length 0 gives NaN.

    >>> found, renewed = coefficients(np.eye(3)[:, :2], np.array([[1.0], [-2.0], [7.0]]), np.random.default_rng(1))
    >>> found.ravel(), float(renewed[2, 0])
    (array([ 1., -2.]), 7.0)
    """
    basis, _ = _orthonormal(directions)
    found = basis.T @ numbers
    renewed = numbers + basis @ (rng.standard_normal(found.shape) - found)
    found[~directions[:, : len(found)].any(axis=0)] = np.nan
    return found, renewed


def pairs(rows: Floats, rng: _Rng) -> tuple[Floats, Floats]:
    """Return the coefficient of row b along the new direction of row a < b, for at most as many rows as columns; renew the rows.

    These are the entries [a, b] above the diagonal. They are independent standard normal numbers (Bartlett's decomposition),
    since earlier rows fix the orthonormal directions for row b. Renewal adds multiples of rows to rows, so a dependence between
    columns remains.
    """
    basis, corner = _orthonormal(rows.T)
    found = np.triu(corner, 1)
    fresh = np.triu(rng.standard_normal(corner.shape), 1)
    return found, rows + (fresh - found).T @ basis.T


def _orthonormal(columns: Floats) -> tuple[Floats, Floats]:
    """Return an orthonormal basis of the columns, in order and at most as many as there are rows, and their coefficients."""
    basis, corner = np.linalg.qr(columns[:, : len(columns)])
    sign = np.where(np.diagonal(corner) < 0, -1.0, 1.0)
    return basis * sign, corner * sign[:, None]


# -- uniform numbers, bits and sets ------------------------------------------------------------------------------------


def order(values: Floats, ranks: Ints, rng: _Rng) -> tuple[Floats, Floats]:
    """Return the uniform numbers at some rising ranks, from 1, and renew them; the numbers between two are stretched to fit."""
    points = np.sort(values)[ranks - 1]
    steps = rng.gamma(np.diff(ranks, prepend=0, append=len(values) + 1))
    fresh = np.cumsum(steps)[:-1] / steps.sum()
    return points, np.interp(values, [0.0, *points, 1.0], [0.0, *fresh, 1.0])


def ones(words: Uints, rng: _Rng) -> tuple[Ints, Uints]:
    """Return how many random words have each of 64 bits, and a mask of the bits to flip to renew these counts."""
    values, found = words.ravel(), count_ones(words)
    turned = np.zeros(len(values), dtype=np.uint64)
    for mask, more in zip(_MASKS, rng.binomial(len(values), 0.5, size=64) - found, strict=True):
        places = _turned(lambda at, mask=mask: (values[at] & mask) != 0, len(values), int(more), rng)  # type: ignore[misc]
        turned[places] |= mask
    return found, turned.reshape(words.shape)


def count_ones(words: Uints) -> Ints:
    """Count the words that have each of 64 bits.

    >>> count_ones(np.array([3, 1], dtype=np.uint64))[:3]
    array([2, 1, 0])
    """
    values, found = words.ravel(), np.zeros(64, dtype=np.int64)
    for begin in range(0, len(values), _TOGETHER):
        some = values[begin : begin + _TOGETHER]
        found += [np.count_nonzero(some & mask) for mask in _MASKS]
    return found


def resized(present: Bools, count: int, rng: _Rng) -> Bools:
    """Resize a random set to ``count``: as many members as necessary, chosen at random, leave or join.

    If all sets of a size were equally likely, they still are, and the new set reveals nothing about the old size.

    >>> resized(np.array([True, True, False, False]), 3, np.random.default_rng(1)).sum()
    np.int64(3)
    """
    renewed, more = present.copy(), count - int(np.count_nonzero(present))
    renewed.flat[_turned(present.ravel().__getitem__, present.size, more, rng)] ^= True
    return renewed


def _turned(there: Callable[[Ints | slice], Bools], size: int, more: int, rng: _Rng) -> Ints:
    """Choose ``more`` absent places of ``size`` that join, or ``-more`` present ones that leave, all equally likely."""
    tried = 4 * abs(more) + 64
    if tried < size:  # sampling is faster than listing all of many places
        places = rng.choice(size, tried, replace=False)
        places = places[there(places) == (more < 0)][: abs(more)]
        if len(places) == abs(more):
            return np.asarray(places)
    every = np.flatnonzero(there(slice(None)) == (more < 0))
    return rng.choice(every, abs(more), replace=False) if more else every[:0]
