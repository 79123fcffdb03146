from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

import oracle
from brute_force import Asked, compare, least_noise, random_request
from crescendo_dp import Plan, account, plan
from crescendo_dp.events import PoissonGaussian
from crescendo_dp.planning.by_round import _Losses, spread
from crescendo_dp.planning.family import Limits
from crescendo_dp.planning.search import choose
from crescendo_dp.planning.staircase import Staircase
from crescendo_dp.planning.target import Target
from second_accountant import epsilon_of

DOCS = Path(__file__).parents[2] / "docs" / "privacy_examples.md"
BUDGET = 1.0, 5.5e-8, 10_000, 25_000  # of Example 3


# -- against brute force ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("size", "rounds", "sigma"), [(16, 1563, 0.85), (450, 55, 2.0), (5000, 30, 9.0)])
def test_the_accountant_of_the_brute_force_agrees_with_a_contour_integral(size: int, rounds: int, sigma: float) -> None:
    epsilon = epsilon_of(((size, rounds),), 10_000, sigma, 1e-6)
    deltas = (oracle.delta_of(epsilon, [(size / 10_000, sigma, rounds)], way) for way in ("remove", "add"))
    assert max(deltas) == pytest.approx(1e-6, rel=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        Asked(1.0, 5.5e-8, 10_000, 25_000, 16, None, None),  # Example 3
        Asked(0.15, 1.2e-6, 64_693, 635_877, 140, None, 0.68),  # small epsilon: more rounds than the fewest pay
        Asked(16.6, 1.4e-7, 193_513, 63_614, None, 10, None),  # large epsilon: two levels
    ],
    ids=["example 3", "many rounds", "two levels"],
)
def test_a_plan_is_within_half_a_percent_of_brute_force(asked: Asked) -> None:
    assert compare(asked, fine=False).ratio < 1.005


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_plans_of_random_requests_are_within_half_a_percent_of_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    assert max(compare(random_request(rng)).ratio for _ in range(5)) < 1.005


# -- the family -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example() -> Plan:
    return plan(*BUDGET, first_size=16)


@pytest.mark.slow
def test_example_three_is_shown_with_its_whole_family_and_what_each_member_costs(example: Plan) -> None:
    rows = {row.name: row for row in example.family}
    assert list(rows) == ["16, then even", "power 0.1", "power 0.25", "power 0.5", "power 1", "power 2", "constant"]
    noise = [row.aggregated_noise for row in example.family]
    assert noise == sorted(noise) and [row.name for row in example.family if row.chosen] == ["16, then even"]
    expected = {
        "16, then even": (56, 15.18),
        "power 0.1": (60, 15.32),
        "power 0.5": (81, 16.53),
        "power 1": (104, 18.06),
    }
    for name, (rounds, total) in expected.items():
        row = rows[name]
        assert row.rounds == rounds and total <= row.aggregated_noise * 1.001 and row.aggregated_noise < 1.005 * total
        assert row.aggregated_noise == pytest.approx(math.sqrt(rounds) * row.sigma.least)
    assert any("next is power 0.1, with " in note for note in example.notes)
    assert any("With noise by round" in note for note in example.notes)


