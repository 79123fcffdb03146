"""Draws against other draws, and the tags that put drawn records in order."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.dependence import dependent
from crescendo.audit.driving.evidence import Draws
from crescendo.audit.scores import (
    Group,
    Tested,
    along,
    always,
    bins_p,
    combined,
    count_score,
    ends_p,
    normal_p,
    squares_p,
)
from crescendo.core.arrays import Floats, Ints

_MOST_PAIRS, _MOST_RECORDS = 40_000, 30_000
_BINS, _WIDTH, _MOST_TAGS = 32, 24, 20_000


def _overlaps(draws: Draws, rng: np.random.Generator) -> Tested:
    """Given earlier draws, each of their records is in a later draw with that one's rate, independently of the others."""
    early, late = np.triu_indices(len(draws.rounds), 1)
    seeds, width = (
        range(min(len(draws.members), 2 + _MOST_PAIRS // (1 + len(early)))),
        min(draws.records, _MOST_RECORDS),
    )
    pairs, unions, between, before = [], [], [], None
    for seed in seeds:
        present = draws.present(seed)[:, :width].astype(np.float32)
        common = (present @ present.T).astype(np.int64)
        pairs.append(count_score(common[early, late], common[early, early], draws.rates[late], rng))
        seen = np.cumsum(present, axis=0)[:-1] > 0
        again = (present[1:] * seen).sum(axis=1).astype(np.int64)
        unions.append(count_score(again, seen.sum(axis=1), draws.rates[1:], rng))
        if before is not None:
            both = (present * before).sum(axis=1).astype(np.int64)
            between.append(count_score(both, before.sum(axis=1).astype(np.int64), draws.rates, rng))
        before = present
    apart = np.tile(draws.rounds[late] - draws.rounds[early], len(pairs))
    return combined(*_by_lag(np.concatenate(pairs), apart), *_again(np.array(unions)), *_between(between))


def _again(scores: Floats) -> list[Group]:
    """Records that were in any round before: by round, and over all rounds."""
    by_round = scores.sum(axis=0) / np.sqrt(max(1, len(scores)))
    total = float(scores.sum() / np.sqrt(max(1, scores.size)))
    says = "records that were drawn before come again more or less often than others"
    return [
        Group(normal_p([total]), lambda _: f"{says}, by {total:.1f} standard deviations"),
        Group(
            normal_p(by_round), lambda at: f"{says} in the {at + 2}. of the rounds, by {by_round[at]:.1f} deviations"
        ),
    ]


def _between(scores: list[Floats]) -> list[Group]:
    values = np.array([each.sum() / np.sqrt(len(each)) for each in scores])
    return [
        Group(normal_p(values), lambda at: f"seeds {at} and {at + 1} draw the same records too often or too rarely")
    ]


def _by_lag(scores: Floats, apart: Ints) -> list[Group]:
    lags, place = np.unique(apart, return_inverse=True)
    counts = np.bincount(place, minlength=len(lags))
    sums = np.bincount(place, scores, minlength=len(lags)) / np.sqrt(counts)
    squares = np.bincount(place, scores**2, minlength=len(lags))

    def says(at: int) -> str:
        return f"draws {lags[at]} rounds apart have more or fewer records in common than chance, by {sums[at]:.1f} deviations"

    return [Group(normal_p(sums), says), Group(squares_p(squares, counts), says)] if len(lags) else []


def _tags(draws: Draws, rng: np.random.Generator) -> Tested:
    """Tags are uniform, new in every round, and strangers to the records' numbers."""
    from scipy.special import ndtri

    tags = np.concatenate([np.empty(0), *(each for seed in draws.tags for each in seed)])
    if not len(tags):
        return combined()
    counts = np.bincount(np.minimum((tags * _BINS).astype(np.int64), _BINS - 1), minlength=_BINS)
    table = _table(draws)
    scores = ndtri(np.clip(table, 2.0**-54, 1 - 2.0**-54))
    by_round = np.moveaxis(scores, 1, 0).reshape(len(draws.rounds), -1)
    order = along(_numbers(draws)[None], ndtri(np.clip(tags, 2.0**-54, 1 - 2.0**-54))[None])
    ps, _ = ends_p(tags)
    return combined(
        Group(bins_p(counts, rng), lambda at: f"{counts[at]:,} of {len(tags):,} tags lie in part {at} of {_BINS}"),
        Group(ps, always(f"too many or too few of {len(tags):,} tags lie near 0 or near 1")),
        Group(normal_p(order), lambda _: "tags go with the numbers of the records"),
        *dependent(by_round, draws.rounds, "the tags", "round"),
        *dependent(scores.reshape(len(scores), -1), np.arange(len(scores)), "the tags", "seed", nearest=4),
        *dependent(np.moveaxis(scores, 2, 0).reshape(_WIDTH, -1), np.arange(_WIDTH), "the tags", "place"),
    )


def _repeated_tags(draws: Draws, rng: np.random.Generator) -> Tested:
    """Any two of n tags are equal with a chance of at most n^2 / 2^54."""
    tags = np.concatenate([np.empty(0), *(each for seed in draws.tags for each in seed)])
    if len(tags) > _MOST_TAGS:
        tags = tags[rng.choice(len(tags), _MOST_TAGS, replace=False)]
    twice = len(tags) - len(np.unique(tags))
    says = f"{twice:,} of {len(tags):,} tags come twice"
    return Tested(min(1.0, len(tags) ** 2 * 2.0**-54) if twice else 1.0, says)


def _table(draws: Draws) -> Floats:
    """The first tags of every draw, by seed, round and place; NaN where there are fewer."""
    table = np.full((len(draws.tags), len(draws.rounds), _WIDTH), np.nan)
    for s, seed in enumerate(draws.tags):
        for r, tags in enumerate(seed):
            table[s, r, : len(tags)] = tags[:_WIDTH]
    return table


def _numbers(draws: Draws) -> Floats:
    """The drawn records' numbers, as large above the middle as below it."""
    numbers = np.concatenate([np.empty(0), *(each for seed in draws.members for each in seed)])
    return numbers - (draws.records - 1) / 2


CHECKS = (
    Check("common records", "draws that know each other", "draws", _overlaps),
    Check("tags", "tags unlike uniform numbers", "draws", _tags, exact=False),
    Check("repeated tags", "a tag that comes twice", "draws", _repeated_tags, exact=False),
)
