# mypy: allow-untyped-defs, allow-untyped-calls
"""A client-side mod for local privacy that does what Flower's LocalDpMod does: clip the update, add noise for a sensitivity.

The sensitivity is typed in beside the clip, and it is easy to type the clip. But two updates of length C can point in opposite
directions: one record that turns the update around moves it by 2 C.

    crescendo audit examples/audit_flower_mod.py:LocalDp --epsilon 3 --delta 1e-5         # fails
    crescendo audit examples/audit_flower_mod.py:RightLocalDp --epsilon 3 --delta 1e-5    # passes
"""

import math

import numpy as np

CLIP, EPSILON, DELTA = 1.0, 3.0, 1e-5


def local_training(records):
    """One step from a model at 0: the update of a client whose loss is the distance to its records."""
    return records.mean(axis=0)


class LocalDp:
    sensitivity = CLIP

    def __call__(self, records, rng):
        return self.many(records, rng, 1)[0]

    def many(self, records, rng, runs):
        """So many releases at once, a row for each: not needed, but the audit then makes a million runs in seconds."""
        update = local_training(records)
        update *= min(1.0, CLIP / (math.sqrt(update @ update) or 1.0))
        deviation = self.sensitivity * math.sqrt(2 * math.log(1.25 / DELTA)) / EPSILON
        return update + rng.normal(0.0, deviation, (runs, len(update)))


class RightLocalDp(LocalDp):
    sensitivity = 2 * CLIP


LocalDp.records = np.random.Generator(np.random.Philox(7)).normal(0.5, 1.0, (20, 5))  # type: ignore[attr-defined]
