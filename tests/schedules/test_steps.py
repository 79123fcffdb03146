"""Step sizes, the limits on constant ones, and the bounds drawn beside a run."""

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
    ConstantSteps,
    CurvatureSteps,
    DiminishingSteps,
    Steps,
    StronglyConvexDelay,
    StronglyConvexSizes,
    TheoremSteps,
    lower_bound,
    upper_bound,
)

quick = settings(deadline=None, max_examples=40)
KINDS: list[Steps] = [
    ConstantSteps(0.0025),
    DiminishingSteps(0.1, 0.001),
    DiminishingSteps(0.1, 0.01, root=True, per="slot"),
    CurvatureSteps(0.1, 0.5),
    TheoremSteps(mu=0.1, m=100, m1=720),
]
every_kind = pytest.mark.parametrize("steps", KINDS, ids=repr)


@every_kind
def test_an_array_of_labels_gives_what_each_label_gives_and_steps_never_grow(steps: Steps) -> None:
    labels = np.array([0, 1, 2, 50, 10**6, 10**12])
    etas = steps.at(labels)
    assert etas.dtype == np.float64 and etas.tolist() == [steps.at(int(t)) for t in labels]
    assert (etas > 0).all() and (np.diff(etas) <= 0).all()
    assert isinstance(steps.at(3), float) and steps.at(np.array([], np.int64)).shape == (0,)


@every_kind
def test_steps_print_compare_and_pickle(steps: Steps) -> None:
    assert eval(repr(steps)) == steps == pickle.loads(pickle.dumps(steps)) and hash(steps) == hash(eval(repr(steps)))


def test_a_schedule_says_whether_it_steps_down_by_slot_or_by_round() -> None:
    assert [steps.per for steps in KINDS] == ["round", "round", "slot", "round", "round"]


def test_the_theorem_s_round_steps_are_written_out() -> None:
    mu, m, m1, t = 0.1, 6317, 720.0, 12345
    m0 = (m + 1) ** 2 / 4
    eta = 12 / mu / (t + 2 * m1 + math.sqrt((m0 + t) / math.log(m0 + t)))
    assert TheoremSteps(mu, m, m1).at(t) == pytest.approx(eta, rel=1e-14)


@quick
@given(st.integers(0, 4), st.integers(0, 3000), st.floats(1e-3, 1))
def test_round_steps_are_slot_steps_with_alpha_between_12_and_36(d: int, extra: int, mu: float) -> None:
    """Paper [lemstep]: eta_i = alpha_t / (mu (t + 2 tau(t))) with 12 <= alpha_t <= 36 at every label t of round i."""
    m = StronglyConvexSizes.least_m(d) + extra
    sizes = StronglyConvexSizes(d, m)
    m1 = StronglyConvexDelay.theorem_m1(d, 1, mu, sizes(0))
    tau, steps = StronglyConvexDelay(m, m1), TheoremSteps(mu, m, m1)
    for i in [*range(50), 1000, 3000]:
        labels = np.arange(sizes.before(i), sizes.before(i + 1))
        alpha = steps.at(sizes.before(i)) * mu * (labels + 2 * tau(labels))
        assert alpha.min() >= 12 * (1 - 1e-12) and alpha.max() <= 36


@quick
@example(L=1.0, share=0.5, tau=5e-324, sparsity=1.0)  # mu tau is 0 in floats
@given(st.floats(1e-2, 1e3), st.floats(1e-3, 1), st.floats(0, 1e6), st.floats(1e-3, 1))
def test_the_largest_constant_step_meets_both_of_its_bounds_and_one_with_equality(
    L: float, share: float, tau: float, sparsity: float
) -> None:
    mu = share * L
    eta = ConstantSteps.largest(L, mu, tau, sparsity)
    root = math.sqrt(sparsity)
    a = 1 / (5 * (1 + 2 * tau * root) * math.sqrt(1 + mu / (2 * L) * min(1 / root, tau)))
    assert eta * L <= a * (1 + 1e-12) and tau * eta * mu <= 1 + 1e-12
    assert eta * L == pytest.approx(a) or tau * eta * mu == pytest.approx(1)


