"""The tags that put drawn records in order: uniform, new in every round, and strangers to the records' numbers."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.dependence import dependent
from crescendo.audit.driving.evidence import Draws
from crescendo.audit.scores import Group, Tested, along, always, bins_p, combined, ends_p, normal_p
from crescendo.core.arrays import Floats

BINS, WIDTH, MOST = 32, 24, 20_000


def test(draws: Draws, rng: np.random.Generator) -> Tested:
    from scipy.special import ndtri

    tags = np.concatenate([np.empty(0), *(each for seed in draws.tags for each in seed)])
    if not len(tags):
        return combined()
    counts = np.bincount(np.minimum((tags * BINS).astype(np.int64), BINS - 1), minlength=BINS)
    table = _table(draws)
    scores = ndtri(np.clip(table, 2.0**-54, 1 - 2.0**-54))
    by_round = np.moveaxis(scores, 1, 0).reshape(len(draws.rounds), -1)
    order = along(_numbers(draws)[None], ndtri(np.clip(tags, 2.0**-54, 1 - 2.0**-54))[None])
    ps, _ = ends_p(tags)
    return combined(
        Group(bins_p(counts, rng), lambda at: f"{counts[at]:,} of {len(tags):,} tags lie in part {at} of {BINS}"),
        Group(ps, always(f"too many or too few of {len(tags):,} tags lie near 0 or near 1")),
        Group(normal_p(order), lambda _: "tags go with the numbers of the records"),
        *dependent(by_round, draws.rounds, "the tags", "round"),
        *dependent(scores.reshape(len(scores), -1), np.arange(len(scores)), "the tags", "seed", nearest=4),
        *dependent(np.moveaxis(scores, 2, 0).reshape(WIDTH, -1), np.arange(WIDTH), "the tags", "place"),
    )


def repeats(draws: Draws, rng: np.random.Generator) -> Tested:
    """Any two of n tags are equal with a chance of at most n^2 / 2^54."""
    tags = np.concatenate([np.empty(0), *(each for seed in draws.tags for each in seed)])
    if len(tags) > MOST:
        tags = tags[rng.choice(len(tags), MOST, replace=False)]
    twice = len(tags) - len(np.unique(tags))
    says = f"{twice:,} of {len(tags):,} tags come twice"
    return Tested(min(1.0, len(tags) ** 2 * 2.0**-54) if twice else 1.0, says)


def _table(draws: Draws) -> Floats:
    """The first tags of every draw, by seed, round and place; NaN where there are fewer."""
    table = np.full((len(draws.tags), len(draws.rounds), WIDTH), np.nan)
    for s, seed in enumerate(draws.tags):
        for r, tags in enumerate(seed):
            table[s, r, : len(tags)] = tags[:WIDTH]
    return table


def _numbers(draws: Draws) -> Floats:
    """The drawn records' numbers, as large above the middle as below it."""
    numbers = np.concatenate([np.empty(0), *(each for seed in draws.members for each in seed)])
    return numbers - (draws.records - 1) / 2


TAGS = Check("tags", "tags unlike uniform numbers", "draws", test)
REPEATS = Check("repeated tags", "a tag that comes twice", "draws", repeats, exact=False)
