"""The scale and the mean of the noise of every coordinate, every round, and every coordinate of every round."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Group, Tested, combined, mean_and_spread, squares_p
from crescendo.core.arrays import Ints


def _by(noise: Noise, axis: tuple[int, ...], name: str, labels: Ints) -> Tested:
    squares, count = noise.squares(axis)
    sums = np.nansum(noise.z, axis=axis)
    means, spreads = mean_and_spread(sums, squares, count)

    def scale(place: int) -> str:
        ratio = np.sqrt(squares[place] / count[place])
        return f"the noise of {name} {labels[place]} has {ratio:.4f} of its certified scale"

    def mean(place: int) -> str:
        away = sums[place] / np.sqrt(count[place])
        return f"the mean of the noise of {name} {labels[place]} is {away:.1f} standard deviations from 0"

    return combined(Group(spreads, scale), Group(means, mean))


def by_coordinate(noise: Noise, rng: np.random.Generator) -> Tested:
    return _by(noise, (0, 1), "coordinate", noise.coordinates)


def by_round(noise: Noise, rng: np.random.Generator) -> Tested:
    return _by(noise, (0, 2), "round", noise.rounds)


def by_cell(noise: Noise, rng: np.random.Generator) -> Tested:
    """Over runs alone."""
    total, count = (part.ravel() for part in noise.squares((0,)))
    size = noise.z.shape[2]

    def says(place: int) -> str:
        ratio = np.sqrt(total[place] / count[place])
        where = f"coordinate {noise.coordinates[place % size]} in round {noise.rounds[place // size]}"
        return f"the noise of {where} has {ratio:.4g} of its certified scale"

    return combined(Group(squares_p(total, count), says))


COORDINATES = Check("noise by coordinate", "a coordinate with other noise", "noise", by_coordinate)
ROUNDS = Check("noise by round", "a round with other noise", "noise", by_round)
CELLS = Check("noise by cell", "one number with other noise", "noise", by_cell)
