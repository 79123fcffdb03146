"""Correlations of the noise between coordinates, at every lag."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.dependence import dependent, some
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Tested, combined


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    chosen = some(noise.z.shape[2], rng)
    rows = np.moveaxis(noise.z[:, :, chosen], 2, 0).reshape(len(chosen), -1)
    return combined(*dependent(rows, noise.coordinates[chosen], "the noise", "coordinate"))


CHECK = Check("noise between coordinates", "coordinates that share noise", "noise", test)
