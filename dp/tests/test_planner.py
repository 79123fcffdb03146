from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo_dp import Plan, account, plan
from crescendo_dp.errors import UsageError
from crescendo_dp.events import from_json
from crescendo_dp.planning.calibration import least_sigma
from crescendo_dp.planning.comparison import compared
from crescendo_dp.planning.family import Limits
from crescendo_dp.planning.search import _members
from crescendo_dp.planning.staircase import MOST_STEPS, Curve, fewest_rounds
from crescendo_dp.planning.target import Target

EXAMPLE_3: dict[str, Any] = {"epsilon": 1, "delta": 5.5e-8, "records": 10_000, "gradients": 25_000}


@settings(deadline=None, max_examples=50)
@given(st.floats(0.01, 50), st.floats(0.01, 100), st.floats(0.7, 4))
def test_the_search_ends_on_the_safe_side_and_wastes_under_one_percent(
    target: float, start: float, slope: float
) -> None:
    calls = 0

    def cost(sigma: float) -> float:
        nonlocal calls
        calls += 1
        return float(3 * sigma**-slope + 0.01 * math.exp(-sigma))

    sigma = least_sigma(cost, target, start)
    assert cost(sigma) <= target
    assert sigma == 0.01 or cost(0.99 * sigma) > target
    assert calls < 45


def test_a_budget_out_of_reach_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no sigma below 1e\+06 .* the nearest epsilon is 1\.01"):
        least_sigma(lambda sigma: 1.0, 0.5, 1.0)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 400), st.floats(0.1, 5), st.integers(1, 2000), st.data())
def test_a_staircase_has_the_rounds_and_gradients_asked_for_and_never_falls(
    first: int, power: float, rounds: int, data: st.DataObject
) -> None:
    gradients = data.draw(st.integers(first * rounds, 50 * first * rounds))
    curve = Curve.through(first, power, rounds, gradients)
    stairs = curve.steps(gradients)
    sizes = stairs.per_round()
    assert len(stairs) <= MOST_STEPS and len(sizes) == rounds and sum(sizes) == gradients
    assert list(sizes) == sorted(sizes) and sizes[0] >= 1
    if rounds > 1 and gradients >= (first + 1) * rounds:
        assert sizes[0] == first


def test_a_staircase_stays_close_to_its_curve() -> None:
    curve = Curve.through(16, 1, 183, 25_000)
    far = max(abs(size - curve(i)) for i, size in enumerate(curve.steps(25_000).per_round()))
    assert far <= 1 + (curve(182) - curve(0)) / 30


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.floats(0.3, 2), st.integers(40, 3000), st.floats(1.5, 6))
def test_what_rounding_leaves_over_does_not_swell_the_last_size(
    first: int, power: float, rounds: int, growth: float
) -> None:
    gradients = int(growth * first * rounds)
    curve = Curve.through(first, power, rounds, gradients)
    assert curve.steps(gradients)[-1][0] <= curve(rounds - 1) + 2


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_the_fewest_rounds_are_found(threshold: int, most: int) -> None:
    assert fewest_rounds(lambda count: count >= threshold, 1, most) == (threshold if threshold <= most else None)


@settings(deadline=None, max_examples=8)
@given(st.floats(0.2, 6), st.floats(-9, -4), st.integers(5, 60), st.floats(0.2, 4))
@pytest.mark.slow
def test_a_plan_meets_its_budget_and_wastes_under_one_percent(
    epsilon: float, log_delta: float, rounds: int, epochs: float
) -> None:
    delta, records = 10**log_delta, 5_000
    made = plan(
        epsilon, delta, records, max(rounds, min(int(epochs * records), rounds * records)), rounds=rounds, compare=False
    )
    assert account(made.events, delta).epsilon == made.epsilon <= epsilon
    assert account(made.staircase.events(records, 0.99 * made.sigma.least), delta).epsilon > epsilon


@pytest.fixture(scope="module")
def linear() -> Plan:
    """Example 3's request with p = 1 and its true T."""
    return plan(**EXAMPLE_3, first_size=16, power=1, rounds=183)


