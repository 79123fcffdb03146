"""Evidence of many runs: the noise of every number that was sent, the draws, the random words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from crescendo.audit.dependence import some
from crescendo.audit.driving.evidence import TAGS, TRACKED, Draws, Noise, Words
from crescendo.audit.driving.lead import Faults, Released, led
from crescendo.audit.driving.subject import Draw, Subject
from crescendo.audit.driving.tap import Tap
from crescendo.audit.scores import count_score, normal_score
from crescendo.audit.worst_cases.scenes import plain_records
from crescendo.core.arrays import Floats, Ints

_SIZES = (0, 0, 1, 1, 2, 3, 5, 8, 16)  # of draws that the auditor chooses
_MOST_COORDINATES = 20_000  # of which noise is kept
_MOST_NUMBERS = 2_000_000
_FURTHER = 4  # coordinates of each round whose further words are looked at, and how many


def collect_noise(subject: Subject, rng: np.random.Generator, releases: int, most_rounds: int) -> tuple[Noise, Faults]:
    """The noise of some ``releases`` releases, over as many rounds as there are, or a sample of the rounds."""
    subject, faults = replace(subject, wire="float64"), Faults()
    rounds = _chosen_rounds(subject.rounds(), rng, most_rounds)
    runs = max(2, min(-(-releases // len(rounds)), _MOST_NUMBERS // (len(rounds) * subject.objective.size)))
    noise = _empty(runs, rounds, some(subject.objective.size, rng, _MOST_COORDINATES))
    seed = int(rng.integers(2**60))
    for run in range(runs):
        one = _client_of(subject, run, rounds)
        noise.clients[run] = one.me
        rate = float(np.median([one.certificate.rate(int(i), one.me) for i in rounds]))
        data = plain_records(one, rng, int(np.clip(3 / rate, _SIZES[-1] + 8, 200)))
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
    noise.tags[:] = normal_score(noise.tags, 1 - noise.tags)
    return noise, faults


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
    return np.where(own, count_score(noise.drawn, np.where(own, records, 1), np.where(own, rates, 0.5), rng), np.nan)


def _judge(one: Released, faults: Faults) -> None:
    for kind, says in (("certified formula", one.departs()), ("public grid", one.off_grid())):
        if says is not None:
            faults.note(kind, says)


# -- straight from the source ------------------------------------------------------------------------------------------


def collect_draws(subject: Subject, rng: np.random.Generator, seeds: int, most_rounds: int, records: int) -> Draws:
    """Draws of as many records as are declared, up to ``records``, with seeds in a row."""
    certificate, me = subject.certificate, subject.me
    rounds, count = _chosen_rounds(subject.rounds(), rng, most_rounds), min(records, certificate.records[me])
    rates = np.array([certificate.rate(int(i), me) for i in rounds])
    first, members, tags = int(rng.integers(2**60)), [], []
    for seed in range(first, first + seeds):
        source = subject.sources(seed, me)
        drawn = []
        tagged = []
        for i, rate in zip(rounds.tolist(), rates.tolist(), strict=True):
            drawn.append(source.members(i, count, rate))
            tagged.append(source.tags(i, len(drawn[-1])))
        members.append(drawn)
        tags.append(tagged)
    return Draws(rounds, rates, count, members, tags)


def collect_words(subject: Subject, rng: np.random.Generator, seeds: int, most_rounds: int) -> Words:
    """The words of whole rounds, and some of the further ones."""
    size = min(subject.objective.size, _MOST_COORDINATES)
    rounds = _chosen_rounds(subject.rounds(), rng, most_rounds)
    first, words, more = int(rng.integers(2**60)), [], []
    for seed in range(first, first + seeds):
        source = subject.sources(seed, subject.me)
        words.append([source.words(int(i), size) for i in rounds])
        further = [[source.more(int(i), j) for j in range(min(_FURTHER, size))] for i in rounds]
        more.append([[[next(each) for _ in range(_FURTHER)] for each in row] for row in further])
    return Words(np.array(words, dtype=np.uint64), np.array(more, dtype=np.uint64))
