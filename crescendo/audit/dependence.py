"""Tests of dependence between rows of numbers that should be independent and normal: by pairs of rows, and at every lag.

Each row is compared with earlier rows, made orthogonal to each other (Bartlett's decomposition). Given all earlier
rows, its coefficients along orthonormal directions are independent standard normal numbers; so are those of all pairs of rows.
Sums and sums of squares by lag are tested first and renewed; single pairs come last.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crescendo.audit import renewal
from crescendo.audit.scores import Group, normal_p, squared
from crescendo.core.arrays import Bools, Floats, Ints

_MOST_ROWS = 400  # rows that are compared
_LEAST_PAIRS = 8  # pairs of a lag that is tested as a whole: fewer pairs tell as much one by one
_FEW = 16  # earlier rows for a comparison, if rows are too short for all


def dependent(
    numbers: Floats,
    axis: int,
    labels: Ints,
    what: str,
    noun: str,
    rng: np.random.Generator,
    chosen: Ints | None = None,
    nearest: int | None = None,
) -> tuple[list[Group], Floats]:
    """Test the ``chosen`` places along one axis for dependence; return the groups, and the numbers, renewed.

    ``what`` names the numbers and ``noun`` a place in the texts. With ``nearest``, compare each place only with that many
    before it.
    """
    chosen = np.arange(numbers.shape[axis]) if chosen is None else chosen
    renewed = np.moveaxis(numbers, axis, 0).copy()
    rows = renewed[chosen].reshape(len(chosen), -1)
    groups, fresh = _of_rows(rows, labels[chosen], what, noun, rng, nearest)
    renewed[chosen] = fresh.reshape(len(chosen), *renewed.shape[1:])
    return groups, np.moveaxis(renewed, 0, axis)


def _of_rows(
    rows: Floats, labels: Ints, what: str, noun: str, rng: np.random.Generator, nearest: int | None
) -> tuple[list[Group], Floats]:
    """Return p-values of lags between labels and of every pair, all independent of each other, and the rows, renewed."""
    each, (early, late), renewed = _compared(rows, rng, nearest)
    lags, sums, squares, counts, single = by_lag(each, labels[late] - labels[early], rng, _LEAST_PAIRS)

    def pair(place: int) -> str:
        a, b = int(labels[early[place]]), int(labels[late[place]])
        return f"{what} of {noun}s {a} and {b} go together by {each[place]:.1f} standard deviations"

    def lag(place: int) -> str:
        return f"{what} of {noun}s {lags[place]} apart go together by {sums[place]:.1f} standard deviations"

    def uneven(place: int) -> str:
        return f"{what} of {noun}s {lags[place]} apart go together, now one way, now the other"

    groups = [Group(normal_p(sums), lag), Group(squared(squares, counts).p, uneven), Group(normal_p(single), pair)]
    return groups, renewed


def by_lag(
    scores: Floats, apart: Ints, rng: np.random.Generator, least: int = 1
) -> tuple[Ints, Floats, Floats, Ints, Floats]:
    """Return lags of at least ``least`` scores, their sums, sums of squares and counts, and all scores, renewed after both."""
    _, place, counts = np.unique(apart, return_inverse=True, return_counts=True)
    many = (counts >= least)[place]
    lags, place, counts = np.unique(apart[many], return_inverse=True, return_counts=True)
    renewed = scores.copy()
    sums, renewed[many] = renewal.sums(scores[many], place, rng)
    squares, renewed[many] = renewal.squares(renewed[many], place, rng)
    return lags, sums, squares, counts, renewed


def earlier(row: int, most: int, rng: np.random.Generator) -> Ints:
    """Return the rows with which ``row`` is compared, nearest first: all before it, or the nearest and a random sample.

    >>> earlier(3, 5, np.random.default_rng(1)), earlier(9, 2, np.random.default_rng(1))[0]
    (array([2, 1, 0]), np.int64(8))
    """
    before = np.arange(row)[::-1]
    if row <= most:
        return before
    near = -(-most // 2)
    return np.concatenate([before[:near], np.sort(rng.choice(before[near:], most - near, replace=False))[::-1]])


def _compared(rows: Floats, rng: np.random.Generator, nearest: int | None) -> tuple[Floats, tuple[Ints, Ints], Floats]:
    """Return row b's coefficient along the new direction of row a < b, the pairs (a, b), and the rows, renewed."""
    renewed = rows.copy()
    scores, pairs = [np.empty(0)], [np.empty((2, 0), dtype=np.int64)]
    for members, columns in _classes(np.isfinite(rows)):
        block = rows[np.ix_(members, columns)]
        missing = np.isnan(block)
        block[missing] = rng.standard_normal(missing.sum())  # fillers of the right law
        found, chosen, fresh = _within(block, rng, nearest)
        scores.append(found)
        pairs.append(members[chosen])
        renewed[np.ix_(members, columns)] = np.where(missing, np.nan, fresh)
    early, late = np.concatenate(pairs, axis=1)
    return np.concatenate(scores), (early, late), renewed


def _within(block: Floats, rng: np.random.Generator, nearest: int | None) -> tuple[Floats, Ints, Floats]:
    """Compare rows without gaps: every pair if rows are twice as long as their number, else each row and a few before it."""
    count, length = block.shape
    if nearest is None and count <= length // 2:
        found, fresh = renewal.pairs(block, rng)
        upper = np.triu_indices(count, 1)
        return found[upper], np.array(upper), fresh
    most = min(nearest or _FEW, max(1, length // 2))
    fresh, scores, pairs = block.copy(), [np.empty(0)], [np.empty((2, 0), dtype=np.int64)]
    for b in range(1, count):
        before = earlier(b, most, rng) if nearest is None else np.arange(b)[::-1][:most]
        found, renewed = renewal.coefficients(block[before].T, block[b][:, None], rng)
        fresh[b] = renewed[:, 0]
        scores.append(found[:, 0])
        pairs.append(np.stack([before[: len(found)], np.full(len(found), b)]))
    return np.concatenate(scores), np.concatenate(pairs, axis=1), fresh


def _classes(there: Bools) -> Iterator[tuple[Ints, Ints]]:
    """Yield rows that share columns, directly or through other rows, and the columns of any of them."""
    left = there.any(axis=1)
    while left.any():
        columns, size = there[left.argmax()], 0
        while columns.sum() > size:
            size = columns.sum()
            members = there[:, columns].any(axis=1)
            columns = there[members].any(axis=0)
        yield np.flatnonzero(members), np.flatnonzero(columns)
        left &= ~members


def some(count: int, rng: np.random.Generator, most: int = _MOST_ROWS) -> Ints:
    """Choose among ``count`` rows for comparison: all, or the first, the last and a sample of the others."""
    if count <= most:
        return np.arange(count)
    ends = np.array([0, 1, count - 2, count - 1])
    return np.unique(np.concatenate([ends, 2 + rng.choice(count - 4, most - 4, replace=False)]))
