"""The audit on torch modules: right code passes, and bugs that only neural models can have are caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.audit import Report, audit
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.federation.objective_terms import made_up_records
from crescendo.objectives.base import clipped
from crescendo.objectives.layer_clips import LayerClips
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps
from tests.audit.planted_models import TakenAtItsWord

torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
from torch import nn  # noqa: E402

from crescendo.objectives.neural.torch_model import TorchModel  # noqa: E402

pytestmark = pytest.mark.slow


LAYERS = ((24, 0.3), (15, 0.4))  # of the network below
TERMS = Terms(ConstantSizes(12), ConstantSteps(0.3), (0.5, 0.5), 6, ahead=1, whole_rounds=True)


def small_net(*between: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), *between, nn.Tanh(), nn.Linear(4, 3))


class Planted:
    """A torch model with one bug, which is its docstring. ``unfit``: nobody notices that its layers draw."""

    clips, unfit, mechanism = True, None, "minibatch"
    layers: Any = None

    def __init__(self) -> None:
        self._right = self.made()

    def made(self) -> TorchModel:
        return crescendo.torch.model(small_net)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._right, name)

    def gradient(
        self, w: Any, data: Any, rows: Any, clip: float | None = None, unit: float | None = None, *layers: Any
    ) -> Any:
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


class OneLayerForgotten(Planted):
    """Clips by layer, of which the last is left out."""

    layers = LAYERS

    def wrong(self, w: Any, data: Any, rows: Any, clip: float, unit: float) -> Any:
        first, last = LAYERS
        return self._right.gradient(w, data, rows, clip, unit, LayerClips((first, (last[0], 1e5 * last[1]))))


class ClipByAnotherLayersNorm(Planted):
    """Clips by layer, where each layer is scaled by the norm of the other."""

    layers = LAYERS

    def wrong(self, w: Any, data: Any, rows: Any, clip: float, unit: float) -> Any:
        total, (many, first), (_, last) = np.zeros(len(w)), *LAYERS
        for row in rows:
            gradient = self._right.gradient(w, data, np.array([row]))
            lengths = (max(float(np.linalg.norm(part)), 1e-30) for part in (gradient[many:], gradient[:many]))
            scales = [min(1.0, limit / length) for limit, length in zip((first, last), lengths, strict=True)]
            total += np.concatenate([gradient[:many] * scales[0], gradient[many:] * scales[1]])
        return total


class LayersOneNumberOff(Planted):
    """Clips by layer, where the second layer begins a number too late."""

    layers = LAYERS

    def wrong(self, w: Any, data: Any, rows: Any, clip: float, unit: float) -> Any:
        (many, first), (others, last) = LAYERS
        return self._right.gradient(w, data, rows, clip, unit, LayerClips(((many + 1, first), (others - 1, last))))


class HalfFloats(Planted):
    """Clipped gradients are added in float16."""

    def wrong(self, w: Any, data: Any, rows: Any, clip: float, unit: float) -> Any:
        total = np.zeros(len(w), dtype=np.float16)
        for row in rows:
            total += clipped(self._right.gradient(w, data, np.array([row])), clip).astype(np.float16)
        return total.astype(np.float64)


class DropoutByPlace(Planted):
    """Which numbers of a record are dropped follows from its place among the drawn."""

    def made(self) -> TorchModel:
        return crescendo.torch.model(lambda: small_net(nn.Dropout(0.5)))

    def wrong(self, w: Any, data: Any, rows: Any, clip: float, unit: float) -> Any:
        return self._right.gradient(w, data, rows, clip, unit)


class DropoutOfTheDraw(Planted):
    """All records of a draw are dropped alike, by a seed made of the draw: one record more drops other numbers of all."""

    def wrong(self, w: Any, data: Any, rows: Any, clip: float, unit: float) -> Any:
        kept = np.random.default_rng(len(rows)).random(data.features) < 0.5
        return self._right.gradient(w, Records(2 * data.x * kept, data.y), rows, clip, unit)


class BatchNormLeftOn(Planted):
    """The first layer takes away the mean of the draw and divides by its spread, so that a record's gradient tells of others."""

    def wrong(self, w: Any, data: Any, rows: Any, clip: float, unit: float) -> Any:
        layer, x = nn.BatchNorm1d(data.features, affine=False, track_running_stats=False).train(), data.x.copy()
        if len(rows) > 1:
            x[rows] = layer(torch.from_numpy(x[rows])).numpy()
        return self._right.gradient(w, Records(x, data.y), rows, clip, unit)