@quick
@given(st.floats(1e-4, 1), st.floats(1e-4, 1), st.integers(0, 20))
def test_the_largest_constant_size_is_within_the_bound_and_the_next_is_not(eta: float, mu: float, d: int) -> None:
    if eta * mu * (d + 1) > 1:
        with pytest.raises(UsageError, match="no size is within"):
            ConstantSteps(eta).largest_size(mu, d)
        return
    size = ConstantSteps(eta).largest_size(mu, d)
    assert size * eta * mu * (d + 1) <= 1 + 1e-11 and (size + 1) * eta * mu * (d + 1) > 1


def test_a_whole_bound_on_the_size_is_reached() -> None:
    assert ConstantSteps(0.1).largest_size(0.1, 0) == 100 and ConstantSteps(0.01).largest_size(0.07, 0) == 1428


def test_the_bounds_differ_by_less_than_the_theorem_s_factor() -> None:
    t = np.array([1, 100, 10**6, 10**12])
    upper, lower = upper_bound(t, 2.0, 0.1, 6317, 720), lower_bound(t, 2.0, 0.1)
    assert (upper <= 16 * 36**2 * lower).all()
    assert upper[-1] / lower[-1] == pytest.approx(16 * 36**2, rel=1e-5)
    assert upper_bound(100, 2.0, 0.1, 6317, 720) == upper[1] and lower_bound(100, 2.0, 0.1) == lower[1]
    m0 = 6318**2 / 4
    written = 8 * 36**2 * 2 / 0.1**2 * 100 / (100 + 2 * 720 + math.sqrt((m0 + 100) / math.log(m0 + 100)) - 1) ** 2
    assert upper[1] == pytest.approx(written, rel=1e-13)


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: ConstantSteps(0), "eta must be more than 0"),
    (lambda: ConstantSteps(math.nan), "eta must be a finite number"),
    (lambda: ConstantSteps(0.1).at(-1), "a label must be 0 or more, got -1"),
    (lambda: ConstantSteps(0.1).at(math.nan), "a label must be 0 or more"),
    (lambda: ConstantSteps(0.1).at(True), "a label must be 0 or more"),
    (lambda: ConstantSteps(0.1).at(np.array([0, -2])), "a label must be 0 or more"),
    (lambda: DiminishingSteps(0.1, -1), "beta must be 0 or more"),
    (lambda: DiminishingSteps(0.1, 1, root=1), "root must be true or false"),  # type: ignore[arg-type]
    (lambda: DiminishingSteps(0.1, 1, per="step"), 'per must be "slot" or "round"'),  # type: ignore[arg-type]
    (lambda: CurvatureSteps(0.1, 1.5), "h must be 1 or less"),
    (lambda: TheoremSteps(0.1, 4, 1), "m must be 5 or more"),
    (lambda: TheoremSteps(0.1, 5.0, 1), "m must be a whole number"),  # type: ignore[arg-type]
    (lambda: ConstantSteps.largest(1, 2, 0), "mu must be 1 or less"),
    (lambda: ConstantSteps.largest(1, 1, -1), "tau must be 0 or more"),
    (lambda: ConstantSteps.largest(1, 1, 1, 0), "Delta must be more than 0"),
    (lambda: ConstantSteps(0.1).largest_size(0.1, -1), "d must be 0 or more"),
    (lambda: lower_bound(0, 1, 1), "after t > 0 gradients"),
    (lambda: upper_bound(np.array([1, 0]), 1, 1, 9, 9), "after t > 0 gradients"),
    (lambda: upper_bound(1, math.nan, 1, 9, 9), "G must be a finite number"),
]


@pytest.mark.parametrize(("make", "says"), BAD, ids=[row[1] for row in BAD])
def test_a_bad_parameter_is_refused_in_one_sentence(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)
