"""Correlations of the noise between rounds, at every lag: noise that is used again."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.dependence import dependent
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Tested, combined


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    rows = np.moveaxis(noise.z, 1, 0).reshape(len(noise.rounds), -1)
    return combined(*dependent(rows, noise.rounds, "the noise", "round"))


CHECK = Check("noise between rounds", "noise used again later", "noise", test)
