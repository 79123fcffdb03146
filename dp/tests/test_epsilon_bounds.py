"""Bounds from counts: exact, and wrong as rarely as they say."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from crescendo_dp.black_box.epsilon_bounds import _epsilon_of_shift, epsilon_bound, gaussian_bound, spared


@pytest.mark.slow
@given(st.integers(0, 300), st.integers(0, 300), st.sampled_from([0.1, 1e-3, 1e-6]))
def test_the_bound_is_the_share_of_clopper_and_pearson(hits: int, others: int, alpha: float) -> None:
    share = beta.ppf(alpha, hits, others + 1) if hits else 0.0
    expected = math.log(share / (1 - share)) if share > 0.5 else 0.0
    assert epsilon_bound(hits, others, 1000, alpha, 0.0) == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
@given(st.integers(1, 10**6), st.floats(1e-9, 0.5), st.sampled_from([0.1, 1e-3, 1e-6]))
def test_the_hits_that_delta_may_make_are_a_quantile(runs: int, delta: float, alpha: float) -> None:
    assert spared(runs, alpha, delta) == pytest.approx(binom.isf(0.1 * alpha, runs, delta / 2), abs=1)
    assert binom.sf(spared(runs, alpha, delta), runs, delta / 2) <= 0.1 * alpha * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
@pytest.mark.parametrize(("epsilon", "there"), [(0.5, 0.4), (1.0, 0.1), (3.0, 0.3)])
def test_the_bound_is_above_a_true_epsilon_as_rarely_as_it_says_and_not_much_more_rarely(
    epsilon: float, there: float, delta: float
) -> None:
    """The worst that (epsilon, delta) allows: P(S) = e^epsilon Q(S) + delta."""
    alpha, runs, trials = 0.05, 2000, 20_000
    rng = np.random.Generator(np.random.PCG64(3))
    elsewhere = (there - delta) / math.exp(epsilon)
    counts = rng.multinomial(runs, [there / 2, elsewhere / 2, 1 - there / 2 - elsewhere / 2], trials)
    wrong = float(np.mean(epsilon_bound(counts[:, 0], counts[:, 1], runs, alpha, delta) > epsilon))
    assert wrong <= alpha + 3 * math.sqrt(alpha / trials)
    assert delta > 0 or wrong >= alpha / 4


@pytest.mark.parametrize("shift", [0.1, 1.0, 3.0])
def test_the_gaussian_bound_is_above_the_truth_as_rarely_as_it_says(shift: float) -> None:
    rng, normal = np.random.Generator(np.random.PCG64(4)), dp_accounting.get_epsilon_gaussian
    truth, half = normal(1 / shift, 1e-5), 0.5 * math.erfc(-shift / math.sqrt(8))
    hits, others = rng.binomial(1000, half, 400), rng.binomial(1000, 1 - half, 400)
    bounds = [gaussian_bound(int(h), 1000, int(o), 1000, 0.05, 1e-5) for h, o in zip(hits, others, strict=True)]
    assert np.mean(np.array(bounds) > truth) <= 0.05 + 3 * math.sqrt(0.05 / 400) and max(bounds) > 0.7 * truth
    assert _epsilon_of_shift(shift, 1e-5) == pytest.approx(truth, rel=1e-6)
