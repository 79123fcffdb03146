"""The longest noise numbers and those nearest to 0: tails that are cut or heavy, and numbers without noise."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Group, Tested, combined, ends_p
from crescendo.core.arrays import Floats


def tails(values: Floats, what: str) -> Group:
    """Both ends of the magnitudes of normal numbers."""
    from scipy.special import ndtr

    ps, ranks = ends_p(2 * ndtr(-np.abs(values)))
    longest = -np.sort(-np.abs(values))

    def says(place: int) -> str:
        rank = int(ranks[place])
        end, at = ("largest", rank - 1) if rank > 0 else ("smallest", rank)
        return f"{what}: number {abs(rank)} of the {end} of {len(values):,} is {longest[at]:.4g} sigma"

    return Group(ps, says)


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    return combined(tails(noise.values, "the magnitudes of the noise"))


CHECK = Check("noise tails", "cut tails, numbers without noise", "noise", test)
