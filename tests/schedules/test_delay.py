"""Delays: their formulas, labels before the first, and the promise that calculus makes for labels nobody checked."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crescendo.errors import UsageError
from crescendo.schedules import (
    ConstantDelay,
    ConstantGamma,
    Delay,
    LiftedDelay,
    LogGamma,
    OwnDelay,
    PowerDelay,
    RecipeDelay,
    StronglyConvexDelay,
    growth_limit,
)

quick = settings(deadline=None, max_examples=60)
named = st.one_of(
    st.builds(ConstantDelay, st.floats(0.1, 1e6)),
    st.builds(PowerDelay, st.floats(0, 2), st.floats(0, 1.5), st.floats(0, 100), st.floats(0, 100)),
    st.builds(StronglyConvexDelay, st.integers(5, 5000), st.floats(0, 1000)),
    st.builds(
        RecipeDelay, st.floats(1.2, 4), st.builds(ConstantGamma, st.floats(1, 9)), st.floats(0, 99), st.floats(0, 99)
    ),
    st.builds(
        RecipeDelay, st.floats(1.5, 4), st.builds(LogGamma, st.floats(0.5, 9)), st.floats(60, 1e4), st.floats(0, 99)
    ),
)


@quick
@given(named, st.integers(0, 10**9))
@example(PowerDelay(0.1, 1.5), 10**6)
@example(PowerDelay(2, 0.5), 0)
@example(RecipeDelay(2, ConstantGamma(), 0, 1), 0)
def test_from_where_a_delay_says_so_it_never_falls_nor_rises_by_more_than_one(tau: Delay, far: int) -> None:
    if tau.steady_from() == math.inf:
        return
    for start in (math.ceil(tau.steady_from()), math.ceil(tau.steady_from()) + far):
        t = np.arange(start, start + 2000)
        step, slack = np.diff(tau(t)), 1e-14 * tau(t).max()
        assert -slack <= step.min() and step.max() <= 1 + slack


@quick
@given(named, st.integers(-5, 10**6))
def test_an_array_gives_what_each_label_gives_and_labels_below_zero_give_tau_of_zero(tau: Delay, t: int) -> None:
    assert tau(np.array([t, -1, 0])).tolist() == pytest.approx([tau(t), tau(0), tau(0)], rel=1e-15)
    assert tau(-3) == tau(0) and isinstance(tau(t), float)


@quick
@given(named, st.floats(0, 1e9))
def test_a_lifted_delay_is_higher_everywhere_by_what_was_asked_and_reads_well(tau: Delay, by: float) -> None:
    t = np.array([0, 10, 10**6])
    rise, rounding = tau.lifted(by)(t) - tau(t), 4e-16 * tau.lifted(by)(t)
    assert (rise >= by * (1 - 1e-9) - 1e-9 - rounding).all() and (rise <= by + 0.002 + 1e-6 * by + rounding).all()
    assert type(tau.lifted(by)) is type(tau)


@quick
@given(named)
def test_delays_print_compare_and_pickle(tau: Delay) -> None:
    assert eval(repr(tau)) == tau == pickle.loads(pickle.dumps(tau)) and hash(eval(repr(tau))) == hash(tau)


@quick
@given(st.integers(5, 10**5), st.floats(0, 1e4), st.integers(0, 10**9))
def test_the_theorem_s_delay_is_the_recipe_with_four_logarithms(m: int, m1: float, t: int) -> None:
    m0 = (m + 1) ** 2 / 4
    written = m1 + math.sqrt((t + m0) / (4 * math.log(t + m0)))
    assert StronglyConvexDelay(m, m1)(t) == pytest.approx(written, rel=1e-14)
    assert RecipeDelay(2, LogGamma(4), m0, m1)(t) == pytest.approx(written, rel=1e-14)


@pytest.mark.parametrize(
    ("tau", "steady"),
    [
        (PowerDelay(1, 0.5), True),
        (PowerDelay(1.01, 0.5), False),
        (PowerDelay(3, 0.5, shift=2), True),
        (PowerDelay(3, 0.5, shift=1), False),
        (PowerDelay(1, 1), True),
        (PowerDelay(0.001, 1.1), False),
    ],
)
def test_a_power_is_known_to_be_steady_only_if_its_first_step_is_at_most_one(tau: Delay, steady: bool) -> None:
    assert tau.steady_from() == (0.0 if steady else math.inf)


def test_a_function_of_one_label_becomes_a_delay() -> None:
    tau = OwnDelay(lambda t: 3 + (t > 5))
    assert tau(np.array([[0, 9]])).tolist() == [[3.0, 4.0]] and tau(-7) == 3.0 and tau.steady_from() == math.inf
    assert tau.lifted(2) == LiftedDelay(tau, 2) and tau.lifted(2)(9) == 6.0 and tau.lifted(2).lifted(1)(9) == 7.0


def test_the_theorem_s_constant_is_the_largest_of_its_three() -> None:
    assert StronglyConvexDelay.theorem_m1(d=99, L=1, mu=1, s0=50) == 100.0
    assert StronglyConvexDelay.theorem_m1(d=1, L=1, mu=0.5, s0=50) == 144.0
    assert StronglyConvexDelay.theorem_m1(d=1, L=1, mu=1, s0=1001) == 500.5
    assert StronglyConvexDelay.theorem_m1(d=1, L=1, mu=1, s0=1, alpha=12) == 24.0


def test_what_the_theory_lets_grow_at_twenty_thousand_gradients() -> None:
    assert growth_limit(20_000) == pytest.approx(42.61, abs=0.01)
    assert math.sqrt(20_000 / math.log(20_000)) == pytest.approx(44.94, abs=0.01)


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: ConstantDelay(0), "tau must be more than 0"),
    (lambda: ConstantDelay(math.inf), "tau must be a finite number"),
    (lambda: ConstantDelay(1)(math.nan), "a label must be a number, got nan"),
    (lambda: ConstantDelay(1)("3"), "a label must be a number, got '3'"),  # type: ignore[call-overload]
    (lambda: PowerDelay(-1, 0.5), "scale must be 0 or more"),
    (lambda: PowerDelay(1, math.nan), "power must be a finite number"),
    (lambda: RecipeDelay(2, LogGamma(4), 7, 1), "m0 must be 7.38906 or more"),
    (lambda: RecipeDelay(1, ConstantGamma(), 1, 1), "g must be more than 1"),
    (lambda: RecipeDelay(2, 4, 1, 1), "gamma must be a Gamma"),  # type: ignore[arg-type]
    (lambda: LogGamma(0), "scale must be more than 0"),
    (lambda: StronglyConvexDelay(4, 1), "m must be 5 or more"),
    (lambda: StronglyConvexDelay(9, -1), "m1 must be 0 or more"),
    (lambda: OwnDelay(5), "must be a function of t"),  # type: ignore[arg-type]
    (lambda: LiftedDelay(5, 1), "base must be a Delay"),  # type: ignore[arg-type]
    (lambda: StronglyConvexDelay.theorem_m1(0, 1, 2, 1), "mu cannot exceed L"),
    (lambda: StronglyConvexDelay.theorem_m1(0, 1, 0, 1), "mu must be more than 0"),
    (lambda: StronglyConvexDelay.theorem_m1(0.5, 1, 1, 1), "d must be a whole number"),  # type: ignore[arg-type]
    (lambda: growth_limit(2), "t must be 7.38906 or more"),
]


@pytest.mark.parametrize(("make", "says"), BAD, ids=[row[1] for row in BAD])
def test_a_bad_parameter_is_refused_in_one_sentence(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)
