# mypy: allow-untyped-defs, allow-untyped-calls
"""A noisy sum of clipped gradients that becomes a mean: over the batch size that is expected, or over the one that was drawn.

How many records were drawn depends on each of them. The expected number is public. Divided by the number drawn, the noise has a
scale that tells it, and in a model of many numbers the scale is plain to see. The step may claim 2.707: rate 0.25, noise 1.

    crescendo audit examples/audit_batch_size.py:NoisySum --epsilon 2.71 --delta 1e-5             # passes
    crescendo audit examples/audit_batch_size.py:OverExpected --epsilon 2.71 --delta 1e-5         # passes
    crescendo audit examples/audit_batch_size.py:OverDrawn --epsilon 2.71 --delta 1e-5            # fails
"""

import numpy as np

RATE, NOISE, CLIP, NUMBERS, RECORDS = 0.25, 1.0, 1.0, 50, 20


class NoisySum:
    records = np.random.Generator(np.random.Philox(7)).normal(0.5, 1.0, (RECORDS, NUMBERS))

    def __call__(self, records, rng):
        return self.many(records, rng, 1)[0]

    def many(self, records, rng, runs):
        gradients = records * np.minimum(1.0, CLIP / np.maximum(np.linalg.norm(records, axis=1, keepdims=True), 1e-300))
        drawn = rng.random((runs, len(records))) < RATE
        noisy = drawn @ gradients + rng.normal(0.0, NOISE * CLIP, (runs, NUMBERS))
        return noisy / self.batch_size(drawn)

    def batch_size(self, drawn):
        return 1.0


class OverExpected(NoisySum):
    def batch_size(self, drawn):
        return RATE * RECORDS  # public, and the same for every data set


class OverDrawn(NoisySum):
    def batch_size(self, drawn):
        return np.maximum(drawn.sum(axis=1, keepdims=True), 1)
