from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo_dp import PoissonGaussian, account
from crescendo_dp.accounting import renyi
from crescendo_dp.errors import UsageError
from crescendo_dp.paper import theorems as of
from crescendo_dp.paper.constants import Constants
from crescendo_dp.paper.recipe import Recipe

R0 = 1 / math.e


def true_moment(rate: float, sigma: float, order: int) -> float:
    """alpha(lambda) = lambda D_(lambda+1)."""
    at = int(np.argmin(np.abs(renyi.ORDERS - (order + 1))))
    return order * float(renyi.divergences(((PoissonGaussian(rate, sigma), 1),))[at])


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.floats(1, 40), st.floats(-18, -0.1), st.integers(1, 40))
def test_the_moment_lemma_bounds_the_true_moment_from_sigma_1_on(sigma: float, log_rate: float, order: int) -> None:
    verdict = of.moment(math.exp(log_rate), sigma, order)
    if verdict.epsilon is not None:
        assert true_moment(math.exp(log_rate), sigma, order) <= verdict.epsilon * (1 + 1e-9)


def test_the_moment_lemma_would_fail_below_sigma_1_and_does_not_apply() -> None:
    rate, sigma, order = 1e-8, 0.55, 1
    leading = rate**2 * order * (order + 1) / ((1 - rate) * sigma**2)
    assert true_moment(rate, sigma, order) > 2.9 * leading
    verdict = of.moment(rate, sigma, order)
    assert not verdict.applies and verdict.why.startswith("does not apply: needs sigma >= 1, ")


def random_rounds(rng: random.Random) -> tuple[float, float, int, float]:
    sigma = rng.choice([1.05, 1.3, 1.8, 2.5, 4.0, 8.0])
    rate = math.exp(rng.uniform(math.log(1e-4), math.log(R0 / sigma)))
    return rate, sigma, int(math.exp(rng.uniform(0, math.log(1e5)))), 10 ** rng.uniform(-9, -0.3)


@pytest.mark.slow
def test_theorem_one_with_a_whole_lambda_never_claims_less_than_the_truth() -> None:
    rng, applied = random.Random(5), 0
    for _ in range(600):
        rate, sigma, count, delta = random_rounds(rng)
        claim = of.theorem_one([(rate, count)], sigma, delta).epsilon
        if claim is None:
            continue
        applied += 1
        events = [(PoissonGaussian(rate, sigma), count)]
        if claim < account(events, delta, quick=True).epsilon:  # an upper bound; only below it can there be a violation
            spent = account(events, delta)
            assert claim >= spent.epsilon - spent.error, (rate, sigma, count, delta)
    assert applied > 300


def test_theorem_one_gives_a_delta_that_is_exp_of_a_whole_lambda() -> None:
    found = of.theorem_one([(0.0016, 1563)], 5.78, 5.5e-8)
    assert found.epsilon is not None
    order = 2 * math.log(1 / 5.5e-8) / found.epsilon
    assert order == pytest.approx(round(order), abs=1e-9) and 1 <= order <= 5.78**2


@pytest.mark.parametrize(
    ("rates", "sigma", "why"),
    [
        ([(0.01, 10)], 0.8, "needs sigma >= 1, has 0.8"),
        ([(0.5, 10)], 1.5, "needs r0 <= 0.367879, has 0.75"),
        ([(0.08, 10)], 1.2, "needs u1 < 1, has "),
        ([(0.05, 80_000)], 2.0, "needs sigma >= the bound at lambda 1 = "),
    ],
)
def test_theorem_one_says_why_it_does_not_apply(rates: list[tuple[float, int]], sigma: float, why: str) -> None:
    verdict = of.theorem_one(rates, sigma, 0.05)
    assert not verdict.applies and f"does not apply: {why}" in verdict.why


def test_a_given_r0_below_the_largest_rate_is_found_out() -> None:
    assert "largest rate" in of.theorem_one([(0.01, 10)], 4.0, 1e-5, r0=0.01).why


def test_no_rounds_cost_nothing_by_theorem_one() -> None:
    assert of.theorem_one([], 2.0, 1e-5).epsilon == 0.0


