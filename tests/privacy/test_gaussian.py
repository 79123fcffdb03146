"""A release is the ideal Gaussian's, rounded to the grid: exactly, for every number, and no value tells what was hidden."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from crescendo.errors import UsageError
from crescendo.privacy.mechanisms import gaussian
from crescendo.privacy.mechanisms.gaussian import (
    CELL_BITS,
    MOST_MULTIPLES,
    QUANTILE_ERROR,
    _tail,
    grid,
    noised,
    word_of,
)
from crescendo_dp import PoissonGaussian, account, audit
from tests.soak import times

SCALES = (1e-200, 3.1e-60, 0.7, 1.0, 1.9999999, 4e9, 1e200)


def more(number: int) -> Iterator[int]:
    bits = random.Random(number)
    return (bits.getrandbits(64) for _ in itertools.count())


def always(word: int) -> Callable[[int], Iterator[int]]:
    return lambda number: itertools.repeat(word)


def counted(word: int, taken: Iterator[int]) -> Callable[[int], Iterator[int]]:
    return lambda number: (word for _ in taken)


def words(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


def uniform(word: int, number: int, further: int = 4) -> Fraction:
    """The first 53 + 64 * further bits of the uniform number that ends in the lower half, as the middle of their cell."""
    cell = word >> (65 - CELL_BITS)
    for extra in itertools.islice(more(number), further):
        cell = (cell << 64) | extra
    return Fraction(2 * cell + 1, 1 << (CELL_BITS + 64 * further + 1))


def nearest(x: float, scale: float, word: int, number: int) -> Fraction:
    """The literal definition at 90 digits: the quantile by mpmath, the multiple by fractions."""
    with mpmath.workdps(90):
        u = uniform(word, number)
        z = mpmath.findroot(
            lambda z: mpmath.log(mpmath.ncdf(z)) - mpmath.log(mpmath.mpf(u.numerator) / u.denominator),
            float(ndtri(float(u))),
        )
        mantissa = mpmath.nint(z * mpmath.mpf(2) ** 280)
    exact = Fraction(int(mantissa), 2**280) * (-1 if word & 1 else 1)
    g = Fraction(grid(scale))
    return round((Fraction(x) + Fraction(scale) * exact) / g) * g


@pytest.mark.slow
def test_every_number_is_the_multiple_nearest_to_the_ideal_sum() -> None:
    rng = np.random.default_rng(1)
    for scale in SCALES:
        x = rng.choice([0.0, 1.0, -1e3, 2.0**28, MOST_MULTIPLES * 2.0**-21], 6) * scale * rng.uniform(0.5, 1, 6)
        drawn = words(6, seed=2)
        for j, release in enumerate(noised(x, scale, drawn, more)):
            assert Fraction(release) == nearest(float(x[j]), scale, int(drawn[j]), j)


@pytest.mark.slow
def test_numbers_that_are_decided_by_interval_arithmetic_are_those_that_floats_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, drawn = np.random.default_rng(3).normal(size=40), words(40)
    fast = noised(x, 1.3, drawn, more)
    monkeypatch.setattr(gaussian, "QUANTILE_ERROR", 1.0)  # then every number is in doubt
    np.testing.assert_array_equal(noised(x, 1.3, drawn, more), fast)


def test_a_number_at_the_edge_of_two_multiples_is_decided_by_further_bits() -> None:
    """The quantile of the middle of the cell is put on the edge: bits above the middle go one way, bits below the other."""
    word, scale = (2**30 << (65 - CELL_BITS)) | 1, 1.0  # in the tail a cell is wide enough to be cut in two by a float
    edge = (round(5e6) + 0.5) * grid(scale)
    middle = -float(ndtri((word >> (65 - CELL_BITS)) * 2.0**-CELL_BITS + 2.0 ** -(CELL_BITS + 1)))
    x = np.array([edge - middle])
    ends = [noised(x, scale, np.array([word], dtype=np.uint64), always(e)) for e in (0, 2**64 - 1)]
    assert {round(float((end[0] - edge) / grid(scale) * 2)) for end in ends} == {-1, 1}


def test_the_cell_at_the_far_end_is_always_refined_and_never_runs_without_end() -> None:
    for word in (0, 1):
        for bits in (0, 1, 2**63):
            taken = itertools.count()
            found = noised(np.zeros(1), 1.0, np.array([word], dtype=np.uint64), counted(bits, taken))
            assert 8.2 < abs(found[0]) < 40 and (found[0] > 0) == bool(word) and 1 <= next(taken) <= 9


def test_pieces_and_order_change_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    x, drawn = np.random.default_rng(3).normal(size=1000), words(1000)
    whole = noised(x, 1e-3, drawn, more)
    monkeypatch.setattr(gaussian, "_CHUNK", 7)
    np.testing.assert_array_equal(noised(x, 1e-3, drawn, more), whole)


@given(
    scale=st.sampled_from(SCALES),
    hidden=st.floats(-1e6, 1e6),
    moved=st.floats(-2, 2),
    multiple=st.integers(-(7 << 20), 7 << 20),
)
def test_any_value_within_reach_of_the_noise_is_reached_with_and_without_a_record(
    scale: float, hidden: float, moved: float, multiple: int
) -> None:
    """The attack on the lattice: a value that one sum can send and another cannot would tell which of the two it was."""
    g = grid(scale)
    for x in (hidden * scale, (hidden + moved) * scale):
        target = round(x / g) + multiple
        z = np.array([(target * g - x) / scale])
        found = {noised(np.array([x]), scale, word_of(z), always(e))[0] for e in (0, 2**63, 2**64 - 1)}
        assert any(abs(value / g - target) <= 1e-9 * abs(z[0]) * 2**20 + 1 for value in found)
        assert all(value / g == round(value / g) for value in found)


@pytest.mark.parametrize("x", [-0.5, 0.0, -6.5, -7.0])
def test_a_zero_has_no_sign(x: float) -> None:
    """The sign of a float's zero is the sign of a float's error, which the ideal sum does not have."""
    z = -x + np.linspace(-1, 1, 201) * grid(1.0)
    found = noised(np.full(201, x), 1.0, word_of(z), more)
    zeros = found[found == 0]
    assert len(zeros) > 5 and not np.signbit(zeros).any()


def test_numbers_beyond_what_is_certified_are_cut_and_nothing_fails() -> None:
    found = noised(np.array([1e308, -1e308]), 1.0, words(2), more)
    assert ((np.abs(found) < MOST_MULTIPLES * grid(1.0) * 1.001).all() and found[0] == -found[1]) or np.isfinite(
        found
    ).all()


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-210, 1e210, np.inf, np.nan, -1.0])
def test_a_scale_that_carries_no_noise_is_refused(scale: float) -> None:
    with pytest.raises(UsageError, match="cannot be drawn exactly"):
        noised(np.zeros(1), scale, words(1), more)


def quantile_holds(u: Any) -> Any:
    """Whether scipy's quantile of each u has the relative error that is assumed: Phi a little to either side brackets u."""
    with mpmath.workdps(40):
        found = []
        for value, z in zip(u.tolist(), ndtri(u).tolist(), strict=True):
            exact, allowed = mpmath.mpf(z), mpmath.mpf(z) * QUANTILE_ERROR
            found.append(mpmath.ncdf(exact + allowed) <= value <= mpmath.ncdf(exact - allowed))
    return np.array(found)


