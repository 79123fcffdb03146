"""Sources of randomness with one bug each. The docstring is the bug; the audit must find every one.

A source with a bug gives the mechanism what it asks for, so that no formula denies it: only statistics can.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from crescendo.audit.driving.literal import normal_numbers
from crescendo.core.random import Purpose, stream
from crescendo.privacy.mechanisms.gaussian import word_of
from crescendo.privacy.mechanisms.noise import SeededSource, SystemSource

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class _Shaped(SeededSource):
    """The seeded source, its normal numbers changed."""

    def words(self, i: int, size: int) -> Words:
        return word_of(self._shaped(i, normal_numbers(super().words(i, size))[0]))

    def _shaped(self, i: int, z: Floats) -> Floats:
        raise NotImplementedError


# -- the scale and the shape of the noise ------------------------------------------------------------------------------


class HalfTheSystem(SystemSource):
    """The operating system's source gives noise of half the scale; the seeded one is right."""

    def words(self, i: int, size: int) -> Words:
        z: Floats = normal_numbers(super().words(i, size))[0]
        return word_of(z / 2)


class SmallVariance(_Shaped):
    """Noise of 0.97 of the variance."""

    def _shaped(self, i: int, z: Floats) -> Floats:
        return np.asarray(z * 0.97**0.5)


class SilentCoordinate(_Shaped):
    """The third coordinate has a tenth of the noise."""

    def _shaped(self, i: int, z: Floats) -> Floats:
        return np.where(np.arange(len(z)) == 2, z / 10, z)


class Laplacian(_Shaped):
    """Noise of the right variance with the shape of Laplace."""

    def _shaped(self, i: int, z: Floats) -> Floats:
        from scipy.special import ndtr

        return np.asarray(np.sign(z) * -np.log(2 * ndtr(-np.abs(z))) / 2**0.5)


class CutTails(_Shaped):
    """Noise beyond 3.5 sigma is cut."""

    def _shaped(self, i: int, z: Floats) -> Floats:
        return np.clip(z, -3.5, 3.5)


class OnASphere(_Shaped):
    """Every release's noise has the same length."""

    def _shaped(self, i: int, z: Floats) -> Floats:
        return np.asarray(z * (len(z) ** 0.5 / np.linalg.norm(z)))


class BreathingScale(_Shaped):
    """Rounds have a little more and a little less noise in turn."""

    def _shaped(self, i: int, z: Floats) -> Floats:
        return z * (1.05 if i % 2 else (2 - 1.05**2) ** 0.5)


class Drifting(_Shaped):
    """The noise has a mean of a fiftieth of its scale."""

    def _shaped(self, i: int, z: Floats) -> Floats:
        return z + 0.02


# -- noise that comes again --------------------------------------------------------------------------------------------


class FiveRoundsLater(SeededSource):
    """Round 5 k + j has the noise of round j, for ever."""

    def words(self, i: int, size: int) -> Words:
        return super().words(i % 5, size)


class OnceAgain(SeededSource):
    """One round in the middle has the noise of the round five before it, in another order."""

    def words(self, i: int, size: int) -> Words:
        return super().words(i - 5, size)[::-1].copy() if i == 7 else super().words(i, size)


class Antithetic(SeededSource):
    """Every other coordinate has the noise of its neighbour, with the other sign."""

    def words(self, i: int, size: int) -> Words:
        half = super().words(i, (size + 1) // 2)
        return np.stack([half, half ^ np.uint64(1)], axis=1).reshape(-1)[:size]


class SameMagnitudes(SeededSource):
    """Noise has new signs in every round, and the magnitudes of the round before."""

    def words(self, i: int, size: int) -> Words:
        one = np.uint64(1)
        return (super().words(i - i % 2, size) & ~one) | (super().words(i, size) & one)


class SeedPlusRound(SeededSource):
    """Streams are found by the sum of seed and round, so that neighbouring seeds share them."""

    def words(self, i: int, size: int) -> Words:
        return SeededSource(self._seed + i, self._client).words(0, size)


class OneStreamForAll(SeededSource):
    """All clients have the noise of the first."""

    def words(self, i: int, size: int) -> Words:
        return SeededSource(self._seed, 0).words(i, size)


class FewBits(SeededSource):
    """A word has thirty random bits, spread over all of it."""

    def words(self, i: int, size: int) -> Words:
        few = super().words(i, size) >> np.uint64(34)
        return few * np.uint64(0x9E3779B97F4A7C15)


class BitsOfTheTags(SeededSource):
    """The tags are made of the bits of the noise."""

    def tags(self, i: int, count: int) -> Floats:
        return (self.words(i, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class NothingMore(SeededSource):
    """Further words of a number are its first word again."""

    def more(self, i: int, number: int) -> Iterator[int]:
        word = int(self.words(i, number + 1)[number])
        while True:
            yield word


class StuckBit(SystemSource):
    """One of the bits is the same in all words; it is one that decides little."""

    def words(self, i: int, size: int) -> Words:
        return super().words(i, size) | np.uint64(1 << 14)


# -- draws -------------------------------------------------------------------------------------------------------------


class FasterDraws(SeededSource):
    """Records are drawn a fifth more often."""

    def members(self, i: int, records: int, rate: float) -> Ints:
        return super().members(i, records, min(1.0, 1.2 * rate))


class SameTags(SeededSource):
    """The tags are the same in every round."""

    def tags(self, i: int, count: int) -> Floats:
        return stream(self._seed, Purpose.SAMPLE, self._client, 0).random(count)


class TagsInOrder(SeededSource):
    """Tags rise with the records' numbers."""

    def members(self, i: int, records: int, rate: float) -> Ints:
        return np.sort(super().members(i, records, rate))

    def tags(self, i: int, count: int) -> Floats:
        return np.sort(super().tags(i, count))


class FixedSize(SeededSource):
    """Every draw has the expected number of records, or one more."""

    def members(self, i: int, records: int, rate: float) -> Ints:
        rng = stream(self._seed, Purpose.SAMPLE, self._client, i)
        return rng.choice(records, int(records * rate + rng.random()), replace=False)


class Epochs(SeededSource):
    """Records are dealt out from a shuffled deck: none comes again before the deck is empty."""

    def members(self, i: int, records: int, rate: float) -> Ints:
        deck = getattr(self, "_deck", np.empty(0, dtype=np.int64))
        count = int(stream(self._seed, Purpose.SAMPLE, self._client, i).binomial(records, rate))
        while len(deck) < count:
            deck = np.concatenate([deck, stream(self._seed, Purpose.SPLIT, self._client, i).permutation(records)])
        self._deck = deck[count:]
        return np.unique(deck[:count])


class NeverTheLast(SeededSource):
    """The last record is never drawn, by an index off by one."""

    def members(self, i: int, records: int, rate: float) -> Ints:
        members = super().members(i, records, rate)
        return members[members < records - 1]


class DrawsAgainIfEmpty(SeededSource):
    """An empty draw is drawn again."""

    def members(self, i: int, records: int, rate: float) -> Ints:
        for k in range(100):
            found = SeededSource(self._seed + 2**64 * k, self._client).members(i, records, rate)
            if len(found):
                break
        return found


class SameDraws(SeededSource):
    """Draws repeat after three rounds."""

    def members(self, i: int, records: int, rate: float) -> Ints:
        return super().members(i % 3, records, rate)
