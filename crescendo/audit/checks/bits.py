"""Bits: the last ones of what is sent, and those of the random words behind the noise."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise, Words
from crescendo.audit.scores import Group, Tested, combined, count_p
from crescendo.core.arrays import Floats, Ints

_BITS = 8  # a parity is as likely even as odd for each of the 255 subsets of this many bits
_MODULI = (3, 5, 7)


def _last_bits(noise: Noise, rng: np.random.Generator) -> Tested:
    """As multiples of the public grid: every residue is equally likely, whatever the noise hides."""
    units = noise.units[np.isfinite(noise.units)]
    if not len(units):
        return combined()
    last = np.mod(units, 2**_BITS).astype(np.int64)
    counts = np.bincount(last, minlength=2**_BITS).astype(np.float64)
    n = len(units)
    odd = ((n - _walsh(counts)) / 2).round().astype(np.int64)[1:]
    groups = [
        Group(
            count_p(odd, n, 0.5, rng), lambda place: f"{odd[place]:,} of {n:,} parities of bits {place + 1:08b} are odd"
        )
    ]
    for modulus in _MODULI:
        rest = np.bincount(np.mod(units, modulus).astype(np.int64), minlength=modulus)

        def says(place: int, modulus: int = modulus, rest: Ints = rest) -> str:
            return f"{rest[place]:,} of {n:,} multiples of the grid leave {place} by {modulus}"

        groups.append(Group(count_p(rest, n, 1 / modulus, rng), says))
    return combined(*groups)


def _walsh(counts: Floats) -> Floats:
    """The sum of (-1)^(parity of the bits of b in m) over all b, for every m."""
    found = counts.copy()
    for bit in range(_BITS):
        pairs = found.reshape(-1, 2, 2**bit)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
    return found


def _fair_coins(words: Words, rng: np.random.Generator) -> Tested:
    """Each of 64 bits, alone and against the same bit of the next word, of the next round and of the number's further words."""
    first = words.first
    kinds = {
        "": first.ravel(),
        " and that of the next word": (first[:, :, 1:] ^ first[:, :, :-1]).ravel(),
        " and that of the next round": (first[:, 1:] ^ first[:, :-1]).ravel(),
        " of further words": words.more.ravel(),
        " and that of a further word": (words.more ^ first[:, :, : words.more.shape[2], None]).ravel(),
    }
    groups = []
    for name, values in kinds.items():
        if not len(values):
            continue
        ones = np.array([int(((values >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)])

        def says(place: int, name: str = name, ones: Ints = ones, n: int = len(values)) -> str:
            return f"bit {place} of the random words{name}: {ones[place]:,} of {n:,} are 1"

        groups.append(Group(count_p(ones, len(values), 0.5, rng), says))
    return combined(*groups)


def _repeated_words(words: Words, rng: np.random.Generator) -> Tested:
    """Any two of n words are equal with a chance of at most n^2 / 2^65, so that one pair is enough to tell."""
    values = np.concatenate([words.first.ravel(), words.more.ravel()])
    n, twice = len(values), len(values) - len(np.unique(values))
    says = f"{twice:,} of {n:,} random words come twice"
    return Tested(min(1.0, float(n) ** 2 * 2.0**-65) if twice else 1.0, says)


CHECKS = (
    Check("last bits", "values that betray a record", "noise", _last_bits),
    Check("random bits", "bits that are no fair coins", "words", _fair_coins),
    Check("repeated words", "a random word that comes twice", "words", _repeated_words, exact=False),
)
