"""Correlations of the noise between runs: other seeds, other clients, other starts of the same source."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.dependence import dependent, some
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Tested, combined


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    chosen = some(len(noise.z), rng)
    return combined(*dependent(noise.z[chosen].reshape(len(chosen), -1), chosen, "the noise", "run"))


CHECK = Check("noise between runs", "runs or clients that share noise", "noise", test)
