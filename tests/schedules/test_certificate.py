"""The certificate refuses what could stop or overrun its delay, and what it suggests instead passes."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.errors import Refused, UsageError
from crescendo.schedules import (
    ConstantDelay,
    ConstantGamma,
    ConstantSizes,
    CutSizes,
    Delay,
    ListedSizes,
    LogGamma,
    OwnDelay,
    PowerDelay,
    PowerSizes,
    RecipeDelay,
    RecipeSizes,
    ScheduleCertificate,
    ScheduleRefused,
    StronglyConvexDelay,
    StronglyConvexSizes,
    certify,
)
from crescendo.schedules.parameters import FloatArray
from crescendo.schedules.theory import Theorem

quick = settings(deadline=None, max_examples=40)
listed = st.lists(st.integers(1, 60), min_size=1, max_size=12).map(lambda values: ListedSizes(tuple(values)))
steady = st.one_of(
    st.builds(ConstantDelay, st.floats(0.5, 80)),
    st.builds(PowerDelay, st.floats(0, 1), st.floats(0, 1), st.floats(0, 40)),
    st.builds(StronglyConvexDelay, st.integers(5, 60), st.floats(0, 40)),
    st.floats(0.1, 1).map(lambda slope: OwnDelay(lambda t: 2 + slope * t)),
)


def refused(*args: Any, **options: Any) -> ScheduleRefused:
    with pytest.raises(ScheduleRefused) as caught:
        certify(*args, **options)
    assert isinstance(caught.value, Refused) and "\n" not in str(caught.value)
    return caught.value


def live(values: list[int], tau: Delay) -> list[bool]:
    """Liveness round by round, as written in the specification."""
    return [tau(sum(values[: k + 1]) - 2) > s - 1 for k, s in enumerate(values)]


def ahead(values: list[int], tau: Delay, d: int) -> list[bool]:
    """Paper [eqtausample] round by round, for every i, as written."""
    return [tau(sum(values[: i + 1])) >= sum(values[max(0, i - d) : i + 1]) for i in range(len(values))]


# The recipe keeps what its lemma promises.


@pytest.mark.slow
@quick
@given(st.integers(0, 6), st.integers(0, 4000))
def test_the_strongly_convex_recipe_keeps_its_delay_in_every_round(d: int, extra: int) -> None:
    """With M1 = d + 1, the least the lemma allows."""
    m, rounds = StronglyConvexSizes.least_m(d) + extra, 3000
    sizes, tau = StronglyConvexSizes(d, m), StronglyConvexDelay(m, d + 1)
    s = [sizes(i) for i in range(rounds)]
    total = 0
    for i in range(rounds):
        total += s[i]
        x = total + (m + 1) ** 2 / 4
        assert d + 1 + math.sqrt(x / (4 * math.log(x))) >= sum(s[max(0, i - d) : i + 1])
    assert all(condition.holds for condition in certify(sizes, rounds, d=d, tau=tau).conditions)


@pytest.mark.slow
@quick
@given(st.integers(0, 6), st.integers(0, 10**5), st.floats(0.001, 1), st.floats(1, 100))
def test_the_theorem_s_schedule_is_certified_and_within_the_theorem(d: int, extra: int, mu: float, L: float) -> None:
    m = StronglyConvexSizes.least_m(d) + extra
    sizes = StronglyConvexSizes(d, m)
    tau = StronglyConvexDelay(m, StronglyConvexDelay.theorem_m1(d, L, mu, sizes(0)))
    theorem = Theorem(L, mu, m, tau.m1)
    assert certify(sizes, 2000, d=d, tau=tau, theorem=theorem).within_theorem
    assert certify(sizes, 2000, d=d, theorem=theorem).within_theorem


@pytest.mark.slow
@quick
@given(st.floats(1.3, 4), st.floats(1, 8), st.booleans(), st.integers(0, 5), st.integers(0, 300))
def test_the_general_recipe_keeps_its_delay_in_every_round(
    g: float, scale: float, log: bool, d: int, extra: int
) -> None:
    gamma = LogGamma(scale) if log else ConstantGamma(scale)
    least = gamma.holds_from(g) ** ((g - 1) / g) * g / (g - 1) * (d + 1)
    m = math.ceil(least) + extra
    m0 = ((m + 1) * (g - 1) / g) ** (g / (g - 1))
    sizes, tau = RecipeSizes(g, gamma, d, m), RecipeDelay(g, gamma, m0, d + 1)
    rounds = 1500
    s = [sizes(i) for i in range(rounds)]
    for i in range(rounds):
        assert tau(sizes.before(i + 1)) >= sum(s[max(0, i - d) : i + 1]) * (1 - 1e-12)


# The tau rule refuses exactly what fails, and its suggestions pass.


@quick
@given(listed, steady, st.none() | st.integers(0, 4))
def test_certify_agrees_with_the_conditions_written_out_and_names_the_first_round_that_fails(
    sizes: ListedSizes, tau: Delay, d: int | None
) -> None:
    values = [sizes(i) for i in range(len(sizes.values))]
    checks = [live(values, tau)] + ([] if d is None else [ahead(values, tau, d)])
    failing = next((check for check in checks if not all(check)), None)
    if failing is None:
        assert all(found.holds for found in certify(sizes, len(values), d=d, tau=tau).conditions)
        return
    error = refused(sizes, len(values), d=d, tau=tau)
    assert error.condition.round == failing.index(False) and not error.condition.holds
    left, right = error.condition.left, error.condition.right
    assert not (left > right if error.condition.relation == ">" else left >= right)


@quick
@given(listed, steady, st.none() | st.integers(0, 4))
def test_every_suggestion_of_a_refusal_passes_and_the_next_size_or_d_does_not(
    sizes: ListedSizes, tau: Delay, d: int | None
) -> None:
    rounds = len(sizes.values)
    values = [sizes(i) for i in range(rounds)]
    try:
        certify(sizes, rounds, d=d, tau=tau)
        return
    except ScheduleRefused as caught:
        error = caught
    k = error.condition.round
    assert error.delay is not None and k is not None
    assert certify(sizes, rounds, d=d, tau=error.delay).rule == "tau"

    def holds(values: list[int], d: int | None) -> bool:
        is_live = error.condition.name == "liveness"
        return (live(values, tau) if is_live else ahead(values, tau, d or 0))[k]

    if error.size is not None:
        assert error.size < values[k]
        assert holds([*values[:k], error.size], d) and not holds([*values[:k], error.size + 1], d)
    else:
        assert not holds([*values[:k], 1], d)
    if error.d is not None:
        assert d is not None and error.d < d
        assert all(ahead(values, tau, error.d)) and not all(ahead(values, tau, error.d + 1))
        assert certify(sizes, rounds, d=error.d, tau=tau).rule == "tau"
    elif error.condition.name != "liveness":
        assert not all(ahead(values, tau, 0))


@quick
@given(listed, st.floats(0.5, 80), st.none() | st.integers(0, 4))
def test_a_suggested_delay_is_not_higher_than_needed(sizes: ListedSizes, tau: float, d: int | None) -> None:
    rounds = len(sizes.values)
    try:
        certify(sizes, rounds, d=d, tau=ConstantDelay(tau))
    except ScheduleRefused as error:
        assert isinstance(error.delay, ConstantDelay)
        each = [sizes(i) for i in range(rounds)]
        needed = max(each) - 1 if d is None else max(sum(each[max(0, i - d) : i + 1]) for i in range(rounds))
        assert needed <= error.delay.tau <= needed + 0.01


@quick
@given(listed, st.lists(st.floats(-3, 3), min_size=1, max_size=30), st.none() | st.integers(0, 4))
def test_a_delay_that_falls_or_rises_by_more_than_one_is_refused_where_it_does_so_first(
    sizes: ListedSizes, steps: list[float], d: int | None
) -> None:
    values = 200 + np.cumsum([0.0, *steps])
    tau = OwnDelay(lambda t: float(values[min(t, len(steps))]))
    rounds = len(sizes.values)
    bad = [t for t, step in enumerate(np.diff(values)) if t < sizes.before(rounds) and not -1e-11 < step < 1 + 1e-11]
    if bad:
        error = refused(sizes, rounds, d=d, tau=tau)
        assert f"tau({bad[0]})" in error.condition.says and f"tau({bad[0] + 1})" in error.condition.says
        assert error.condition.left < error.condition.right
        assert error.condition.name == (
            "tau never decreases" if values[bad[0] + 1] < values[bad[0]] else "t - tau(t) never decreases"
        )
        assert sizes.before(error.condition.round or 0) <= bad[0] < sizes.before((error.condition.round or 0) + 1)
        assert error.delay is not None and certify(sizes, rounds, d=d, tau=error.delay).rule == "tau"


def test_liveness_is_strict() -> None:
    """With tau = s - 1 the client waits before its last slot for a broadcast that needs that slot."""
    assert refused(ConstantSizes(100), 3, tau=ConstantDelay(99)).condition.name == "liveness"
    assert certify(ConstantSizes(100), 3, tau=ConstantDelay(99.001)).rule == "tau"


@pytest.mark.parametrize("slope", [1.001, 1.5, 3.0])
def test_a_delay_may_rise_by_one_a_label_and_no_faster(slope: float) -> None:
    assert certify(ConstantSizes(5), 9, tau=PowerDelay(1, 1, offset=5)).rule == "tau"
    assert refused(ConstantSizes(5), 9, tau=PowerDelay(slope, 1, offset=5)).condition.name.startswith("t - tau(t)")
    late = OwnDelay(lambda t: 9 + max(0, slope * (t - 30)))
    assert refused(ConstantSizes(5), 9, tau=late).condition.round == 6


def test_a_delay_that_is_no_number_is_refused() -> None:
    error = refused(ConstantSizes(5), 3, tau=OwnDelay(lambda t: 9.0 if t < 7 else math.nan))
    assert error.condition.name == "tau is finite" and error.condition.round == 1 and "tau(7) = nan" in str(error)


@dataclasses.dataclass(frozen=True)
class Dented(Delay):
    """A user's delay that falls once, far out, and does not claim to be steady."""

    at: int

    def _tau(self, t: FloatArray) -> FloatArray:
        return np.where(t < self.at, 5000.0, 4999.0)


