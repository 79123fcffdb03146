# mypy: allow-untyped-defs, allow-untyped-calls
"""A step of DP-SGD with loaders that draw records in different ways, and accountants that assume that they draw them by coins.

A step at noise multiplier 1 whose loader takes each record with probability 0.25 costs 2.707. A loader of shuffled batches of
a fixed size, as PyTorch's own is, has the same mean size and costs more: a record that is drawn takes the place of another, so
that the sum moves by twice the clip. In a federation the rate is a client's own: the batch over the client's records. Over the
records of all ten clients it would be 0.025, and a step would cost 0.552.

    crescendo audit examples/audit_loaders.py:Poisson --epsilon 2.71 --delta 1e-5               # passes
    crescendo audit examples/audit_loaders.py:Shuffled --epsilon 2.71 --delta 1e-5              # fails
    crescendo audit examples/audit_loaders.py:RateOfAllClients --epsilon 0.56 --delta 1e-5      # fails
    crescendo audit examples/audit_loaders.py:OwnRate --epsilon 0.56 --delta 1e-5               # passes
"""

import numpy as np

BATCH, RECORDS, CLIENTS, NOISE, CLIP = 5, 20, 10, 1.0, 1.0


class Poisson:
    """Each record by a coin."""

    records = np.random.Generator(np.random.Philox(7)).normal(4.0, 1.0, (RECORDS, 3))
    rate = BATCH / RECORDS

    def __call__(self, records, rng):
        return self.many(records, rng, 1)[0]

    def many(self, records, rng, runs):
        gradients = records * np.minimum(1.0, CLIP / np.maximum(np.linalg.norm(records, axis=1, keepdims=True), 1e-300))
        drawn = self.drawn(len(records), rng, runs)
        return drawn @ gradients + rng.normal(0.0, NOISE * CLIP, (runs, records.shape[1]))

    def drawn(self, records, rng, runs):
        return rng.random((runs, records)) < self.rate


class Shuffled(Poisson):
    """The first batch of a shuffled epoch; a last batch that is not full is dropped."""

    def drawn(self, records, rng, runs):
        if records < BATCH:
            return np.zeros((runs, records))
        return rng.permuted(np.broadcast_to(np.arange(records) < BATCH, (runs, records)), axis=1)


class RateOfAllClients(Poisson):
    """Draws a quarter of its records, and accounts for a fortieth."""


class OwnRate(Poisson):
    rate = BATCH / (RECORDS * CLIENTS)
