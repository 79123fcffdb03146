"""The rule behind `steps = "auto"`, as arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crescendo.schedules.auto_steps import MEASURED, NOISE, UNBOUNDED, AutoSteps, Curvatures, Limit

KNOWN = Curvatures(record=2.0, mean=0.5, known_by="as an example")
ROUNDS = st.lists(st.integers(1, 10**6), min_size=1, max_size=30)
POSITIVE = st.floats(1e-6, 1e6)


@given(ROUNDS, POSITIVE, POSITIVE, st.floats(0, 1), st.booleans())
def test_no_round_passes_a_limit(sizes: list[int], record: float, mean: float, share: float, noisy: bool) -> None:
    sums, late = np.cumsum([0, *sizes]), share * np.array(sizes, dtype=np.float64)
    noise = np.ones(len(sizes)) if noisy else None
    steps = AutoSteps(Curvatures(record, mean, ""), sums, late, noise).chosen().steps
    etas, slack = steps.at(sums[:-1]), 1 + 1e-6
    assert etas[0] * record <= MEASURED.alone * slack
    assert np.max(etas * late * mean) <= MEASURED.together * slack
    if noisy:
        assert np.linalg.norm(etas) <= NOISE * slack


def test_the_tightest_limit_is_met_and_named() -> None:
    sums = np.array([0, 500, 1500, 3000])
    free = AutoSteps(KNOWN, sums, np.zeros(3)).chosen()
    assert free.steps.eta0 == MEASURED.alone / 2 and "a single step" in free.why
    held = AutoSteps(KNOWN, sums, np.array([400.0, 800.0, 1200.0])).chosen()
    pushes = held.steps.at(sums[:-1]) * np.array([400.0, 800.0, 1200.0]) * KNOWN.mean
    assert pushes.max() == pytest.approx(MEASURED.together, rel=0.01) and f"round {pushes.argmax()}" in held.why
    drowned = AutoSteps(KNOWN, sums, np.zeros(3), np.full(3, 1e4)).chosen()
    assert "the noise" in drowned.why and drowned.steps.eta0 < 1e-3
    capped = AutoSteps(KNOWN, sums, np.zeros(3), caps=(Limit(0.01, "a cap"),)).chosen()
    assert capped.steps.eta0 == 0.01 and "a cap" in capped.why


@given(ROUNDS, POSITIVE, st.floats(0, 1))
def test_the_length_of_a_run_is_the_sum_of_the_steps_that_it_takes(sizes: list[int], mean: float, share: float) -> None:
    sums = np.cumsum([0, *sizes])
    rule = AutoSteps(Curvatures(1.0, mean, ""), sums, share * np.array(sizes, dtype=np.float64))
    taken = float(np.sum(rule.chosen().steps.at(sums[:-1]) * np.array(sizes)))
    assert taken == pytest.approx(rule.length, rel=0.02)  # the steps are rounded to three figures


def test_more_noise_never_means_larger_steps() -> None:
    sums = np.array([0, 10, 30, 60])
    found = [AutoSteps(KNOWN, sums, np.zeros(3), np.full(3, sigma)).chosen().steps.eta0 for sigma in (1, 10, 100, 1000)]
    assert found == sorted(found, reverse=True) and found[-1] < found[0]


def test_where_gradients_are_not_bounded_steps_stay_stable() -> None:
    """On the quadratic h w^2 / 2 the chosen step shrinks every error: |1 - eta h| < 1."""
    known = Curvatures(3.0, 3.0, "", UNBOUNDED)
    steps = AutoSteps(known, np.array([0, 100]), np.array([80.0])).chosen().steps
    assert abs(1 - steps.eta0 * 3.0) < 1 and steps.eta0 * 3.0 * 80 <= 1
