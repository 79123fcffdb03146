"""How long an update can be under the terms: longer ones are refused, since no sound client sends them.

The bound follows from the terms alone: it depends on no broadcast, nor on what has arrived, so that server and aggregators come
to the same number, also after a restart and in any epoch. It holds for a sound client but for a chance below 1e-12. Without
privacy nothing is clipped, so nothing is bounded but that the numbers are finite.

Why it holds. What a client sends of round i is x - y + noise, on the round's block, rounded to the wire. Here x is where its
round began, and y is what the s slots of the round made of x. L = 31, and exp(-L) = 3e-14.

- |x| <= W = ``model_bound``. Which model a client has when a round begins depends on everything: the newest broadcast that it had
  heard, maybe of an epoch that the server has forgotten, less those of its own updates that this broadcast does not contain, and
  those may be many after several absences. At the time of receipt nobody knows. But whatever it is, `Private.start` shortens it
  to W before the round begins, so nothing has to be known.
- m, the records drawn, is binomial with mean at most 2 s, if the client holds at most twice the records that it declared. By
  Bernstein m <= 2 s + sqrt(4 s L) + L but for a chance of exp(-L).
- With h the round's largest step times D, the clipped steps add up to at most A = m h C.
- The shrinks multiply x by f, a product of s factors 1 - eta D l2. A certificate has h l2 <= 1, so that
  0 <= 1 - f <= 1 - (1 - h l2)^s. `minibatch` has y = f x - steps, so that |x - y| <= |1 - f| W + A. In `local` each step is
  shrunk by the factors that follow, all in 0..1, so the same holds.
- A Gaussian vector of d numbers with deviation r is not longer than r (sqrt(d) + sqrt(2 L)) but for a chance of exp(-L).
- `batch-clip` cuts x - y to the length C, whatever was drawn.
- Where updates are combined as their mean, all of this is multiplied by 1/n before it is sent.
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
_LEAST_FLOAT = 2.0**-25  # what the narrowest of them can be off near 0


class TooLong(PeerError):
    """No sound client sends an update of this length."""


@dataclass(frozen=True)
class NormLimits:
    """The longest update of each round and client, for a model of ``size`` numbers."""

    certificate: Certificate | None
    size: int

    def longest(self, i: int, c: int) -> float:
        """The bound for client c in round i, as proved above."""
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
        """Refuse an update that is too long."""
        longest = self.longest(i, c)
        if longest < math.inf and (length := length_of(delta)) > longest:
            raise TooLong(
                f"the update of round {i} from client {c} has length {length:.4g}, and under the terms a sound one is "
                f"not longer than {longest:.4g}; refused"
            )


def _earlier_steps(terms: Terms, i: int, c: int) -> float:
    """How much longer the steps of a client may be that is from before the labels of slots were a client's own.

    It takes those of s_0 + .. + s_{i-1}, and is as sound. 1 where the step is the same for the whole round.
    """
    own = terms.largest_step(i, c)
    return max(1.0, abs(float(terms.steps.at(terms.before(i)))) / own) if own else 1.0


def length_of(vector: Vector) -> float:
    """The norm, in float64."""
    return math.sqrt(float(np.einsum("i,i->", vector, vector, dtype=np.float64)))
