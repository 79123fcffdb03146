from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from crescendo.errors import UsageError
from crescendo.privacy import PoissonGaussian, account, loss, renyi
from crescendo.privacy.accountant import INTERVAL
from tests.privacy import oracle

Schedule = list[tuple[float, float, int]]


def events(rounds: Schedule) -> list[tuple[PoissonGaussian, int]]:
    return [(PoissonGaussian(rate, sigma), count) for rate, sigma, count in rounds]


def gaussian_delta(epsilon: float, sigma: float) -> float:
    """The exact delta of one Gaussian release."""
    below = math.exp(epsilon + norm.logcdf(-0.5 / sigma - epsilon * sigma))
    return float(norm.cdf(0.5 / sigma - epsilon * sigma) - below)


def sampled_delta(epsilon: float, rate: float, sigma: float) -> float:
    """The exact delta of one Poisson-sampled release when a record is removed."""
    x = sigma**2 * math.log((math.exp(epsilon) - 1 + rate) / rate) + 0.5
    still, moved = norm.sf(x / sigma), norm.sf((x - 1) / sigma)
    return float((1 - rate) * still + rate * moved - math.exp(epsilon) * still)


def random_schedule(seed: int) -> tuple[Schedule, float]:
    """Up to four distinct rounds, 20 to some thousand in all, of an epsilon that one might run with."""
    rng = random.Random(seed)
    while True:
        sigma = math.exp(rng.uniform(math.log(0.6), math.log(8)))
        rounds = [
            (
                math.exp(rng.uniform(math.log(5e-4), math.log(0.3))),
                sigma * rng.choice((1.0, 1.0, 1.5)),
                int(rng.uniform(20, 900)),
            )
            for _ in range(rng.randint(1, 4))
        ]
        delta = 10 ** rng.uniform(-10, -4)
        if 0.02 < account(events(rounds), delta, quick=True).epsilon < 15:
            return rounds, delta


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_it_agrees_with_an_independent_accountant_and_is_never_below_it(seed: int) -> None:
    rounds, delta = random_schedule(seed)
    spent = account(events(rounds), delta)
    truth = oracle.epsilon_of(delta, rounds, spent.epsilon)
    assert truth * (1 - 1e-4) <= spent.epsilon <= truth * 1.01  # 1e-4 is the accuracy of the oracle
    assert spent.epsilon - spent.error <= truth * (1 + 1e-4)
    assert spent.epsilon <= spent.rdp_epsilon


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 6.0])
def test_the_oracle_is_right_where_the_answer_is_known(epsilon: float) -> None:
    rounds = [(1.0, 10.0, 100)]  # a hundred releases with sigma 10 are one with sigma 1
    for direction in ("remove", "add"):
        assert oracle.delta_of(epsilon, rounds, direction) == pytest.approx(gaussian_delta(epsilon, 1.0), rel=1e-4)


@pytest.mark.parametrize(("rounds", "delta"), [(1, 1e-5), (64, 1e-10), (65, 1e-11), (2000, 1e-11)])
def test_many_gaussian_releases_cost_at_least_the_exact_epsilon(rounds: int, delta: float) -> None:
    spent = account([(PoissonGaussian(1.0, math.sqrt(rounds)), rounds)], delta)
    assert spent.method == "pld"
    assert gaussian_delta(spent.epsilon, 1.0) <= delta < gaussian_delta(0.995 * spent.epsilon, 1.0)


@pytest.mark.slow
def test_a_hundred_thousand_releases_are_not_understated_by_the_rounding_of_an_fft() -> None:
    count, delta = 100_000, 1e-10
    spent = account([(PoissonGaussian(1.0, math.sqrt(count)), count)], delta)
    assert spent.method == "pld"
    assert gaussian_delta(spent.epsilon, 1.0) <= delta


@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 1.0), (0.5, 3.0), (0.001, 0.5), (0.2, 20.0)])
def test_one_sampled_round_costs_what_the_formula_says(rate: float, sigma: float) -> None:
    spent = account([PoissonGaussian(rate, sigma)], 1e-6)
    assert sampled_delta(spent.epsilon, rate, sigma) <= 1e-6 < sampled_delta(0.99 * spent.epsilon, rate, sigma)


