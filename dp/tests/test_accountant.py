from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import tracemalloc
from importlib import import_module
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr
from scipy.stats import norm

import oracle
from crescendo_dp import PoissonGaussian, account
from crescendo_dp.accounting import privacy_loss, renyi, tilted_fft
from crescendo_dp.errors import UsageError
from crescendo_dp.event_kinds import fewer
from crescendo_dp.events import tally
from crescendo_dp.ledger.book import tight

Schedule = list[tuple[float, float, int]]
WIDE = (0, 1, 2, 5, 6, 9, 12, 16, 17, 20, 21, 23)  # some of those that are fit for the oracle


def events(rounds: Schedule) -> list[tuple[PoissonGaussian, int]]:
    return [(PoissonGaussian(rate, sigma), count) for rate, sigma, count in rounds]


def gaussian_delta(epsilon: float, sigma: float) -> float:
    """The exact delta of one Gaussian release."""
    below = math.exp(epsilon + norm.logcdf(-0.5 / sigma - epsilon * sigma))
    return float(norm.cdf(0.5 / sigma - epsilon * sigma) - below)


def log_gaussian_delta(epsilon: float, sigma: float) -> float:
    """ln of the exact delta of one Gaussian release, however small."""
    still, moved = log_ndtr(0.5 / sigma - epsilon * sigma), epsilon + log_ndtr(-0.5 / sigma - epsilon * sigma)
    return float(still + np.log1p(-np.exp(moved - still)))


def log_sampled_delta(epsilon: float, rate: float, sigma: float) -> float:
    """ln of the exact delta of one Poisson-sampled release when a record is removed."""
    with mpmath.workdps(60):
        q, s, e = mpmath.mpf(rate), mpmath.mpf(sigma), mpmath.mpf(epsilon)
        x = s**2 * mpmath.log((mpmath.expm1(e) + q) / q) + 0.5
        still, moved = (mpmath.erfc((x - at) / s / mpmath.sqrt(2)) / 2 for at in (0, 1))
        return float(mpmath.log((1 - q) * still + q * moved - mpmath.exp(e) * still))


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


def wide_schedule(seed: int) -> tuple[Schedule, float]:
    """Up to four distinct rounds of any kind, 20 to a million and more in all, and a delta from 1e-30 to 1e-2."""
    rng = random.Random(seed)

    def rate() -> float:
        return 10 ** rng.uniform(-6, 0)

    sigma, usual, total = math.exp(rng.uniform(math.log(0.3), math.log(100))), rate(), 10 ** rng.uniform(1.3, 6)
    rounds = [
        (
            min(1.0, usual * math.exp(rng.uniform(-2, 2))) if rng.random() < 0.6 else rate(),
            sigma * rng.choice((1.0, 1.0, 1.5, 3.0)),
            max(1, int(total * rng.random())),
        )
        for _ in range(rng.randint(1, 4))
    ]
    return rounds, 10 ** rng.uniform(-30, -2)


def check_against_the_oracle(rounds: Schedule, delta: float) -> None:
    spent = account(events(rounds), delta)
    truth = oracle.epsilon_of(delta, rounds, spent.epsilon)
    assert spent.method == "pld"
    assert truth * (1 - oracle.ACCURACY) <= spent.epsilon <= truth * 1.01
    assert spent.epsilon - spent.error <= truth
    assert spent.epsilon <= spent.rdp_epsilon


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 10))
def test_it_agrees_with_an_independent_accountant_and_is_never_below_it(seed: int) -> None:
    check_against_the_oracle(*random_schedule(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", WIDE)
def test_it_agrees_for_schedules_of_any_kind_down_to_delta_1e_30(seed: int) -> None:
    check_against_the_oracle(*wide_schedule(seed))


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 6.0])
def test_the_oracle_is_right_where_the_answer_is_known(epsilon: float) -> None:
    rounds = [(1.0, 10.0, 100)]  # a hundred releases with sigma 10 are one with sigma 1
    for direction in ("remove", "add"):
        assert oracle.delta_of(epsilon, rounds, direction) == pytest.approx(gaussian_delta(epsilon, 1.0), rel=1e-4)