@pytest.mark.slow
def test_a_user_s_delay_is_checked_at_every_label_of_a_long_horizon() -> None:
    assert refused(ConstantSizes(1000), 10_000, tau=Dented(9_999_999)).condition.round == 9999
    assert certify(ConstantSizes(1000), 10_000, tau=Dented(10_000_001)).gradients == 10**7


def test_every_boundary_between_chunks_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crescendo.schedules.conditions.CHUNK", 4)
    for at in range(1, 21):
        assert f"tau({at}) = 4999 < tau({at - 1}) = 5000" in str(refused(ConstantSizes(5), 4, tau=Dented(at)))
    certify(ConstantSizes(5), 4, tau=Dented(21))


def test_early_rounds_count_too() -> None:
    """The paper asks from round d + 1 on, which would let rounds 0 .. d break the bound."""
    values, tau = [20, 20, *[1] * 10], ConstantDelay(25)
    assert all(ahead(values, tau, 2)[3:]), "from round d + 1 = 3 on, the bound holds"
    error = refused(ListedSizes(tuple(values)), 12, d=2, tau=tau)
    assert error.condition.name == "d = 2 rounds ahead" and error.condition.round == 1
    assert (error.condition.left, error.condition.right) == (25.0, 40.0)


def test_a_refusal_says_the_round_both_sides_and_what_passes() -> None:
    assert str(refused(PowerSizes(50), 28, tau=StronglyConvexDelay(6317, 25))) == (
        "the schedule fails 'liveness' in round 8: tau(2248) = 418.492614523 <= s_8 - 1 = 449, so clients could wait forever; "
        'what would pass: schedule.wait = {tau = "theorem", m = 6317, m1 = 1005.174}, or at most 419 gradients in round 8 '
        "(schedule.sizes), or schedule.wait = {rounds = 1}, which always passes"
    )
    assert str(refused(PowerSizes(1), 28, d=7, tau=PowerDelay(1, 0.5, 20))) == (
        "the schedule fails 'd = 7 rounds ahead' in round 6: tau(28) = 25.2915026221 < s_0 + ... + s_6 = 28; what would pass: "
        'schedule.wait.tau = {kind = "power", scale = 1, power = 0.5, offset = 175.851, shift = 0}, or at most 4 gradients in '
        "round 6 (schedule.sizes), or schedule.wait.d = 0, or schedule.wait = {rounds = 1}, which always passes"
    )


