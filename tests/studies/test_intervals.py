"""Means and intervals against scipy's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from crescendo.errors import UsageError
from crescendo.studies.intervals import Interval, mean_of

NUMBERS = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=2, max_size=30)


@given(NUMBERS, st.sampled_from([0.8, 0.95, 0.99]))
def test_an_interval_is_that_of_a_one_sample_t_test(values: list[float], level: float) -> None:
    found = Interval.of(values, level)
    assert found.low is not None and found.high is not None
    if min(values) == max(values):
        assert (found.low, found.mean, found.high) == (values[0],) * 3
        return
    with np.errstate(all="ignore"):
        other = stats.ttest_1samp(values, 0.0).confidence_interval(level)
    scale = max(map(abs, values)) * 1e-6 + 1e-100
    np.testing.assert_allclose([found.low, found.high], [other.low, other.high], rtol=1e-6, atol=scale)
    assert found.low <= found.mean <= found.high


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=4, max_size=10))
def test_ratios_do_not_depend_on_which_side_is_first(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = Interval.of_ratios(ours, theirs), Interval.of_ratios(theirs, ours)
    assert there.low is not None and back.high is not None
    assert there.mean * back.mean == pytest.approx(1) and there.low * back.high == pytest.approx(1)


def test_one_value_has_no_bounds_and_excludes_nothing() -> None:
    found = Interval.of([0.7])
    assert (found.low, found.high) == (None, None) and not found.excludes(0.0)


def test_numbers_that_are_none_are_refused_and_a_missing_one_leaves_no_mean() -> None:
    for bad in ([], [math.nan], [1.0, math.inf]):
        with pytest.raises(UsageError):
            Interval.of(bad)
    assert mean_of([0.5, None]) is None and mean_of([0.5, 0.7]) == Interval.of([0.5, 0.7])


def test_the_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = sum(not Interval.of(list(rng.normal(3.0, 2.0, 5))).excludes(3.0) for _ in range(2000))
    assert stats.binomtest(covered, 2000, 0.95).pvalue > 1e-3
