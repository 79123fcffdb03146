"""Evidence for the statistical checks: the noise, the draws and the random words of one source, over many runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from crescendo.audit.dependence import some
from crescendo.audit.driving.lead import Faults, Released, led
from crescendo.audit.driving.subject import Draw, Subject
from crescendo.audit.driving.tap import Tap
from crescendo.audit.scores import Tails, counted
from crescendo.core.arrays import Bools, Floats, Ints, Uints

TRACKED = 16  # records whose presence in a draw is remembered one by one
TAGS = 6  # of a draw that are remembered
_SIZES = (0, 0, 1, 1, 2, 3, 5, 8, 16)  # of draws that the auditor chooses
_MOST_COORDINATES = 20_000  # of which noise is kept
_MOST_NUMBERS = 2_000_000
_MOST_CELLS, _LEAST_SEEDS = (
    25_000_000,
    4,
)  # records of all draws together, drawn or not; and how many seeds there are even so
_SAME_RECORDS = 4  # runs in a row have the same records, which take as long to make up as a run
_FURTHER = 4  # coordinates of each round whose further words are looked at, and how many

Heard: TypeAlias = Callable[[float], None]  # hears which part is done, from 0 to 1


def unheard(part: float) -> None:
    """Nobody listens."""


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of whole runs: the releases less the certified formula, over the certified scale.

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

    @classmethod
    def collected(
        cls, subject: Subject, rng: np.random.Generator, releases: int, most_rounds: int, heard: Heard = unheard
    ) -> tuple[Noise, Faults]:
        """The noise of some ``releases`` releases, over as many rounds as there are, or a sample of the rounds."""
        subject, faults = replace(subject, wire="float64"), Faults()
        rounds = _chosen_rounds(subject.rounds(), rng, most_rounds)
        runs = max(2, min(-(-releases // len(rounds)), _MOST_NUMBERS // (len(rounds) * subject.objective.size)))
        noise = _empty(runs, rounds, some(subject.objective.size, rng, _MOST_COORDINATES))
        seed = int(rng.integers(2**60))
        rate = float(np.median([subject.certificate.rate(int(i), subject.me) for i in rounds]))
        records, data = int(np.clip(3 / rate, _SIZES[-1] + 8, 200)), subject.plain_records(rng, 1)
        for run in range(runs):
            heard(run / runs)
            one = _client_of(subject, run, rounds)
            noise.clients[run] = one.me
            if run % _SAME_RECORDS == 0:
                data = one.plain_records(rng, records)
            # seeds in a row, and the same seed for another client: streams that are joined show in each other's numbers
            tap = Tap(
                one.sources(seed + (run if one.me == subject.me else run - 1), one.me),
                _draws(rounds, rng) if run % 2 else None,
            )
            with faults.noting("ordinary records"):
                for place, released in enumerate(led(one, tap, data, rng, rounds, faults)):
                    _keep(noise, run, place, one, released, rng)
                    _judge(released, faults)
        noise.expected[:] = _scores_of_counts(noise, rng)
        noise.tags[:] = Tails(noise.tags, 1 - noise.tags).score
        return noise, faults

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

    @classmethod
    def collected(
        cls,
        subject: Subject,
        rng: np.random.Generator,
        seeds: int,
        most_rounds: int,
        records: int,
        heard: Heard = unheard,
    ) -> Draws:
        """Draws of as many records as are declared, up to ``records``, with seeds in a row."""
        certificate, me = subject.certificate, subject.me
        rounds, count = _chosen_rounds(subject.rounds(), rng, most_rounds), min(records, certificate.records[me])
        rates = np.array([certificate.rate(int(i), me) for i in rounds])
        seeds = max(_LEAST_SEEDS, min(seeds, _MOST_CELLS // (count * len(rounds))))
        first, members, tags = int(rng.integers(2**60)), [], []
        for seed in range(first, first + seeds):
            heard((seed - first) / seeds)
            source = subject.sources(seed, me)
            drawn = []
            tagged = []
            for i, rate in zip(rounds.tolist(), rates.tolist(), strict=True):
                drawn.append(source.members(i, count, rate))
                tagged.append(source.tags(i, len(drawn[-1])))
            members.append(drawn)
            tags.append(tagged)
        return cls(rounds, rates, count, members, tags)

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

    @classmethod
    def collected(
        cls, subject: Subject, rng: np.random.Generator, seeds: int, most_rounds: int, heard: Heard = unheard
    ) -> Words:
        """The words of whole rounds, and some of the further ones."""
        size = min(subject.objective.size, _MOST_COORDINATES)
        rounds = _chosen_rounds(subject.rounds(), rng, most_rounds)
        first, words, more = int(rng.integers(2**60)), [], []
        for seed in range(first, first + seeds):
            heard((seed - first) / seeds)
            source = subject.sources(seed, subject.me)
            words.append([source.words(int(i), size) for i in rounds])
            further = [[source.more(int(i), j) for j in range(min(_FURTHER, size))] for i in rounds]
            more.append([[[next(each) for _ in range(_FURTHER)] for each in row] for row in further])
        return cls(np.array(words, dtype=np.uint64), np.array(more, dtype=np.uint64))


# -- how it is collected ------------------------------------------------------------------------------------------------


def _chosen_rounds(shared: Sequence[int], rng: np.random.Generator, most: int) -> Ints:
    """All rounds, or the first, the last, a stretch in the middle and a sample of the others."""
    if len(shared) <= most:
        return np.array(shared, dtype=np.int64)
    part = most // 5
    begin = int(rng.integers(part, len(shared) - 2 * part))
    fixed = {*range(part), *range(len(shared) - part, len(shared)), *range(begin, begin + part), len(shared) // 2}
    others = [k for k in range(len(shared)) if k not in fixed]
    fixed.update(int(k) for k in rng.choice(others, most - len(fixed), replace=False))
    return np.array([shared[k] for k in sorted(fixed)], dtype=np.int64)


def _empty(runs: int, rounds: Ints, coordinates: Ints) -> Noise:
    shape = runs, len(rounds), len(coordinates)
    z, hidden, units, starts = (np.full(shape, np.nan) for _ in range(4))
    return Noise(
        z=z,
        hidden=hidden,
        units=units,
        starts=starts,
        drawn=np.zeros(shape[:2], dtype=np.int64),
        asked=np.full((*shape[:2], 2), np.nan),
        expected=np.full(shape[:2], np.nan),
        members=np.zeros((*shape[:2], TRACKED), dtype=bool),
        tags=np.full((*shape[:2], TAGS), np.nan),
        rounds=rounds,
        coordinates=coordinates,
        clients=np.zeros(runs, dtype=np.int64),
    )


def _client_of(subject: Subject, run: int, rounds: Ints) -> Subject:
    """The audited client; in every eighth run another one, where there is one with a share in these rounds."""
    terms = subject.certificate.terms
    if terms.clients == 1 or run % 8 != 2:
        return subject
    others = [
        c for c in range(min(terms.clients, 8)) if c != subject.me and all(terms.share(int(i), c) for i in rounds)
    ]
    return replace(subject, me=others[run // 8 % len(others)], shared=None) if others else subject


def _draws(rounds: Ints, rng: np.random.Generator) -> dict[int, Draw]:
    found = {}
    for i in rounds:
        members = rng.choice(_SIZES[-1] + 8, int(rng.choice(_SIZES)), replace=False).astype(np.int64)
        found[int(i)] = Draw(members, rng.random(len(members)))
    return found


def _keep(noise: Noise, run: int, place: int, subject: Subject, one: Released, rng: np.random.Generator) -> None:
    low, high = subject.certificate.terms.block(one.i, subject.objective.size)
    inside = (noise.coordinates >= low) & (noise.coordinates < high)
    kept = noise.coordinates[inside] - low
    # uniform over a step of the grid: numbers that were rounded to it have a density again
    dither = (rng.random(len(kept)) - 0.5) * (one.grid / one.scale)
    noise.z[run, place, inside] = (one.noisy - one.formula.hidden)[kept] / one.scale + dither
    noise.hidden[run, place, inside] = one.formula.hidden[kept] / one.scale
    noise.starts[run, place, inside] = one.start[low:high][kept]
    if one.blur < 0.2:
        noise.units[run, place, inside] = np.rint(one.noisy[kept] / one.grid)
    members = one.draw.members
    noise.drawn[run, place] = len(members)
    noise.members[run, place, members[members < TRACKED]] = True
    if one.asked is not None:
        noise.asked[run, place] = one.asked
        noise.tags[run, place, : len(members)] = one.draw.tags[:TAGS]


def _scores_of_counts(noise: Noise, rng: np.random.Generator) -> Floats:
    records, rates = np.moveaxis(noise.asked, 2, 0)
    own = np.isfinite(rates) & (noise.drawn <= records) & (rates <= 1)
    return np.where(own, counted(noise.drawn, np.where(own, records, 1), np.where(own, rates, 0.5), rng).score, np.nan)


def _judge(one: Released, faults: Faults) -> None:
    for kind, says in (("certified formula", one.departs()), ("public grid", one.off_grid())):
        if says is not None:
            faults.note(kind, says)
