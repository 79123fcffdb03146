"""The last bits of what is sent, as multiples of the public grid: every residue is equally likely, whatever the noise hides."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Group, Tested, combined, count_p
from crescendo.core.arrays import Floats, Ints

BITS = 8  # a parity is as likely even as odd for each of the 255 subsets of this many bits
MODULI = (3, 5, 7)


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    units = noise.units[np.isfinite(noise.units)]
    if not len(units):
        return combined()
    last = np.mod(units, 2**BITS).astype(np.int64)
    counts = np.bincount(last, minlength=2**BITS).astype(np.float64)
    n = len(units)
    odd = ((n - _walsh(counts)) / 2).round().astype(np.int64)[1:]
    groups = [
        Group(
            count_p(odd, n, 0.5, rng), lambda place: f"{odd[place]:,} of {n:,} parities of bits {place + 1:08b} are odd"
        )
    ]
    for modulus in MODULI:
        rest = np.bincount(np.mod(units, modulus).astype(np.int64), minlength=modulus)

        def says(place: int, modulus: int = modulus, rest: Ints = rest) -> str:
            return f"{rest[place]:,} of {n:,} multiples of the grid leave {place} by {modulus}"

        groups.append(Group(count_p(rest, n, 1 / modulus, rng), says))
    return combined(*groups)


def _walsh(counts: Floats) -> Floats:
    """The sum of (-1)^(parity of the bits of b in m) over all b, for every m."""
    found = counts.copy()
    for bit in range(BITS):
        pairs = found.reshape(-1, 2, 2**bit)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
    return found


CHECK = Check("last bits", "values that betray a record", "noise", test)
