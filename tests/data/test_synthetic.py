"""Synthetic data: the minimiser it states is the minimiser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.data import Dataset, load
from crescendo.errors import ConfigError


def gradient(
    data: Dataset, w: np.ndarray[tuple[int], np.dtype[np.float64]], l2: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    x, y = np.column_stack([data.train.x, np.ones(len(data.train))]), 2 * data.train.y - 1
    made: np.ndarray[tuple[int], np.dtype[np.float64]] = x.T @ (-y / (1 + np.exp(y * (x @ w)))) / len(y) + l2 * w
    return made


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**64), st.integers(1, 12), st.integers(200, 400), st.sampled_from([0.0, 1e-4, 1e-3]))
def test_the_gradient_vanishes_at_the_stated_minimiser(seed: int, features: int, rows: int, l2: float) -> None:
    data = load(f"synthetic:rows={rows},features={features},l2={l2}", seed=seed, test=0)
    assert data.optimum is not None and data.train.x.shape == (rows, features) and data.optimum[-1] == 0
    assert np.abs(gradient(data, data.optimum, l2)).max() < 1e-14
    nearby = gradient(data, data.optimum + 1e-3, l2)
    assert np.abs(nearby).max() > 1e-7  # and not elsewhere


@pytest.mark.slow
def test_scikit_learn_finds_the_stated_minimiser() -> None:
    from sklearn.linear_model import LogisticRegression

    data = load("synthetic:rows=2000,features=5")
    fitted = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000).fit(data.train.x, data.train.y)
    assert data.optimum is not None
    np.testing.assert_allclose(np.append(fitted.coef_, fitted.intercept_), data.optimum, atol=1e-5)


def test_the_test_part_follows_the_same_law() -> None:
    data = load("synthetic:rows=6000,features=8", test=0.25, seed=4)
    assert data.test is not None and data.optimum is not None and len(data.test) == 2000
    right = [((part.x @ data.optimum[:-1] > 0) == (part.y > 0)).mean() for part in (data.train, data.test)]
    assert abs(right[0] - right[1]) < 0.03 and min(right) > 0.75


def test_one_seed_is_one_data_set() -> None:
    one, again, other = (load("synthetic", seed=seed) for seed in (1, 1, 2))
    assert one.train.x.shape == (10_000, 20)
    np.testing.assert_array_equal(one.train.x, again.train.x)
    assert not np.array_equal(one.train.x, other.train.x)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("row=5", r"no option 'row'; did you mean 'rows'\?"),
        ("rows=many", "rows must be a whole number, got 'many'"),
        ("rows=1e4", "rows must be a whole number"),
        ("rows=", "rows must be a whole number, got ''"),
        ("l2=x", "l2 must be a number"),
        ("rows=10", "rows of at least 105 .* in 20 features, got 10"),
        ("features=0", "features of at least 1"),
        ("l2=1", "for l2 from 0 to 0.05 / features = 0.0025, got 1"),
        ("l2=-1", "for l2 from 0"),
        ("l2=nan", "for l2 from 0"),
    ],
)
def test_wrong_options_are_refused(options: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(f"synthetic:{options}")
