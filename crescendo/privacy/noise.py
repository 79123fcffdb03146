"""Where a private client's randomness comes from, and the two things it is used for: who is drawn, and the noise.

A real client takes every number from the operating system. A simulation takes them from seeded streams, so that it can be
repeated; its noise can therefore be recomputed by anybody who knows the seed, and protects nobody.
"""

from __future__ import annotations

import math
import os
from typing import Protocol

import numpy as np
import numpy.typing as npt

from crescendo.core.random import Purpose, stream

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SUMMANDS = 4  # draws in one Gaussian: which float one draw can be says something about what it was added to; of a sum, far less


class Source(Protocol):
    """Random numbers for one client, by round."""

    simulated: bool

    def members(self, i: int, records: int, rate: float) -> Ints:
        """Which of ``records`` records are drawn in round i: each one independently, with probability ``rate``, in any order."""
        ...

    def tags(self, i: int, count: int) -> Floats:
        """``count`` uniform numbers in [0, 1) that put the drawn records of round i in order."""
        ...

    def normals(self, i: int, draws: int, size: int) -> Floats:
        """``draws`` rows of ``size`` standard normal numbers."""
        ...


class SystemSource:
    """The operating system's generator, and nothing that could be computed again."""

    simulated = False

    def members(self, i: int, records: int, rate: float) -> Ints:
        return np.flatnonzero(_uniform(records) < rate)

    def tags(self, i: int, count: int) -> Floats:
        return _uniform(count)

    def normals(self, i: int, draws: int, size: int) -> Floats:
        from scipy.special import ndtri

        words = _words(draws * size)
        lower = ndtri(
            ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-54
        )  # the lower half: its tail has every bit
        sign = np.where(words & np.uint64(1), 1.0, -1.0)
        return np.asarray(sign * lower, dtype=np.float64).reshape(draws, size)


def _uniform(count: int) -> Floats:
    """Multiples of 2^-53 in [0, 1)."""
    return (_words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _words(count: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class SeededSource:
    """Streams of one client's samples and noise that the seed determines: for simulations."""

    simulated = True

    def __init__(self, seed: int, client: int) -> None:
        self._seed, self._client = seed, client
        self._sample: tuple[int, np.random.Generator] | None = None

    def _sampling(self, i: int) -> np.random.Generator:
        """The one stream that a round's members, and then their tags, are drawn from."""
        if self._sample is None or self._sample[0] != i:
            self._sample = (i, stream(self._seed, Purpose.SAMPLE, self._client, i))
        return self._sample[1]

    def members(self, i: int, records: int, rate: float) -> Ints:
        # a binomial number of distinct records, every set of that number alike: the same law as a coin per record, at less cost
        self._sample = None
        rng = self._sampling(i)
        return rng.choice(records, rng.binomial(records, rate), replace=False, shuffle=False).astype(np.int64)

    def tags(self, i: int, count: int) -> Floats:
        return self._sampling(i).random(count)

    def normals(self, i: int, draws: int, size: int) -> Floats:
        return stream(self._seed, Purpose.NOISE, self._client, i).standard_normal((draws, size))


def poisson_slots(source: Source, i: int, records: int, rate: float, slots: int) -> tuple[Ints, Ints]:
    """Draw a round: the records in processing order, and where each of the round's public slots ends among them.

    Every record is in with probability ``rate``, whatever the others do; a uniform tag says when, and the tag's place among the
    slots says in which. A slot may be empty or hold several records, and the number of slots says nothing about the draw.

    >>> rows, ends = poisson_slots(SeededSource(7, client=0), i=0, records=1000, rate=0.004, slots=4)
    >>> rows, ends
    (array([618, 376, 100]), array([0, 2, 2, 3]))
    """
    members = source.members(i, records, rate)
    tags = source.tags(i, len(members))
    order = np.argsort(tags, kind="stable")
    slot = np.minimum((tags[order] * slots).astype(np.int64), slots - 1)
    return members[order], np.searchsorted(slot, np.arange(slots), side="right").astype(np.int64)


def gaussian(source: Source, i: int, scale: float, size: int) -> Floats:
    """N(0, scale^2) noise for each of ``size`` coordinates of round i's release."""
    total: Floats = source.normals(i, SUMMANDS, size).sum(axis=0)
    return total * (scale / math.sqrt(SUMMANDS))
