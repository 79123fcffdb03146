"""Bits: the last ones of what is sent, and those of the random words behind the noise."""

from __future__ import annotations

import numpy as np

from crescendo.audit import renewal
from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise, Words
from crescendo.audit.scores import Group, Tested, binned, combined, counted, normal_p
from crescendo.core.arrays import Floats, Ints

_BITS = 8  # a parity is as likely even as odd for each of the 255 subsets of this many bits
_MODULI = (3, 5, 7)


def _last_bits(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test the residues of releases as multiples of the public grid: all are equally likely, whatever the noise hides."""
    units = noise.units[np.isfinite(noise.units)]
    if not len(units):
        return combined()
    n = len(units)
    counts = np.bincount(np.mod(units, 2**_BITS).astype(np.int64), minlength=2**_BITS)
    parities, odd = _parities(binned(counts, rng).score), (n - _walsh(counts.astype(np.float64))) / 2
    groups = [Group(normal_p(parities), lambda m: f"{odd[m + 1]:,.0f} of {n:,} parities of bits {m + 1:08b} are odd")]
    for modulus in _MODULI:
        rest = np.bincount(np.mod(units, modulus).astype(np.int64), minlength=modulus)

        def says(place: int, modulus: int = modulus, rest: Ints = rest) -> str:
            return f"{rest[place]:,} of {n:,} multiples of the grid leave {place} by {modulus}"

        groups.append(Group(normal_p(binned(rest, rng).score), says))
    return combined(*groups)


def _parities(scores: Floats) -> Floats:
    """Turn independent scores of bins, each given those before it, into as many scores of parities.

    Where counts are large, the score of a bin is its count less the mean of it and those after it, over a standard
    deviation: how far the counts go along a direction of Helmert's basis. From there to the basis of the parities is a
    rotation, which leaves independent normal scores independent and normal whatever the counts.
    """
    bins = len(scores) + 1
    later = np.triu(np.ones((bins - 1, bins)), 0) / np.arange(bins, 1, -1)[:, None]
    helmert = (np.eye(bins)[:-1] - later) / np.sqrt(1 - 1 / np.arange(bins, 1, -1))[:, None]
    return np.asarray(-_walsh(helmert.T @ scores)[1:] / np.sqrt(bins))


def _walsh(counts: Floats) -> Floats:
    """Return the sum of (-1)^(parity of the bits of b in m) over all b, for every m."""
    found = counts.copy()
    for bit in range(_BITS):
        pairs = found.reshape(-1, 2, 2**bit)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
    return found


def _fair_coins(words: Words, rng: np.random.Generator) -> Tested:
    """Test each of 64 bits alone and against the same bit of the next word, the next round and the number's further words.

    Counted bits are renewed. Flipping the difference of two consecutive words means flipping the second and all after it.
    """
    first, more, groups = words.first, words.more, []

    def tested(ones: Ints, n: int, name: str) -> None:
        says = [f"bit {bit} of the random words{name}: {ones[bit]:,} of {n:,} are 1" for bit in range(64)]
        groups.append(Group(counted(ones, n, 0.5, rng).p, says.__getitem__))

    ones, turned = renewal.ones(first, rng)
    tested(ones, first.size, "")
    first = first ^ turned
    if first.shape[2] > 1:
        ones, turned = renewal.ones(first[:, :, 1:] ^ first[:, :, :-1], rng)
        tested(ones, turned.size, " and that of the next word")
        first[:, :, 1:] ^= np.bitwise_xor.accumulate(turned, axis=2)
    if first.shape[1] > 1:
        other = first[:, 1:] ^ first[:, :-1]
        tested(renewal.count_ones(other), other.size, " and that of the next round")
    if more.size:
        ones, turned = renewal.ones(more, rng)
        tested(ones, more.size, " of further words")
        other = more ^ turned ^ words.first[:, :, : more.shape[2], None]
        tested(renewal.count_ones(other), other.size, " and that of a further word")
    return combined(*groups)


def _repeated_words(words: Words, rng: np.random.Generator) -> Tested:
    """Any two of n words are equal with a chance of at most n^2 / 2^65, so that one pair is enough to tell."""
    values = np.sort(np.concatenate([words.first.ravel(), words.more.ravel()]))  # np.unique takes ten times as long
    n, twice = len(values), int(np.count_nonzero(values[1:] == values[:-1]))
    says = f"{twice:,} of {n:,} random words come twice"
    return Tested(min(1.0, float(n) ** 2 * 2.0**-65) if twice else 1.0, says)


CHECKS = (
    Check("last bits", "values that betray a record", "noise", _last_bits),
    Check("random bits", "biased bits", "words", _fair_coins),
    Check("repeated words", "a random word that comes twice", "words", _repeated_words, exact=False),
)
