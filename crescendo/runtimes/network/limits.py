"""How long an update can be under the terms: longer ones are refused, since no sound client sends them.

The bound follows from public numbers alone and holds for a sound client but for a chance below 1e-12: the steps of as many
clipped gradients as a round can draw, the shrink of L2, and the noise. Without privacy nothing is clipped, so nothing is bounded
but that the numbers are finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from crescendo.privacy.certificates import Certificate, largest_step

LOG_CHANCE = 31.0  # exp(-31) = 3e-14 for each of the two ways in which a sound client can be over
ROUNDING = 1.01  # of the wire's floats
UNDECLARED = 2  # a client may hold up to this many times the records that it declared


@dataclass(frozen=True)
class Limits:
    """The longest update of each round and client, for a model of ``size`` numbers with L2 strength ``l2``."""

    certificate: Certificate | None
    size: int
    l2: float = 0.0

    def longest(self, i: int, c: int, model_length: float) -> float:
        """The bound for client c in round i, whose start model is not longer than ``model_length``.

        Drawn records: Bernstein's bound on a binomial draw. Noise: the length of a Gaussian vector.
        """
        made = self.certificate
        if made is None:
            return math.inf
        terms = made.terms
        step = largest_step(terms, i, c) * terms.blocks
        mean = UNDECLARED * made.records[c] * made.rate(i, c)
        drawn = mean + math.sqrt(2 * mean * LOG_CHANCE) + LOG_CHANCE
        steps = step * made.clip * drawn
        low, high = terms.block(i, self.size)
        noise = made.noise_scale(i, c) * (math.sqrt(high - low) + math.sqrt(2 * LOG_CHANCE))
        shrink = 1 - max(0.0, 1 - step * self.l2) ** terms.share(i, c)
        return ROUNDING * (steps + noise + shrink * (model_length + steps))
