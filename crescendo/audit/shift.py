"""Audit 2, its second half: on real releases, one record shifts the mean by no more than the sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.subject import Script, Subject, releases
from crescendo.audit.statistics import normal_quantile, normal_tail
from crescendo.audit.worst_cases.fuzz import difference
from crescendo.audit.worst_cases.scenes import Scene
from crescendo.core.arrays import Floats
from crescendo.privacy.accounting.events import PoissonGaussian

Cost = Callable[[Sequence[PoissonGaussian]], float]

_NEAR = 1e-3  # of the sensitivity: what the wire's rounding may add


@dataclass
class Shift:
    """How far one record moves the mean of what is sent, over the certified sensitivity; ``error`` is its standard deviation."""

    ratio: float = 0.0
    error: float = 0.0

    def low(self, alpha: float) -> float:
        """A bound from below, wrong with probability ``alpha``."""
        return self.ratio - normal_quantile(alpha) * self.error

    @property
    def p(self) -> float:
        """The chance of as much or more if the record moves the mean by the sensitivity, and no further."""
        return normal_tail((self.ratio - 1 - _NEAR) / self.error) if self.error > 0 else 1.0


def shift_test(subject: Subject, scene: Scene, rng: np.random.Generator, runs: int, faults: Faults) -> Shift:
    """Real noise, with the record in the draw and without it, along the direction of the noise-free difference."""
    n, rounds = len(scene.y) - 1, scene.rounds(subject)
    data, starts = scene.data(subject.features), tuple(scene.start for _ in rounds)
    with faults.noting("ordinary records"):
        moved = [d for _, d in difference(subject, scene)]
        sent = []
        for count in (n, n + 1):
            script = dict.fromkeys(rounds, scene.draw(count))
            sources = (Script(script, behind=subject.source(rng)) for _ in range(runs))
            sent.append([releases(subject, data, np.arange(count), source, rounds, starts) for source in sources])
        return _moved(subject, sent, moved, rounds)
    return Shift()


def _moved(subject: Subject, sent: list[list[list[Floats]]], moved: list[Floats], rounds: tuple[int, ...]) -> Shift:
    """The mean over rounds, each weighed by its precision, which the certified noise sets."""
    shifts, errors = [], []
    for r, (i, d) in enumerate(zip(rounds, moved, strict=True)):
        length, certified = float(np.linalg.norm(d)), subject.certificate.sensitivity(i, subject.me)
        if not length:
            continue
        a, b = (np.array([run[r] for run in runs]) @ (d / length) for runs in sent)
        shifts.append(float(b.mean() - a.mean()) / certified)
        errors.append(subject.scale(i) * math.sqrt(1 / len(a) + 1 / len(b)) / certified)
    if not shifts:
        return Shift()
    weights = 1 / np.square(np.maximum(errors, 1e-300))
    return Shift(float(np.average(shifts, weights=weights)), float(1 / math.sqrt(weights.sum())))


def parametric_epsilon(subject: Subject, cost: Cost, shift_low: float, noise_high: float, rate_low: float) -> float:
    """What the whole run costs if every round has the shift, noise and rate that were measured, each at its harmless end."""
    if shift_low <= 0 or rate_low <= 0 or not math.isfinite(noise_high):
        return 0.0
    events = subject.certificate.events(subject.me)
    return cost([PoissonGaussian(min(1.0, e.rate * rate_low), e.sigma * noise_high / shift_low) for e in events])
