"""Noise against other noise: of other rounds, coordinates and runs, at other places, and numbers that come twice."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.dependence import dependent, some
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Group, Tested, combined, count_p, normal_p
from crescendo.core.arrays import Floats, Ints

_MOST_LAGS, _MOST_WIDTH, _MOST_RUNS = 64, 512, 64
_NEAR = 2.0**-19  # in sigmas: more than rounding to the grid and the auditor's own dither can part two equal numbers by
_MOST = 400_000


def _between_rounds(noise: Noise, rng: np.random.Generator) -> Tested:
    """Correlations between rounds, at every lag: noise that is used again."""
    return combined(*_by_round(noise, noise.z, "the noise"))


def _between_coordinates(noise: Noise, rng: np.random.Generator) -> Tested:
    """Correlations between coordinates, at every lag."""
    chosen = some(noise.z.shape[2], rng)
    return combined(*_by_coordinate(noise, noise.z, "the noise", chosen))


def _between_runs(noise: Noise, rng: np.random.Generator) -> Tested:
    """Correlations between runs: other seeds, other clients, other starts of the same source."""
    chosen = some(len(noise.z), rng)
    return combined(*_by_run(noise.z, "the noise", chosen))


def _magnitudes(noise: Noise, rng: np.random.Generator) -> Tested:
    """Correlations of magnitudes between rounds, coordinates and runs: scales that move together, whatever the signs."""
    sizes, what = noise.magnitudes, "the magnitudes of the noise"
    coordinates, runs = some(sizes.shape[2], rng), some(len(sizes), rng)
    return combined(
        *_by_round(noise, sizes, what), *_by_coordinate(noise, sizes, what, coordinates), *_by_run(sizes, what, runs)
    )


def _by_round(noise: Noise, numbers: Floats, what: str) -> list[Group]:
    return dependent(np.moveaxis(numbers, 1, 0).reshape(len(noise.rounds), -1), noise.rounds, what, "round")


def _by_coordinate(noise: Noise, numbers: Floats, what: str, chosen: Ints) -> list[Group]:
    rows = np.moveaxis(numbers[:, :, chosen], 2, 0).reshape(len(chosen), -1)
    return dependent(rows, noise.coordinates[chosen], what, "coordinate")


def _by_run(numbers: Floats, what: str, chosen: Ints) -> list[Group]:
    return dependent(numbers[chosen].reshape(len(chosen), -1), chosen, what, "run")


def _shifts(noise: Noise, rng: np.random.Generator) -> Tested:
    """For every lag L and turn M: the sum over rounds of <z of round i + L, z of round i turned by M> / |z of round i|.

    Given all rounds before i + L each term is a standard normal number, so their sum over the root of their number is one.
    """
    z = noise.z[:_MOST_RUNS, :, :_MOST_WIDTH]
    whole = np.isfinite(z).all(axis=(0, 2))  # rounds of one and the same block
    z, rounds = z[:, whole], noise.rounds[whole]
    if len(rounds) < 2:
        return combined()
    count, width = z.shape[1:]
    spectrum = np.fft.rfft(z, axis=2)
    lengths = np.sqrt(np.square(z).sum(axis=(0, 2)))
    lags = range(1, min(count, _MOST_LAGS))
    scores = np.empty((len(lags), width))
    for place, lag in enumerate(lags):
        product = (spectrum[:, :-lag].conj() * spectrum[:, lag:]).sum(axis=0)
        turned = np.fft.irfft(product, n=width, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores[place] = (turned / lengths[:-lag, None]).sum(axis=0) / np.sqrt(count - lag)

    def says(place: int) -> str:
        lag, turn = place // width + 1, place % width
        return f"the noise of {lag} rounds later, {turn} coordinates on, goes together by {scores.flat[place]:.1f} deviations"

    return combined(Group(normal_p(scores.ravel()), says))


def _repeats(noise: Noise, rng: np.random.Generator) -> Tested:
    """Given the first half, each number of the second falls near one of them with a known chance, independently."""
    from scipy.special import ndtr

    values = np.abs(noise.values)
    if len(values) > _MOST:
        values = values[rng.choice(len(values), _MOST, replace=False)]
    first = rng.random(len(values)) < 0.5
    known, others = np.sort(values[first]), values[~first]
    if not len(known) or not len(others):
        return combined()
    low, high = np.maximum(known - _NEAR, 0.0), known + _NEAR
    high[:-1] = np.minimum(high[:-1], low[1:])  # intervals that overlap are counted once
    chance = float(2 * (ndtr(high) - ndtr(low)).sum())
    place = np.clip(np.searchsorted(known, others), 1, len(known) - 1)
    apart = np.minimum(np.abs(others - known[place - 1]), np.abs(others - known[place]))
    hits = int((apart <= _NEAR).sum())

    def says(_: int) -> str:
        due = f"{chance * len(others):,.0f} should"
        return f"{hits:,} of {len(others):,} noise numbers repeat one of {len(known):,} others, {due}"

    return combined(Group(count_p([hits], len(others), chance, rng), says))


CHECKS = (
    Check("noise between rounds", "noise used again later", "noise", _between_rounds, exact=False),
    Check("noise between coordinates", "coordinates that share noise", "noise", _between_coordinates),
    Check("noise between runs", "runs or clients that share noise", "noise", _between_runs),
    Check("noise magnitudes", "shared sizes, whatever the sign", "noise", _magnitudes),
    Check("noise at other places", "noise used again elsewhere", "noise", _shifts),
    Check("repeated noise", "a noise number that comes twice", "noise", _repeats),
)
