"""Norm limits: the longest update under the terms. Longer ones are refused, since no sound client sends them.

The bound follows from the terms alone. It depends neither on broadcasts nor on earlier updates, so server and aggregators compute
the same number, also after a restart and in any epoch. It holds for a sound client but for a chance below 1e-12. Without privacy
updates are not clipped, so their numbers only have to be finite.

Why it holds. A client's update of round i is x - y + noise, on the round's block, rounded to the wire. Here x is the round's
start model, and y is the model after the round's s slots. L = 31, and exp(-L) = 3e-14.

- |x| <= W = ``model_bound``. A client's model at the beginning of a round is the newest broadcast that it received, maybe from an
  epoch that the server has forgotten, less those of its own updates that this broadcast does not contain, perhaps many after
  several absences. The server cannot know it on receipt and need not: `Private.start` shortens any model to W before the round
  begins.
- m, the records drawn, is binomial with mean at most 2 s, if the client holds at most twice the records that it declared. By
  Bernstein m <= 2 s + sqrt(4 s L) + L but for a chance of exp(-L).
- With h the round's largest step times D, the clipped steps add up to at most A = m h C.
- The shrinks multiply x by f, a product of s factors 1 - eta D l2. A certificate has h l2 <= 1, so that
  0 <= 1 - f <= 1 - (1 - h l2)^s. `minibatch` has y = f x - steps, so that |x - y| <= |1 - f| W + A. In `local` each step is
  shrunk by the factors that follow, all in 0..1, so the same holds.
- A Gaussian vector of d numbers with deviation r is not longer than r (sqrt(d) + sqrt(2 L)) but for a chance of exp(-L).
- `batch-clip` cuts x - y to the length C, whatever was drawn.
- If updates are combined as their mean, all of this is multiplied by 1/n before it is sent.
- Rounding to the wire changes a number by at most 2^-8 of it (bfloat16) or, near 0, by at most 2^-25 (float16).
"""

import math
from dataclasses import dataclass

import numpy as np

from crescendo.core.arrays import Vector
from crescendo.core.terms import Terms
from crescendo.errors import PeerError
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.reach import LOG_CHANCE
from crescendo.privacy.mechanisms.rounding import UNDECLARED

_ROUNDING = 1.01  # of the wire's floats
_LEAST_FLOAT = 2.0**-25  # the largest error of the narrowest of them near 0


class TooLong(PeerError):
    """An update longer than any that a sound client sends."""


@dataclass(frozen=True)
class NormLimits:
    """The longest update of each round and client, for a model of ``size`` numbers."""

    certificate: Certificate | None
    size: int

    def longest(self, i: int, c: int) -> float:
        """Return the bound for client c in round i, as proved above."""
        made = self.certificate
        if made is None:
            return math.inf
        terms = made.terms
        mean = UNDECLARED * made.records[c] * made.rate(i, c)
        drawn = mean + math.sqrt(2 * mean * LOG_CHANCE) + LOG_CHANCE
        low, high = terms.block(i, self.size)
        noise = made.kind.longest_noise(made.noise_scale(i, c), high - low)
        moved = made.kind.longest_move(made, i, c, drawn)
        longer = _earlier_steps(terms, i, c) if made.kind.clips_records else 1.0  # a clipped displacement has no steps
        sent = terms.combined * longer * (moved + noise)
        return _ROUNDING * sent + _LEAST_FLOAT * math.sqrt(high - low)

    def check(self, i: int, c: int, delta: Vector) -> None:
        """Refuse an update longer than the bound."""
        longest = self.longest(i, c)
        if longest < math.inf and (length := length_of(delta)) > longest:
            raise TooLong(
                f"the update of round {i} from client {c} has length {length:.4g}, and under the terms a sound one is "
                f"not longer than {longest:.4g}; refused"
            )


def _earlier_steps(terms: Terms, i: int, c: int) -> float:
    """Return the factor by which an older client's steps may be longer: it counts all clients' slots, not its own.

    Its steps are those at s_0 + .. + s_{i-1}, and it is as sound. The factor is 1 if the step is the same for the whole round.
    """
    own = terms.largest_step(i, c)
    return max(1.0, abs(float(terms.steps.at(terms.before(i)))) / own) if own else 1.0


def length_of(vector: Vector) -> float:
    """Return the norm, computed in float64."""
    return math.sqrt(float(np.einsum("i,i->", vector, vector, dtype=np.float64)))
