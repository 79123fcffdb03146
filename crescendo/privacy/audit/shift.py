"""Audit 2, its second half: on real releases, one record shifts the mean by no more than the sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from crescendo.privacy.audit.fuzz import difference
from crescendo.privacy.audit.scenes import Scene
from crescendo.privacy.audit.statistics import normal_quantile
from crescendo.privacy.audit.subject import Script, Silent, Subject, releases
from crescendo.privacy.events import PoissonGaussian

Floats = npt.NDArray[np.float64]
Cost = Callable[[Sequence[PoissonGaussian]], float]

ALPHA = 1e-6  # of a false alarm


@dataclass
class Shift:
    """How far one record moves the mean of what is sent, over the certified sensitivity, and what that is off by chance.

    ``error`` is its standard error, ``low`` a bound from below.
    """

    ratio: float = 0.0
    error: float = 0.0
    low: float = 0.0
    found: dict[str, str] = field(default_factory=dict)


def shift_test(subject: Subject, scene: Scene, rng: np.random.Generator, runs: int, alpha: float) -> Shift:
    """Real noise, with the record in the draw and without it, along the direction of the noise-free difference."""
    result, n, rounds = Shift(), len(scene.y) - 1, subject.pairs()[-1]
    data, starts = scene.data(subject.features), tuple(scene.start for _ in rounds)
    try:
        moved = [d for _, d in difference(subject, scene)]
        sent = []
        for count in (n, n + 1):
            script = dict.fromkeys(rounds, scene.draw(count))
            sources = (Script(script, behind=subject.sources(int(rng.integers(2**62)))) for _ in range(runs))
            sent.append([releases(subject, data, np.arange(count), source, rounds, starts) for source in sources])
        _moved(subject, result, sent, moved, rounds, alpha)
    except Silent as error:
        result.found["silence"] = str(error)
    except Exception as error:
        result.found["stopped"] = f"the run stopped: {error}"
    return result


def _moved(
    subject: Subject,
    result: Shift,
    sent: list[list[list[Floats]]],
    moved: list[Floats],
    rounds: tuple[int, ...],
    alpha: float,
) -> None:
    """The mean over rounds, each weighed by its precision."""
    shifts, errors = [], []
    for r, (i, d) in enumerate(zip(rounds, moved, strict=True)):
        length, certified = float(np.linalg.norm(d)), subject.certificate.sensitivity(i, subject.me)
        if not length:
            continue
        a, b = (np.array([run[r] for run in runs]) @ (d / length) for runs in sent)
        shifts.append(float(b.mean() - a.mean()) / certified)
        errors.append(math.sqrt(a.var() / len(a) + b.var() / len(b)) / certified)
    if not shifts:
        return
    weights = 1 / np.square(np.maximum(errors, 1e-300))
    result.ratio, result.error = float(np.average(shifts, weights=weights)), float(1 / math.sqrt(weights.sum()))
    result.low = result.ratio - normal_quantile(alpha) * result.error
    if result.ratio - normal_quantile(ALPHA) * result.error > 1 + 1e-3:
        result.found["shift"] = f"one record moves the mean by {result.ratio:.4g} of the certified sensitivity"


def parametric_epsilon(subject: Subject, cost: Cost, shift_low: float, noise_high: float, rate_low: float) -> float:
    """What the whole run costs if every round has the shift, noise and rate that were measured, each at its harmless end."""
    if shift_low <= 0 or rate_low <= 0 or not math.isfinite(noise_high):
        return 0.0
    events = subject.certificate.events(subject.me)
    return cost([PoissonGaussian(min(1.0, e.rate * rate_low), e.sigma * noise_high / shift_low) for e in events])