def test_nothing_released_costs_nothing() -> None:
    for nothing in ([], [PoissonGaussian(0.0, 1.0)], [PoissonGaussian(0.0, 0.0)], [(PoissonGaussian(0.5, 0.0), 0)]):
        spent = account(nothing, 1e-5)
        assert (spent.epsilon, spent.rdp_epsilon, spent.method) == (0.0, 0.0, "none")


def test_a_round_without_noise_is_not_private() -> None:
    spent = account([PoissonGaussian(0.1, 0.0), PoissonGaussian(0.1, 5.0)], 1e-5)
    assert spent.epsilon == math.inf and "without noise" in spent.why
    assert json.loads(json.dumps(spent.to_json()))["epsilon"] is None


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2.0, math.nan, "1e-5", True])
def test_a_delta_that_is_no_probability_is_refused(delta: Any) -> None:
    with pytest.raises(UsageError, match="delta"):
        account([PoissonGaussian(0.1, 1.0)], delta)


def test_below_1e_12_it_falls_back_to_renyi_divergence_and_says_so() -> None:
    spent = account([(PoissonGaussian(0.01, 2.0), 100)], 1e-13)
    assert spent.method == "rdp" and spent.epsilon == spent.rdp_epsilon and "below 1e-12" in spent.why
    above = account([(PoissonGaussian(0.01, 2.0), 100)], 1e-12)
    assert above.method == "pld" and above.epsilon <= spent.epsilon


def test_where_rounding_would_eat_delta_it_falls_back_too() -> None:
    spent = account([(PoissonGaussian(1e-5, 2.0), 10**7)], 1e-9)
    assert spent.method == "rdp" and "below 4.4e-09" in spent.why


def test_a_quick_answer_is_never_below_the_tight_one() -> None:
    rounds = events([(0.02, 1.5, 50), (0.05, 1.5, 20)])
    quick, tight = account(rounds, 1e-6, quick=True), account(rounds, 1e-6)
    assert quick.method == "rdp" and quick.epsilon == tight.rdp_epsilon > tight.epsilon


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(st.floats(0.002, 0.5), st.floats(0.7, 5), st.integers(1, 60), st.integers(1, 60))
def test_more_rounds_larger_rates_and_less_noise_never_cost_less(
    rate: float, sigma: float, few: int, more: int
) -> None:
    def cost(rate: float, sigma: float, count: int) -> float:
        return (
            account([(PoissonGaussian(rate, sigma), count)], 1e-6, state_error=False).epsilon * 1.006
        )  # the grid may change

    base = account([(PoissonGaussian(rate, sigma), few)], 1e-6, state_error=False).epsilon
    assert base <= cost(rate, sigma, few + more)
    assert base <= cost(min(1.0, 1.1 * rate), sigma, few)
    assert base <= cost(rate, sigma / 1.1, few)


def test_the_grid_is_finer_where_the_rounds_are_many_and_small() -> None:
    small, large = (account([(PoissonGaussian(q, s), n)], 1e-7) for q, s, n in ((1e-3, 8.0, 500), (0.1, 1.0, 10)))
    assert small.interval is not None and small.interval < INTERVAL / 4 and large.interval == INTERVAL
    assert small.error < 0.01 * small.epsilon and large.error < 0.01 * large.epsilon