@pytest.mark.parametrize(
    ("rounds", "delta", "sigma"),
    [
        (1, 1e-5, 1.0),
        (64, 1e-10, 1.0),
        (2000, 1e-11, 0.1),
        (10**6, 1e-10, 1.0),
        (10**6, 1e-30, 1.0),
        (10**6, 1e-30, 1e4),
        (1000, 1e-200, 10.0),
    ],
)
def test_many_gaussian_releases_cost_at_least_the_exact_epsilon(rounds: int, delta: float, sigma: float) -> None:
    spent = account([(PoissonGaussian(1.0, sigma * math.sqrt(rounds)), rounds)], delta)
    assert spent.method == "pld"
    log_delta = math.log(delta)
    assert log_gaussian_delta(spent.epsilon, sigma) <= log_delta < log_gaussian_delta(0.995 * spent.epsilon, sigma)
    assert log_gaussian_delta(spent.epsilon - spent.error, sigma) >= log_delta


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "sigma", "delta"),
    [
        (0.01, 1.0, 1e-6),
        (0.5, 3.0, 1e-6),
        (0.001, 0.5, 1e-6),
        (0.2, 20.0, 1e-6),
        (0.9, 0.3, 1e-30),
        (1e-6, 0.3, 1e-12),  # a rare, large loss decides in this and the next ones
        (1e-6, 1.0, 1e-30),
        (2**-53, 1.0, 1e-200),
    ],
)
def test_one_sampled_round_costs_what_the_formula_says(rate: float, sigma: float, delta: float) -> None:
    spent = account([PoissonGaussian(rate, sigma)], delta)
    assert spent.method == "pld"
    log_delta = math.log(delta)
    assert (
        log_sampled_delta(spent.epsilon, rate, sigma)
        <= log_delta
        < log_sampled_delta(0.99 * spent.epsilon, rate, sigma)
    )
    assert log_sampled_delta(spent.epsilon - spent.error, rate, sigma) >= log_delta


def test_rare_jumps_of_many_rounds_cost_what_plain_convolution_says() -> None:
    rate, sigma, count, delta, h = 2.3e-4, 1.35, 64, 6.5e-19, 2.0**-13
    found = privacy_loss.Losses.of(rate, sigma, h, 1e-28)
    probs, lowest = np.exp(found.log_probs), found.lowest  # all terms are positive: the errors are relative
    for _ in range(6):
        probs, lowest = np.convolve(probs, probs)[: 4096 - 2 * lowest], 2 * lowest
    losses = (lowest + np.arange(len(probs))) * h

    def exact(epsilon: float) -> float:
        return float(probs[losses > epsilon] @ -np.expm1(epsilon - losses[losses > epsilon]))

    spent = account([(PoissonGaussian(rate, sigma), count)], delta)
    assert spent.method == "pld" and exact(spent.epsilon) <= delta * (1 + 1e-3) < exact(0.98 * spent.epsilon)


@pytest.mark.slow
def test_epsilon_has_no_cliff_as_delta_falls() -> None:
    for rounds in ([(0.01, 2.0, 100)], [(1e-3, 3.0, 1_000_000)]):
        found = [account(events(rounds), 10.0**-k, state_error=False) for k in range(6, 31, 2)]
        assert {one.method for one in found} == {"pld"}
        assert all(1 < b.epsilon / a.epsilon < 1.3 for a, b in pairwise(found))


@pytest.mark.parametrize(
    ("rate", "sigma", "rounds", "delta"), [(1e-12, 0.32366, 335, 2.156e-10), (1e-11, 0.4, 2000, 1e-9)]
)
def test_a_rare_loss_that_decides_asks_for_no_more_memory_than_others(
    rate: float, sigma: float, rounds: int, delta: float
) -> None:
    tracemalloc.start()
    try:
        spent = account(events([(rate, sigma, rounds)]), delta)
        assert tracemalloc.get_traced_memory()[1] < 1e9
    finally:
        tracemalloc.stop()
    assert 0 <= spent.epsilon <= spent.rdp_epsilon


def test_an_epsilon_beyond_what_the_window_holds_is_bounded_by_renyi_divergence() -> None:
    assert account(events([(1.0, 1.3, 10**6)]), 1e-40).method == "rdp"


