"""Canaries as records: each has one feature that no other record has, as long as the norm bound allows.

They serve `local`, whose proof needs a convex loss of one margin: the run's regression is widened by a feature for each canary.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data.records import Records, as_records
from crescendo.errors import ConfigError
from crescendo.objectives.base import Objective
from crescendo.objectives.linear.margin_model import MarginModel

_INSIDE = 1 - 1e-5  # of the norm bound, so that no rounding of float32 features lifts a canary over it


def widened(objective: Objective, canaries: int) -> MarginModel:
    """Return the regression with one more feature for each canary at the end."""
    if not isinstance(objective, MarginModel):
        raise ConfigError(
            f"canaries of the local mechanism are records of a regression with one margin, and this is {objective.traits.name}"
        )
    return replace(objective, features=objective.features + canaries)


def with_canaries(records: Records, canaries: int, length: float, label: float) -> Records:
    """Return the records, sparse, with the canaries after them.

    >>> found = with_canaries(as_records([[1.0, 2.0]], [0.0]), 2, 3.0, 1.0)
    >>> found.x.toarray().tolist(), found.y.tolist()
    ([[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 3.0]], [0.0, 1.0, 1.0])
    """
    from scipy.sparse import block_diag, csr_array, eye_array

    x = block_diag([csr_array(records.x), length * eye_array(canaries)], format="csr")
    return as_records(x.astype(records.x.dtype), np.append(records.y, np.full(canaries, label)))


def longest(norm_bound: float, intercept: bool) -> float:
    """Return the length of a canary's features."""
    return _INSIDE * math.sqrt(norm_bound**2 - float(intercept))


def gradients(objective: MarginModel, start: Floats, data: Records, first: int, clip: float) -> Floats:
    """Return each canary's clipped gradient at ``start`` on its feature; no two share one, so one sum holds them all."""
    rows = np.arange(first, len(data))
    return objective.gradient(start, data, rows, clip)[objective.features - len(rows) : objective.features]