def documented() -> dict[str, list[str]]:
    """The cells of the docs' table by schedule, without what stands in brackets behind a name."""
    text = DOCS.read_text().partition("## What the planner finds")[2].partition("\n- ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {cells[0].partition(" (")[0]: cells[1:] for cells in rows[2:]}


@pytest.mark.slow
def test_the_docs_show_this_family(example: Plan) -> None:
    shown = documented()
    assert shown.keys() == {row.name for row in example.family}
    for row in example.family:
        rounds, sigma, noise = shown[row.name][:3]
        assert rounds == f"{row.rounds:,}" and row.sigma.least == pytest.approx(float(sigma), rel=0.005)
        assert row.aggregated_noise == pytest.approx(float(noise), rel=0.005)


@pytest.mark.soak
def test_the_docs_show_this_family_with_noise_by_round() -> None:
    shown = documented()
    for row in plan(*BUDGET, first_size=16, sigma_by_round=True).family:
        assert row.aggregated_noise == pytest.approx(float(shown[row.name][4]), rel=0.005)


@pytest.mark.slow
def test_a_small_first_round_is_paid_for_with_as_few_more_rounds_as_do() -> None:
    target, limits = Target(0.15, 1.2e-6, 10_000, 100_000), Limits(20, None, None, 6_800)
    best, sigma = choose(target, limits)
    fewest = limits.step(100_000, 10_000)
    assert fewest is not None and best.shape == "step" and best.rounds > 2 * fewest.rounds
    assert math.sqrt(best.rounds) * sigma < 0.985 * math.sqrt(fewest.rounds) * target.sigma(fewest.stairs)
    same, _ = choose(target, limits, by_round=True)  # a small round has little noise of its own then
    assert same.rounds == fewest.rounds


@pytest.mark.slow
def test_at_a_large_epsilon_few_large_rounds_need_less_noise_than_even_ones() -> None:
    free = plan(10, 1e-6, 1_000, 1_000, rounds=5)
    even = plan(10, 1e-6, 1_000, 1_000, rounds=5, power=0, compare=False)
    assert free.sizes.shape == "levels" and even.sizes.shape == "constant" and free.rounds == even.rounds == 5
    assert free.aggregated_noise < 0.9 * even.aggregated_noise and sum(free.per_round) == 1_000
    assert any("4 small rounds and a few large ones need less noise" in note for note in free.notes)


def test_a_first_size_that_is_the_largest_is_kept() -> None:
    made = plan(1, 1e-5, 1_000, 1_000, first_size=400, max_share=0.45, compare=False)
    assert made.per_round == (400, 300, 300)


# -- noise by round ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.9])
@pytest.mark.parametrize("order", [2.0, 9.0, 33.0])
def test_the_cost_of_a_round_is_convex_in_the_square_of_its_sigma(rate: float, order: float) -> None:
    square = np.linspace(0.3, 12.0, 200)
    cost = _Losses(np.array([rate]), np.sqrt(square)).moments(order)[0]
    assert (np.diff(cost, 2) > -1e-9 * np.abs(cost[1:-1])).all() and (np.diff(cost) < 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "sigma", "rounds"), [(0.01, 1.0, 100), (0.3, 4.0, 8), (1.0, 2.0, 2), (0.16, 0.28, 2)])
def test_unequal_noise_in_rounds_alike_costs_more(rate: float, sigma: float, rounds: int) -> None:
    equal = account([(PoissonGaussian(rate, sigma), rounds)], 1e-6).epsilon
    for by in (1.1, 1.5):
        low, high = sigma * math.sqrt(2 / (1 + by**2)), by * sigma * math.sqrt(2 / (1 + by**2))
        half = rounds // 2
        assert account([(PoissonGaussian(rate, low), half), (PoissonGaussian(rate, high), half)], 1e-6).epsilon > equal


@pytest.mark.slow
@pytest.mark.parametrize(("power", "rounds", "gain"), [(None, 12, 0.02), (1.0, 24, 0.06)])
def test_noise_by_round_lowers_the_aggregated_noise(power: float | None, rounds: int, gain: float) -> None:
    asked = (1.0, 1e-6, 1_000, 2_000, 10, power, rounds)
    one, varied = (plan(*asked, sigma_by_round=by_round, compare=False) for by_round in (False, True))
    assert varied.staircase == one.staircase and varied.aggregated_noise < (1 - gain) * one.aggregated_noise
    assert varied.epsilon == account(varied.events, 1e-6).epsilon <= 1
    assert [rounds for rounds, _ in varied.sigma.steps] == [rounds for _, rounds in varied.staircase]
    sigmas = list(varied.sigma.values())
    assert sigmas == sorted(sigmas) and varied.sigma.aggregated(varied.rounds) == pytest.approx(varied.aggregated_noise)
    less = tuple(0.99 * sigma for sigma in sigmas)
    assert account(varied.staircase.events(1_000, less), 1e-6).epsilon > 1


@pytest.mark.slow
def test_a_spread_is_about_as_good_as_a_search_over_each_sigma() -> None:
    """Two steps, so that one number decides: the ratio of the sigmas."""
    target, stairs = Target(0.5, 1e-6, 10_000, 10_000), Staircase(((16, 1), (2_496, 4)))
    found = tuple(spread(target, stairs, target.sigma(stairs)).values())
    every = [target.scaled(stairs, (1.0, ratio)) for ratio in np.geomspace(1.5, 9.0, 10)]
    least = min(stairs.aggregated(sigmas) for sigmas in every)
    assert stairs.aggregated(found) < 1.005 * least
    assert stairs.aggregated(found) < 0.93 * math.sqrt(5) * target.sigma(stairs)


def test_rounds_alike_have_one_sigma() -> None:
    made = plan(1, 1e-5, 1_000, 2_000, rounds=40, sigma_by_round=True, compare=False)
    assert made.sigma.rounds is None and made.to_json()["sigma"] == made.sigma.least


@pytest.mark.slow
def test_brute_force_finds_more_than_even_sizes() -> None:
    noise, stairs = least_noise(Asked(10.0, 1e-6, 10_000, 10_000, None, 5, None), fine=False)
    even = plan(10, 1e-6, 10_000, 10_000, rounds=5, power=0, compare=False)
    assert noise < 0.9 * even.aggregated_noise and len(stairs) > 1
