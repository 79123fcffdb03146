"""The shape of the noise: the whole distribution function, and the numbers in 64 equally likely bins."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Group, Tested, always, bins_p, combined, uniform_p

BINS = 64


def curve(noise: Noise, rng: np.random.Generator) -> Tested:
    from scipy.special import ndtr

    values = noise.values
    says = f"{len(values):,} noise numbers do not follow the Gaussian curve"
    return combined(Group(np.array([uniform_p(ndtr(values))]), always(says)))


def bins(noise: Noise, rng: np.random.Generator) -> Tested:
    from scipy.special import ndtr, ndtri

    u = ndtr(noise.values)
    counts = np.bincount(np.minimum((u * BINS).astype(np.int64), BINS - 1), minlength=BINS)

    def says(place: int) -> str:
        low, high = ndtri(place / BINS), ndtri((place + 1) / BINS)
        return f"{counts[place]:,} of {len(u):,} noise numbers lie between {low:.2f} and {high:.2f} sigma, 1 in {BINS} should"

    return combined(Group(bins_p(counts, rng), says))


CURVE = Check("noise curve", "noise that is not Gaussian", "noise", curve)
SHAPE = Check("noise shape", "gaps and bumps in its density", "noise", bins)
