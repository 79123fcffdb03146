"""Noise against the draw, against what it hides and against the start model: it must be independent of all three."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.checks.noise_laws import both_ends
from crescendo.audit.driving.evidence import TRACKED, Noise
from crescendo.audit.scores import (
    Group,
    Tested,
    along,
    always,
    combined,
    mean_and_spread,
    normal_p,
    squares_p,
    squares_score,
)
from crescendo.core.arrays import Floats

_CLASSES = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 10**9))
_LAGS = 8
_WIDTH = 64  # coordinates
_PARTS = 8


def _by_size(noise: Noise, rng: np.random.Generator) -> Tested:
    """The scale and the mean of the noise of draws of each size."""
    groups = []
    for what, values in _classes(noise):
        sums, squares = values.sum(keepdims=True), np.square(values).sum(keepdims=True)
        mean, spread = mean_and_spread(sums, squares, len(values))
        says = f"{what} has {np.sqrt(squares[0] / len(values)):.4f} of the certified scale in {len(values):,} numbers"
        groups += [Group(spread, always(says)), Group(mean, always(says + " and is off centre"))]
    return combined(*groups)


def _tails_by_size(noise: Noise, rng: np.random.Generator) -> Tested:
    """Both ends of the noise of draws of each size."""
    return combined(*(both_ends(values, what) for what, values in _classes(noise)))


def _classes(noise: Noise) -> Iterator[tuple[str, Floats]]:
    for low, high in _CLASSES:
        values = noise.z[(noise.drawn >= low) & (noise.drawn <= high)]
        values = values[np.isfinite(values)]
        if len(values):
            yield f"the noise of draws of {low if low == high else f'{low} or more'} records", values


def _by_record(noise: Noise, rng: np.random.Generator) -> Tested:
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


def _with_counts(noise: Noise, rng: np.random.Generator) -> Tested:
    """How many records the source draws, against the length and the mean of the noise, some rounds before or after."""
    total, count = noise.squares((2,))
    kinds = {"length": squares_score(total, np.maximum(count, 1)), "mean": noise.means((2,))}
    drawn = np.where(count > 0, noise.expected, np.nan)
    ps, names = [], []
    for kind, scores in kinds.items():
        scores = np.where(count > 0, scores, np.nan)
        for lag in range(-_LAGS, _LAGS + 1):
            if abs(lag) >= scores.shape[1]:
                continue
            a = drawn[:, max(0, -lag) : drawn.shape[1] - max(0, lag)]
            b = scores[:, max(0, lag) : scores.shape[1] - max(0, -lag)]
            ps.append(float(normal_p(along(a.reshape(1, -1), b.reshape(1, -1)))[0]))
            names.append(f"the number of records drawn goes with the {kind} of the noise {lag} rounds later")
    return combined(Group(np.array(ps), lambda place: names[place]))


def _with_tags(noise: Noise, rng: np.random.Generator) -> Tested:
    """Every tag of a draw against the noise, and its magnitude, at each of the first coordinates."""
    width = min(_WIDTH, noise.z.shape[2])
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


def _with_signal(noise: Noise, rng: np.random.Generator) -> Tested:
    """Round by round: later start models have earlier noise in them, and only within a round are both sides independent."""
    noises = np.moveaxis(noise.z, 1, 0).reshape(len(noise.rounds), -1)
    groups = []
    for what, other in (("what it hides", noise.hidden), ("the start model", noise.starts)):
        rows = np.moveaxis(other, 1, 0).reshape(len(noise.rounds), -1)
        groups += [*_along(rows, noises, noise, what), _parts(rows, noises, what)]
    return combined(*groups)


def _along(rows: Floats, noises: Floats, noise: Noise, what: str) -> list[Group]:
    scores = along(rows, noises)
    there = np.isfinite(scores)
    total = scores[there].sum() / np.sqrt(max(1, there.sum()))

    def one(place: int) -> str:
        return f"the noise of round {noise.rounds[place]} goes with {what} by {scores[place]:.1f} standard deviations"

    return [
        Group(normal_p(scores), one),
        Group(normal_p([total]), lambda _: f"the noise goes with {what} by {total:.1f} standard deviations"),
    ]


def _parts(rows: Floats, noises: Floats, what: str) -> Group:
    """The scale of the noise where the other numbers of the same round are small, larger, and largest."""
    there = np.isfinite(noises)
    order = np.argsort(np.argsort(np.where(there, np.abs(rows), np.inf), axis=1, kind="stable"), axis=1)
    part = (order * _PARTS // np.maximum(there.sum(axis=1, keepdims=True), 1))[there]
    count, total = np.bincount(part, minlength=_PARTS), np.bincount(part, np.square(noises[there]), minlength=_PARTS)

    def says(place: int) -> str:
        ratio = np.sqrt(total[place] / count[place])
        return f"the noise has {ratio:.4f} of its scale in part {place + 1} of {_PARTS} by the size of {what}"

    return Group(squares_p(total, count), says)


CHECKS = (
    Check("noise by size of draw", "noise that tells how many", "noise", _by_size),
    Check("tails by size of draw", "cut tails of an empty draw", "noise", _tails_by_size),
    Check("noise by record", "noise that tells who was drawn", "noise", _by_record),
    Check("noise and draws", "shared randomness", "noise", _with_counts),
    Check("noise and tags", "shared randomness", "noise", _with_tags),
    Check("noise and signal", "noise that knows what it hides", "noise", _with_signal, exact=False),
)
