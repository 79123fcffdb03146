"""The length of every release's noise: one release without noise, or lengths that vary too little or too much."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Group, Tested, always, combined, mean_and_spread, squares_p, squares_score


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    total, count = noise.squares((2,))
    there = count > 0
    total, count = total[there], count[there]
    run, at = np.nonzero(there)
    scores = squares_score(total, count)
    spread = mean_and_spread(scores.sum(keepdims=True), np.square(scores).sum(keepdims=True), len(scores))[1]
    ratio = np.mean(np.square(scores))

    def one(place: int) -> str:
        length = np.sqrt(total[place] / count[place])
        return f"round {noise.rounds[at[place]]} of run {run[place]} has noise of {length:.4g} of its certified length"

    return combined(
        Group(squares_p(total, count), one),
        Group(
            spread,
            always(f"the lengths of {len(scores):,} releases' noise vary by {ratio:.4f} of what a Gaussian's do"),
        ),
    )


CHECK = Check("noise lengths", "a release with other noise", "noise", test)
