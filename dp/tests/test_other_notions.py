"""Gaussian DP and zCDP of releases, held against closed forms, the exact curve by a contour integral, and plain integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

import oracle
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import Event, PoissonGaussian
from crescendo_dp.meaning.mu_and_rho import SHARE, OtherNotions, _needed
from crescendo_dp.meaning.odds_and_attacks import Meaning

SAMPLED = [
    ([(0.01, 1.0, 1000)], 1e-5),
    ([(0.05, 2.0, 100), (0.1, 2.5, 50), (0.02, 2.0, 20)], 1e-6),
    ([(0.3, 0.7, 20)], 1e-6),
    ([(0.5, 4.0, 50)], 1e-6),
    ([(0.1, 30.0, 40)], 1e-9),
]


def notions(rounds: oracle.Rounds, delta: float, failure: float = 0.0) -> OtherNotions:
    found = OtherNotions.of(tuple((PoissonGaussian(q, sigma), n) for q, sigma, n in rounds), delta, failure)
    assert found is not None
    return found


def of_gaussian(mu: float, eps: float) -> float:
    """delta(eps) between N(mu, 1) and N(0, 1)."""
    return float(ndtr(mu / 2 - eps / mu) - math.exp(eps) * ndtr(-mu / 2 - eps / mu))


@pytest.mark.parametrize(("sigma", "rounds"), [(1.0, 1), (5.0, 3), (0.05, 7), (30.0, 1000)])
def test_plain_gaussians_have_the_mu_and_the_rho_of_the_formula_and_need_no_delta(sigma: float, rounds: int) -> None:
    found = notions([(1.0, sigma, rounds)], 1e-6)
    assert math.sqrt(rounds) / sigma <= found.mu <= (1 + 1e-8) * math.sqrt(rounds) / sigma
    assert rounds / (2 * sigma**2) <= found.rho <= (1 + 1e-8) * rounds / (2 * sigma**2)
    assert found.mu_delta == 0.0


@pytest.mark.parametrize(("rounds", "delta"), SAMPLED)
def test_the_exact_curve_lies_below_that_of_mu_and_touches_it(rounds: oracle.Rounds, delta: float) -> None:
    found, touches = notions(rounds, delta), False
    assert found.mu_delta == pytest.approx(SHARE * delta)
    most = account([(PoissonGaussian(q, s), n) for q, s, n in rounds], found.mu_delta, state_error=False).epsilon
    for direction in ("remove", "add"):
        for eps in np.linspace(0.04, 0.99, 20) * most:
            try:
                exact = oracle.delta_of(float(eps), rounds, direction)
            except oracle.Unfit:
                continue
            assert exact <= (of_gaussian(found.mu, eps) + found.mu_delta) * (1 + 1e-5)
            touches |= exact > of_gaussian(found.mu * 0.99, eps) + found.mu_delta
    assert touches  # one per cent less would be false


def test_one_sampled_release_is_told_no_better_than_mu_says_by_its_own_formula() -> None:
    """delta in closed form: the likelihood ratio is increasing in the release."""
    rate, sigma = 0.2, 0.6
    found = notions([(rate, sigma, 1)], 1e-4)
    for eps in np.linspace(0.0, 12.0, 300).tolist():
        at = sigma**2 * (math.log((math.expm1(eps) + rate) / rate)) + 0.5
        removed = rate * float(ndtr((1 - at) / sigma)) + (1 - rate - math.exp(eps)) * float(ndtr(-at / sigma))
        assert removed <= of_gaussian(found.mu, eps) + found.mu_delta + 1e-12


def test_without_a_slack_sampling_does_not_lower_mu_far_out_in_the_tail() -> None:
    """Why a slack is stated: the deltas of a sampled release pass those of every mu below 1 / sigma."""
    rate, sigma = 0.2, 1.0
    for mu in (0.7, 0.9):
        eps = 30.0
        at = sigma**2 * math.log((math.expm1(eps) + rate) / rate) + 0.5
        removed = rate * float(ndtr((1 - at) / sigma)) + (1 - rate - math.exp(eps)) * float(ndtr(-at / sigma))
        assert removed > of_gaussian(mu, eps)


@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 1.0), (0.3, 0.7), (0.9, 3.0)])
def test_rho_bounds_every_order_and_no_smaller_one_does(rate: float, sigma: float) -> None:
    rho = notions([(rate, sigma, 1)], 1e-6).rho

    def divergence(order: float, sign: int) -> float:
        def integrand(x: float) -> float:
            ratio = math.log1p(rate * math.expm1((2 * x - 1) / (2 * sigma**2)))
            power = order * ratio if sign > 0 else (1 - order) * ratio
            return math.exp(power - x * x / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

        ends = (-12 * sigma, order + 12 * sigma)
        return math.log(quad(integrand, *ends, limit=500, points=[0.0, 1.0, order])[0]) / (order - 1)

    for order in (1.5, 2.0, 5.0, 12.0):
        assert max(divergence(order, 1), divergence(order, -1)) <= rho * order
    far = 1e6  # by the one term of the moment that is largest
    least = far / (2 * sigma**2) + far / (far - 1) * math.log(rate)
    assert 0.999 * rho * far < least <= rho * far


def test_the_chance_of_rare_events_is_a_part_of_both_slacks() -> None:
    rare = notions([(0.05, 2.0, 100)], 1e-6, failure=5e-7)
    assert rare.mu_delta >= 5e-7 + SHARE * 5e-7 * (1 - 1e-12) and rare.failure == 5e-7
    assert rare.to_json()["zcdp"] == {"rho": rare.rho, "delta": 5e-7}
    assert notions([(1.0, 2.0, 100)], 1e-6, failure=5e-7).mu_delta == 5e-7


def test_a_polygon_of_exact_pairs_needs_hardly_more_than_the_mu_they_come_from() -> None:
    pairs = [(eps, of_gaussian(1.3, eps)) for eps in np.linspace(0, 10, 400).tolist()]
    assert 1.3 <= _needed(pairs, 1e-9) <= 1.302


def test_a_curve_that_does_not_reach_the_slack_needs_an_infinite_mu() -> None:
    assert _needed([(0.0, 0.3), (1.0, 0.1)], 1e-6) == math.inf
    assert _needed([], 1e-6) == math.inf


@pytest.mark.parametrize("sigma", [0.0, 1e-200, 1e-8, 0.06, 1e8, 1e200])
@pytest.mark.parametrize("rate", [0.0, 1e-300, 1e-3, 1.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-9, 0.9])
def test_no_input_is_too_extreme(sigma: float, rate: float, delta: float) -> None:
    found = notions([(rate, sigma, 3)], delta)
    assert 0 <= found.mu <= max(math.sqrt(2 * found.rho) * (1 + 1e-8), 0) and found.mu_delta < delta
    assert "nan" not in found.sentence()


def test_nothing_is_stated_of_releases_whose_whole_loss_is_not_known() -> None:
    events: tuple[tuple[Event, int], ...] = ((Event(0.5, 1.0), 2),)
    assert OtherNotions.of(events, 1e-6) is None


def test_a_meaning_has_both_in_its_sentences_and_in_its_json() -> None:
    events = ((PoissonGaussian(0.01, 2.0), 100),)
    found = Meaning.of(events, 0.3269, 1e-6)
    assert found.sentences()[-1].startswith("in other notions: mu = ")
    told = found.to_json()
    assert (
        told["gdp"]["mu"] < 1
        and told["gdp"]["delta"] == pytest.approx(1e-7)
        and told["zcdp"]["rho"] == pytest.approx(12.5)
    )