class KeepsItsOptimiser(Planted):
    """Adam's means go on from round to round."""

    mechanism, kept = "batch-clip", None

    def made(self) -> TorchModel:
        return crescendo.torch.model(small_net, optimiser="adam")

    def stepper(self, data: Any) -> Any:
        made: Any = self._right.stepper(data)
        self.kept = made._optimiser = self.kept or made._optimiser
        self.kept.reset = lambda: None
        return made


class Running(nn.Module):
    """Takes away the mean of the batches that it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Any) -> Any:
        self.seen.mul_(0.9).add_(0.1 * x.detach().mean(dim=0))  # type: ignore[operator]
        return x - self.seen


class KeepsItsModule(Planted):
    """One module serves all rounds, and what a layer has seen of one stays for the next."""

    mechanism, kept = "batch-clip", None

    def made(self) -> TorchModel:
        return crescendo.torch.model(lambda: small_net(Running()))

    def stepper(self, data: Any) -> Any:
        self.kept = self.kept or self._right.stepper(data)
        self.kept._records = self._right.tensors(data)
        return self.kept


def attacked(model: Any, runs: int = 6, tries: int = 24, mechanism: str = "minibatch", clip: Any = 0.5) -> Report:
    goal = TakenAtItsWord(model, made_up_records(5, 3))
    return audit_of(certify(mechanism, TERMS, goal, clip=clip, sigma=1.5, records=(60, 60)), goal, runs, tries)


def audit_of(certificate: Certificate, goal: TakenAtItsWord, runs: int, tries: int) -> Report:
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


def test_right_code_passes_where_layers_have_clips_of_their_own() -> None:
    report = attacked(crescendo.torch.model(small_net), clip=LAYERS)
    assert report.passed, report.findings
    assert 0.999 < report.worst_ratio <= 1.00001


def test_noise_for_the_largest_clip_alone_is_caught() -> None:
    """Where all layers together have the root of the sum of their squares."""
    goal = TakenAtItsWord(crescendo.torch.model(small_net), made_up_records(5, 3))
    made = certify("minibatch", TERMS, goal, clip=LAYERS, sigma=1.5, records=(60, 60))
    report = audit_of(replace(made, clip=max(clip for _, clip in LAYERS)), goal, 3, 8)
    assert {"sensitivity", "certificate"} <= {finding.kind for finding in report.findings}, report.findings


@pytest.mark.parametrize("bug", [KeepsItsOptimiser, KeepsItsModule])
def test_right_code_passes_where_a_round_is_clipped_as_a_whole(bug: type[Planted]) -> None:
    """Of the very models that the bugs are planted in."""
    report = attacked(bug()._right, runs=3, tries=8, mechanism="batch-clip")
    assert report.passed, report.findings


CAUGHT_BY = {
    ClipOfTheMean: "sensitivity",
    ClipOfOneLayer: "sensitivity",
    OneLayerForgotten: "sensitivity",
    ClipByAnotherLayersNorm: "sensitivity",
    LayersOneNumberOff: "certified formula",
    HalfFloats: "certified formula",
    DropoutByPlace: "sensitivity",
    DropoutOfTheDraw: "sensitivity",
    BatchNormLeftOn: "sensitivity",
    KeepsItsOptimiser: "certified formula",
    KeepsItsModule: "certified formula",
}


@pytest.mark.parametrize("bug", CAUGHT_BY)
def test_planted_bugs_are_caught(bug: type[Planted]) -> None:
    report = attacked(bug(), runs=3, tries=8, mechanism=bug.mechanism, clip=bug.layers or 0.5)
    found = {finding.kind for finding in report.findings}
    assert CAUGHT_BY[bug] in found, report.findings
