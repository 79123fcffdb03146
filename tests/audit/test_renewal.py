"""Renewal: the renewed numbers have the law of the old ones, know nothing of the statistic, and keep the rest."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from crescendo.audit import renewal
from crescendo.audit.dependence import by_lag, dependent, earlier
from crescendo.audit.scores import combined, ends_p, uniform_p
from crescendo.core.arrays import Floats

DRAWS = 1500
PLACE = np.array([0, 0, 0, 1, 1])
DIRECTIONS = np.array([[1.0, 0.3], [1.0, -2.0], [0.5, 0.0], [2.0, 1.0], [0.0, 1.0]])
RANKS = np.array([1, 3, 6])

Shape = Callable[[Floats], Floats]
PLAIN: Shape = np.asarray
SQUARED: Shape = np.square
SHAPES = list(product((PLAIN, SQUARED), repeat=2))

Renewed = tuple[Floats, Floats]  # the statistic and the numbers, both as standard normal numbers of any shape


def _normal_sums(rng: np.random.Generator) -> Renewed:
    return renewal.sums(rng.normal(size=5), PLACE, rng)


def _normal_squares(rng: np.random.Generator) -> Renewed:
    totals, renewed = renewal.squares(rng.normal(size=5), PLACE, rng)
    return np.log(totals), renewed


def _normal_spread(rng: np.random.Generator) -> Renewed:
    total, renewed = renewal.spread(rng.normal(size=5), rng)
    return np.array([np.log(total)]), renewed


def _along_directions(rng: np.random.Generator) -> Renewed:
    found, renewed = renewal.coefficients(DIRECTIONS, rng.normal(size=(5, 2)), rng)
    return found.ravel(), renewed.ravel()


def _rows_along_rows(rng: np.random.Generator) -> Renewed:
    found, renewed = renewal.pairs(rng.normal(size=(3, 4)), rng)
    return found[np.triu_indices(3, 1)], renewed.ravel()


def _rows_along_near_rows(rng: np.random.Generator) -> Renewed:
    groups, renewed = dependent(rng.normal(size=(4, 2)), 0, np.arange(4), "", "", rng)
    return np.asarray(ndtri(np.clip(groups[2].ps, 1e-12, 1 - 1e-12))), renewed.ravel()


def _order_of_uniform_numbers(rng: np.random.Generator) -> Renewed:
    points, renewed = renewal.order(rng.random(7), RANKS, rng)
    return ndtri(points), ndtri(renewed)


def _bits_of_words(rng: np.random.Generator) -> Renewed:
    words = rng.integers(0, 2**64, size=9, dtype=np.uint64)
    found, turned = renewal.ones(words, rng)
    bits = ((words ^ turned)[:, None] >> np.arange(2, dtype=np.uint64)) & np.uint64(1)
    return found[:2].astype(np.float64) - 4.5, ndtri((bits + rng.random(bits.shape)) / 2).ravel()


def _members_of_a_set(rng: np.random.Generator) -> Renewed:
    present = rng.random(6) < 0.5
    renewed = renewal.resized(present, int(rng.binomial(6, 0.5)), rng)
    return np.array([present.sum() - 3.0]), ndtri((renewed + rng.random(6)) / 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw",
    [
        _normal_sums,
        _normal_squares,
        _normal_spread,
        _along_directions,
        _rows_along_rows,
        _rows_along_near_rows,
        _order_of_uniform_numbers,
        _bits_of_words,
        _members_of_a_set,
    ],
    ids=lambda draw: draw.__name__[1:],
)
def test_renewed_numbers_have_their_law_and_know_nothing_of_the_statistic(
    draw: Callable[[np.random.Generator], Renewed],
) -> None:
    rng = np.random.default_rng(21)
    statistic, renewed = (np.array(part) for part in zip(*(draw(rng) for _ in range(DRAWS)), strict=True))
    for numbers in renewed.T:
        assert uniform_p(ndtr(numbers)) > 1e-4
    among = [np.abs(_correlations(f(renewed), g(renewed))[np.triu_indices(renewed.shape[1], 1)]) for f, g in SHAPES]
    beside = [np.abs(_correlations(f(statistic), g(renewed))).ravel() for f, g in SHAPES]
    products = renewed[:, :-1] * renewed[:, 1:]
    beside += [np.abs(_correlations(f(statistic), products)).ravel() for f in (PLAIN, SQUARED)]
    assert np.concatenate(among + beside).max() * np.sqrt(DRAWS) < 5


def _correlations(a: Floats, b: Floats) -> Floats:
    a, b = ((each - each.mean(axis=0)) / each.std(axis=0) for each in (a, b))
    return np.asarray(a.T @ b / len(a))


def test_only_the_statistic_is_replaced() -> None:
    rng = np.random.default_rng(22)
    scores = rng.normal(size=5)
    _, renewed = renewal.sums(scores, PLACE, rng)
    np.testing.assert_allclose(np.diff(renewed)[[0, 1, 3]], np.diff(scores)[[0, 1, 3]])
    _, renewed = renewal.squares(scores, PLACE, rng)
    np.testing.assert_allclose((renewed[1:] / renewed[:-1])[[0, 1, 3]], (scores[1:] / scores[:-1])[[0, 1, 3]])
    numbers = rng.normal(size=(5, 1))
    _, renewed = renewal.coefficients(DIRECTIONS, numbers, rng)
    assert np.linalg.matrix_rank(np.concatenate([DIRECTIONS, renewed - numbers], axis=1)) == 2
    present = np.arange(6) < 4
    assert (renewal.resized(present, 2, rng) <= present).all() and (renewal.resized(present, 5, rng) >= present).all()


def test_columns_that_go_together_still_do_after_rows_were_renewed() -> None:
    rng = np.random.default_rng(23)
    rows = rng.normal(size=(30, 80))
    rows[:, 7] = rows[:, 3]
    groups, renewed = dependent(rows, 0, np.arange(30), "the numbers", "row", rng)
    assert combined(*groups).p > 1e-3
    np.testing.assert_allclose(renewed[:, 7], renewed[:, 3])


def test_a_direction_of_length_nothing_is_no_place() -> None:
    rng = np.random.default_rng(24)
    found, renewed = renewal.coefficients(np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 0.0]]), rng.normal(size=(3, 1)), rng)
    assert np.isnan(found[0]) and np.isfinite(found[1]) and np.isfinite(renewed).all()


def test_rows_are_compared_with_those_that_have_the_same_columns() -> None:
    rng = np.random.default_rng(25)
    rows = rng.normal(size=(6, 40))
    rows[::2, :20] = np.nan
    rows[1::2, 20:] = np.nan
    rows[4, 33] = np.nan  # one stray number
    groups, renewed = dependent(rows, 0, np.arange(6), "the numbers", "row", rng)
    assert len(groups[2].ps) == 6
    np.testing.assert_array_equal(np.isnan(renewed), np.isnan(rows))
    rows[5, :20] = -rows[1, :20]
    found = combined(*dependent(rows, 0, np.arange(6), "the numbers", "row", rng)[0])
    assert found.p < 1e-3 and "rows 1 and 5" in found.says


def test_a_copy_far_back_is_seen_among_more_rows_than_are_long_enough_for_all_pairs() -> None:
    rng = np.random.default_rng(26)
    rows = rng.normal(size=(200, 40))
    rows[50:] = rows[:-50]
    assert combined(*dependent(rows, 0, np.arange(200), "the numbers", "row", rng)[0]).p < 1e-9
    chosen = earlier(150, 8, rng)
    assert (np.diff(chosen) < 0).all() and set(chosen[:4]) == {149, 148, 147, 146} and len(chosen) == 8


def test_few_scores_of_a_lag_are_left_to_themselves() -> None:
    rng = np.random.default_rng(27)
    scores, apart = rng.normal(size=12), np.array([1] * 9 + [2] * 3)
    lags, sums, squares, counts, renewed = by_lag(scores, apart, rng, least=8)
    assert (lags.tolist(), counts.tolist(), len(sums), len(squares)) == ([1], [9], 1, 1)
    assert (renewed[9:] == scores[9:]).all() and not (renewed[:9] == scores[:9]).any()


def test_both_ends_of_a_single_number_are_one_place() -> None:
    assert [len(ends_p(np.full(n, 0.3))[0]) for n in (0, 1, 2)] == [0, 1, 2]
