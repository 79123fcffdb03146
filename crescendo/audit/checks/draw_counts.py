"""Checks of the number of drawn records against the certified rates, and of equal chances for all records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from crescendo.audit import renewal
from crescendo.audit.check import Check
from crescendo.audit.dependence import dependent
from crescendo.audit.driving.evidence import Draws
from crescendo.audit.scores import (
    Group,
    Tails,
    Tested,
    combined,
    counted,
    ends_p,
    normal_p,
    squared,
)
from crescendo.core.arrays import Floats, Ints

_PARTS = 16


def _rates(draws: Draws, rng: np.random.Generator) -> Tested:
    """Test the number of records drawn over all rounds and in every round against the certified rates."""
    hits, trials = draws.counts.sum(axis=0), draws.records * len(draws.members)
    scores = counted(hits, trials, draws.rates, rng).score
    total, scores = renewal.sums(scores, np.zeros(len(scores), dtype=np.int64), rng)
    expected = float(draws.rates.sum() * trials)

    def says(place: int) -> str:
        where = f"in round {draws.rounds[place]}, certified is a rate of {draws.rates[place]:.4g}"
        return f"{hits[place]:,} of {trials:,} records were drawn {where}"

    return combined(
        Group(normal_p(total), f"{hits.sum():,} records were drawn over all rounds, {expected:,.0f} should be"),
        Group(normal_p(scores), says),
    )


def _sizes(draws: Draws, rng: np.random.Generator) -> Tested:
    """Test that normal scores of the counts are independent and normal: no fixed sizes, no cuts, no second draws."""
    scores = counted(draws.counts, draws.records, draws.rates, rng).score
    says = f"the sizes of {scores.size:,} draws vary by {np.sqrt(np.mean(scores**2)):.3f} of what they should"
    spread, scores = renewal.spread(scores, rng)
    what = "the sizes of the draws"
    by_round, renewed = dependent(scores, 1, draws.rounds, what, "round", rng)
    by_seed, _ = dependent(renewed, 0, np.arange(len(scores)), what, "seed", rng, nearest=4)
    return combined(Group(squared([spread], scores.size - 1).p, says), *by_round, *by_seed)


def _ends(draws: Draws, rng: np.random.Generator) -> Tested:
    """Test the smallest and the largest draws, as uniform numbers: none left out, none cut."""
    from scipy.special import ndtr

    u = ndtr(counted(draws.counts, draws.records, draws.rates, rng).score).ravel()
    ps, ranks = ends_p(u)

    def says(place: int) -> str:
        end = "smallest" if ranks[place] > 0 else "largest"
        return f"there are too many or too few of the {end} draws among {len(u):,}, at number {abs(ranks[place])}"

    return combined(Group(ps, says))


def _which_records(draws: Draws, rng: np.random.Generator) -> Tested:
    """Test contiguous parts of the records, every 16th record, and single records at both ends and anywhere."""
    n = draws.records
    groups, drawn = [], _joined(draws)
    if any(len(np.unique(cells)) < len(cells) for cells in drawn):
        return Tested(0.0, "a record is twice in one draw")
    for name, part in (("stretch", np.arange(n) * _PARTS // n), ("residue class", np.arange(n) % _PARTS)):
        group, drawn = _by_part(draws, drawn, part, name, rng)
        groups.append(group)
    chosen = np.unique(np.concatenate([[0, 1, n - 2, n - 1], rng.choice(n, min(4, n), replace=False)]).clip(0, n - 1))
    each = [sum(int((cells % n == k).sum()) for cells in drawn) for k in chosen]
    ps = _of_sums(np.array(each), draws.rates.tolist(), len(draws.members), rng).p
    groups.append(
        Group(
            ps, lambda place: f"record {chosen[place]} of {n} was drawn {each[place]} times, {_due(draws):.1f} were due"
        )
    )
    return combined(*groups)


def _of_sums(hits: Ints, chances: Sequence[float], trials: int, rng: np.random.Generator) -> Tails:
    """Return the tails of counts of events with different chances, each tried ``trials`` times, by convolution.

    >>> _of_sums(np.array([0]), [0.2, 0.4], 20, np.random.default_rng(1)).p < 1e-4
    array([ True])
    """
    from scipy.stats import binom

    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, binom.pmf(np.arange(trials + 1), trials, min(1.0, chance)))
    tie = rng.random(len(hits))
    below = np.array([law[:hit].sum() for hit in hits]) + tie * law[hits]
    above = np.array([law[hit + 1 :].sum() for hit in hits]) + (1 - tie) * law[hits]
    return Tails(below, above)


def _joined(draws: Draws) -> list[Ints]:
    """Return the draws of all seeds by round; record k of seed s has the number s * records + k."""
    starts, rounds = draws.records * np.arange(len(draws.members)), range(len(draws.rounds))
    return [np.concatenate([s + seed[r] for s, seed in zip(starts, draws.members, strict=True)]) for r in rounds]


def _by_part(
    draws: Draws, drawn: list[Ints], part: Ints, name: str, rng: np.random.Generator
) -> tuple[Group, list[Ints]]:
    """Test the number of draws from each part of the records, over all rounds; return the group, and the draws, renewed."""
    n, seeds, sizes = draws.records, len(draws.members), np.bincount(part, minlength=_PARTS)
    there = np.flatnonzero(sizes)
    trials, rates = seeds * sizes[there], draws.rates[:, None]
    hits = np.array([np.bincount(part[cells % n], minlength=_PARTS) for cells in drawn])[:, there]
    scores = counted(hits, trials, rates, rng).score
    place = np.broadcast_to(np.arange(len(there)), scores.shape)
    totals, renewed = renewal.sums(scores.ravel(), place.ravel(), rng)
    fresh = _counts_of(renewed.reshape(scores.shape), trials, rates)
    drawn = list(drawn)
    for r in np.flatnonzero((fresh != hits).any(axis=1)):
        present = np.zeros((seeds, n), dtype=bool)
        present.flat[drawn[r]] = True
        for p in np.flatnonzero(fresh[r] != hits[r]):
            records = part == there[p]
            present[:, records] = renewal.resized(present[:, records], int(fresh[r, p]), rng)
        drawn[r] = np.flatnonzero(present)
    by_part = hits.sum(axis=0)

    def says(place: int) -> str:
        return f"{by_part[place]:,} draws of records in {name} {there[place]} of {_PARTS}, of {by_part.sum():,} in all"

    return Group(normal_p(totals), says), drawn


def _counts_of(scores: Floats, trials: npt.ArrayLike, chance: npt.ArrayLike) -> Ints:
    """Return the counts that have these scores: the inverse of `counted(..).score`.

    >>> rng = np.random.default_rng(1)
    >>> _counts_of(counted([0, 3, 9], 9, 0.5, rng).score, 9, 0.5)
    array([0, 3, 9])
    """
    from scipy.special import ndtr
    from scipy.stats import binom

    low, high = binom.ppf(ndtr(scores), trials, chance), binom.isf(ndtr(-scores), trials, chance)
    return np.asarray(np.where(scores < 0, low, high).clip(0, trials), dtype=np.int64)


def _due(draws: Draws) -> float:
    return float(draws.rates.sum()) * len(draws.members)


CHECKS = (
    Check("sampling rates", "records drawn too often", "draws", _rates),
    Check("sizes of draws", "draws of fixed or linked sizes", "draws", _sizes),
    Check("smallest and largest draws", "draws cut, or drawn again", "draws", _ends),
    Check("which records", "records drawn unlike others", "draws", _which_records),
)
