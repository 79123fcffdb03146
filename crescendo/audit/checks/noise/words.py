"""The random words behind the noise: every bit is a fair coin, no word comes twice, further words are new."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Words
from crescendo.audit.scores import Group, Tested, combined, count_p
from crescendo.core.arrays import Ints


def bits(words: Words, rng: np.random.Generator) -> Tested:
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


def repeats(words: Words, rng: np.random.Generator) -> Tested:
    """Any two of n words are equal with a chance of at most n^2 / 2^65, so that one pair is enough to tell."""
    values = np.concatenate([words.first.ravel(), words.more.ravel()])
    n, twice = len(values), len(values) - len(np.unique(values))
    says = f"{twice:,} of {n:,} random words come twice"
    return Tested(min(1.0, float(n) ** 2 * 2.0**-65) if twice else 1.0, says)


BITS = Check("random bits", "bits that are no fair coins", "words", bits)
REPEATS = Check("repeated words", "a random word that comes twice", "words", repeats, exact=False)
