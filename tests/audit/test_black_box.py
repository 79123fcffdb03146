"""The black-box audit: its bounds hold, sound mechanisms pass, and the broken ones are caught."""

from __future__ import annotations

import math
import re
from typing import Any

import dp_accounting
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from crescendo_dp.black_box.attack import Claim, attack
from crescendo_dp.black_box.callable_mechanism import CallableMechanism
from crescendo_dp.black_box.distinguishers import Rule
from crescendo_dp.black_box.epsilon_bounds import _epsilon_of_shift, epsilon_bound, gaussian_bound, spared
from crescendo_dp.black_box.neighbours import Pair, _canaries, pairs
from crescendo_dp.errors import ConfigError
from lab.trials.black_box import BITS, RECORDS, Case, broken, clipped, gaussian, responses, sound

NEAR = (
    "half of the noise",
    "twice the sensitivity",
    "a record that is always drawn",
)  # not far above what they claim, so that it takes more runs


# -- bounds -----------------------------------------------------------------------------------------------------------


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


# -- mechanisms -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("case", sound(), ids=lambda case: case.name)
def test_a_sound_mechanism_passes_at_exactly_what_is_true_of_it(case: Case) -> None:
    """`python -m lab.trials.black_box` does the same with hundreds of seeds."""
    found = [case.attacked(10_000, seed) for seed in range(3)]
    assert all(one.passed and one.lower <= case.epsilon < one.most for one in found)
    assert max(one.lower for one in found) > 0.05 * case.epsilon, "and the attack is not blind"


@pytest.mark.slow
@pytest.mark.parametrize("case", broken(), ids=lambda case: case.name)
def test_a_broken_mechanism_is_caught(case: Case) -> None:
    found = case.attacked(250_000 if case.name in NEAR else 40_000, 0)
    assert (
        not found.passed and found.lower > case.epsilon and "claimed" in found.findings[0]
    ) or found.lower == math.inf


def test_without_noise_it_fails_at_once_and_the_same_answer_for_all_passes() -> None:
    bare = Case("bare", lambda records, rng, runs: np.tile(clipped(records).sum(axis=0), (runs, 1)), 50.0)
    found = bare.attacked(1_000_000, 0)
    assert (
        not found.passed
        and found.lower == math.inf
        and found.runs < 250_000
        and "there is no noise" in found.findings[0]
    )
    blind = Case("blind", lambda records, rng, runs: np.full((runs, 2), 7.0), 0.0, 0.0)
    assert blind.attacked(2_000, 0).passed


@pytest.mark.parametrize("own_noise", [False, True])
def test_an_answer_that_is_nearly_always_true_is_no_missing_noise(own_noise: bool) -> None:
    """Randomised response at epsilon 7: 64 runs are alike, though it is sound; with ``rng`` or with randomness of its own."""
    own = np.random.Generator(np.random.PCG64(5))

    def many(records: Any, rng: np.random.Generator, runs: int) -> Any:
        return responses(7.0)(records, own if own_noise else rng, runs)

    case = Case("sure", many, 7.0, 0.0, neighbours="replace", records=BITS[:1], canaries=np.array([[0], [1]]))
    found = case.attacked(8_000, 0)
    assert found.passed and 3 < found.lower <= 7
    assert own_noise or "so many runs could show" in found.notes[0]


@pytest.mark.slow
def test_the_last_bits_of_floats_count_if_asked() -> None:
    """Noise that is drawn as a float and added to a float lands on a grid that depends on the sum (Mironov 2012)."""
    zeros = np.zeros((2, 3))  # and a canary: sums of 0 and of 1
    plain = Case("floats", gaussian(2.0), sound()[0].epsilon, records=zeros)
    found = plain.attacked(100_000, 0)
    assert found.passed and any("--floats" in note for note in found.notes)
    assert not plain.attacked(100_000, 0, floats=True).passed


@pytest.mark.slow
def test_gaussian_releases_need_far_fewer_runs_if_it_is_said_that_they_are() -> None:
    half = Case("half of the noise", gaussian(1.0), sound()[0].epsilon)
    assert half.attacked(8_000, 0).passed
    found = half.attacked(8_000, 0, gaussian=True)
    assert not found.passed and "as releases are Gaussian" in found.findings[0]
    assert found.lower_gaussian is not None and 2.5 < found.lower_gaussian < 4.377
    sure = sound()[0].attacked(8_000, 0, gaussian=True)
    assert sure.passed and sure.lower_gaussian is not None and sure.lower_gaussian > 0.5


@pytest.mark.slow
def test_one_seed_gives_one_answer() -> None:
    case = sound()[0]
    first, again, other = (case.attacked(3_000, seed) for seed in (1, 1, 2))
    assert first == again and first.to_json() != other.to_json()
    assert first.to_json()["verdict"] == "passed" and first.runs >= 3_000


# -- parts ------------------------------------------------------------------------------------------------------------


