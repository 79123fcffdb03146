"""Correlations of the noise between runs: other seeds, other clients, other starts of the same source."""

from __future__ import annotations

import numpy as np

from crescendo.privacy.audit.check import Check
from crescendo.privacy.audit.dependence import dependent, some
from crescendo.privacy.audit.evidence import Noise
from crescendo.privacy.audit.scores import Tested, combined


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    chosen = some(len(noise.z), rng)
    return combined(*dependent(noise.z[chosen].reshape(len(chosen), -1), chosen, "the noise", "run"))


CHECK = Check("noise between runs", "runs or clients that share noise", "noise", test)