def test_the_error_does_not_change_the_answer_and_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    rounds = events([(0.02, 1.5, 5), (0.05, 1.5, 2), (0.07, 1.5, 1)])
    assert (
        account(rounds, 1e-6, progress=lambda *at: told.append(at)).epsilon
        == account(rounds, 1e-6, state_error=False).epsilon
    )
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(("rate", "sigma"), [(0.0016, 1.423), (0.3, 3.0), (1.0, 2.0), (0.01, 0.5), (0.9999, 1.0)])
def test_the_losses_of_a_round_are_those_of_dp_accounting(rate: float, sigma: float) -> None:
    pld = import_module("dp_accounting.pld.privacy_loss_distribution")
    theirs = pld.from_gaussian_mechanism(
        sigma, value_discretization_interval=1e-3, sampling_prob=rate, use_connect_dots=True
    )
    for ours, name in (
        (loss.losses(rate, sigma, 1e-3).remove, "_pmf_remove"),
        (loss.losses(rate, sigma, 1e-3).add, "_pmf_add"),
    ):
        pmf = getattr(theirs, name).to_dense_pmf()
        low = min(ours.lowest, pmf._lower_loss)
        high = max(ours.lowest + len(ours.probs), pmf._lower_loss + pmf.size)
        both = np.zeros((2, high - low))
        both[0, ours.lowest - low :][: len(ours.probs)] = ours.probs
        both[1, pmf._lower_loss - low :][: pmf.size] = pmf._probs
        assert np.abs(both[0] - both[1]).max() < 1e-11
        assert abs(both[0].sum() + ours.infinite - 1) < 1e-13


@pytest.mark.parametrize(
    ("rate", "sigma", "count"), [(0.01, 1.0, 1000), (0.3, 3.0, 10), (1.0, 2.0, 4), (1e-8, 1.0, 10**12)]
)
def test_renyi_divergence_is_that_of_dp_accounting(rate: float, sigma: float, count: int) -> None:
    rdp = import_module("dp_accounting.rdp.rdp_privacy_accountant")
    wholes = [order for order in renyi.ORDERS if order == int(order) and order < 1024]
    theirs = count * rdp._compute_rdp_poisson_subsampled_gaussian(rate, sigma, [int(order) for order in wholes])
    ours = renyi.divergences(((PoissonGaussian(rate, sigma), count),))[np.isin(renyi.ORDERS, wholes)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_divergences_at_broken_orders_are_bounds() -> None:
    rdp = import_module("dp_accounting.rdp.rdp_privacy_accountant")
    broken = [order for order in renyi.ORDERS if order != int(order)][::5]
    theirs = rdp._compute_rdp_poisson_subsampled_gaussian(0.05, 1.3, broken)
    ours = renyi.divergences(((PoissonGaussian(0.05, 1.3), 1),))[np.isin(renyi.ORDERS, broken)]
    assert (ours >= theirs).all()


def test_divergences_of_two_ledgers_add_up() -> None:
    one, two = ((PoissonGaussian(0.01, 1.0), 30),), ((PoissonGaussian(0.2, 4.0), 5),)
    np.testing.assert_allclose(
        renyi.divergences((*one, *two)), renyi.divergences(one) + renyi.divergences(two), rtol=1e-12
    )


@pytest.mark.parametrize("sigma", [1e-200, 1e-3, 0.03, 0.1])
def test_hardly_any_noise_gives_a_huge_epsilon_and_no_failure(sigma: float) -> None:
    assert account([PoissonGaussian(0.5, sigma)], 1e-6).epsilon > 50


def test_losses_beyond_what_an_exponential_holds_are_rounded_up() -> None:
    both = loss.losses(0.5, 0.02, 0.05)
    assert abs(both.remove.probs.sum() + both.remove.infinite - 1) < 1e-12 and both.remove.probs.min() >= 0
    middle = (0.5 / 0.02**2) / 0.05 - both.remove.lowest  # half the draws have the record: a loss of about 1,250
    assert both.remove.probs[int(middle) - 100 :].sum() > 0.24


def test_the_same_rounds_are_not_computed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = events([(0.0213, 1.51, 5)])
    first = account(rounds, 1e-6)
    monkeypatch.setattr(loss, "losses", lambda *_: pytest.fail("computed again"))
    assert account(rounds, 1e-6) == first


@pytest.mark.slow
def test_importing_privacy_loads_neither_dp_accounting_nor_scipy() -> None:
    code = "import sys, crescendo.privacy; sys.exit(bool({'dp_accounting', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("rate", [1e-9, 0.01, 1.0])
def test_noise_without_measure_costs_next_to_nothing(rate: float) -> None:
    for sigma in (1e6, 1e9, 1e160, 1e300):
        spent = account([(PoissonGaussian(rate, sigma), 1000)], 1e-5)
        assert 0 <= spent.epsilon < 1e-3 and spent.rdp_epsilon < 0.01
