"""What the statistical checks look at: the noise, the draws and the random words of one source, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crescendo.core.arrays import Bools, Floats, Ints, Uints

TRACKED = 16  # records whose presence in a draw is remembered one by one
TAGS = 6  # of a draw that are remembered


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of whole runs: what was sent less what the certified formula says, over the certified scale.

    Under a sound mechanism ``z`` is independent standard normal, given everything else here. Its axes are run, round and
    coordinate; NaN where nothing was sent. ``hidden`` is what the noise hides, over the same scale. ``units`` are what was
    sent as multiples of the public grid, without the public part.
    """

    z: Floats
    hidden: Floats
    units: Floats
    drawn: Ints  # records in the draw, by run and round
    asked: Floats  # by run and round, from how many records at what rate the source drew; NaN where the auditor did
    expected: Floats  # the number drawn, as a normal score of its law
    members: Bools  # by run, round and tracked record
    tags: Floats  # of the first records of draws that the source made, as normal scores; NaN where there are fewer
    starts: Floats  # the model each round began at, of the coordinates that moved
    rounds: Ints  # which rounds the second axis has
    coordinates: Ints  # which coordinates the third
    clients: Ints  # whose noise, by run

    @property
    def sent(self) -> Bools:
        return np.isfinite(self.z)

    @property
    def values(self) -> Floats:
        """All of it in a row."""
        return self.z[self.sent]

    @property
    def magnitudes(self) -> Floats:
        """|z| as standard normal numbers again: what depends on the scale alone shows in these, and not in z."""
        return magnitudes(self.z)

    def squares(self, axis: tuple[int, ...]) -> tuple[Floats, Ints]:
        """Sums of squares and numbers of terms over some axes."""
        return np.nansum(np.square(self.z), axis=axis), self.sent.sum(axis=axis)

    def means(self, axis: tuple[int, ...]) -> Floats:
        """Means over some axes, as normal scores."""
        count = self.sent.sum(axis=axis)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.nansum(self.z, axis=axis) / np.sqrt(count))


def magnitudes(z: Floats) -> Floats:
    """|z| of standard normal numbers, as standard normal numbers."""
    from scipy.special import ndtr, ndtri

    tail = 2 * ndtr(-np.abs(z))
    return np.asarray(-ndtri(np.clip(tail, 1e-300, 1 - 1e-16)))


@dataclass(frozen=True, eq=False)
class Draws:
    """Who is drawn of ``records`` records, and the tags, by seed and round."""

    rounds: Ints
    rates: Floats  # certified, by round
    records: int
    members: list[list[Ints]]
    tags: list[list[Floats]]

    @property
    def counts(self) -> Ints:
        return np.array([[len(drawn) for drawn in seed] for seed in self.members], dtype=np.int64)

    def present(self, seed: int) -> Bools:
        """Round by record: who is in."""
        found = np.zeros((len(self.rounds), self.records), dtype=bool)
        for r, drawn in enumerate(self.members[seed]):
            found[r, drawn] = True
        return found


@dataclass(frozen=True, eq=False)
class Words:
    """Random words, by seed, round and coordinate; ``more`` are the first further words of some coordinates."""

    first: Uints
    more: Uints
