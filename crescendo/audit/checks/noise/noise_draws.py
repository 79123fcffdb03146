"""Noise against the draw: draws of no record, one, two and more, and every record's being there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.checks.noise.noise_tails import tails
from crescendo.audit.driving.evidence import TRACKED, Noise
from crescendo.audit.scores import Group, Tested, along, always, combined, mean_and_spread, normal_p, squares_score
from crescendo.core.arrays import Floats

CLASSES = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 10**9))
LAGS = 8
WIDTH = 64  # coordinates


def by_size(noise: Noise, rng: np.random.Generator) -> Tested:
    """The scale and the mean of the noise of draws of each size."""
    groups = []
    for what, values in _classes(noise):
        sums, squares = values.sum(keepdims=True), np.square(values).sum(keepdims=True)
        mean, spread = mean_and_spread(sums, squares, len(values))
        says = f"{what} has {np.sqrt(squares[0] / len(values)):.4f} of the certified scale in {len(values):,} numbers"
        groups += [Group(spread, always(says)), Group(mean, always(says + " and is off centre"))]
    return combined(*groups)


def tails_by_size(noise: Noise, rng: np.random.Generator) -> Tested:
    return combined(*(tails(values, what) for what, values in _classes(noise)))


def _classes(noise: Noise) -> Iterator[tuple[str, Floats]]:
    for low, high in CLASSES:
        values = noise.z[(noise.drawn >= low) & (noise.drawn <= high)]
        values = values[np.isfinite(values)]
        if len(values):
            yield f"the noise of draws of {low if low == high else f'{low} or more'} records", values


def by_record(noise: Noise, rng: np.random.Generator) -> Tested:
    """The scale and the mean of the noise, by one of the records that were drawn: each release counts once, by chance."""
    chance = np.where(noise.members, rng.random(noise.members.shape), -1.0)
    chosen = np.where(noise.members.any(axis=2), chance.argmax(axis=2), TRACKED)
    squares, count = noise.squares((2,))
    parts = np.nansum(noise.z, axis=2), squares, count
    by = [np.bincount(chosen.ravel(), part.ravel(), minlength=TRACKED + 1).astype(np.float64) for part in parts]
    means, spreads = mean_and_spread(by[0], by[1], by[2])

    def says(place: int) -> str:
        with_it = (
            f"with record {place} in the draw" if place < TRACKED else "with none of the first records in the draw"
        )
        return f"{with_it} the noise has {np.sqrt(by[1][place] / by[2][place]):.4f} of its certified scale"

    return combined(Group(spreads, says), Group(means, lambda place: says(place) + " and is off centre"))


def with_counts(noise: Noise, rng: np.random.Generator) -> Tested:
    """How many records the source draws, against the length and the mean of the noise, some rounds before or after."""
    total, count = noise.squares((2,))
    kinds = {"length": squares_score(total, np.maximum(count, 1)), "mean": noise.means((2,))}
    drawn = np.where(count > 0, noise.expected, np.nan)
    ps, names = [], []
    for kind, scores in kinds.items():
        scores = np.where(count > 0, scores, np.nan)
        for lag in range(-LAGS, LAGS + 1):
            if abs(lag) >= scores.shape[1]:
                continue
            a = drawn[:, max(0, -lag) : drawn.shape[1] - max(0, lag)]
            b = scores[:, max(0, lag) : scores.shape[1] - max(0, -lag)]
            ps.append(float(normal_p(along(a.reshape(1, -1), b.reshape(1, -1)))[0]))
            names.append(f"the number of records drawn goes with the {kind} of the noise {lag} rounds later")
    return combined(Group(np.array(ps), lambda place: names[place]))


def with_tags(noise: Noise, rng: np.random.Generator) -> Tested:
    """Every tag of a draw against the noise, and its magnitude, at each of the first coordinates."""
    width = min(WIDTH, noise.z.shape[2])
    groups = []
    for kind, numbers in (("noise", noise.z), ("magnitude of the noise", noise.magnitudes)):
        columns = numbers[:, :, :width].reshape(-1, width)
        for k in range(noise.tags.shape[2]):
            tags = noise.tags[:, :, k].reshape(-1, 1)
            scores = along(np.broadcast_to(tags, columns.shape).T, columns.T)

            def says(place: int, kind: str = kind, k: int = k, scores: Floats = scores) -> str:
                return f"tag {k} goes with the {kind} at coordinate {place} by {scores[place]:.1f} standard deviations"

            groups.append(Group(normal_p(scores), says))
    return combined(*groups)


SIZE_TAILS = Check("tails by size of draw", "cut tails of an empty draw", "noise", tails_by_size)
SIZES = Check("noise by size of draw", "noise that tells how many", "noise", by_size)
RECORDS = Check("noise by record", "noise that tells who was drawn", "noise", by_record)
COUNTS = Check("noise and draws", "shared randomness", "noise", with_counts)
TAGS = Check("noise and tags", "shared randomness", "noise", with_tags)
