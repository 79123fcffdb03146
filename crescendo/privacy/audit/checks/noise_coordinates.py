"""Correlations of the noise between coordinates, at every lag."""

from __future__ import annotations

import numpy as np

from crescendo.privacy.audit.check import Check
from crescendo.privacy.audit.dependence import dependent, some
from crescendo.privacy.audit.evidence import Noise
from crescendo.privacy.audit.scores import Tested, combined


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    chosen = some(noise.z.shape[2], rng)
    rows = np.moveaxis(noise.z[:, :, chosen], 2, 0).reshape(len(chosen), -1)
    return combined(*dependent(rows, noise.coordinates[chosen], "the noise", "coordinate"))


CHECK = Check("noise between coordinates", "coordinates that share noise", "noise", test)
