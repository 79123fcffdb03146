"""The audit on torch modules: right code passes, and bugs that only neural models can have are caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.audit import Report, audit
from crescendo.core.terms import Terms
from crescendo.federation.objective_terms import made_up_records
from crescendo.objectives.base import clipped
from crescendo.objectives.own import OwnModel
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps

torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
from torch import nn  # noqa: E402

pytestmark = pytest.mark.slow


def small_net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


class Planted:
    """A torch model whose sums of clipped gradients are wrong in one way."""

    clips = True

    def __init__(self) -> None:
        self._right = crescendo.torch.model(small_net)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._right, name)

    def gradient(self, w: Any, data: Any, rows: Any, clip: float | None = None, unit: float | None = None) -> Any:
        if clip is None:
            return self._right.gradient(w, data, rows)
        return self.wrong(w, data, rows, clip, unit or 0.0)

    def wrong(self, w: Any, data: Any, rows: Any, clip: float, unit: float) -> Any:
        raise NotImplementedError


class ClipOfTheMean(Planted):
    """The mean gradient of the batch is clipped instead of each record's."""

    def wrong(self, w: Any, data: Any, rows: Any, clip: float, unit: float) -> Any:
        return len(rows) * clipped(self._right.gradient(w, data, rows) / len(rows), clip)


class ClipOfOneLayer(Planted):
    """Each record is scaled by the norm of its first layer's gradient."""

    def wrong(self, w: Any, data: Any, rows: Any, clip: float, unit: float) -> Any:
        total = np.zeros(len(w))
        for row in rows:
            gradient = self._right.gradient(w, data, np.array([row]))
            total += gradient * min(1.0, clip / max(float(np.linalg.norm(gradient[:24])), 1e-30))
        return total


class HalfFloats(Planted):
    """Clipped gradients are added in float16."""

    def wrong(self, w: Any, data: Any, rows: Any, clip: float, unit: float) -> Any:
        total = np.zeros(len(w), dtype=np.float16)
        for row in rows:
            total += clipped(self._right.gradient(w, data, np.array([row])), clip).astype(np.float16)
        return total.astype(np.float64)


def attacked(model: Any, runs: int = 6, tries: int = 24) -> Report:
    goal = OwnModel(model, made_up_records(5, 3))
    terms = Terms(ConstantSizes(12), ConstantSteps(0.3), (0.5, 0.5), 6, ahead=1, whole_rounds=True)
    certificate = certify("minibatch", terms, goal, clip=0.5, sigma=1.5, records=(60, 60))
    return audit(
        certificate,
        goal,
        claimed=20.0,
        delta=1e-5,
        features=5,
        labels=(0.0, 1.0, 2.0),
        runs=runs,
        tries=tries,
        seed=1,
        sources=SeededSource,
    )


def test_right_code_passes() -> None:
    report = attacked(crescendo.torch.model(small_net))
    assert report.passed, report.findings
    assert 0.999 < report.worst_ratio <= 1.00001


@pytest.mark.parametrize("bug", [ClipOfTheMean, ClipOfOneLayer, HalfFloats])
def test_planted_bugs_are_caught(bug: type[Planted]) -> None:
    report = attacked(bug(), runs=3, tries=8)
    assert {"sensitivity", "certified formula"} & {finding.kind for finding in report.findings}