@settings(deadline=None, max_examples=50)
@given(st.floats(1.14, 200), st.floats(0, 4))
def test_r0_of_sigma_makes_the_two_cases_meet(sigma: float, p: float) -> None:
    share = Constants.fixed_point(sigma, p)
    at = Constants(p, share, sigma)
    assert at.u0 < 1 and at.u1 < 1 and 0 < share < R0
    assert pytest.approx(Constants.main(p), rel=1e-9) == (at.A, at.B)
    assert at.case_two(1.0) == pytest.approx(1.21 * at.case_one, rel=1e-3)


def test_below_its_smallest_sigma_r0_is_refused() -> None:
    with pytest.raises(UsageError, match=r"from sigma = 1\.13654 on"):
        Constants.fixed_point(1.1365)
    with pytest.raises(UsageError, match="power"):
        Constants.fixed_point(3, -1)
    assert of.main_theorem(1, 1e-5, 1.1, records=100, gradients=10, q=1e-3, m=1, p=1, rounds=5).why.endswith(
        "needs sigma >= 1.13654, has 1.1"
    )


def test_where_case_one_has_no_setting_case_two_finds_one_and_it_is_true() -> None:
    found = Recipe.least(1, 1e-5, 10_000, 10_000_000, first_size=16, power=0.5, r0=R0)
    assert found.factor is not None and found.verdict.conditions[-1].bound == "the bound of case 2"
    assert found.sigma > 1.21 * math.sqrt(2 * math.log(1e5))
    counts = np.histogram(found.q * (np.arange(found.rounds) + found.m) ** 0.5, bins=40)
    steps = [
        (PoissonGaussian(float(top), found.sigma), int(n)) for n, top in zip(counts[0], counts[1][1:], strict=True)
    ]
    assert account(steps, 1e-5, quick=True).epsilon <= 1


def test_between_the_two_cases_it_does_not_apply() -> None:
    shape = {"records": 10_000, "gradients": 25_000, "m": 8.0, "p": 1.0, "rounds": 160.0}
    names = {
        (condition.name, condition.bound): condition.holds
        for condition in of.main_theorem(1, 5.5e-8, 9.0, q=2e-4, r0=R0, **shape).conditions
    }
    assert names == {("sigma", ""): True, ("r0", ""): True, ("u0", ""): True, ("u1", ""): True, ("K", "K*"): True,
                     ("K", "K-"): False, ("sigma", "the bound of case 1"): True}  # fmt: skip


def test_a_delta_whose_inverse_overflows_is_a_number_like_any_other() -> None:
    assert of.whole_lambda(1, 1e-320) == math.ceil(2 * 320 * math.log(10))
    assert of.theorem_one([(0.001, 10)], 4.0, 1e-320).epsilon == pytest.approx(2 * 320 * math.log(10) / 16, rel=1e-4)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_what_the_paper_recipe_finds_is_confirmed_by_its_theorem_and_by_the_accountant(power: float) -> None:
    found = Recipe.least(1, 5.5e-8, 100_000, 100_000, first_size=16, power=power)
    assert found.verdict.applies
    assert found.q * 100_000 * found.m**power == pytest.approx(16, rel=1e-6)
    rates = found.q * (np.arange(found.rounds) + found.m) ** power if power else np.full(found.rounds, found.q)
    assert rates.sum() * 100_000 == pytest.approx(100_000, rel=0.05)
    assert account([PoissonGaussian(float(rate), found.sigma) for rate in rates], 5.5e-8, quick=True).epsilon <= 1


def test_a_given_r0_is_used() -> None:
    found = Recipe.least(1, 5.5e-8, 10_000, 25_000, first_size=16, r0=R0)
    assert found.r0 == R0 and found.factor is None and 8 < found.sigma < 8.3 and 175 < found.rounds < 190


def test_a_request_beyond_the_theorems_is_refused() -> None:
    with pytest.raises(UsageError, match="finds no setting"):
        Recipe.least(0.001, 1e-9, 100, 10_000, first_size=90)
