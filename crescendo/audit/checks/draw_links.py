"""Checks of draws against other draws, and of the tags that order drawn records."""

from __future__ import annotations

import numpy as np

from crescendo.audit import renewal
from crescendo.audit.check import Check
from crescendo.audit.dependence import by_lag, dependent, earlier
from crescendo.audit.driving.evidence import Draws
from crescendo.audit.scores import (
    Group,
    Tails,
    Tested,
    combined,
    counted,
    normal_p,
    squared,
    steps_p,
)
from crescendo.core.arrays import Floats, Ints

_MOST_DRAWS, _MOST_RECORDS, _MOST_EARLIER = 8000, 30_000, 16
_OTHER_SEED, _ANY = -1, 0  # instead of the number of rounds apart
_BINS, _WIDTH, _MOST_TAGS = 32, 24, 20_000


def _overlaps(draws: Draws, rng: np.random.Generator) -> Tested:
    """Given earlier draws, each of their records is in a later draw with that one's rate, independently of the others.

    The records are divided up for every draw: those that the seed before drew in the same round, those of some earlier
    rounds, those of any other earlier round. Every record counts once, so that the counts are independent.
    """
    seed, at, apart, size, hits = _divided(draws, rng)
    scores = counted(hits, size, draws.rates[at], rng).score
    other = apart == _OTHER_SEED
    between, _ = renewal.sums(scores[other], _places(seed[other]), rng)
    pairs = np.unique(seed[other])
    within, lag = scores[~other], apart[~other]
    total, within = renewal.sums(within, np.zeros(len(within), dtype=np.int64), rng)
    by_round, within = renewal.sums(within, _places(at[~other]), rng)
    rounds = draws.rounds[np.unique(at[~other])]
    lags, sums, squares, counts, _ = by_lag(within, lag, rng)
    again = "records that were drawn before come again more or less often than others"

    def linked(place: int) -> str:
        apart = f"{lags[place]} rounds apart" if lags[place] else "many rounds apart"
        return f"draws {apart} have more or fewer records in common than chance, by {sums[place]:.1f} deviations"

    return combined(
        Group(normal_p(total), lambda _: f"{again}, by {total[0]:.1f} standard deviations"),
        Group(normal_p(by_round), lambda r: f"{again} in round {rounds[r]}, by {by_round[r]:.1f} deviations"),
        Group(normal_p(sums), linked),
        Group(squared(squares, counts).p, linked),
        Group(
            normal_p(between),
            lambda s: f"seeds {pairs[s] - 1} and {pairs[s]} draw the same records too often or too rarely",
        ),
    )


def _divided(draws: Draws, rng: np.random.Generator) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return for every part of every draw: seed, index of the round, rounds apart, records, and drawn records."""
    rounds, width = len(draws.rounds), min(draws.records, _MOST_RECORDS)
    # with more earlier rounds, few records would be left for the last ones
    most = int(np.clip(1 / draws.rates.mean(), 1, _MOST_EARLIER))
    found, last = [np.empty((5, 0), dtype=np.int64)], None
    for seed in range(min(len(draws.members), 2 + _MOST_DRAWS // rounds)):
        members = [drawn[drawn < width] for drawn in draws.members[seed]]
        seen = np.zeros(width, dtype=bool)
        for late in range(rounds):
            early = earlier(late, most, rng)
            apart = np.array([_OTHER_SEED, *(draws.rounds[late] - draws.rounds[early]), _ANY])
            part = np.where(seen, len(apart) - 1, len(apart))
            for k in range(len(early), 0, -1):
                part[members[early[k - 1]]] = k
            if last is not None:
                part[last[late]] = 0
            sizes = np.bincount(part, minlength=len(apart) + 1)[:-1]
            hits = np.bincount(part[members[late]], minlength=len(apart) + 1)[:-1]
            there = np.flatnonzero(sizes)
            whose = np.full(len(there), seed), np.full(len(there), late)
            found.append(np.stack([*whose, apart[there], sizes[there], hits[there]]))
            seen[members[late]] = True
        last = members
    seeds, at, apart, sizes, hits = np.concatenate(found, axis=1)
    return seeds, at, apart, sizes, hits


def _places(labels: Ints) -> Ints:
    return np.asarray(np.unique(labels, return_inverse=True)[1])


def _tags(draws: Draws, rng: np.random.Generator) -> Tested:
    """Test that tags are uniform, new in every round, and independent of the records' numbers."""
    tags = np.concatenate([np.empty(0), *(each for seed in draws.tags for each in seed)])
    n = len(tags)
    if not n:
        return combined()
    ranks = _ranks(n)
    points, renewed = renewal.order(tags, ranks, rng)
    scores = Tails(renewed, 1 - renewed).score
    going, scores = renewal.coefficients(_numbers(draws)[:, None], scores[:, None], rng)
    table = _table(draws, scores[:, 0])
    seeds, _, width = table.shape
    by_round, table = dependent(table, 1, draws.rounds, "the tags", "round", rng)
    by_seed, table = dependent(table, 0, np.arange(seeds), "the tags", "seed", rng, nearest=4)
    by_place, _ = dependent(table, 2, np.arange(width), "the tags", "place", rng)

    def at(place: int) -> str:
        return f"too many or too few of {n:,} tags lie below {points[place]:.4g}, which is number {ranks[place]:,}"

    return combined(
        Group(steps_p(points, ranks, n), at),
        Group(normal_p(going[0]), "tags go with the numbers of the records"),
        *by_round,
        *by_seed,
        *by_place,
    )


def _ranks(n: int) -> Ints:
    """Return the ranks of the tags whose size is tested: some at either end, and every 32nd part of all."""
    ends = 16 ** np.arange(3)
    ranks = np.concatenate([ends, n + 1 - ends, np.arange(1, _BINS) * n // _BINS])
    return np.unique(ranks[(ranks >= 1) & (ranks <= n)])


def _repeated_tags(draws: Draws, rng: np.random.Generator) -> Tested:
    """Test for equal tags: any two of n tags are equal with a chance of at most n^2 / 2^54."""
    tags = np.concatenate([np.empty(0), *(each for seed in draws.tags for each in seed)])
    if len(tags) > _MOST_TAGS:
        tags = tags[rng.choice(len(tags), _MOST_TAGS, replace=False)]
    twice = len(tags) - len(np.unique(tags))
    says = f"{twice:,} of {len(tags):,} tags come twice"
    return Tested(min(1.0, len(tags) ** 2 * 2.0**-54) if twice else 1.0, says)


def _table(draws: Draws, scores: Floats) -> Floats:
    """Return the first scores of every draw by seed, round and place, up to the median size; NaN for smaller draws."""
    width = int(np.clip(np.median(draws.counts), 1, _WIDTH))
    table = np.full((len(draws.tags), len(draws.rounds), width), np.nan)
    begin = 0
    for s, seed in enumerate(draws.tags):
        for r, tags in enumerate(seed):
            kept = min(width, len(tags))
            table[s, r, :kept] = scores[begin : begin + kept]
            begin += len(tags)
    return table


def _numbers(draws: Draws) -> Floats:
    """Return the numbers of the drawn records, centred on the middle record."""
    numbers = np.concatenate([np.empty(0), *(each for seed in draws.members for each in seed)])
    return numbers - (draws.records - 1) / 2


CHECKS = (
    Check("common records", "draws that know each other", "draws", _overlaps),
    Check("tags", "tags unlike uniform numbers", "draws", _tags),
    Check("repeated tags", "a tag that comes twice", "draws", _repeated_tags, exact=False),
)
