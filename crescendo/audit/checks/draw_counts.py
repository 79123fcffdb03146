"""How many records are drawn, and which: against the certified rates, and each as often as any other."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.dependence import dependent
from crescendo.audit.driving.evidence import Draws
from crescendo.audit.scores import (
    Group,
    Tested,
    always,
    combined,
    count_p,
    count_score,
    ends_p,
    mean_and_spread,
    normal_p,
    sum_p,
)
from crescendo.core.arrays import Ints

_PARTS = 16


def _rates(draws: Draws, rng: np.random.Generator) -> Tested:
    """How many records are drawn in every round and over all rounds, against the certified rates."""
    counts = draws.counts
    hits, trials = counts.sum(axis=0), draws.records * len(counts)
    scores = count_score(counts, draws.records, draws.rates, rng)
    total = float(scores.sum() / np.sqrt(scores.size))
    expected = float(draws.rates.sum() * trials)

    def says(place: int) -> str:
        where = f"in round {draws.rounds[place]}, certified is a rate of {draws.rates[place]:.4g}"
        return f"{hits[place]:,} of {trials:,} records were drawn {where}"

    return combined(
        Group(count_p(hits, trials, draws.rates, rng), says),
        Group(
            normal_p([total]), lambda _: f"{hits.sum():,} records were drawn over all rounds, {expected:,.0f} should be"
        ),
    )


def _sizes(draws: Draws, rng: np.random.Generator) -> Tested:
    """As normal scores, the counts of a Poisson draw are independent and normal: no fixed sizes, no cuts, no second draws."""
    scores = count_score(draws.counts, draws.records, draws.rates, rng)
    values = scores.ravel()
    spread = mean_and_spread(values.sum(keepdims=True), np.square(values).sum(keepdims=True), len(values))[1]
    says = f"the sizes of {len(values):,} draws vary by {np.sqrt(np.mean(values**2)):.3f} of what they should"
    return combined(
        Group(spread, always(says)),
        *dependent(scores.T, draws.rounds, "the sizes of the draws", "round"),
        *dependent(scores, np.arange(len(scores)), "the sizes of the draws", "seed", nearest=4),
    )


def _ends(draws: Draws, rng: np.random.Generator) -> Tested:
    """The smallest and the largest draws, as uniform numbers: none left out, none cut."""
    from scipy.special import ndtr

    u = ndtr(count_score(draws.counts, draws.records, draws.rates, rng)).ravel()
    ps, ranks = ends_p(u)

    def says(place: int) -> str:
        end = "smallest" if ranks[place] > 0 else "largest"
        return f"there are too many or too few of the {end} draws among {len(u):,}, at number {abs(ranks[place])}"

    return combined(Group(ps, says))


def _which_records(draws: Draws, rng: np.random.Generator) -> Tested:
    """Contiguous parts of the records, every 16th record, and single records at both ends and anywhere."""
    n = draws.records
    if any(len(np.unique(drawn)) < len(drawn) for seed in draws.members for drawn in seed):
        return Tested(0.0, "a record is twice in one draw")
    groups = []
    for name, part in (("stretch", np.arange(n) * _PARTS // n), ("residue class", np.arange(n) % _PARTS)):
        sizes = np.bincount(part, minlength=_PARTS)
        hits = np.array([[np.bincount(part[drawn], minlength=_PARTS) for drawn in seed] for seed in draws.members])
        scores = count_score(hits, sizes, draws.rates[None, :, None], rng).sum(axis=(0, 1)) / np.sqrt(hits[..., 0].size)
        scores = np.where(sizes > 0, scores, np.nan)

        by_part = hits.sum(axis=(0, 1))

        def says(place: int, name: str = name, by_part: Ints = by_part) -> str:
            return f"{by_part[place]:,} draws of records in {name} {place} of {_PARTS}, of {by_part.sum():,} in all"

        groups.append(Group(normal_p(scores), says))
    chosen = np.unique(np.concatenate([[0, 1, n - 2, n - 1], rng.choice(n, min(4, n), replace=False)]).clip(0, n - 1))
    each = [sum(int((drawn == k).sum()) for seed in draws.members for drawn in seed) for k in chosen]
    ps = np.array([sum_p(hits, draws.rates.tolist(), len(draws.members), rng) for hits in each])
    groups.append(
        Group(
            ps, lambda place: f"record {chosen[place]} of {n} was drawn {each[place]} times, {_due(draws):.1f} were due"
        )
    )
    return combined(*groups)


def _due(draws: Draws) -> float:
    return float(draws.rates.sum()) * len(draws.members)


CHECKS = (
    Check("sampling rates", "records drawn too often", "draws", _rates, exact=False),
    Check("sizes of draws", "draws of fixed or linked sizes", "draws", _sizes, exact=False),
    Check("smallest and largest draws", "draws cut, or drawn again", "draws", _ends),
    Check("which records", "records drawn unlike others", "draws", _which_records, exact=False),
)
