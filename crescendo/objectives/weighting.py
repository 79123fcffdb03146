"""Means over records: row weights, and weighted sums of gradients over a bounded number of records at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints, Vector
from crescendo.errors import UsageError
from crescendo.objectives.base import Objective

if TYPE_CHECKING:
    from crescendo.data.records import Records


@runtime_checkable
class _KnowsMeanGradient(Protocol):
    def mean_gradient(self, w: Vector, data: Records, weighted: npt.ArrayLike | None = None) -> Floats: ...


def weights_of_rows(parts: Sequence[Ints], weights: Sequence[float] | Floats, count: int) -> Floats:
    """Return the weight of each record in F = sum_c p_c F_c: p_c / N_c for a record of client c; they sum to 1.

    >>> weights_of_rows([np.array([0]), np.array([1, 2])], [0.5, 0.5], count=3)
    array([0.5 , 0.25, 0.25])
    """
    rows = np.zeros(count)
    for part, weight in zip(parts, weights, strict=True):
        np.add.at(rows, part, weight / len(part))
    return rows


def shares(weighted: npt.ArrayLike | None, count: int) -> Floats | None:
    """Return row weights that sum to 1, or None if they are equal up to rounding.

    >>> shares([3, 1], 2), shares([0.1 + 0.2, 0.3], 2)
    (array([0.75, 0.25]), None)
    """
    if not count:
        raise UsageError("there are no records to average over; ask for a test part with at least one record")
    if weighted is None:
        return None
    weights = np.asarray(weighted, dtype=np.float64)
    if weights.shape != (count,):
        raise UsageError(f"{count} records need {count} row weights, got an array of shape {weights.shape}")
    total = float(weights.sum())
    if not (weights.min() >= 0 and 0 < total < math.inf):
        raise UsageError("row weights must be finite, not negative and not all zero")
    return None if np.ptp(weights) <= 1e-13 * weights.max() else weights / total


def mean_gradient(objective: Objective, w: Vector, data: Records, weighted: npt.ArrayLike | None = None) -> Floats:
    """Return the gradient of ``evaluate``'s loss, L2 included, by the objective's own faster method if it has one."""
    if isinstance(objective, _KnowsMeanGradient):
        return objective.mean_gradient(w, data, weighted)
    return weighted_sum(lambda rows: objective.gradient(w, data, rows), len(data), weighted) + objective.traits.l2 * w


def levels(weighted: npt.ArrayLike | None, count: int) -> Iterator[tuple[float, Ints]]:
    """Yield groups of records of equal weight with the weight: one group in all, or one per client if p_c / N_c differ.

    >>> [(weight, rows.tolist()) for weight, rows in levels([2, 1, 1], 3)]
    [(0.25, [1, 2]), (0.5, [0])]
    """
    weights = shares(weighted, count)
    if weights is None:
        yield 1 / count, np.arange(count)
        return
    rounded = np.round(weights / weights.max(), 12)
    for level in np.unique(rounded):
        rows = np.flatnonzero(rounded == level)
        yield float(weights[rows].mean()), rows


def weighted_sum(
    summed: Callable[[Ints], Vector], count: int, weighted: npt.ArrayLike | None, at_once: int = 256
) -> Floats:
    """Return the weighted sum of ``count`` records' gradients; ``summed`` gives plain sums of at most ``at_once``.

    >>> weighted_sum(lambda rows: np.array([float(rows.sum())]), 3, [2, 1, 1])
    array([0.75])
    """
    parts = (
        weight * np.asarray(summed(rows[first : first + at_once]), dtype=np.float64)
        for weight, rows in levels(weighted, count)
        for first in range(0, len(rows), at_once)
    )
    return np.asarray(sum(parts), dtype=np.float64)
