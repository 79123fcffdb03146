"""Lower bounds on epsilon from real releases.

*By shifts*: one record moves the mean by at most the sensitivity; the measured shift goes through the accountant.
*By thresholds*: the whole client is a black box, with a likelihood-ratio score of its releases, a threshold, and counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.subject import Draw, Script, Subject
from crescendo.audit.worst_cases.fuzz import difference
from crescendo.audit.worst_cases.scenes import Scene
from crescendo.core.arrays import Floats
from crescendo_dp.black_box.epsilon_bounds import clopper_pearson
from crescendo_dp.events import Event

Cost = Callable[[Sequence[Event]], float]

_NEAR = 1e-3  # of the sensitivity: the wire's rounding may add this much


@dataclass
class Shift:
    """One record's shift of the mean release, over the certified sensitivity; ``error`` is its standard deviation."""

    ratio: float = 0.0
    error: float = 0.0

    def low(self, alpha: float) -> float:
        """Return a lower bound that is wrong with probability ``alpha``."""
        from scipy.special import ndtri

        return self.ratio + float(ndtri(alpha)) * self.error

    @property
    def p(self) -> float:
        """The chance of at least this shift if the record moves the mean by exactly the sensitivity."""
        from scipy.special import ndtr

        return float(ndtr(-(self.ratio - 1 - _NEAR) / self.error)) if self.error > 0 else 1.0

    @classmethod
    def measured(cls, subject: Subject, scene: Scene, rng: np.random.Generator, runs: int, faults: Faults) -> Shift:
        """Measure real releases with and without the record, along the direction of the noise-free difference."""
        n, rounds = len(scene.y) - 1, scene.rounds(subject)
        data, starts = scene.data(subject.features), tuple(scene.start for _ in rounds)
        with faults.noting("ordinary records"):
            moved = [d for _, d in difference(subject, scene)]
            sent = []
            for count in (n, n + 1):
                script = dict.fromkeys(rounds, scene.draw(count))
                sources = (Script(script, behind=subject.source(rng)) for _ in range(runs))
                sent.append([subject.releases(data, np.arange(count), source, rounds, starts) for source in sources])
            return _moved(subject, sent, moved, rounds)
        return cls()


def _moved(subject: Subject, sent: list[list[list[Floats]]], moved: list[Floats], rounds: tuple[int, ...]) -> Shift:
    """Return the mean over rounds, each weighted by its precision under the certified noise."""
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


# -- by thresholds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scores:
    """Likelihood-ratio scores of runs without the record and with it, over the attacked rounds."""

    without: Floats
    with_it: Floats
    rounds: tuple[int, ...]

    def epsilon(self, alpha: float, delta: float) -> float:
        """Return a lower bound on the cost of the rounds, wrong with probability ``alpha``."""
        bounds = []
        # the better of the two directions, each at half of alpha, shared again by the bounds on two rates
        for a, b in ((self.without, self.with_it), (-self.with_it, -self.without)):
            half_a, half_b = len(a) // 2, len(b) // 2
            cuts = np.unique(np.quantile(np.concatenate([a[:half_a], b[:half_b]]), np.linspace(0.5, 1.0, 200)))
            chosen = max(cuts, key=lambda cut: _bound(a[:half_a], b[:half_b], cut, alpha / 4, delta))
            bounds.append(_bound(a[half_a:], b[half_b:], chosen, alpha / 4, delta))
        return max(bounds)

    @classmethod
    def measured(cls, subject: Subject, scene: Scene, rng: np.random.Generator, runs: int) -> Scores:
        """Score runs with real draws and real noise; `epsilon` chooses thresholds on one half and tests them on the other."""
        rounds = scene.rounds(subject)
        without, with_it = (_scores(subject, scene, rng, rounds, records, runs) for records in (1, 2))
        return cls(without, with_it, rounds)


def _bound(without: Floats, with_it: Floats, cut: float, alpha: float, delta: float) -> float:
    """Return the least epsilon that allows this test: P(hit | with) <= e^eps P(hit | without) + delta."""
    hits = clopper_pearson(int((with_it > cut).sum()), len(with_it), alpha)[0]
    false_alarms = clopper_pearson(int((without > cut).sum()), len(without), alpha)[1]
    return math.log((hits - delta) / false_alarms) if hits - delta > false_alarms > 0 else 0.0


def _scores(
    subject: Subject, scene: Scene, rng: np.random.Generator, rounds: tuple[int, ...], records: int, runs: int
) -> Floats:
    """Return the log likelihood ratio for the presence of the scene's last record, over the rounds.

    One other record is also present, drawn or not; the score assumes that it was not drawn. Any score gives a true bound.
    """
    pair = np.array([0, len(scene.y) - 1])[:records]
    data, starts = scene.data(subject.features), tuple(scene.start for _ in rounds)
    script = dict.fromkeys(rounds, Draw.none())
    means = subject.without_noise().releases(data, pair, Script(script), rounds, starts)
    moved = [d for _, d in difference(subject, _two(scene))]
    scores = np.zeros(runs)
    for run in range(runs):
        source = subject.source(rng)
        for r, sent in enumerate(subject.releases(data, pair, source, rounds, starts)):
            scores[run] += _score(subject, rounds[r], sent - means[r], moved[r])
    return scores


def _two(scene: Scene) -> Scene:
    return replace(scene, x=scene.x[[0, -1]], y=scene.y[[0, -1]], tags=scene.tags[[0, -1]])


def _score(subject: Subject, i: int, sent: Floats, moved: Floats) -> float:
    """Return log(1 - q + q N(sent; moved, s^2) / N(sent; 0, s^2))."""
    s2, q = subject.scale(i) ** 2, subject.certificate.rate(i, subject.me)
    exponent = (float(sent @ moved) - float(moved @ moved) / 2) / s2
    return float(np.logaddexp(np.log1p(-q) if q < 1 else -np.inf, np.log(q) + exponent))
