"""Rounding slack of a certificate: a proved bound on the growth of one record's influence through float64.

u = 2^-53, d = the model's size, m = the most records that a round draws; lengths are in units of eta D C, the most that one
record may move the model. A clipped gradient exceeds C by at most (d + 8) u of it; the products that make the scale of the
noise are off by at most 16 u.

`minibatch`. Each clipped gradient is rounded to multiples of a unit, which makes it longer by at most half a unit per number,
sqrt(d)/2 units in all. Sums of multiples are exact up to 2^53 of them, so no error grows with the records. The sum times the step
is rounded once, by u of its length m, on either side of the comparison. The start model is not hidden and adds nothing. Where
each layer has its own clip, C is the length of all the clips together: each layer exceeds its clip by at most (d + 8) u of
it, so the whole exceeds C by no more, and the unit is a part of C.

`local`. Step j rounds a margin of d terms, at a model of length at most B + j (B is the ``model_bound``), and moves the model by
eta D times a slope that is L_eff-smooth in it: (d + 3) eta D L_eff u (B + j). It rounds every coordinate that it moves,
2 u (B + j), and its own length, 16 u. Shrinks multiply by numbers that are the same with and without the record; where they are
multiplied into the model, at most once a slot, that rounds it: 2 u (B + m). Later steps enlarge none of this, since they are
non-expansive. Both sides of the comparison err, and the displacement start - end is rounded once more: 4 u (B + m).

All this weighs most with the least step and the most slots, so each client's extremes are taken together, be they of different
rounds.
"""

import math

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats

MOST_SLACK = 1e-3  # rounding may enlarge the sensitivity by this share; the noise grows with it
UNDECLARED = 2  # a client may hold up to this multiple of its declared records; with more it declines the terms
LOG_RARE = 60 * math.log(10)  # a draw beyond its bound has a chance below 1e-60 in each round
U = 2.0**-53
LEAST, MOST = 1e-60, 1e60  # of all that scales noise: products and squares stay far from where floats lose bits


def most_drawn(slots: npt.ArrayLike, records: npt.ArrayLike) -> Floats:
    """Return the most records that a round of ``slots`` draws from ``records`` declared ones, but for a chance of 1e-60.

    Bernstein: a sum of independent coins with mean v exceeds v + t with a chance below exp(-t^2 / (2 v + 2 t / 3)).

    >>> most_drawn([4, 50_000], [10, 10_000_000]).tolist()
    [20.0, 105303.0]
    """
    there = UNDECLARED * np.asarray(records, dtype=np.float64)
    mean = np.minimum(UNDECLARED * np.asarray(slots, dtype=np.float64), there)
    beyond = LOG_RARE / 3 + np.sqrt(LOG_RARE**2 / 9 + 2 * LOG_RARE * mean)
    return np.minimum(there, np.ceil(mean + beyond))