# The d rule refuses nothing and says what it found.


def test_linear_sizes_of_the_experiments_reach_a_delay_of_2750_where_the_theory_grows_to_45() -> None:
    """s_i = 50 i from i = 1, d = 1. Label 20,000 falls in the 28th round: s_27 + s_28 = 1350 + 1400 = 2750."""
    sizes = PowerSizes(50)
    assert sizes.before(27) <= 20_000 < sizes.before(28)
    found = certify(sizes, 28, d=1)
    assert found.consistent_delay == 2750 and found.at == 20_300 and found.conditions == ()
    assert found.theorem_allows is None and found.within_theorem is None
    assert "2,750" in str(found) and "45.2" in str(found)
    assert certify(CutSizes(sizes, 20_000), 28, d=1).consistent_delay == 2650  # the cut round is no longer the worst


def test_a_run_beyond_the_theorem_is_told_so_and_runs() -> None:
    theorem = Theorem(1, 0.1, 6317, StronglyConvexDelay.theorem_m1(1, 1, 0.1, 50))
    found = certify(PowerSizes(50), 28, d=1, theorem=theorem)
    assert found.within_theorem is False and found.theorem_allows == theorem.tau(20_300)
    assert "goes beyond it" in str(found) and "fails: within the theorem, first in round 11" in str(found)


