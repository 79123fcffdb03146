"""Compiled scoring loop of logistic regression: loss and hits of many models in one pass over the records.

The models are interleaved (``models[j, k]`` is coordinate j of model k), so that the innermost loop applies one value
of a record to all of them. The loss needs one exponential per margin but only one logarithm for many: with e =
exp(-|z|),

    sum log(1 + e_i)  =  log prod (1 + e_i)  =  log1p(q),     q <- q + e + q e

where q keeps the small terms that a product near 1 would lose. A chunk has `CHUNK` records, so q stays below 2^CHUNK.
Chunks depend only on the number of records, and their sums are added in order: threads never change a result.
"""

import math

import numpy as np

from crescendo.core.arrays import Array
from crescendo.objectives.compiled import compiled

CHUNK = 512

U = np.uint64  # unsigned: a possibly negative index is tested at every access


@compiled
def _margins(z: Array, models: Array, values: Array, indices: Array, indptr: Array, r: int, features: int) -> None:
    count = z.size
    if models.shape[0] > features:
        for k in range(count):
            z[k] = models[features, k]
    else:
        for k in range(count):
            z[k] = 0.0
    if indptr.size == 0:
        for j in range(features):
            v = np.float64(values[r * features + j])
            for k in range(count):
                z[k] += v * models[j, k]
    else:
        for p in range(U(indptr[r]), U(indptr[r + 1])):
            v = np.float64(values[p])
            column = models[U(indices[p])]
            for k in range(count):
                z[k] += v * column[k]


@compiled
def score(
    models: Array,
    values: Array,
    indices: Array,
    indptr: Array,
    y: Array,
    order: Array,
    weights: Array,
    features: int,
    first: int,
    last: int,
    losses: Array,
    hits: Array,
) -> None:
    """Compute weighted sums of losses and hits of chunks first..last-1, one row per chunk, one column per model.

    With ``order`` empty, records are taken in sequence with weight 1. Otherwise ``order`` sorts them by weight, so
    that equal weights are adjacent and share a logarithm. ``losses`` or ``hits`` without rows are not computed.
    """
    count = models.shape[1]
    z = np.empty(count)
    q = np.empty(count)
    linear = np.empty(count)
    for chunk in range(first, last):
        weight = 1.0
        q[:] = 0.0
        linear[:] = 0.0
        for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, y.size)):
            r = i
            if order.size > 0:
                r = order[i]
                if weights[r] != weight:
                    if losses.shape[0] > 0:
                        for k in range(count):
                            losses[chunk, k] += weight * (linear[k] + math.log1p(q[k]))
                        q[:] = 0.0
                        linear[:] = 0.0
                    weight = weights[r]
            _margins(z, models, values, indices, indptr, r, features)
            sign = 1.0 if y[r] > 0.0 else -1.0
            if hits.shape[0] > 0:
                for k in range(count):
                    right = z[k] >= 0.0 if sign > 0.0 else z[k] < 0.0
                    hits[chunk, k] += weight if right else 0.0
            if losses.shape[0] > 0:
                for k in range(count):
                    linear[k] += max(-sign * z[k], 0.0)
                    e = math.exp(-abs(z[k]))
                    q[k] += e + q[k] * e
        if losses.shape[0] > 0:
            for k in range(count):
                losses[chunk, k] += weight * (linear[k] + math.log1p(q[k]))
