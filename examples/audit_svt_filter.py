# mypy: allow-untyped-defs, allow-untyped-calls
"""A filter for model updates that does what NVFlare's SVTPrivacy does, at its default settings: the sparse vector technique.

It compares each number, with noise, against a noisy threshold, picks a tenth of the model among those above, and adds noise to
the ones it picked. Its numbers are taken to be within gamma = 1e-5 of 0, and updates are a thousand times as large: the noise is
too small for them. The numbers above the threshold that were not picked are sent as they are, without noise.

By the theory of the sparse vector technique its three epsilons add up, to 0.1 + 0.737 + 0.1 = 0.937 for a model of 100 numbers.
The sound filter picks its tenth at random, holds each number to gamma first and has noise for all that it sends.

    crescendo audit examples/audit_svt_filter.py:SvtFilter --epsilon 0.94 --delta 1e-5              # fails
    crescendo audit examples/audit_svt_filter.py:RandomCoordinates --epsilon 0.94 --delta 1e-5      # passes
"""

import numpy as np

FRACTION, EPSILON, NOISE_VAR, GAMMA, TAU = 0.1, 0.1, 0.1, 1e-5, 1e-6  # NVFlare's defaults
NUMBERS = 100  # of the model
PICKED = int(np.ceil(FRACTION * NUMBERS))


def local_training(records):
    """One small step from a model at 0: the update of a client whose loss is the distance to its records."""
    return 0.01 * records.mean(axis=0)


class SvtFilter:
    records = np.random.Generator(np.random.Philox(7)).normal(0.5, 1.0, (20, NUMBERS))

    def __call__(self, records, rng):
        update = local_training(records)
        threshold = TAU + rng.laplace(scale=2 * GAMMA / EPSILON)
        query_epsilon = EPSILON * (2 * PICKED) ** (2 / 3)
        sizes = np.abs(np.clip(update, -GAMMA, GAMMA))
        below, above = np.arange(NUMBERS), np.empty(0, dtype=int)
        while len(above) < PICKED:
            passes = sizes[below] + rng.laplace(scale=4 * GAMMA * PICKED / query_epsilon, size=len(below)) >= threshold
            above, below = np.append(above, below[passes]), below[~passes]
        picked = rng.choice(above, PICKED)
        noisy = update[picked] + rng.laplace(scale=2 * GAMMA / NOISE_VAR, size=PICKED)
        update[picked] = np.clip(noisy, -GAMMA, GAMMA)
        update[below] = 0.0
        return update


class RandomCoordinates:
    """A sound filter: a number moves by 2 gamma at most, so that PICKED numbers with this noise cost epsilon together."""

    records, epsilon = SvtFilter.records, 0.937

    def __call__(self, records, rng):
        return self.many(records, rng, 1)[0]

    def many(self, records, rng, runs):
        update = np.clip(local_training(records), -GAMMA, GAMMA)
        noisy = update + rng.laplace(scale=2 * GAMMA * PICKED / self.epsilon, size=(runs, NUMBERS))
        picked = rng.permuted(np.broadcast_to(np.arange(NUMBERS) < PICKED, noisy.shape), axis=1)
        return np.where(picked, noisy, 0.0)
