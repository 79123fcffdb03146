"""The audit on softmax regression and least squares: right kernels pass, and bugs planted in their sums are caught."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from crescendo.audit import Report, audit
from crescendo.core.arrays import Floats
from crescendo.core.terms import Terms
from crescendo.objectives import LeastSquares, Softmax
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps

pytestmark = pytest.mark.slow

FEATURES, CLASSES, RANGE = 4, 3, (-3.0, 5.0)
TERMS = Terms(ConstantSizes(12), ConstantSteps(0.1), (0.5, 0.5), 6, ahead=1, whole_rounds=True)


def one_by_one(self: Any, wrong: Any, w: Any, data: Any, rows: Any, clip: float, unit: float | None) -> Floats:
    """The sum of each record's gradient, made wrong; rounded to the unit as the kernels do it."""
    right = super(type(self), self).gradient
    total = np.zeros(self.size)
    for row in rows:
        gradient = wrong(right(w, data, np.array([row])), clip)
        total += gradient if not unit else np.rint(gradient / unit) * unit
    return total


def shortened(gradient: Floats, norm: float, clip: float) -> Floats:
    return gradient if not norm > clip else gradient * (clip / norm)


@dataclass(frozen=True)
class ClipByEachClass(Softmax):
    """Each class's weights are clipped by themselves, so that the whole is up to sqrt(3) times as long."""

    def gradient(self, w: Any, data: Any, rows: Any, clip: Any = None, block: Any = None, unit: Any = None) -> Any:
        if clip is None:
            return super().gradient(w, data, rows)

        def wrong(gradient: Floats, clip: float) -> Floats:
            table = gradient.reshape(-1, self.classes).copy()
            for k in range(self.classes):
                table[:, k] = shortened(table[:, k], float(np.linalg.norm(table[:, k])), clip)
            return table.ravel()

        return one_by_one(self, wrong, w, data, rows, clip, unit)


@dataclass(frozen=True)
class ClipOverOwnClass(Softmax):
    """The norm is that of the weights of one class alone."""

    def gradient(self, w: Any, data: Any, rows: Any, clip: Any = None, block: Any = None, unit: Any = None) -> Any:
        if clip is None:
            return super().gradient(w, data, rows)

        def wrong(gradient: Floats, clip: float) -> Floats:
            return shortened(gradient, float(np.linalg.norm(gradient[:: self.classes])), clip)

        return one_by_one(self, wrong, w, data, rows, clip, unit)


@dataclass(frozen=True)
class SoftmaxInterceptsLeftOut(Softmax):
    """The intercepts are no part of the norm that is clipped."""

    def gradient(self, w: Any, data: Any, rows: Any, clip: Any = None, block: Any = None, unit: Any = None) -> Any:
        if clip is None:
            return super().gradient(w, data, rows)

        def wrong(gradient: Floats, clip: float) -> Floats:
            return shortened(gradient, float(np.linalg.norm(gradient[: -self.classes])), clip)

        return one_by_one(self, wrong, w, data, rows, clip, unit)


@dataclass(frozen=True)
class SoftmaxSumInFloat32(Softmax):
    """Clipped gradients are added in float32, so that the sum depends on its order."""

    def gradient(self, w: Any, data: Any, rows: Any, clip: Any = None, block: Any = None, unit: Any = None) -> Any:
        if clip is None:
            return super().gradient(w, data, rows)
        total = np.zeros(self.size, dtype=np.float32)
        for row in rows:
            total += super().gradient(w, data, np.array([row]), clip, unit=unit).astype(np.float32)
        return total.astype(np.float64)


@dataclass(frozen=True)
class InterceptLeftOut(LeastSquares):
    """The intercept is no part of the norm that is clipped."""

    def gradient(self, w: Any, data: Any, rows: Any, clip: Any = None, block: Any = None, unit: Any = None) -> Any:
        if clip is None:
            return super().gradient(w, data, rows)

        def wrong(gradient: Floats, clip: float) -> Floats:
            return shortened(gradient, float(np.linalg.norm(gradient[:-1])), clip)

        return one_by_one(self, wrong, w, data, rows, clip, unit)


@dataclass(frozen=True)
class SlopeClippedAlone(LeastSquares):
    """The slope is cut to the clip, as if every record had length 1."""

    def gradient(self, w: Any, data: Any, rows: Any, clip: Any = None, block: Any = None, unit: Any = None) -> Any:
        if clip is None:
            return super().gradient(w, data, rows)

        def wrong(gradient: Floats, clip: float) -> Floats:
            return shortened(gradient, abs(float(gradient[-1])), clip)

        return one_by_one(self, wrong, w, data, rows, clip, unit)


@dataclass(frozen=True)
class SumInFloat32(LeastSquares):
    """Clipped gradients are added in float32."""

    def gradient(self, w: Any, data: Any, rows: Any, clip: Any = None, block: Any = None, unit: Any = None) -> Any:
        if clip is None:
            return super().gradient(w, data, rows)
        total = np.zeros(self.size, dtype=np.float32)
        for row in rows:
            total += super().gradient(w, data, np.array([row]), clip, unit=unit).astype(np.float32)
        return total.astype(np.float64)


def attacked(goal: Any, mechanism: str = "minibatch", runs: int = 3, tries: int = 10) -> Report:
    bound = 3.0 if mechanism == "local" else None
    made = certify(mechanism, TERMS, goal, clip=0.5, sigma=1.5, records=(60, 60), norm_bound=bound)
    labels = RANGE if isinstance(goal, LeastSquares) else (0.0, 1.0, 2.0)
    chosen: dict[str, Any] = {"runs": runs, "tries": tries, "seed": 1, "sources": SeededSource}
    return audit(made, goal, claimed=20.0, delta=1e-5, features=FEATURES, labels=labels, **chosen)


@pytest.mark.parametrize(
    ("goal", "mechanism"),
    [
        (Softmax(FEATURES, classes=CLASSES), "minibatch"),
        (Softmax(FEATURES, classes=CLASSES), "batch-clip"),
        (LeastSquares(FEATURES, label_range=RANGE), "minibatch"),
        (LeastSquares(FEATURES, label_range=RANGE), "batch-clip"),
        (LeastSquares(FEATURES, label_range=RANGE), "local"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.traits.name,
)
def test_right_kernels_pass(goal: Any, mechanism: str) -> None:
    report = attacked(goal, mechanism)
    assert report.passed, report.findings
    if mechanism == "minibatch":
        assert 0.999 < report.worst_ratio <= 1.00001


SOFTMAX = (ClipByEachClass, ClipOverOwnClass, SoftmaxInterceptsLeftOut, SoftmaxSumInFloat32)
SQUARES = (InterceptLeftOut, SlopeClippedAlone, SumInFloat32)


@pytest.mark.parametrize("bug", [*SOFTMAX, *SQUARES])
def test_planted_bugs_are_caught(bug: Any) -> None:
    goal = bug(FEATURES, classes=CLASSES) if bug in SOFTMAX else bug(FEATURES, label_range=RANGE)
    report = attacked(goal)
    found = {finding.kind for finding in report.findings}
    assert ("certified formula" if "Float32" in bug.__name__ else "sensitivity") in found, report.findings
