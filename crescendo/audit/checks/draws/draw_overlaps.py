"""How many records two draws have in common, at every lag between rounds and between seeds: draws must not know each other."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Draws
from crescendo.audit.scores import Group, Tested, combined, count_score, normal_p, squares_p
from crescendo.core.arrays import Floats, Ints

MOST_PAIRS, MOST_RECORDS = 40_000, 30_000


def test(draws: Draws, rng: np.random.Generator) -> Tested:
    """Given earlier draws, each of their records is in a later draw with that one's rate, independently of the others."""
    early, late = np.triu_indices(len(draws.rounds), 1)
    seeds, width = range(min(len(draws.members), 2 + MOST_PAIRS // (1 + len(early)))), min(draws.records, MOST_RECORDS)
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


CHECK = Check("common records", "draws that know each other", "draws", test)
