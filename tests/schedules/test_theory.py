"""What the theory promises, held to the formulas written out: masks' factor D, from where the bound holds, constant steps."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.schedules import ConstantSizes, ConstantSteps, StronglyConvexDelay, certify, growth_limit, upper_bound
from crescendo.schedules.convergence import log_t0
from crescendo.schedules.theory import ConstantRate, Theorem
from tests import paper

quick = settings(deadline=None, max_examples=40)
curvatures = st.tuples(st.floats(1e-2, 1e2), st.floats(1e-4, 1)).map(lambda pair: (pair[0], pair[0] * pair[1]))


@quick
@given(curvatures, st.integers(0, 5), st.integers(1, 10**6), st.integers(1, 64))
def test_m1_and_the_bound_carry_the_number_of_blocks(
    curvature: tuple[float, float], d: int, s0: int, blocks: int
) -> None:
    L, mu = curvature
    m1 = StronglyConvexDelay.theorem_m1(d, L, mu, s0, blocks=blocks)
    assert m1 == pytest.approx(paper.theorem_m1(d, L, mu, s0, blocks), rel=1e-14)
    assert 2 * StronglyConvexDelay(6317, m1)(0) >= 4 * L * 36 * blocks / mu, "E >= 4 L alpha D / mu"
    for t in (1, 1000, 10**9):
        written = paper.theorem_bound(t, 2.0, mu, 6317, m1, blocks)
        assert upper_bound(t, 2.0, mu, 6317, m1, blocks) == pytest.approx(written, rel=1e-12)
        assert Theorem(L, mu, 6317, m1, blocks).upper_bound(t, 2.0) == upper_bound(t, 2.0, mu, 6317, m1, blocks)


@quick
@given(curvatures, st.integers(5, 10**6), st.integers(1, 64))
def test_t0_is_the_paper_s_for_the_theorem_s_own_m1(curvature: tuple[float, float], m: int, blocks: int) -> None:
    L, mu = curvature
    m1 = StronglyConvexDelay.theorem_m1(1, L, mu, 50, blocks=blocks)
    found = log_t0(L, mu, m, m1)
    assert found == pytest.approx(paper.exponent_of_T0(L, mu)) and found >= 146
    if found < 700:
        t = math.exp(found)
        assert StronglyConvexDelay(m, m1)(t) <= growth_limit(t), "[tau1] holds from T0 on"


@pytest.mark.parametrize("m1", [0.0, 1e30, 1e40, 1e200, 1.7e308])
def test_t0_waits_until_a_large_m1_is_within_what_delays_may_grow_to(m1: float) -> None:
    found = log_t0(1, 1, 6317, m1)
    ends = [log / 2 - math.log(log) / 2 + math.log1p(-1 / log) / 2 for log in (found, found - 1)]
    tau = [np.logaddexp(math.log(m1 or 1e-300), (log - math.log(4 * log)) / 2) for log in (found, found - 1)]
    assert tau[0] <= ends[0] and (tau[1] > ends[1] or found == 146)
    assert log_t0(1e300, 1e-300, 6317, m1) == math.inf


def test_a_certificate_says_from_where_the_bound_holds_and_whether_the_run_comes_so_far() -> None:
    own = Theorem(1, 0.5, 6317, 288, blocks=2, bounds=True)
    said = str(certify(ConstantSizes(9), 5, d=0, theorem=own))
    assert "m = 6317, M1 = 288, D = 2 blocks included" in said and "8 36^2 D G / mu^2" in said
    assert "T0 is about 10^95, which this run does not reach" in said  # e^(2 (1 + 3 * 36))
    said = str(certify(ConstantSizes(9), 5, d=0, theorem=Theorem(1, 0.5, 6317, 144)))
    assert "M1 = 144." in said and "not about this run" in said and "T0" not in said
    said = str(certify(ConstantSizes(9000), 5, d=0, theorem=own))
    assert "goes beyond it" in said and "T0" not in said


rates = st.builds(
    lambda curvature, share, tau, d: ConstantRate(
        share * ConstantSteps.largest(curvature[0], curvature[1], tau), curvature[0], curvature[1], tau, d
    ),
    curvatures,
    st.floats(0.01, 100),
    st.integers(0, 10**5),
    st.none() | st.integers(0, 3),
)


@quick
@given(rates, st.integers(0, 10**6), st.floats(0, 10))
def test_a_constant_step_is_held_to_the_conditions_and_the_rate_written_out(
    rate: ConstantRate, t: int, first: float
) -> None:
    step, delay = rate.conditions()
    assert step.holds == (rate.eta * rate.smooth <= paper.largest_a(rate.smooth, rate.convex, rate.tau) * (1 + 1e-12))
    assert delay.holds == (rate.tau <= 1 / (rate.eta * rate.convex))
    assert rate.holds == (step.holds and delay.holds)
    if rate.holds:
        assert 0 < rate.rho <= 0.2
        written = paper.constant_step_bound(t, first, 3.0, rate.eta, rate.smooth, rate.convex, rate.tau)
        assert rate.bound(t, first, 3.0) == pytest.approx(written, rel=1e-9)
        assert f"{rate.rho:.4g}" in " ".join(rate.notes())
        return
    (note,) = rate.notes()
    found = re.search(r"eta = (\S+) would pass", note)
    assert found is not None
    better = ConstantRate(float(found[1]), rate.smooth, rate.convex, rate.tau)
    assert better.holds and better.eta > 0.9998 * min(step.left, 1 / (rate.convex * max(rate.tau, 1e-9)))


def test_the_rate_of_a_constant_step_bounds_exact_sgd_and_the_printed_rho_does_not() -> None:
    """f(w; x) = sum_j h_j (w_j - x_j)^2 / 2 with x_j of mean 0 and variance v_j: E w_j^2 follows exactly."""
    h, v, eta, w = np.array([1.0, 0.01]), np.array([1.0, 4.0]), 0.1, np.array([3.0, 30.0])
    L, mu, G = 1.0, 0.01, 2 * float(np.sum(h**2 * v))
    rate, squares, first = ConstantRate(eta, L, mu, tau=0, d=0), w**2, float(np.sum(w**2))
    assert rate.holds
    b, broken = rate.spread * G, False
    for t in range(3000):
        distance = float(squares.sum())
        assert distance <= rate.bound(t, first, G)
        printed = max(0.0, 1 - eta * L * L / mu)  # rho = a L / mu
        broken |= distance > 2 * printed**t * first + b
        squares = (1 - eta * h) ** 2 * squares + eta**2 * h**2 * v
    assert broken


def test_a_certificate_of_a_constant_step_says_what_would_pass() -> None:
    found = certify(ConstantSizes(20), 30, d=1).against(ConstantRate(0.5, 1.0, 0.1, 40, d=1))
    assert [one.holds for one in found.conditions] == [False, False]
    assert "over the run" in str(found) and "rounds of 10 gradients would keep" in str(found)
    found = certify(ConstantSizes(20), 30, d=1).against(ConstantRate(0.001, 1.0, 0.1, 40, d=1))
    assert [one.holds for one in found.conditions] == [True, True] and "2 (1 - 0.0001)^t" in str(found)