def test_neighbours_differ_in_one_record() -> None:
    for pair in pairs(RECORDS, "add"):
        rows = {row.tobytes() for row in pair.without}
        more = [row for row in pair.with_it if row.tobytes() not in rows]
        assert len(pair.with_it) == len(pair.without) + 1 and len(more) <= 1, pair.says
    replaced = pairs(RECORDS, "replace")
    for pair in replaced:
        assert pair.with_it.shape == pair.without.shape == RECORDS.shape
        assert (pair.with_it != pair.without).any(axis=1).sum() == 1, pair.says
    one = pairs(np.array([3, 4]), "add", [np.array(9)])
    assert [pair.with_it.tolist() for pair in one] == [[3, 4, 9], [9, 3, 4], [3, 9]]


def test_canaries_are_of_the_records_kind_and_a_long_one_turns_their_sum_around() -> None:
    for records in (RECORDS, np.array([1, 2, 3]), np.zeros((3, 2)), RECORDS.reshape(20, 3, 1).astype(np.float32)):
        found = _canaries(records)
        assert all(one.shape == records.shape[1:] and one.dtype == records.dtype for one in found.values())
    total, against = RECORDS.sum(axis=0), _canaries(RECORDS)["long and against the others"]
    assert (total + against) @ total < -100 * total @ total


def test_a_rule_is_learned_from_values_that_come_up_again() -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    present = rng.random(4000) < 0.5
    releases = (
        rng.integers(0, 8, (4000, 2)).astype(float) + np.where(present & (rng.random(4000) < 0.1), 0.25, 0.0)[:, None]
    )
    best = Rule.learned(releases, present, 1e-3, 0.0, 4000, False)[0]
    assert best.statistic.name.startswith("values of") and best.there and best.expected > 1
    hits, others = best.counts(releases, present)
    assert others == 0 and hits == pytest.approx(200, abs=40)
    assert Rule.best(best.statistic, releases, present, 1e-3, 0.0, 4000).sure > 1


PAIR = Pair("2 records and one more: zero", np.ones((2, 3)), np.ones((3, 3)))


@pytest.mark.parametrize(
    ("release", "words"),
    [
        (lambda r, g: 1 / 0, "failed with ZeroDivisionError: division by zero (on 2 records and one more: zero"),
        (lambda r, g: r[7], "failed with IndexError"),
        (lambda r, g: exit("bye"), "failed with SystemExit: bye"),
        (lambda r, g: None, "returned a NoneType that is not made of numbers"),
        (lambda r, g: {"w": 1}, "returned a dict that is not made of numbers"),
        (lambda r, g: ["a"], "returned a list that is not made of numbers"),
        (lambda r, g: np.zeros(len(r)), "returned shape (2,) and then (3,)"),
        (lambda r, g: np.zeros(0), "returned 0 numbers"),
        (lambda r, g: np.nan, "not finite"),
        (lambda r, g: [np.inf, 1.0], "not finite"),
    ],
)
def test_what_goes_wrong_in_a_mechanism_is_one_sentence(release: Any, words: str) -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    with pytest.raises(ConfigError, match=re.escape(words)) as error:
        CallableMechanism("mine", release).run(PAIR, np.array([False, True]), rng)
    assert "\n" not in str(error.value)


def test_a_mechanism_may_return_a_number_a_list_of_arrays_or_change_its_records() -> None:
    rng, coins = np.random.Generator(np.random.PCG64(0)), np.array([True, False, True])
    assert CallableMechanism("n", lambda r, g: int(r.sum())).run(PAIR, coins, rng).tolist() == [[9], [6], [9]]
    parts = CallableMechanism("l", lambda r, g: [np.ones((2, 2)), [3], 4.0]).run(PAIR, coins, rng)
    assert parts.shape == (3, 6) and parts[0].tolist() == [1, 1, 1, 1, 3, 4]

    def greedy(records: Any, rng: Any) -> Any:
        records *= 2
        return records.sum()

    assert CallableMechanism("g", greedy).run(PAIR, coins, rng).tolist() == [[18], [12], [18]]


def test_many_releases_at_once_are_put_in_the_order_of_the_coins() -> None:
    rng, coins = np.random.Generator(np.random.PCG64(0)), np.array([True, False, True])
    found = CallableMechanism("m", lambda r, g: 0, lambda r, g, runs: np.full((runs, 2), len(r))).run(PAIR, coins, rng)
    assert found.tolist() == [[3, 3], [2, 2], [3, 3]]
    with pytest.raises(ConfigError, match="a row for each run"):
        CallableMechanism("m", lambda r, g: 0, lambda r, g, runs: np.zeros(2)).run(PAIR, np.array([True] * 3), rng)


def test_a_release_of_many_numbers_is_attacked_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crescendo_dp.black_box.attack.CELLS", 20_000)
    held = 0

    def run(pair: Pair, coins: Any, rng: np.random.Generator) -> Any:
        nonlocal held
        held = max(held, len(coins))
        return rng.standard_normal((len(coins), 500)) + 5.0 * coins[:, None]

    found = attack("wide", run, [PAIR], Claim(1.0, 0.0), runs=4_000)
    assert not found.passed and found.size == 500 and held <= 64


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e150, 1e300])
def test_releases_of_any_size_are_attacked(size: float) -> None:
    def many(records: Any, rng: np.random.Generator, runs: int) -> Any:
        noise = rng.standard_normal((runs, 3)) * [1.0, 0.0, 1.0]
        noise[:, 1] = len(records) > 20
        return size * noise

    found = Case("sized", many, 1.0).attacked(2_000, 0)
    assert not found.passed
