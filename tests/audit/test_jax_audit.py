"""The audit on a JAX model: right code passes, and a sum that clips a batch instead of records is caught."""

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

jax = pytest.importorskip("jax", reason="jax is not installed: the jax extra")
import jax.numpy as jnp  # noqa: E402

pytestmark = pytest.mark.slow


def loss(params: Any, x: Any, y: Any) -> Any:
    outputs = jnp.tanh(x @ params[0]) @ params[1]
    return -jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], 1).mean()


def params() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in ((5, 4), (4, 3))]


class ClipOfTheMean:
    """The mean gradient of the batch is clipped instead of each record's."""

    clips = True

    def __init__(self) -> None:
        self._right = crescendo.jax.model(loss, params())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._right, name)

    def gradient(self, w: Any, data: Any, rows: Any, clip: float | None = None, unit: float | None = None) -> Any:
        right = self._right.gradient(w, data, rows)
        return right if clip is None else len(rows) * clipped(right / len(rows), clip)


def attacked(model: Any) -> Report:
    goal = OwnModel(model, made_up_records(5, 3))
    terms = Terms(ConstantSizes(12), ConstantSteps(0.3), (0.5, 0.5), 6, ahead=1, whole_rounds=True)
    certificate = certify("minibatch", terms, goal, clip=0.5, sigma=1.5, records=(60, 60))
    asked = {"claimed": 20.0, "delta": 1e-5, "features": 5, "labels": (0.0, 1.0, 2.0), "seed": 1}
    return audit(certificate, goal, runs=3, tries=8, sources=SeededSource, **asked)  # type: ignore[arg-type]


def test_right_code_passes() -> None:
    report = attacked(crescendo.jax.model(loss, params()))
    assert report.passed, report.findings
    assert 0.999 < report.worst_ratio <= 1.00001


def test_a_planted_bug_is_caught() -> None:
    report = attacked(ClipOfTheMean())
    assert {"sensitivity", "certified formula"} & {finding.kind for finding in report.findings}
