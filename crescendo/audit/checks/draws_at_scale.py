"""Check of draws from all declared records and from more than a sampler handles at once: their number and their regions."""

from __future__ import annotations

import numpy as np

from crescendo.audit import renewal
from crescendo.audit.check import Check
from crescendo.audit.driving.large_draws import LargeDraws
from crescendo.audit.scores import Group, Tested, combined, counted, normal_p


def _at_scale(large: LargeDraws, rng: np.random.Generator) -> Tested:
    """Test the counts over all regions of the records, then in each; the counts of regions are independent."""
    groups = []
    for sample in large.samples:
        if sample.odd is not None:
            return Tested(0.0, sample.odd)
        scores = counted(sample.hits, sample.sizes * sample.draws, sample.rate, rng).score
        total, scores = renewal.sums(scores, np.zeros(len(scores), dtype=np.int64), rng)
        n, hits, rate = int(sample.sizes.sum()), sample.hits, sample.rate
        due = n * sample.draws * rate

        def one(place: int, hits: object = hits, n: int = n, rate: float = rate) -> str:
            part = np.asarray(hits)
            return (
                f"of {n:,} records at rate {rate:.6g}, part {place + 1} of {len(part)} was drawn {part[place]:,} times"
            )

        says = f"of {n:,} records at rate {rate:.6g}, {hits.sum():,} were drawn in {sample.draws} draws where {due:,.1f} were due"
        groups += [Group(normal_p(total), says), Group(normal_p(scores), one)]
    return combined(*groups)


CHECKS = (Check("draws at scale", "records drawn unlike others, among many", "large", _at_scale),)