def test_a_plan_of_many_different_rounds_costs_little_more_when_priced_by_fewer() -> None:
    many = tally(PoissonGaussian(i / 20_000, 2.0) for i in range(1, 1200))
    exact = account(many, 1e-6, state_error=False).epsilon
    assert exact <= tight(many, 1e-6) <= 1.01 * exact
    varied = tally(PoissonGaussian(i / 20_000, 1.0 + i / 700) for i in range(1, 1400))
    few = fewer(varied)
    assert len(few) <= 512 and sum(count for _, count in few) == sum(count for _, count in varied)
    assert renyi.epsilon_of(renyi.divergences(varied), 1e-6)[0] <= renyi.epsilon_of(renyi.divergences(few), 1e-6)[0]


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


@pytest.mark.parametrize(
    ("rate", "sigma", "count", "delta"), [(0.01, 2.0, 100, 1e-300), (1e-8, 2.0, 10**12, 1e-9), (1.0, 1e-5, 1, 1e-9)]
)
def test_where_the_grid_is_not_used_renyi_divergence_answers_and_why_says_so(
    rate: float, sigma: float, count: int, delta: float
) -> None:
    spent = account([(PoissonGaussian(rate, sigma), count)], delta)
    assert spent.method == "rdp" and "not used below delta = 1e-285 a round" in spent.why
    assert spent.epsilon == spent.rdp_epsilon == spent.error  # of how loose it is nothing is known


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1e-8, 1e-3, 0.05, 1e4, 1e8])
@pytest.mark.parametrize("rate", [1e-300, 2**-53, 1e-3, 1.0])
def test_no_input_is_too_extreme(rate: float, sigma: float) -> None:
    costs = [account([(PoissonGaussian(rate, sigma), n)], 1e-20) for n in (1, 1000, 10**6)]
    for spent in costs:
        assert 0 <= spent.epsilon - spent.error <= spent.epsilon <= spent.rdp_epsilon
    assert [one.epsilon for one in costs] == sorted(one.epsilon for one in costs)


def test_large_and_small_rounds_mix() -> None:
    large, small = (PoissonGaussian(0.9, 0.5), 1), (PoissonGaussian(1e-9, 20.0), 10**6)
    alone, both = account([large], 1e-20), account([large, small, PoissonGaussian(1e-300, 1.0)], 1e-20)
    assert alone.epsilon * 0.999 <= both.epsilon <= alone.epsilon * 1.01


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
    assert small.interval is not None and large.interval is not None and small.interval < large.interval / 16
    assert small.error < 0.01 * small.epsilon and large.error < 0.01 * large.epsilon