@quick
@given(listed, st.integers(0, 15))
def test_the_consistent_delay_of_the_d_rule_bounds_every_gradient_and_no_lower_tau_would(
    sizes: ListedSizes, d: int
) -> None:
    rounds = len(sizes.values)
    found = certify(sizes, rounds, d=d)
    t_delay = max(
        sizes.before(i + 1) - sizes.before(k) - left
        for i in range(rounds)
        for k in range(max(0, i - d), i + 1)
        for left in range(1, sizes(i) + 1)
    )
    assert found.consistent_delay == t_delay + 1  # a client waits while tau <= t_delay
    assert all(
        condition.holds
        for condition in certify(sizes, rounds, d=d, tau=ConstantDelay(found.consistent_delay)).conditions
    )
    assert refused(sizes, rounds, d=d, tau=ConstantDelay(found.consistent_delay - 0.5)) is not None


@quick
@given(listed, steady)
def test_the_consistent_delay_of_the_tau_rule_bounds_what_the_rule_lets_through(sizes: ListedSizes, tau: Delay) -> None:
    rounds = len(sizes.values)
    try:
        found = certify(sizes, rounds, tau=tau)
    except ScheduleRefused:
        return
    passed = [
        t_delay
        for i in range(rounds)
        for left in range(1, sizes(i) + 1)
        for k in range(i + 1)
        if tau(sizes.before(i + 1) - left - 1) > (t_delay := sizes.before(i + 1) - sizes.before(k) - left)
    ]
    assert max(passed) + 1 <= found.consistent_delay <= math.ceil(tau(sizes.before(rounds)))


def test_certificates_are_values() -> None:
    first, second = (certify(PowerSizes(50), 28, d=1) for _ in range(2))
    assert first == second and hash(first) == hash(second) and isinstance(first, ScheduleCertificate)
    assert first.rule == "d" and first.rounds == 28 and first.gradients == 20_300
    shown = str(certify(StronglyConvexSizes(1, 6317), 100, d=1, tau=StronglyConvexDelay(6317, 25)))
    assert shown.count("holds:") == 4 and "liveness, tightest in round" in shown


def test_cut_schedules_are_certified_to_their_last_gradient() -> None:
    sizes = CutSizes(StronglyConvexSizes(1, 6317), 20_000)
    found = certify(sizes, sizes.rounds, d=1, tau=StronglyConvexDelay(6317, 25))
    assert found.gradients == 20_000 and found.rounds == sizes.rounds


@pytest.mark.slow
def test_a_million_rounds_are_certified_by_either_rule() -> None:
    sizes, tau = StronglyConvexSizes(1, 6317), StronglyConvexDelay(6317, 720)
    assert certify(sizes, 10**6, d=1).rounds == 10**6
    assert all(condition.holds for condition in certify(sizes, 10**6, d=1, tau=tau).conditions)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "a wait rule is needed"),
        ({"d": -1}, "d must be 0 or more"),
        ({"d": True}, "d must be a whole number"),
        ({"d": 1.0}, "d must be a whole number"),
        ({"d": 1, "rounds": 0}, "rounds must be 1 or more"),
        ({"tau": 5}, "tau must be a Delay"),
        ({"d": 1, "theorem": math.sqrt}, "theorem must be a Theorem"),
        ({"d": 1, "sizes": [1, 2]}, "sizes must be a Sizes"),
    ],
)
def test_a_wrong_question_is_refused(options: dict[str, Any], says: str) -> None:
    defaults: dict[str, Any] = {"sizes": ConstantSizes(1), "rounds": 3}
    with pytest.raises(UsageError, match=says):
        certify(**{**defaults, **options})
