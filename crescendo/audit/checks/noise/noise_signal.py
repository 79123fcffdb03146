"""Noise against what it hides and against the start model: noise that is not independent of them is not all noise."""

from __future__ import annotations

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.driving.evidence import Noise
from crescendo.audit.scores import Group, Tested, along, combined, normal_p, squares_p
from crescendo.core.arrays import Floats

PARTS = 8


def test(noise: Noise, rng: np.random.Generator) -> Tested:
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
    part = (order * PARTS // np.maximum(there.sum(axis=1, keepdims=True), 1))[there]
    count, total = np.bincount(part, minlength=PARTS), np.bincount(part, np.square(noises[there]), minlength=PARTS)

    def says(place: int) -> str:
        ratio = np.sqrt(total[place] / count[place])
        return f"the noise has {ratio:.4f} of its scale in part {place + 1} of {PARTS} by the size of {what}"

    return Group(squares_p(total, count), says)


CHECK = Check("noise and signal", "noise that knows what it hides", "noise", test)
