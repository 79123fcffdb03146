"""Checks of noise against other noise: of other rounds, coordinates and runs, at other places, and repeated numbers."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.dependence import dependent, earlier, some
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Group, Tested, combined, counted, normal_p

_MOST_LAGS, _MOST_WIDTH, _MOST_RUNS = 16, 512, 64
_NEAR = 2.0**-19  # in sigmas: more than rounding to the grid and the auditor's own dither can part two equal numbers by
_MOST = 400_000


def _between_rounds(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test correlations between rounds at every lag, to find noise that is used again."""
    return combined(*dependent(noise.z, 1, noise.rounds, "the noise", "round", rng)[0])


def _between_coordinates(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test correlations between coordinates at every lag."""
    chosen = some(noise.z.shape[2], rng)
    return combined(*dependent(noise.z, 2, noise.coordinates, "the noise", "coordinate", rng, chosen)[0])


def _between_runs(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test correlations between runs: other seeds, other clients, other starts of the same source."""
    chosen = some(len(noise.z), rng)
    return combined(*dependent(noise.z, 0, np.arange(len(noise.z)), "the noise", "run", rng, chosen)[0])


def _magnitudes(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test correlations of magnitudes between rounds, coordinates and runs, to find scales that move together."""
    sizes, groups = noise.magnitudes, []
    labels = {"round": (1, noise.rounds), "coordinate": (2, noise.coordinates), "run": (0, np.arange(len(noise.z)))}
    for noun, (axis, names) in labels.items():
        chosen = some(sizes.shape[axis], rng)
        found, sizes = dependent(sizes, axis, names, "the magnitudes of the noise", noun, rng, chosen)
        groups += found
    return combined(*groups)


def _shifts(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test, for every lag and turn M, the noise of a round along that of an earlier one, turned by M coordinates.

    Both are transformed to frequencies, where a turn is a phase. At each frequency a round has a complex normal number for every
    run, and its coefficients along earlier rounds, made orthogonal first, are independent complex normal numbers. Taken back
    from frequencies, these are independent standard normal numbers, one for every turn.
    """
    z = noise.z[:_MOST_RUNS, :, :_MOST_WIDTH]
    whole = np.isfinite(z).all(axis=(0, 2))  # rounds of one and the same block
    z, rounds = z[:, whole], noise.rounds[whole]
    if len(rounds) < 2:
        return combined()
    runs, count, width = z.shape
    spectrum = np.moveaxis(np.fft.rfft(z, axis=2, norm="ortho"), 0, 2)  # round, frequency, run
    sums, pairs = np.zeros((count, width)), np.zeros(count)
    for late in range(1, count):
        early = earlier(late, min(_MOST_LAGS, max(1, runs // 2)), rng)
        both = np.moveaxis(spectrum[[*early, late]], 0, 2)
        corner = np.asarray(np.linalg.qr(both, mode="r"))
        phase = np.where(np.diagonal(corner, axis1=1, axis2=2).real < 0, -1.0, 1.0)[:, : len(early)]
        turned = np.fft.irfft(phase * corner[:, : len(early), -1], n=width, axis=0, norm="ortho")
        sums[late - early] += turned.T
        pairs[late - early] += 1
    lags = np.flatnonzero(pairs)
    scores = sums[lags] / np.sqrt(pairs[lags])[:, None]

    def says(place: int) -> str:
        lag, turn = lags[place // width], place % width
        return f"the noise of {lag} rounds later, {turn} coordinates on, goes together by {scores.flat[place]:.1f} deviations"

    return combined(Group(normal_p(scores.ravel()), says))


def _repeats(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test for repeats: given the first half, each number of the second is near one of them with a known chance."""
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

    return combined(Group(counted([hits], len(others), chance, rng).p, says))


CHECKS = (
    Check("noise between rounds", "noise used again later", "noise", _between_rounds),
    Check("noise between coordinates", "coordinates that share noise", "noise", _between_coordinates),
    Check("noise between runs", "runs or clients that share noise", "noise", _between_runs),
    Check("noise magnitudes", "shared sizes, whatever the sign", "noise", _magnitudes),
    Check("noise at other places", "noise used again elsewhere", "noise", _shifts),
    Check("repeated noise", "a noise number that comes twice", "noise", _repeats),
)
