"""What an epsilon means: held against the exact curve of attacks on a Gaussian, and against attacks that were run."""

from __future__ import annotations

import math
import re
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from crescendo.core.random import Purpose, stream
from crescendo.core.terms import Terms
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.cautions import cautions, noise_over_signal
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.schedules import ConstantSizes, ConstantSteps
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import PoissonGaussian
from crescendo_dp.meaning.odds_and_attacks import Meaning, percent
from crescendo_dp.planning.cautions import PERSONS
from crescendo_dp.planning.sigmas import Sigmas


def meaning(rate: float, sigma: float, rounds: int, delta: float) -> Meaning:
    events = ((PoissonGaussian(rate, sigma), rounds),)
    return Meaning.of(events, account(events, delta).epsilon, delta)


@pytest.mark.parametrize(("sigma", "rounds"), [(1.0, 1), (5.0, 3), (30.0, 10)])
def test_the_best_attack_on_a_gaussian_is_the_likelihood_ratio_test_and_the_bound_is_just_above_it(
    sigma: float, rounds: int
) -> None:
    found, apart = meaning(1.0, sigma, rounds, 1e-6), math.sqrt(rounds) / sigma
    for accused in (1e-4, 1e-3, 0.01, 0.1, 0.5):
        exact = float(ndtr(ndtri(accused) + apart))
        assert exact <= found.found(accused) <= 1.15 * exact + 2e-4


def test_an_attack_on_drawn_releases_finds_no_more_than_the_bound() -> None:
    rate, sigma, runs = 0.3, 0.8, 200_000
    rng = stream(0, Purpose.INIT)
    absent = sigma * rng.normal(size=runs)
    present = sigma * rng.normal(size=runs) + (rng.random(runs) < rate)
    threshold = float(np.quantile(absent, 0.99))
    share = float(np.mean(present > threshold))
    bound = meaning(rate, sigma, 1, 1e-6).found(0.01)
    assert 0.8 * bound < share < bound + 4 * math.sqrt(0.01 * 0.99 / runs) * math.exp(2)


@given(epsilon=st.floats(0, 800), delta=st.floats(0, 0.5), accused=st.floats(0, 1))
def test_a_bound_lies_between_guessing_and_certainty_and_words_can_be_made_of_it(
    epsilon: float, delta: float, accused: float
) -> None:
    found = Meaning(epsilon, delta, ((epsilon, delta),))
    assert accused <= found.found(accused) <= 1.0
    assert 0.5 <= found.even_guess <= 1.0 and found.odds >= 1.0
    assert all("nan" not in says for says in found.sentences())


@given(share=st.floats(0, 1))
def test_a_percentage_is_never_rounded_below_the_share(share: float) -> None:
    assert float(percent(share).rstrip("%")) >= share * 100 - 1e-7


def test_nothing_is_said_to_be_hidden_where_epsilon_is_infinite() -> None:
    (says,) = Meaning(math.inf, 1e-6, ((math.inf, 1e-6),)).sentences()
    assert "nothing is hidden" in says


def test_what_is_known_of_rare_events_is_added_to_every_delta_of_the_curve() -> None:
    events = ((PoissonGaussian(0.1, 2.0), 5),)
    assert Meaning.of(events, 1.0, 1e-6, failure=0.05).found(0.01) > Meaning.of(events, 1.0, 1e-6).found(0.01)


def made(sigma: float, features: int = 3, slots: int = 40) -> Certificate:
    terms = Terms(
        ConstantSizes(2 * slots), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=5, ahead=1, whole_rounds=True
    )
    goal = Logistic(features)
    return certify(
        "minibatch", terms, goal, clip=1.0, sigma=Sigmas.constant(sigma), records=(1000, 1000), norm_bound=None
    )


def test_noise_that_drowns_the_gradients_is_warned_of_with_how_much_it_is() -> None:
    drowned = made(sigma=100.0)
    d = drowned.objective.size
    assert noise_over_signal(drowned) == pytest.approx(100 * math.sqrt(5 * 2 * d) / (5 * 80))
    assert any("little can be learned" in says for says in cautions(drowned, 1e-6))
    assert list(cautions(made(sigma=1.0), 1e-6)) == [PERSONS]


def test_a_delta_above_one_over_n_is_warned_of() -> None:
    assert any("above 1/N" in says for says in cautions(made(sigma=1.0), 2e-3))


def test_the_table_in_plain_words_has_the_numbers_that_are_computed() -> None:
    text = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.,]+) \| ([\d.]+%) \| ([\d.]+%) \|$", text, re.M)
    assert len(rows) == 5
    for epsilon, odds, guess, share in rows:
        found = Meaning(float(epsilon), 1e-9, ((float(epsilon), 1e-9),))
        assert f"a factor of at most {odds} (e^{epsilon})" in found.sentences()[0]
        assert (guess, share) == (percent(found.even_guess), percent(found.found(0.01)))


@pytest.mark.parametrize("epsilon", [1e-9, 0.33, 1.0, 8.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.5])
def test_an_even_guess_is_as_good_as_the_best_point_of_the_curve_of_attacks(epsilon: float, delta: float) -> None:
    """Right with (1 - a + b) / 2. Delta counts: without it an epsilon of 0 would hide everything, whatever its delta."""
    found = Meaning(epsilon, delta, ((epsilon, delta),))
    best = max((1 - a + found.found(a)) / 2 for a in np.linspace(0, 1, 20_001).tolist())
    assert best <= found.even_guess < best + 1e-4


def test_an_exact_gaussian_is_guessed_no_better_than_is_said() -> None:
    """One release of noise sigma: an even guess is right with Phi(1 / (2 sigma)), and (eps, delta) hold exactly."""
    for sigma in (0.5, 1.0, 4.0):
        exact = NormalDist().cdf(1 / (2 * sigma))
        for epsilon in (0.01, 0.33, 1.0, 4.0):
            up, down = epsilon * sigma - 1 / (2 * sigma), epsilon * sigma + 1 / (2 * sigma)
            delta = NormalDist().cdf(-up) - math.exp(epsilon) * NormalDist().cdf(-down)
            assert exact <= Meaning(epsilon, delta, ((epsilon, delta),)).even_guess


def test_an_epsilon_that_promises_very_little_is_told_so() -> None:
    assert "next to certain" in Meaning(50.0, 1e-6, ((50.0, 1e-6),)).sentences()[0]
