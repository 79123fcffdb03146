"""The variance and the mean of all noise together."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Group, Tested, always, combined, mean_and_spread


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    values = noise.values
    total, squares, n = values.sum(keepdims=True), np.square(values).sum(keepdims=True), len(values)
    mean, spread = mean_and_spread(total, squares, n)
    return combined(
        Group(spread, always(f"{n:,} noise numbers have {np.sqrt(squares[0] / n):.4f} of the certified scale")),
        Group(
            mean, always(f"the mean of {n:,} noise numbers is {total[0] / np.sqrt(n):.1f} standard deviations from 0")
        ),
    )


CHECK = Check("noise scale", "too little or too much noise", "noise", test)
