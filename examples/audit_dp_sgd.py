# mypy: allow-untyped-defs, allow-untyped-calls
"""A step of DP-SGD as Opacus makes it, in numpy: draw records, clip each one's gradient, add noise to the sum.

What a step may claim is what its event costs, which `crescendo account` says of an Opacus history of one step: 2.707.

    echo '[[1.0, 0.25, 1]]' > history.json
    crescendo account history.json --delta 1e-5
    crescendo audit examples/audit_dp_sgd.py:step --epsilon 2.71 --delta 1e-5             # passes
    crescendo audit examples/audit_dp_sgd.py:mean_clipped --epsilon 2.71 --delta 1e-5     # fails
"""

import numpy as np

CLIP, NOISE, RATE = 1.0, 1.0, 0.25
MODEL = np.array([0.3, -0.2, 0.1, 0.0])


def gradients(records):
    """Of logistic regression: features, and the label (above 0 or not) in the last column."""
    x, y = records[:, :-1], np.where(records[:, -1] > 0, 1.0, -1.0)
    return -(y / (1 + np.exp(np.clip(y * (x @ MODEL), -700, 700))))[:, None] * x


def clipped(rows):
    return rows * np.minimum(1.0, CLIP / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))


def step(records, rng):
    drawn = records[rng.random(len(records)) < RATE]
    return clipped(gradients(drawn)).sum(axis=0) + rng.normal(0.0, NOISE * CLIP, MODEL.size)


def mean_clipped(records, rng):
    """The mean of the batch is clipped, not each gradient: no sum is longer than before, but one record can turn it around."""
    drawn = records[rng.random(len(records)) < RATE]
    mean = gradients(drawn).sum(axis=0) / max(1, len(drawn))
    return len(drawn) * clipped(mean[None])[0] + rng.normal(0.0, NOISE * CLIP, MODEL.size)
