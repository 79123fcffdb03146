"""Noise numbers that come twice, wherever they stand: one half of all numbers is looked up in the other half."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Group, Tested, combined, count_p

NEAR = (
    2.0**-19
)  # in sigmas: more than the rounding to the grid and the auditor's own dither can part two equal numbers by
MOST = 400_000


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    """Given the first half, each number of the second falls near one of them with a known chance, independently."""
    from scipy.special import ndtr

    values = np.abs(noise.values)
    if len(values) > MOST:
        values = values[rng.choice(len(values), MOST, replace=False)]
    first = rng.random(len(values)) < 0.5
    known, others = np.sort(values[first]), values[~first]
    if not len(known) or not len(others):
        return combined()
    low, high = np.maximum(known - NEAR, 0.0), known + NEAR
    high[:-1] = np.minimum(high[:-1], low[1:])  # intervals that overlap are counted once
    chance = float(2 * (ndtr(high) - ndtr(low)).sum())
    place = np.clip(np.searchsorted(known, others), 1, len(known) - 1)
    apart = np.minimum(np.abs(others - known[place - 1]), np.abs(others - known[place]))
    hits = int((apart <= NEAR).sum())

    def says(_: int) -> str:
        due = f"{chance * len(others):,.0f} should"
        return f"{hits:,} of {len(others):,} noise numbers repeat one of {len(known):,} others, {due}"

    return combined(Group(count_p([hits], len(others), chance, rng), says))


CHECK = Check("repeated noise", "a noise number that comes twice", "noise", test)