@pytest.mark.slow
def test_example_three_takes_a_sixth_of_the_noise_of_the_paper(linear: Plan) -> None:
    assert linear.sigma.least == pytest.approx(1.423, rel=0.01)
    assert linear.aggregated_noise == pytest.approx(19.25, rel=0.01)
    assert (
        linear.rounds == 183 and (linear.sizes.first, linear.sizes.p) == (16, 1.0) and sum(linear.per_round) == 25_000
    )
    assert (
        linear.epsilon <= 1 and account(linear.staircase.events(10_000, 0.99 * linear.sigma.least), 5.5e-8).epsilon > 1
    )
    assert linear.compared_to["paper"]["aggregated_noise"] == pytest.approx(112, rel=0.05)
    assert linear.compared_to["constant"]["aggregated_noise"] == pytest.approx(33.1, rel=0.01)


@pytest.mark.slow
def test_a_comparison_by_itself_is_the_one_in_the_plan(linear: Plan) -> None:
    assert compared(Target.checked(**EXAMPLE_3, first_size=16), 16) == linear.compared_to
    with pytest.raises(UsageError, match="sampling rate is at most 1"):
        compared(Target.checked(**EXAMPLE_3, first_size=20_000), 20_000)


@pytest.mark.slow
def test_example_three_under_the_cap_is_one_step_whose_noise_is_well_under_that_of_any_power(linear: Plan) -> None:
    free = plan(**EXAMPLE_3, first_size=16, compare=False)
    assert free.aggregated_noise < 15.22 < 19 < linear.aggregated_noise
    assert free.sizes.shape == "step" and (free.rounds, free.sizes.first) == (56, 16) and free.sizes.last <= 460


@pytest.mark.slow
def test_without_a_first_size_constant_sizes_at_the_cap_are_best_and_the_curve_shows_it() -> None:
    made = plan(**EXAMPLE_3)
    assert made.sizes.p == 0 and made.rounds == 55 and made.sizes.last <= 460
    noise = [point.aggregated_noise for point in made.curve]
    assert noise == sorted(noise, reverse=True) and made.aggregated_noise <= min(noise) * 1.01
    assert any("constant sizes as large as allowed are best" in note for note in made.notes)


@pytest.mark.slow
def test_a_plan_is_plain_data_with_its_events(linear: Plan) -> None:
    data = json.loads(json.dumps(linear.to_json()))
    wanted = {
        "sizes",
        "rounds",
        "sigma",
        "aggregated_noise",
        "epsilon",
        "delta",
        "method",
        "family",
        "compared_to",
        "staircase",
        "curve",
    }
    assert wanted <= data.keys() and data["sizes"].keys() == {"shape", "q", "m", "p", "first", "last"}
    assert from_json(data["events"]) == linear.events
    assert data["aggregated_noise"] == math.sqrt(data["rounds"]) * data["sigma"]
    text = str(linear)
    assert "183 rounds of 16 to" in text and "power 1 " in text and "small start" in text


@pytest.mark.slow
def test_the_paper_method_follows_the_procedure_and_reports_the_tight_epsilon() -> None:
    told: list[tuple[int, int]] = []
    made = plan(
        **EXAMPLE_3, first_size=16, method="paper", r0=1 / math.e, compare=False, progress=lambda *at: told.append(at)
    )
    assert made.method == "paper" and 8 < made.sigma.least < 8.3 and 175 < made.rounds < 190
    assert made.epsilon < 0.13 and told[-1] == (1, 1)


@pytest.mark.slow
def test_a_delay_condition_slows_the_growth() -> None:
    def gentle(sizes: tuple[int, ...]) -> bool:
        return all(size <= 16 + 2 * sum(sizes[:i]) ** 0.5 for i, size in enumerate(sizes))

    request = {"epsilon": 2, "delta": 1e-6, "records": 10_000, "gradients": 8_000, "first_size": 16, "power": 1}
    free, bound = plan(**request, compare=False), plan(**request, delay=gentle, compare=False)  # type: ignore[arg-type]
    assert gentle(bound.per_round) and not gentle(free.per_round) and bound.rounds > free.rounds


def test_an_epsilon_too_small_for_renyi_divergence_is_planned_all_the_same() -> None:
    for delta, most in ((1e-9, 100), (1e-13, 140)):
        made = plan(0.002, delta, 10_000, 1000, rounds=10, compare=False)
        assert 0.0019 < made.epsilon <= 0.002 and 50 < made.sigma.least < most


