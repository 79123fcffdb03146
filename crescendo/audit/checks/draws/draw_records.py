"""Which records are drawn: each as often as any other, at the ends of the data too, and none twice in a round."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Draws
from crescendo.audit.scores import Group, Tested, combined, count_score, normal_p, sum_p
from crescendo.core.arrays import Ints

PARTS = 16


def test(draws: Draws, rng: np.random.Generator) -> Tested:
    """Contiguous parts of the records, every 16th record, and single records at both ends and anywhere."""
    n = draws.records
    if any(len(np.unique(drawn)) < len(drawn) for seed in draws.members for drawn in seed):
        return Tested(0.0, "a record is twice in one draw")
    groups = []
    for name, part in (("stretch", np.arange(n) * PARTS // n), ("residue class", np.arange(n) % PARTS)):
        sizes = np.bincount(part, minlength=PARTS)
        hits = np.array([[np.bincount(part[drawn], minlength=PARTS) for drawn in seed] for seed in draws.members])
        scores = count_score(hits, sizes, draws.rates[None, :, None], rng).sum(axis=(0, 1)) / np.sqrt(hits[..., 0].size)
        scores = np.where(sizes > 0, scores, np.nan)

        by_part = hits.sum(axis=(0, 1))

        def says(place: int, name: str = name, by_part: Ints = by_part) -> str:
            return f"{by_part[place]:,} draws of records in {name} {place} of {PARTS}, of {by_part.sum():,} in all"

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


CHECK = Check("which records", "records drawn unlike others", "draws", test)
