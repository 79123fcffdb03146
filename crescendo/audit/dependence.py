"""Dependence between rows of numbers that should be independent and normal: of every pair of rows, and at every lag."""

from __future__ import annotations

import numpy as np

from crescendo.audit.scores import Group, normal_p, squares_p
from crescendo.core.arrays import Floats, Ints

_MOST_ROWS = 400  # of which every pair is looked at
_LEAST_PAIRS = 8  # of a lag that is looked at as such: of fewer, each pair by itself says as much


def _pair_scores(rows: Floats) -> Floats:
    """For rows a < b: <b, a> / |a| over what both have. Given all of row a, this is a standard normal number; else NaN.

    For a fixed lag L the scores of (a, a + L) are independent of each other: each is normal whatever came before row a + L.
    """
    there = np.isfinite(rows)
    filled = np.where(there, rows, 0.0)
    together, lengths = filled @ filled.T, np.square(filled) @ there.T.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        scores: Floats = together / np.sqrt(lengths)
    scores[np.tril_indices(len(rows))] = np.nan
    return np.where(np.isfinite(scores), scores, np.nan)


def dependent(rows: Floats, labels: Ints, what: str, noun: str, nearest: int | None = None) -> list[Group]:
    """Groups of p-values: every pair, then for lags between labels the sum of their pairs' scores and that of their squares.

    ``what`` says what is compared, ``noun`` what a row is. With ``nearest`` only lags up to it are looked at, and no single
    pairs: among many short rows there are more pairs than could be independent of each other.
    """
    scores = _pair_scores(rows)
    upper = np.triu_indices(len(rows), 1)
    each = scores[upper]

    def pair(place: int) -> str:
        a, b = (int(labels[side[place]]) for side in upper)
        return f"{what} of {noun}s {a} and {b} go together by {each[place]:.1f} standard deviations"

    lags, sums, squares, counts = _by_lag(each, labels[upper[1]] - labels[upper[0]])

    def lag(place: int) -> str:
        return f"{what} of {noun}s {lags[place]} apart go together by {sums[place]:.1f} standard deviations"

    def uneven(place: int) -> str:
        return f"{what} of {noun}s {lags[place]} apart go together, now one way, now the other"

    by_lag = [normal_p(sums), squares_p(squares, counts)]
    if nearest is not None:
        by_lag = [np.where(lags <= nearest, ps, np.nan) for ps in by_lag]
    single = [Group(normal_p(each), pair)] if nearest is None else []
    return [*single, Group(by_lag[0], lag), Group(by_lag[1], uneven)]


def _by_lag(scores: Floats, apart: Ints) -> tuple[Ints, Floats, Floats, Ints]:
    there = np.isfinite(scores)
    lags, place = np.unique(apart[there], return_inverse=True)
    counts = np.bincount(place, minlength=len(lags))
    sums = np.bincount(place, scores[there], minlength=len(lags)) / np.sqrt(np.maximum(counts, 1))
    squares = np.bincount(place, scores[there] ** 2, minlength=len(lags)).astype(np.float64)
    many = counts >= _LEAST_PAIRS
    return lags[many], sums[many], squares[many], counts[many]


def some(count: int, rng: np.random.Generator, most: int = _MOST_ROWS) -> Ints:
    """Which of ``count`` rows are compared: all, or the first, the last and a sample of the others."""
    if count <= most:
        return np.arange(count)
    ends = np.array([0, 1, count - 2, count - 1])
    return np.unique(np.concatenate([ends, 2 + rng.choice(count - 4, most - 4, replace=False)]))
