"""Audit 2, its first half: the noise of real releases is what the certificate says, both ways."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.privacy.audit.scenes import Scene, random_scene
from crescendo.privacy.audit.statistics import normal_quantile, scale_bounds
from crescendo.privacy.audit.subject import Script, Silent, Subject, releases

Floats = npt.NDArray[np.float64]

TOLERANCE = 0.01  # measured noise over certified noise may be off by this
ENOUGH = 100_000  # noise numbers of each kind, for a standard error of 0.22%
WIDE = 256  # features of the model on which noise is measured, where the objective can have any number
ALPHA = 1e-6  # of a false alarm in each comparison


@dataclass
class Noise:
    """``ratio``: measured scale over certified scale, of all draws or of the first that is off. ``high``: a bound from above."""

    ratio: float = 1.0
    high: float = math.inf
    found: dict[str, str] = field(default_factory=dict)


def noise_test(subject: Subject, rng: np.random.Generator, runs: int, alpha: float) -> Noise:
    """What is sent minus what is sent with the noise off; for draws of no record, one and several, in first and last rounds."""
    result, seen = Noise(), []
    subject = widened(subject)
    try:
        scene = random_scene(subject, rng, others=8)
        for rounds in subject.pairs():
            for count in (0, 1, 9):
                noise = _noise(subject, scene, rng, rounds, count, runs)
                _judge(result, noise, f"a draw of {count} records in rounds {rounds}")
                seen += [values.ravel() for values in noise]
        together = np.concatenate(seen)
        result.high = scale_bounds(together, alpha)[1]
        if "noise" not in result.found:
            result.ratio = float(np.sqrt(np.mean(np.square(together))))
    except Silent as error:
        result.found["silence"] = str(error)
    except Exception as error:
        result.found["stopped"] = f"ordinary records stopped the run: {error}"
    return result


def widened(subject: Subject) -> Subject:
    """The same objective on more features, where it has a field for them: noise is the same, and there is more of it."""
    objective: Any = subject.objective
    if not is_dataclass(objective) or isinstance(objective, type) or subject.features >= WIDE:
        return subject
    if "features" not in (f.name for f in fields(objective)):
        return subject
    wide = replace(objective, features=WIDE)
    return replace(subject, objective=wide, features=WIDE, certificate=replace(subject.certificate, objective=wide))


def _noise(
    subject: Subject, scene: Scene, rng: np.random.Generator, rounds: tuple[int, ...], count: int, runs: int
) -> list[Floats]:
    """Per round: noise over its certified scale, one row a run."""
    data, starts = scene.data(subject.features), tuple(scene.start for _ in rounds)
    rows, script = np.arange(max(count, 1)), dict.fromkeys(rounds, scene.draw(count))
    quiet = releases(subject.without_noise(), data, rows, Script(script), rounds, starts)
    sent: list[list[Floats]] = [[] for _ in rounds]
    for _ in range(min(runs, max(40, -(-ENOUGH // sum(len(q) for q in quiet))))):
        source = Script(script, behind=subject.sources(int(rng.integers(2**62))))
        for r, release in enumerate(releases(subject, data, rows, source, rounds, starts)):
            sent[r].append(release)
    return [(np.array(s) - q) / subject.scale(i) for s, q, i in zip(sent, quiet, rounds, strict=True)]


def _judge(result: Noise, noise: list[Floats], where: str) -> None:
    """Scale within 1%, shape of a Gaussian, no number a repetition of the one before."""
    from scipy.stats import kstest

    values = np.concatenate([values.ravel() for values in noise])
    low, high = scale_bounds(values, ALPHA)
    measured = float(np.sqrt(np.mean(np.square(values))))
    if low > 1 + TOLERANCE or high < 1 - TOLERANCE:
        result.ratio = measured if "noise" not in result.found else result.ratio
        result.found.setdefault("noise", f"the noise of {where} is {measured:.4g} of its certified scale")
    if measured > 0 and kstest(values[:20_000] / measured, "norm").pvalue < ALPHA:
        result.found.setdefault("noise", f"the noise of {where} is not Gaussian")
    pairs = [(v[:, :-1], v[:, 1:]) for v in noise] + ([(noise[0], noise[1])] if _same_shape(noise) else [])
    for left, right in pairs:
        if left.size > 100 and abs(float(np.mean(left * right))) > 2 * measured**2 * normal_quantile(ALPHA) / math.sqrt(
            left.size
        ):
            result.found.setdefault("noise", f"the noise of {where} repeats itself")


def _same_shape(noise: list[Floats]) -> bool:
    return len(noise) == 2 and noise[0].shape == noise[1].shape