def test_a_tiny_delta_is_planned_tightly() -> None:
    made = plan(2, 1e-14, 1000, 500, rounds=5, compare=False)
    assert made.epsilon <= 2 < account(made.staircase.events(1000, 0.99 * made.sigma.least), 1e-14).epsilon
    assert made.epsilon > 1.98


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first_size": 500}, "start with 460 or less"),
        ({"rounds": 10, "max_share": 0.046}, "take 55 rounds or more"),
        ({"first_size": 16, "rounds": 2000}, "take 1,562 rounds or fewer"),
        ({"rounds": 30_000}, "take 25,000 rounds or fewer"),
        ({"first_size": 16, "power": 0.5, "rounds": 60, "max_share": 0.046}, "allow a share of 0.062 "),
        ({"first_size": 16, "power": 0.5, "rounds": 60, "max_share": 0.046}, "or take 81 rounds"),
        ({"first_size": 16, "rounds": 55, "max_share": 0.046}, "allow a share of 0.0463 or take 56 rounds"),
        ({"first_size": 16, "rounds": 1, "gradients": 20, "max_share": 0.002}, "take 2 rounds or more"),
        ({"method": "paper", "first_size": 16, "sigma_by_round": True}, "has one sigma"),
        ({"first_size": 1, "rounds": 1572, "records": 7, "gradients": 11_000}, "allowed; take 1,573 rounds"),
        ({"first_size": 16, "power": 0, "rounds": 100}, "ask for 1,563 rounds"),
        ({"first_size": 16, "delay": lambda sizes: False}, "delay condition"),
        ({"max_share": 1e-5}, "allow 0.0001 or more"),
        ({"max_share": 1.5}, "the largest share of a round must lie"),
        ({"epsilon": 0}, "epsilon must lie above 0"),
        ({"epsilon": 1e6}, "at most 100"),
        ({"epsilon": math.nan}, "epsilon must lie"),
        ({"delta": 0.0}, "delta must lie"),
        ({"records": 0}, "records must be a whole number"),
        ({"gradients": 2.5}, "gradients must be a whole number"),
        ({"power": -1}, "the power must lie"),
        ({"first_size": 0}, "the first size must be a whole number"),
        ({"records": math.inf}, "the records must be a whole number"),
        ({"rounds": math.nan}, "the rounds must be a whole number"),
        ({"r0": -1}, "r0 must lie above 0"),
        ({"method": "paper", "first_size": 16, "r0": 0.5}, "r0 must lie above 0 and at most 1/e"),
        ({"method": "magic"}, "'tight' or 'paper'"),
        ({"method": "paper"}, "starts from a first size"),
        ({"method": "paper", "first_size": 9000, "epsilon": 0.01}, "finds no setting"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_with_what_could(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        plan(**{**EXAMPLE_3, **options})
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_plan_is_made_for_a_delta_whose_inverse_overflows() -> None:
    made = plan(1, 1e-320, 1000, 2500)
    assert made.epsilon <= 1 and made.delta == 1e-320 and "finds no setting" in made.compared_to["paper"]["why"]


@pytest.mark.slow
def test_the_value_a_refusal_names_would_work() -> None:
    with pytest.raises(UsageError, match=r"allow a share of 0\.062 or"):
        plan(1, 1e-5, 10_000, 25_000, first_size=16, power=0.5, rounds=60, max_share=0.046)
    made = plan(1, 1e-5, 10_000, 25_000, first_size=16, power=0.5, rounds=60, max_share=0.062, compare=False)
    assert made.sizes.last == 620


@settings(deadline=None)
@given(
    st.integers(1, 400),
    st.integers(1, 300),
    st.none() | st.integers(1, 12),
    st.none() | st.just(0.0) | st.floats(0, 8),
    st.none() | st.integers(1, 40),
    st.sampled_from([0.01, 0.05, 0.2, 1.0]),
)
def test_every_request_is_answered_with_sizes_that_keep_to_it_or_with_a_sentence(
    records: int, gradients: int, first: int | None, power: float | None, rounds: int | None, share: float
) -> None:
    cap = int(share * records + 1e-9)
    try:
        target = Target.checked(1.0, 1e-3, records, gradients, first, power, rounds, share)
        found = _members(target, Limits(first, power, rounds, cap))
    except UsageError:
        free = power is None and rounds is None
        assert not free or cap < (first or 1) or gradients < (first or 1)  # what is left open is found
        return
    for member in found:
        sizes = member.stairs.per_round()
        assert sum(sizes) == gradients and max(sizes) <= cap and len(sizes) == member.rounds
        assert first is None or sizes[0] == first
        assert rounds in (None, len(sizes)) or (power == 0 and first is not None)


def test_the_paper_row_of_a_plan_that_cannot_grow() -> None:
    found = plan(1.0, 1e-3, records=20, gradients=10, first_size=4, max_share=0.5)
    assert found.epsilon <= 1 and "paper" in found.compared_to
