"""Logistic regression as a textbook writes it: dense vectors, one step after the other, nothing saved or scaled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from crescendo.core.arrays import Floats
from crescendo.data.records import Records, as_records
from crescendo.objectives import Logistic, Slots


def drawn(seed: int = 0, rows: int = 60, features: int = 6, sparse: bool = True, dtype: str = "float64") -> Records:
    """Records of which half the numbers are zero, and labels that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(rows, features)) * (rng.random((rows, features)) < 0.5)).astype(dtype)
    return as_records(csr_array(x) if sparse else x, np.where(rng.random(rows) < 0.4, -1.0, 1.0))


def sigmoid(z: float) -> float:
    if z >= 0:
        return 1 / (1 + math.exp(-z))
    e = math.exp(z)
    return e / (1 + e)


def extended(data: Records, intercept: bool) -> Floats:
    """The records as rows (x, 1)."""
    x = np.asarray(data.x if isinstance(data.x, np.ndarray) else data.x.toarray(), dtype=np.float64)
    return np.hstack([x, np.ones((len(x), 1))]) if intercept else x


def record_gradient(w: Floats, x: Floats, y: float, clip: float | None) -> Floats:
    with np.errstate(all="ignore"):
        margin = float(x @ w)
        g = -y * sigmoid(-y * margin) * x
        if clip is None:
            return np.asarray(g)
        if not np.all(np.isfinite(g)):
            return np.zeros_like(w)
        norm = math.hypot(*g)
    return np.asarray(g if norm <= clip else g / norm * clip)


def run(objective: Logistic, data: Records, w: Floats, slots: Slots) -> tuple[Floats, float]:
    """The model after the round, and the largest norm it had on the way (what rounding is relative to)."""
    x, w = extended(data, objective.intercept), np.array(w, dtype=np.float64)
    lo, hi = slots.block or (0, objective.size)
    largest = float(np.linalg.norm(w))
    for h in range(len(slots)):
        step = slots.etas[h] * slots.factor
        if slots.ends is None:
            r = slots.rows[h]
            downhill = record_gradient(w, x[r], data.y[r], slots.clip) + objective.l2 * w
            w[lo:hi] = w[lo:hi] - step * downhill[lo:hi]
        else:
            w[lo:hi] = w[lo:hi] - step * objective.l2 * w[lo:hi]
            for r in slots.rows[slots.records(h)]:
                w[lo:hi] = w[lo:hi] - step * record_gradient(w, x[r], data.y[r], slots.clip)[lo:hi]
        largest = max(largest, float(np.linalg.norm(w)))
    return w, largest


@dataclass(frozen=True)
class Case:
    """One drawn setting; ``seed`` decides the numbers."""

    seed: int = 0
    sparse: bool = True
    intercept: bool = True
    dtype: str = "float64"
    values: str = "float64"
    shrink: float = 1.0  # 1 - eta l2 of the largest step
    masked: bool = False
    clip: float | None = None
    grouped: bool = False
    features: int = 7
    slots: int = 30

    def build(self) -> tuple[Logistic, Records, Floats, Slots]:
        rng = np.random.default_rng(self.seed)
        x: Any = rng.normal(size=(20, self.features)) * (rng.random((20, self.features)) < 0.6)
        x = x.astype(self.values)
        data = as_records(csr_array(x) if self.sparse else x, np.where(rng.random(20) < 0.5, -1.0, 1.0))
        objective = Logistic(self.features, (1 - self.shrink) / 0.5, self.intercept, self.dtype)
        etas: Floats = np.asarray(0.5 / (1 + 0.1 * np.arange(self.slots)), dtype=np.float64)
        sizes = rng.integers(0, 4, self.slots) if self.grouped else np.ones(self.slots, dtype=np.int64)
        block, factor = None, 1.0
        if self.masked:
            lo = int(rng.integers(0, objective.size))
            block, factor = (lo, int(rng.integers(lo + 1, objective.size + 1))), 2.0
        rows = rng.integers(0, 20, int(sizes.sum()))
        ends = np.cumsum(sizes) if self.grouped else None
        return objective, data, rng.normal(size=objective.size), Slots(rows, etas, ends, block, factor, self.clip)
