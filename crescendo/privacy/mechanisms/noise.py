"""Sources of a private client's randomness, for drawing records and for noise.

A real client takes every number from the operating system. A simulation takes them from seeded streams, so that it can be
repeated; anyone who knows the seed can recompute its noise, which therefore protects no one.
"""

import os
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from crescendo.core.arrays import Floats, Ints, Uints
from crescendo.core.random import Purpose, aim, stream

_CHUNK = 1 << 20  # records drawn together: a hundred million must not take gigabytes
_BLOCKS = 16  # counter blocks of four words reserved for each number's further bits; 512 bits take two


class Source(Protocol):
    """Random numbers for one client, by round."""

    simulated: bool

    def members(self, i: int, records: int, rate: float) -> Ints:
        """Draw each of ``records`` records for round i independently with probability ``rate``; return them in any order."""

    def tags(self, i: int, count: int) -> Floats:
        """Return ``count`` uniform numbers in [0, 1), by which the drawn records of round i are ordered."""

    def words(self, i: int, size: int) -> Uints:
        """Return 64 random bits for each of ``size`` numbers of round i's release: the first bits of its noise."""

    def more(self, i: int, number: int) -> Iterator[int]:
        """Yield further words of one number's noise, for the rare case that the first leaves its rounding open."""


class SystemSource:
    """The operating system's generator, whose numbers cannot be computed again."""

    simulated = False

    def members(self, i: int, records: int, rate: float) -> Ints:
        starts = range(0, records, _CHUNK)
        found = [low + np.flatnonzero(_uniform(min(_CHUNK, records - low)) < rate) for low in starts]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def tags(self, i: int, count: int) -> Floats:
        return _uniform(count)

    def words(self, i: int, size: int) -> Uints:
        return _words(size)

    def more(self, i: int, number: int) -> Iterator[int]:
        while True:
            yield int(_words(1)[0])


def _uniform(count: int) -> Floats:
    """Return multiples of 2^-53 in [0, 1); each is below a rate, itself such a multiple, with exactly that probability."""
    return (_words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _words(count: int) -> Uints:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class SeededSource:
    """Seeded streams of one client's samples and noise, for simulations."""

    simulated = True

    def __init__(self, seed: int, client: int) -> None:
        self._seed, self._client = seed, client
        self._sample, self._noise = stream(seed, Purpose.SAMPLE), stream(seed, Purpose.NOISE)  # to be aimed at a round
        self._sampled: int | None = None

    def _sampling(self, i: int) -> np.random.Generator:
        """Return the stream from which a round's members, and then their tags, are drawn."""
        if self._sampled != i:
            self._sampled = i
            aim(self._sample, self._seed, Purpose.SAMPLE, self._client, i)
        return self._sample

    def members(self, i: int, records: int, rate: float) -> Ints:
        # a binomial number of distinct records, all sets equally likely: the law of one coin per record, at less cost
        self._sampled = None
        rng = self._sampling(i)
        return rng.choice(records, rng.binomial(records, rate), replace=False, shuffle=False).astype(np.int64)

    def tags(self, i: int, count: int) -> Floats:
        return self._sampling(i).random(count)

    def words(self, i: int, size: int) -> Uints:
        return aim(self._noise, self._seed, Purpose.NOISE, self._client, i).bit_generator.random_raw(size)

    def more(self, i: int, number: int) -> Iterator[int]:
        generator = stream(self._seed, Purpose.REFINE, self._client, i, first=_BLOCKS * number)
        while True:
            yield int(generator.bit_generator.random_raw())


def poisson_slots(source: Source, i: int, records: int, rate: float, slots: int) -> tuple[Ints, Ints]:
    """Draw a round: return the records in processing order, and the end of each of the round's public slots among them.

    Every record is drawn independently with probability ``rate``. A uniform tag gives its place in the order and its slot. A
    slot may be empty or hold several records, and the number of slots reveals nothing about the draw.

    >>> rows, ends = poisson_slots(SeededSource(7, client=0), i=0, records=1000, rate=0.004, slots=4)
    >>> rows, ends
    (array([618, 376, 100]), array([0, 2, 2, 3]))
    """
    members = source.members(i, records, rate)
    tags = source.tags(i, len(members))
    slot = np.minimum((tags * slots).astype(np.int64), slots - 1)
    return members[_in_order(tags)], np.cumsum(np.bincount(slot, minlength=slots))


def _in_order(tags: Floats) -> Ints:
    """Return the order that sorts the tags stably: by 53 bits of tag and then its place, in one word if both fit.

    >>> _in_order(np.array([0.5, 0.25, 0.5, 0.0]))
    array([3, 1, 0, 2])
    """
    places = len(tags).bit_length()
    if places > 64 - 53:
        return np.argsort(tags, kind="stable")
    words = (tags * 2.0**53).astype(np.uint64) << np.uint64(places)
    words |= np.arange(len(tags), dtype=np.uint64)
    words.sort()  # half the time of sorting places by tags
    return (words & np.uint64((1 << places) - 1)).astype(np.int64)
