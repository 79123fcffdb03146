"""Attack on the sources of randomness: the origin of their bits, and the draws that follow from given bits.

Statistics see little of either: a generator with a seed of 32 bits passes every test, a pool that is handed out twice repeats
after millions of numbers, and a sampler may be right for ten thousand records and wrong for ten million. So the operating
system's bits are counted as they are read, and then replaced by bits for which the right draw is known.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.subject import Sources, Subject
from crescendo.audit.driving.system_bits import tapped
from crescendo.core.arrays import Bools, Ints, Uints
from crescendo.privacy.mechanisms.noise import Source

BITS, SAMPLER = "random bits' source", "draws at full size"
CHUNKS = (1 << 21) + 12_345  # records: samplers draw some 2^20 at a time, so that this crosses borders
_POOL = 96 << 20  # bytes: a source that fills a pool before it is audited must have come to its end after so many
_AT_ONCE = 1 << 20  # words
_SEED_BITS = 128
_SMALL = 1000  # records, of whom either all or none must be drawn
_FINE = 2**53
_TINY = (1, 2**13 + 1, 2**28)  # rates as multiples of 2^-53, of which floats of 24 bits have none


def probe_source(subject: Subject, name: str, sources: Sources, rng: np.random.Generator, faults: Faults) -> None:
    """Attack one source, and note each fault with the source's name."""
    with faults.noting(f"the {name} source by itself"):
        source = sources(int(rng.integers(2**62)), subject.me)
        for says in _everyone(source):
            faults.note(SAMPLER, f"{says} ({name} source)")
        if source.simulated:
            told = _like_another(subject, sources, rng)
        else:
            told = _stale(subject, sources, rng)
            for says in _against_the_bits(subject, sources, rng):
                faults.note(SAMPLER, f"{says} ({name} source)")
        if told is not None:
            faults.note(BITS, f"{told} ({name} source)")


# -- who is drawn ------------------------------------------------------------------------------------------------------


def _everyone(source: Source) -> Iterator[str]:
    """At rate 1, every record must be drawn once, in the last chunk as in the first."""
    drawn = source.members(0, CHUNKS, 1.0)
    there = np.zeros(CHUNKS, dtype=bool)
    if len(drawn) and not 0 <= drawn.min() <= drawn.max() < CHUNKS:
        yield f"of {CHUNKS:,} records, one with the number {int(drawn.max()):,} was drawn"
        return
    there[drawn] = True
    if len(drawn) != CHUNKS or not there.all():
        first = int(np.argmin(there))
        yield (
            f"at rate 1, {int(there.sum()):,} of {CHUNKS:,} records were drawn, some of them more than once: {len(drawn):,} "
            f"numbers in all; record {first:,} is the first without"
        )


def _against_the_bits(subject: Subject, sources: Sources, rng: np.random.Generator) -> Iterator[str]:
    """With bits that stand for a uniform number, a record is drawn if and only if that number is below the rate.

    A source that reads another number of bits makes uniform numbers in another way, and which bits draw a record is not known:
    then only this is asked, that a number that is not below the rate in any part of it draws no record.
    """
    rates = {subject.certificate.rate(i, subject.me) for pair in subject.pairs() for i in pair}
    wholes = {round(rate * _FINE) for rate in rates if rate < 1} | {
        *_TINY,
        _FINE // subject.certificate.records[subject.me],
    }
    for whole in sorted(whole for whole in wholes if 0 < whole < _FINE):
        at, below = (_drawn_by(number, whole, subject, sources, rng) for number in (whole, whole - 1))
        if len(at[0]):
            yield f"at rate {whole * 2.0**-53!r}, {len(at[0])} of {_SMALL} records were drawn by numbers that are not below it"
        elif below[1] == 8 * _SMALL and len(below[0]) != _SMALL:
            yield f"at rate {whole * 2.0**-53!r}, {len(below[0])} of {_SMALL} records were drawn by numbers that are all below it"


def _drawn_by(number: int, rate: int, subject: Subject, sources: Sources, rng: np.random.Generator) -> tuple[Ints, int]:
    """Who is drawn at this rate if every uniform number is this one, both in 2^-53; and how many bytes were asked for."""
    low = int(rng.integers(2**11))  # the bits of a word that make no difference
    word = np.uint64(number << 11 | low).tobytes()
    source = sources(int(rng.integers(2**62)), subject.me)
    with tapped(lambda size: (word * (size // 8 + 1))[:size]) as taken:
        return source.members(0, _SMALL, rate * 2.0**-53), taken.size


# -- where the bits come from ------------------------------------------------------------------------------------------


def _stale(subject: Subject, sources: Sources, rng: np.random.Generator) -> str | None:
    """Every number that a source hands out must rest on bits that were read for it and for no other.

    A source that has read another number of bytes than it gave reads ahead, or not enough. It is asked until it has given more
    than any pool holds: only then does it show whether it reads again or hands out the same once more.
    """
    with tapped() as taken:
        source = sources(int(rng.integers(2**62)), subject.me)
        given = [np.asarray(source.words(i, 64)) for i in range(4)]
        made = 8 * sum(map(len, given))
        made += 8 * (len(source.tags(0, 64)) + len([next(source.more(0, j)) for j in range(8)]))
        i = len(given)
        while taken.size != made < _POOL:
            made += 8 * len(source.words(i, _AT_ONCE))
            i += 1
        if taken.size < made:
            return f"{made:,} bytes were handed out, and {taken.size:,} were read from the operating system for them"
        strange = _not_among(np.concatenate(given), taken.words)
    if strange.any():
        return f"{int(strange.sum())} of {len(strange)} random words are none that the operating system gave"
    return None


def _not_among(few: Uints, many: Uints) -> Bools:
    """Return which of the few words are not among the many. The many are not sorted: they may be a hundred megabytes."""
    ordered = np.sort(few)
    at = np.minimum(np.searchsorted(ordered, many), len(ordered) - 1)
    return ~np.isin(few, many[ordered[at] == many])


def _like_another(subject: Subject, sources: Sources, rng: np.random.Generator) -> str | None:
    """A seeded source must use all bits of its seed, and have a stream for every client and round."""
    seed = int(rng.integers(2**62)) << 64 | int(rng.integers(2**62))
    keys = [(seed, subject.me, 0), *((seed ^ 1 << bit, subject.me, 0) for bit in range(_SEED_BITS))]
    keys += [(seed, subject.me + c, 0) for c in range(1, 9)] + [(seed, subject.me, i) for i in range(1, 9)]
    first: dict[int, tuple[int, int, int]] = {}
    for key in keys:
        word = int(sources(*key[:2]).words(key[2], 1)[0])
        if word in first:
            other = first[word]
            return f"(seed, client, round) {key} begins with the same random word as {other}"
        first[word] = key
    return None
