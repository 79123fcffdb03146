"""The audit on JAX models, under both mechanisms: right code passes, and planted bugs are caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.audit import Report, audit
from crescendo.core.terms import Terms
from crescendo.federation.objective_terms import made_up_records
from crescendo.objectives.base import clipped
from crescendo.objectives.layer_clips import LayerClips
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps
from tests.audit.planted_models import TakenAtItsWord

jax = pytest.importorskip("jax", reason="jax is not installed: the jax extra")
import jax.numpy as jnp  # noqa: E402

pytestmark = pytest.mark.slow

LAYERS = ((20, 0.3), (12, 0.4))


def loss(params: Any, x: Any, y: Any) -> Any:
    outputs = jnp.tanh(x @ params[0]) @ params[1]
    return -jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], 1).mean()


def model(**options: Any) -> Any:
    rng = np.random.default_rng(0)
    return crescendo.jax.model(
        loss, [rng.normal(size=shape).astype(np.float32) for shape in ((5, 4), (4, 3))], **options
    )


class Planted:
    """A JAX model with one bug, which is its docstring."""

    clips, mechanism, options, clip = True, "minibatch", dict[str, Any](), 0.5

    def __init__(self) -> None:
        self._right = model(**self.options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._right, name)


class ClipOfTheMean(Planted):
    """The mean gradient of the batch is clipped instead of each record's."""

    def gradient(self, w: Any, data: Any, rows: Any, clip: float | None = None, unit: float | None = None) -> Any:
        right = self._right.gradient(w, data, rows)
        return right if clip is None else len(rows) * clipped(right / len(rows), clip)


class OneLayerForgotten(Planted):
    """Clips by layer, of which the first is left out."""

    clip: Any = LAYERS

    def gradient(self, w: Any, data: Any, rows: Any, *limits: Any) -> Any:
        first, last = LAYERS
        forgotten = (*limits[:2], LayerClips(((first[0], 1e5 * first[1]), last))) if limits else ()
        return self._right.gradient(w, data, rows, *forgotten)


class KeepsItsOptimiser(Planted):
    """Adam's means go on from round to round."""

    mechanism, options, kept = "batch-clip", {"optimiser": "adam"}, None

    def stepper(self, data: Any) -> Any:
        made: Any = self._right.stepper(data)
        if self.kept is not None:
            made._state, made._taken = self.kept._state, self.kept._taken
        made._reset, self.kept = lambda: None, made
        return made


CAUGHT_BY = {ClipOfTheMean: "sensitivity", OneLayerForgotten: "sensitivity", KeepsItsOptimiser: "certified formula"}


def attacked(model: Any, mechanism: str = "minibatch", clip: Any = 0.5) -> Report:
    goal = TakenAtItsWord(model, made_up_records(5, 3))
    terms = Terms(ConstantSizes(12), ConstantSteps(0.3), (0.5, 0.5), 6, ahead=1, whole_rounds=True)
    certificate = certify(mechanism, terms, goal, clip=clip, sigma=1.5, records=(60, 60))
    asked = {"claimed": 20.0, "delta": 1e-5, "features": 5, "labels": (0.0, 1.0, 2.0), "seed": 1}
    return audit(certificate, goal, runs=3, tries=8, sources=SeededSource, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("clip", [0.5, LAYERS], ids=["one clip", "by layer"])
def test_right_code_passes(clip: Any) -> None:
    report = attacked(model(), clip=clip)
    assert report.passed, report.findings
    assert 0.999 < report.worst_ratio <= 1.00001


def test_right_code_passes_where_a_round_is_clipped_as_a_whole() -> None:
    report = attacked(model(optimiser="adam"), "batch-clip")
    assert report.passed, report.findings


@pytest.mark.parametrize("bug", CAUGHT_BY)
def test_planted_bugs_are_caught(bug: type[Planted]) -> None:
    report = attacked(bug(), bug.mechanism, bug.clip)
    assert CAUGHT_BY[bug] in {finding.kind for finding in report.findings}, report.findings
