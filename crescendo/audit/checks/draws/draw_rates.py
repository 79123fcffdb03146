"""How many records are drawn: in every round and over all rounds, against the certified rates; and how that varies."""

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
)


def rates(draws: Draws, rng: np.random.Generator) -> Tested:
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


def counts(draws: Draws, rng: np.random.Generator) -> Tested:
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


def ends(draws: Draws, rng: np.random.Generator) -> Tested:
    """The smallest and the largest draws, as uniform numbers: none left out, none cut."""
    from scipy.special import ndtr

    u = ndtr(count_score(draws.counts, draws.records, draws.rates, rng)).ravel()
    ps, ranks = ends_p(u)

    def says(place: int) -> str:
        end = "smallest" if ranks[place] > 0 else "largest"
        return f"there are too many or too few of the {end} draws among {len(u):,}, at number {abs(ranks[place])}"

    return combined(Group(ps, says))


RATES = Check("sampling rates", "records drawn too often", "draws", rates)
COUNTS = Check("sizes of draws", "draws of fixed or linked sizes", "draws", counts)
ENDS = Check("smallest and largest draws", "draws cut, or drawn again", "draws", ends)
