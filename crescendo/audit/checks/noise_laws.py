"""Checks of the noise alone: its scale, its mean and its shape, over all numbers, by place and by release."""

from __future__ import annotations

import numpy as np

from crescendo.audit import renewal
from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import (
    Group,
    Tested,
    binned,
    combined,
    ends_p,
    mean_and_spread,
    normal_p,
    squared,
    uniform_p,
)
from crescendo.core.arrays import Floats, Ints

_BINS = 64


def _scale(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test the variance and the mean of all noise together."""
    values = noise.values
    total, squares, n = values.sum(keepdims=True), np.square(values).sum(keepdims=True), len(values)
    mean, spread = mean_and_spread(total, squares, n)
    return combined(
        Group(spread, f"{n:,} noise numbers have {np.sqrt(squares[0] / n):.4f} of the certified scale"),
        Group(mean, f"the mean of {n:,} noise numbers is {total[0] / np.sqrt(n):.1f} standard deviations from 0"),
    )


def _by_coordinate(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test the scale and the mean of the noise of every coordinate."""
    return _by(noise, (0, 1), "coordinate", noise.coordinates)


def _by_round(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test the scale and the mean of the noise of every round."""
    return _by(noise, (0, 2), "round", noise.rounds)


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


def _by_cell(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test the scale of every coordinate in every round, over runs."""
    total, count = (part.ravel() for part in noise.squares((0,)))
    size = noise.z.shape[2]

    def says(place: int) -> str:
        ratio = np.sqrt(total[place] / count[place])
        where = f"coordinate {noise.coordinates[place % size]} in round {noise.rounds[place // size]}"
        return f"the noise of {where} has {ratio:.4g} of its certified scale"

    return combined(Group(squared(total, count).p, says))


def _lengths(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test the length of every release's noise, to find a release without noise, or lengths that vary too little or too much."""
    total, count = noise.squares((2,))
    there = count > 0
    total, count = total[there], count[there]
    run, at = np.nonzero(there)
    scores = squared(total, count).score
    ratio = np.mean(np.square(scores))
    groups = []
    if len(scores) > 1:
        spread, scores = renewal.spread(scores, rng)
        says = f"the lengths of {len(scores):,} releases' noise vary by {ratio:.4f} of what a Gaussian's do"
        groups.append(Group(squared([spread], len(scores) - 1).p, says))

    def one(place: int) -> str:
        length = np.sqrt(total[place] / count[place])
        return f"round {noise.rounds[at[place]]} of run {run[place]} has noise of {length:.4g} of its certified length"

    return combined(*groups, Group(normal_p(scores), one))


def _curve(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test the whole distribution function."""
    from scipy.special import ndtr

    values = noise.values
    says = f"{len(values):,} noise numbers do not follow the Gaussian curve"
    return combined(Group(np.array([uniform_p(ndtr(values))]), says))


def _shape(noise: Noise, rng: np.random.Generator) -> Tested:
    """Count the numbers in 64 equally likely bins, and test the counts."""
    from scipy.special import ndtr, ndtri

    u = ndtr(noise.values)
    counts = np.bincount(np.minimum((u * _BINS).astype(np.int64), _BINS - 1), minlength=_BINS)

    def says(place: int) -> str:
        low, high = ndtri(place / _BINS), ndtri((place + 1) / _BINS)
        return f"{counts[place]:,} of {len(u):,} noise numbers lie between {low:.2f} and {high:.2f} sigma, 1 in {_BINS} should"

    return combined(Group(binned(counts, rng).p, says))


def _tails(noise: Noise, rng: np.random.Generator) -> Tested:
    """Test the largest noise numbers and those nearest to 0, to find tails that are cut or heavy, and numbers without noise."""
    return combined(both_ends(noise.values, "the magnitudes of the noise"))


def both_ends(values: Floats, what: str) -> Group:
    """Return the p-values of both ends of the magnitudes of normal numbers."""
    from scipy.special import ndtr

    ps, ranks = ends_p(2 * ndtr(-np.abs(values)))
    longest = -np.sort(-np.abs(values))

    def says(place: int) -> str:
        rank = int(ranks[place])
        end, at = ("largest", rank - 1) if rank > 0 else ("smallest", rank)
        return f"{what}: number {abs(rank)} of the {end} of {len(values):,} is {longest[at]:.4g} sigma"

    return Group(ps, says)


CHECKS = (
    Check("noise scale", "too little or too much noise", "noise", _scale),
    Check("noise by coordinate", "a coordinate with other noise", "noise", _by_coordinate),
    Check("noise by round", "a round with other noise", "noise", _by_round),
    Check("noise by cell", "one number with other noise", "noise", _by_cell),
    Check("noise lengths", "a release with other noise", "noise", _lengths),
    Check("noise curve", "noise that is not Gaussian", "noise", _curve),
    Check("noise shape", "gaps and bumps in its density", "noise", _shape),
    Check("noise tails", "cut tails, numbers without noise", "noise", _tails),
)
