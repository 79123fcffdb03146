"""The compiled loop that adds clipped gradients: one record a row, norms in float64, each multiple of the unit exact."""

from __future__ import annotations

import math

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.objectives.compiled import compiled


@compiled
def _largest(row: Array) -> float:
    largest = 0.0
    for j in range(row.size):
        value = abs(np.float64(row[j]))
        if not value < math.inf:
            return math.inf
        largest = max(largest, value)
    return largest


@compiled
def add_clipped(total: Floats, gradients: Array, clip: float, unit: float) -> None:
    """Add every row to ``total``, scaled down to the norm ``clip`` and rounded to multiples of ``unit`` (0: not rounded).

    A row that is not finite counts as 0. A row is one record's, so what it adds depends on that record alone.
    """
    for r in range(gradients.shape[0]):
        row = gradients[r]
        largest = _largest(row)
        if largest == 0.0 or largest == math.inf:
            continue
        squares = 0.0
        for j in range(row.size):  # of order 1, so that nothing overflows
            squares += (np.float64(row[j]) / largest) ** 2
        norm = math.sqrt(squares)
        scaled = norm * largest > clip
        for j in range(row.size):
            value = np.float64(row[j])
            if scaled:
                value = value / largest * (clip / norm)
            total[j] += value if unit == 0.0 else np.rint(value / unit) * unit
