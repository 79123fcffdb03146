"""Sums of clipped gradients: against a loop, at every size of a float, in any order and company."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from crescendo.core.arrays import Array, Floats
from crescendo.objectives.base import clipped
from crescendo.objectives.layer_clips import LayerClips
from crescendo.objectives.neural.clipping import ClippedSum, Parts

pytestmark = pytest.mark.slow  # to compile takes seconds where it was not done before

RNG = np.random.default_rng(0)
SIZES = (1, 3, 0, 5000)
CLIP, UNIT = 0.7, 2.0**-41


def parts(rows: Array) -> Parts:
    return np.split(rows, np.cumsum(SIZES)[:-1], axis=1)


def summed(rows: Array, clip: float = CLIP, unit: float = UNIT) -> Floats:
    found = ClippedSum(SIZES, LayerClips(((sum(SIZES), clip),)) if clip < np.inf else None, unit)
    found.add(parts(rows))
    return found.total


def rows(count: int, dtype: Any, power: float) -> Array:
    """Gradients of all lengths around ``10^power``, some of them 0 in one part."""
    made = RNG.normal(size=(count, sum(SIZES))) * 10.0 ** (power + RNG.uniform(-3, 1, (count, 1)))
    made[::3, 1:4] = 0.0
    return made.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("power", [-30, 0, 30])
@pytest.mark.parametrize("unit", [0.0, UNIT])
def test_a_sum_is_that_of_a_loop(dtype: Any, power: float, unit: float) -> None:
    some = rows(7, dtype, power)
    due = sum(clipped(row.astype(np.float64), CLIP) for row in some)
    np.testing.assert_allclose(summed(some, unit=unit), due, rtol=1e-12, atol=4 * unit + 1e-15)


@pytest.mark.parametrize("power", [-320, -200, -160, 0, 100, 150, 200, 300])
@pytest.mark.parametrize("clip", [1e-60, 1.0, 1e60])
def test_at_every_size_of_a_float_a_record_adds_whole_units_and_not_more_than_the_clip(power: int, clip: float) -> None:
    unit = 2.0 ** (np.floor(np.log2(clip)) - 40)
    for row in rows(5, np.float64, power):
        added = summed(row[None], clip, unit)
        np.testing.assert_array_equal(added / unit, np.rint(added / unit))
        assert np.linalg.norm(added / clip) <= 1 + np.sqrt(row.size) / 2 * unit / clip + (row.size + 8) * 2.0**-53
        due = clipped(row, clip)
        np.testing.assert_allclose(added / clip, due / clip, rtol=1e-12, atol=unit / clip)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_record_more_adds_its_own_bits_wherever_it_stands(dtype: Any) -> None:
    some = rows(9, dtype, 0)
    some[4] = 3e38 if dtype is np.float32 else 1e305  # one whose squares overflow, if they can
    alone = [summed(row[None]) for row in some]
    for order in itertools.islice(itertools.permutations(range(9)), 0, 400, 57):
        np.testing.assert_array_equal(summed(some[list(order)]), sum(alone))
    for k in range(9):
        np.testing.assert_array_equal(summed(some) - summed(np.delete(some, k, axis=0)), alone[k])


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("clip", [CLIP, np.inf])
def test_one_that_is_not_finite_counts_as_nothing_and_harms_no_other(number: float, dtype: Any, clip: float) -> None:
    some = rows(4, dtype, 0)
    due = summed(some[[0, 1, 3]], clip)
    for j in (0, 2, 17):
        some[2, j] = number
        np.testing.assert_array_equal(summed(some, clip), due)


def test_how_rows_lie_in_memory_changes_no_bit() -> None:
    some = rows(6, np.float32, 0)
    due = summed(some)
    apart = np.asfortranarray(some)
    apart.flags.writeable = False
    np.testing.assert_array_equal(summed(apart), due)
    np.testing.assert_array_equal(sum(summed(row[None]) for row in some), due)
