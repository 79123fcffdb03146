"""Correlations of the noise between rounds after a turn of the coordinates: noise used again at other places."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Group, Tested, combined, normal_p

MOST_LAGS, MOST_WIDTH, MOST_RUNS = 64, 512, 64


def test(noise: Noise, rng: np.random.Generator) -> Tested:
    """For every lag L and turn M: the sum over rounds of <z of round i + L, z of round i turned by M> / |z of round i|.

    Given all rounds before i + L each term is a standard normal number, so their sum over the root of their number is one.
    """
    z = noise.z[:MOST_RUNS, :, :MOST_WIDTH]
    whole = np.isfinite(z).all(axis=(0, 2))  # rounds of one and the same block
    z, rounds = z[:, whole], noise.rounds[whole]
    if len(rounds) < 2:
        return combined()
    count, width = z.shape[1:]
    spectrum = np.fft.rfft(z, axis=2)
    lengths = np.sqrt(np.square(z).sum(axis=(0, 2)))
    lags = range(1, min(count, MOST_LAGS))
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


CHECK = Check("noise at other places", "noise used again elsewhere", "noise", test)