def quantile_points(count: int, seed: int) -> Any:
    """Middles of cells: everywhere, in the tail, next to 1/2, and around the points where scipy changes its formula."""
    rng = np.random.default_rng(seed)
    most = 2.0 ** (CELL_BITS - 1) - 1
    branches = np.concatenate(
        [np.exp(-2.0) + np.arange(-50, 50) * 2.0**-53, np.exp(-32.0) * (1 + np.arange(-50, 50) * 1e-4)]
    )
    cells = np.concatenate(
        [
            rng.integers(0, int(most), count // 2),
            np.floor(2.0 ** rng.uniform(0, CELL_BITS - 1, count // 2)),
            most - np.floor(2.0 ** rng.uniform(0, CELL_BITS - 2, count // 10)),
            np.floor(branches * 2.0**CELL_BITS),
            np.arange(64),
            most - np.arange(64),
        ]
    )
    return (np.clip(cells, 0, most) + 0.5) * 2.0**-CELL_BITS


@pytest.mark.slow
def test_scipys_quantile_is_as_exact_as_is_assumed() -> None:
    assert quantile_holds(quantile_points(3000, seed=0)).all()


@pytest.mark.soak
def test_scipys_quantile_is_as_exact_as_is_assumed_at_a_million_points() -> None:
    for seed in range(times(100)):
        assert quantile_holds(quantile_points(10_000, seed)).all()


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=30))
def test_the_bounds_on_a_tail_hold(b: Fraction) -> None:
    low, high = _tail(b, 200)
    with mpmath.workdps(150):
        exact = mpmath.ncdf(-mpmath.mpf(b.numerator) / b.denominator)
        assert mpmath.mpf(low.numerator) / low.denominator <= exact <= mpmath.mpf(high.numerator) / high.denominator
    assert high - low < Fraction(1, 2**290)


@pytest.mark.slow
def test_the_last_bits_of_a_noised_number_do_not_give_a_record_away() -> None:
    """Noise drawn as a float and added to a float does (Mironov 2012); see ``dp/tests/test_black_box.py``."""

    def exact(records: Any, rng: np.random.Generator, runs: int) -> Any:
        clipped = records / np.maximum(np.linalg.norm(records, axis=1, keepdims=True), 1)
        words = rng.integers(0, 2**64, 3 * runs, dtype=np.uint64)
        sums = np.tile(clipped.sum(axis=0), runs)
        return gaussian.noised(sums, 2.0, words, lambda j: iter([0] * 8)).reshape(runs, 3)

    exact.many = exact  # type: ignore[attr-defined]
    epsilon = account([PoissonGaussian(1.0, 2.0)], 1e-5).epsilon
    found = audit(exact, epsilon, 1e-5, records=np.zeros((2, 3)), floats=True, runs=100_000)
    assert found.passed and not found.notes
