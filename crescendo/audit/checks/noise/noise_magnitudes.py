"""Correlations of the noise's magnitudes between rounds, coordinates and runs: scales that move together, whatever the signs."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.dependence import dependent, some
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Tested, combined


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    sizes, what = noise.magnitudes, "the magnitudes of the noise"
    coordinates, runs = some(sizes.shape[2], rng), some(len(sizes), rng)
    by_round = np.moveaxis(sizes, 1, 0).reshape(len(noise.rounds), -1)
    by_coordinate = np.moveaxis(sizes[:, :, coordinates], 2, 0).reshape(len(coordinates), -1)
    return combined(
        *dependent(by_round, noise.rounds, what, "round"),
        *dependent(by_coordinate, noise.coordinates[coordinates], what, "coordinate"),
        *dependent(sizes[runs].reshape(len(runs), -1), runs, what, "run"),
    )


CHECK = Check("noise magnitudes", "shared sizes, whatever the sign", "noise", test)
