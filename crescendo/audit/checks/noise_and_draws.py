"""Checks of noise against the draw, the hidden numbers and the start model: it must be independent of all three."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crescendo.audit import renewal
from crescendo.audit.check import Check
from crescendo.audit.checks.noise_laws import both_ends
from crescendo.audit.driving.evidence import TRACKED, Noise, magnitudes
from crescendo.audit.scores import (
    Group,
    Tested,
    combined,
    mean_and_spread,
    normal_p,
    squared,
)
from crescendo.core.arrays import Floats

_CLASSES = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 10**9))
_LAGS = 8
_WIDTH = 64  # coordinates
_PARTS = 8


def _by_size(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test the scale and the mean of the noise for draws of each size."""
    groups = []
    for what, values in _classes(noise):
        sums, squares = values.sum(keepdims=True), np.square(values).sum(keepdims=True)
        mean, spread = mean_and_spread(sums, squares, len(values))
        says = f"{what} has {np.sqrt(squares[0] / len(values)):.4f} of the certified scale in {len(values):,} numbers"
        groups += [Group(spread, says), Group(mean, says + " and is off centre")]
    return combined(*groups)


def _tails_by_size(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test both ends of the noise for draws of each size."""
    return combined(*(both_ends(values, what) for what, values in _classes(noise)))


def _classes(noise: Noise) -> Iterator[tuple[str, Floats]]:
    for low, high in _CLASSES:
        values = noise.z[(noise.drawn >= low) & (noise.drawn <= high)]
        values = values[np.isfinite(values)]
        if len(values):
            yield f"the noise of draws of {low if low == high else f'{low} or more'} records", values


def _by_record(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test the scale and the mean of the noise by one drawn record, chosen at random so that each release counts once."""
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
    """Test the number of drawn records against the length and the mean of the noise, some rounds before or after."""
    lags = sorted(range(-_LAGS, _LAGS + 1), key=abs)
    drawn = np.stack([_later(noise.expected, lag) for lag in lags if abs(lag) < len(noise.rounds)], axis=-1)
    total, count = noise.squares((2,))
    mean = noise.means((2,))
    kinds = {"mean": mean, "length": squared(total - mean**2, count - 1).score}
    groups = []
    for kind, scores in kinds.items():
        there = np.isfinite(scores)
        found, _ = renewal.coefficients(drawn[there], scores[there][:, None], rng)

        def says(place: int, kind: str = kind) -> str:
            return f"the number of records drawn goes with the {kind} of the noise {lags[place]} rounds later"

        groups.append(Group(normal_p(found[:, 0]), says))
    return combined(*groups)


def _later(numbers: Floats, lag: int) -> Floats:
    """Return the numbers of ``lag`` rounds before, by run and round; 0 beyond either end."""
    found = np.zeros(numbers.shape)
    size = numbers.shape[1] - abs(lag)
    found[:, max(0, lag) :][:, :size] = np.nan_to_num(numbers[:, max(0, -lag) :][:, :size])
    return found


def _with_tags(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test every tag of a draw against the noise, and its magnitude, at each of the first coordinates."""
    width = min(_WIDTH, noise.z.shape[2])
    tags = np.nan_to_num(noise.tags.reshape(-1, noise.tags.shape[2]))
    numbers = noise.z[:, :, :width].reshape(-1, width)
    groups = []
    for kind in ("noise", "magnitude of the noise"):
        scores, renewed = _by_support(tags, numbers, rng)

        def says(place: int, kind: str = kind, scores: Floats = scores) -> str:
            k, j = divmod(place, width)
            return f"tag {k} goes with the {kind} at coordinate {j} by {scores[k, j]:.1f} standard deviations"

        groups.append(Group(normal_p(scores).ravel(), says))
        numbers = magnitudes(renewed)
    return combined(*groups)


def _by_support(directions: Floats, columns: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return coefficients of columns with gaps, taking columns with the same rows together."""
    scores, renewed = np.full((directions.shape[1], columns.shape[1]), np.nan), columns.copy()
    supports, which = np.unique(np.isfinite(columns), axis=1, return_inverse=True)
    for k, rows in enumerate(supports.T):
        if not rows.any():
            continue
        same = np.flatnonzero(which.ravel() == k)
        found, fresh = renewal.coefficients(directions[rows], columns[np.ix_(rows, same)], rng)
        scores[: len(found), same] = found
        renewed[np.ix_(rows, same)] = fresh
    return scores, renewed


def _with_signal(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test round by round: later start models contain earlier noise, so only within a round are both sides independent."""
    noises, hidden, starts = (
        np.moveaxis(each, 1, 0).reshape(len(noise.rounds), -1) for each in (noise.z, noise.hidden, noise.starts)
    )
    scores, noises = np.full((len(noises), 2), np.nan), noises.copy()
    for r, there in enumerate(np.isfinite(noises)):
        if there.sum() > 1:
            directions = np.stack([hidden[r, there], starts[r, there]], axis=1)
            found, renewed = renewal.coefficients(directions, noises[r, there][:, None], rng)
            scores[r], noises[r, there] = found[:, 0], renewed[:, 0]
    groups = []
    for which, (what, other) in enumerate((("what it hides", hidden), ("the start model", starts))):
        groups += _along(scores[:, which], noise, what, rng)
        group, noises = _parts(other, noises, what, rng)
        groups.append(group)
    return combined(*groups)


def _along(scores: Floats, noise: Noise, what: str, rng: np.random.Generator) -> list[Group]:
    """Test scores over all rounds, then each of them."""
    there = np.flatnonzero(np.isfinite(scores))
    if not len(there):
        return []
    total, single = renewal.sums(scores[there], np.zeros(len(there), dtype=np.int64), rng)

    def one(place: int) -> str:
        by = scores[there[place]]
        return f"the noise of round {noise.rounds[there[place]]} goes with {what} by {by:.1f} standard deviations"

    return [
        Group(normal_p(total), lambda _: f"the noise goes with {what} by {total[0]:.1f} standard deviations"),
        Group(normal_p(single), one),
    ]


def _parts(rows: Floats, noises: Floats, what: str, rng: np.random.Generator) -> tuple[Group, Floats]:
    """Test the scale of the noise by the size of the other numbers of the same round, from the smallest part to the largest.

    The parts of each round are renewed separately: this round's noise decides the parts of the numbers of a later round.
    """
    there = np.isfinite(noises)
    order = np.argsort(np.argsort(np.where(there, np.abs(rows), np.inf), axis=1, kind="stable"), axis=1)
    part = (order * _PARTS // np.maximum(there.sum(axis=1, keepdims=True), 1))[there]
    place = part + _PARTS * np.nonzero(there)[0]
    renewed = noises.copy()
    totals, renewed[there] = renewal.squares(noises[there], place, rng)
    count = np.bincount(part, minlength=_PARTS)
    total = np.bincount(np.arange(len(totals)) % _PARTS, totals, minlength=_PARTS)

    def says(place: int) -> str:
        ratio = np.sqrt(total[place] / count[place])
        return f"the noise has {ratio:.4f} of its scale in part {place + 1} of {_PARTS} by the size of {what}"

    return Group(squared(total, count).p, says), renewed


CHECKS = (
    Check("noise by size of draw", "noise that tells how many", "noise", _by_size),
    Check("tails by size of draw", "cut tails of an empty draw", "noise", _tails_by_size),
    Check("noise by record", "noise that tells who was drawn", "noise", _by_record),
    Check("noise and draws", "shared randomness", "noise", _with_counts),
    Check("noise and tags", "shared randomness", "noise", _with_tags),
    Check("noise and signal", "noise that knows what it hides", "noise", _with_signal),
)