def test_the_error_does_not_change_the_answer_and_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    rounds = events([(0.02, 1.5, 5), (0.05, 1.5, 2), (0.07, 1.5, 1)])
    spent = account(rounds, 1e-6, progress=lambda *at: told.append(at))
    assert spent.epsilon == account(rounds, 1e-6, state_error=False).epsilon
    assert told[0] == (1, 12) and told == [*sorted(told[:-1]), (1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("size", [64, 1 << 12, 1 << 16])
def test_an_fft_is_as_exact_as_the_bound_on_it(size: int) -> None:
    rng = np.random.default_rng(size)
    for x in (rng.dirichlet(np.full(size, 0.01)), np.full(size, 1 / size), np.exp(-np.arange(size) / 3.0)):
        x = x / x.sum()
        found = np.fft.rfft(x)
        for m in (0, 1, size // 3, size // 2 - 1):
            angle = 2 * np.pi * ((np.arange(size) * m) % size).astype(np.longdouble) / size
            exact = complex((x * np.cos(angle)).sum(), -(x * np.sin(angle)).sum())
            assert abs(found[m] - exact) <= tilted_fft.FFT_ERROR * math.log2(size)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "sigma", "h"), [(0.01, 1.0, 2**-10), (1e-6, 1.0, 2**-16), (1.0, 0.5, 2**-4), (0.3, 20.0, 2**-12)]
)
def test_no_mass_of_a_round_is_below_its_integral(rate: float, sigma: float, h: float) -> None:
    found = privacy_loss.Losses.of(rate, sigma, h, 1e-20)
    with mpmath.workdps(40):
        q, s, step = mpmath.mpf(rate), mpmath.mpf(sigma), mpmath.mpf(h)

        def at(t: Any, k: int) -> Any:  # the outcome whose loss is kh + ln(1 + t)
            over = (mpmath.exp(k * step) * (1 + t) - 1 + q) / q
            return s * mpmath.log(over) + 1 / (2 * s) if over > 0 else -mpmath.inf

        def side(k: int, up: bool) -> Any:  # the mass that the losses from kh to (k+1)h put on one end, by parts
            full = mpmath.expm1(step)
            ends = mpmath.ncdf(at(full, k)) if up else -mpmath.ncdf(at(0, k))
            least = min(max((1 - q) * mpmath.exp(-k * step) - 1, 0), full)  # below it lies no outcome
            inner = mpmath.quad(lambda t: mpmath.ncdf(at(t, k)), [least, (least + full) / 2, full]) / full
            return mpmath.exp((k + up) * step) * (ends - inner if up else inner + ends)

        for j in range(1, len(found.log_probs) - 1, len(found.log_probs) // 6):
            k = found.lowest + j
            exact = side(k, False) + side(k - 1, True)
            assert 0 <= mpmath.exp(mpmath.mpf(float(found.log_probs[j]))) / exact - 1 < 1e-10


@pytest.mark.parametrize(("rate", "sigma"), [(0.0016, 1.423), (0.3, 3.0), (1.0, 2.0), (0.01, 0.5), (0.9999, 1.0)])
def test_the_losses_of_a_round_are_those_of_dp_accounting(rate: float, sigma: float) -> None:
    pld = import_module("dp_accounting.pld.privacy_loss_distribution")
    theirs = pld.from_gaussian_mechanism(
        sigma, value_discretization_interval=1e-3, sampling_prob=rate, use_connect_dots=True
    )
    found = privacy_loss.Losses.of(rate, sigma, 1e-3, 1e-26)
    k = found.lowest + np.arange(len(found.log_probs))
    removed, added = np.exp(found.log_probs), np.exp(found.log_probs - 1e-3 * k)[::-1]
    for lowest, ours, name in ((found.lowest, removed, "_pmf_remove"), (-int(k[-1]), added, "_pmf_add")):
        pmf = getattr(theirs, name).to_dense_pmf()
        low = min(lowest, pmf._lower_loss)
        high = max(lowest + len(ours), pmf._lower_loss + pmf.size)
        both = np.zeros((2, high - low))
        both[0, lowest - low :][: len(ours)] = ours
        both[1, pmf._lower_loss - low :][: pmf.size] = pmf._probs
        assert np.abs(both[0] - both[1]).max() < 1e-11
        assert 0 <= ours.sum() - 1 + found.cut < 1e-10


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


def test_losses_beyond_what_an_exponential_holds_are_kept() -> None:
    found = privacy_loss.Losses.of(0.5, 0.02, 2**-4, 1e-24)
    probs = np.exp(found.log_probs)
    assert 0 <= probs.sum() - 1 < 1e-10
    middle = (0.5 / 0.02**2) * 2**4 - found.lowest  # half the draws have the record: a loss of about 1,250
    assert probs[int(middle) - 100 :].sum() > 0.24


def test_the_same_rounds_are_not_computed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = events([(0.0213, 1.51, 5)])
    first = account(rounds, 1e-6)
    monkeypatch.setattr(privacy_loss.Losses, "of", lambda *_: pytest.fail("computed again"))
    assert account(rounds, 1e-6) == first


@pytest.mark.slow
def test_importing_the_accountant_loads_neither_dp_accounting_nor_scipy() -> None:
    code = (
        "import sys, crescendo_dp; crescendo_dp.account; sys.exit(bool({'dp_accounting', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("rate", [1e-9, 0.01, 1.0])
def test_noise_without_measure_costs_next_to_nothing(rate: float) -> None:
    for sigma in (1e6, 1e9, 1e160, 1e300):
        spent = account([(PoissonGaussian(rate, sigma), 1000)], 1e-5)
        assert 0 <= spent.epsilon < 1e-3 and spent.rdp_epsilon < 0.01


def test_a_rest_that_no_loss_of_the_grid_has_is_a_part_of_delta() -> None:
    weight, reached, rest = np.array([0.0, 0.0, 1.0]), 0.6, 0.1
    k, step = tilted_fft._crossing(weight, np.full(3, rest), 1.0, reached) or (-1, 0.0)
    due = 2.0 + math.log1p(rest - reached)  # 1 - e^-(2 - x) is what is reached without the rest
    assert k + step == pytest.approx(due)
