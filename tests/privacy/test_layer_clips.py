"""Clips by layer: what one record can change, sums against a loop, terms, and what is refused."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.config.schema import Config
from crescendo.config.to_terms import terms_text
from crescendo.core.arrays import Floats
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.errors import ConfigError, CrescendoError, Refused, UsageError
from crescendo.federation.agreement import build_terms, canonical
from crescendo.objectives.base import Slots, clipped
from crescendo.objectives.layer_clips import LayerClips
from crescendo.objectives.logistic.objective import Logistic
from crescendo.objectives.neural.clipping import ClippedSum
from crescendo.objectives.own import OwnModel
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.minibatch import FrozenStepper
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps

RNG = np.random.default_rng(0)
DATA = Records(RNG.normal(size=(30, 3)), np.where(np.arange(30) % 2 == 0, 1.0, -1.0))
TERMS = Terms(ConstantSizes(8), ConstantSteps(0.25), (0.5, 0.5), 4, ahead=1, whole_rounds=True)
LAYERS = ((2, 0.3), (1, 0.4))


class Squares:
    """The loss |w - 10 x|^2 / 2."""

    def initial(self, rng: Any) -> Floats:
        return np.zeros(3)

    def gradient(self, w: Any, data: Records, rows: Any) -> Floats:
        return np.asarray(len(rows) * w - 10 * np.asarray(data.x)[rows].sum(axis=0))

    def evaluate(self, w: Any, data: Records) -> dict[str, float]:
        return {"loss": 0.0}


def made(clip: Any, mechanism: str = "minibatch", goal: Any = None) -> Any:
    return certify(mechanism, TERMS, goal or OwnModel(Squares(), DATA), clip=clip, sigma=1.0, records=(15, 15))


# -- what one record can change ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [LAYERS, [[3, 1e-60]], ((1, 9e59), (2, 9e53)), ((1, 0.1), (1, 0.1), (1, 0.1))])
def test_one_record_changes_the_root_of_the_sum_of_squares(layers: Any) -> None:
    certificate = made(layers)
    due = 0.25 * math.hypot(*(clip for _, clip in layers))
    assert due <= certificate.sensitivity(0, 0) <= due * (1 + 1e-9)
    assert certificate.noise_scale(0, 0) == certificate.sensitivity(0, 0)


def test_the_length_of_all_clips_is_never_rounded_down() -> None:
    rng = np.random.default_rng(1)
    for count in (1, 2, 3, 7, 100):
        for _ in range(100):
            clips = LayerClips(tuple((1, clip) for clip in (10.0 ** rng.uniform(-3, 0, count)).tolist()))
            assert Fraction(clips.length) ** 2 >= sum(Fraction(clip) ** 2 for clip in clips.clips)
            assert clips.length <= math.hypot(*clips.clips) * (1 + 1e-15)


def test_one_layer_of_all_numbers_is_one_clip() -> None:
    one, all_of_it = made(0.5), made([[3, 0.5]])
    assert all_of_it.sensitivity(0, 0) == pytest.approx(one.sensitivity(0, 0), rel=1e-15)
    assert all_of_it.sensitivity(0, 0) >= one.sensitivity(0, 0)


def test_a_code_of_ones_own_is_clipped_layer_by_layer() -> None:
    certificate, goal = made(LAYERS), OwnModel(Squares(), DATA)
    slots = Slots(np.arange(30), np.ones(1), np.array([30]), clip=certificate.clip, unit=certificate.unit)
    stepper = FrozenStepper(goal, DATA)
    for layers in (None, certificate.layers):
        stepper.load(np.zeros(3))
        stepper.advance(
            Slots(slots.rows, slots.etas, slots.ends, clip=slots.clip, unit=slots.unit, layers=layers), 0, 1
        )
        each = [-10 * row for row in np.asarray(DATA.x)]
        due = [
            clipped(one, certificate.clip)
            if layers is None
            else np.concatenate([clipped(one[:2], 0.3), clipped(one[2:], 0.4)])
            for one in each
        ]
        np.testing.assert_allclose(stepper.gradients(), sum(due), atol=30 * certificate.unit)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5,), (2, 3), (1, 1, 3), (4, 0, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layers_may_lie_across_tensors(sizes: tuple[int, ...], dtype: Any) -> None:
    clips, unit = LayerClips(((1, 0.5), (3, 0.2), (1, 2.0))), 2.0**-42
    rows = (RNG.normal(size=(9, 5)) * 10.0 ** RNG.uniform(-3, 3, (9, 1))).astype(dtype)
    if dtype is np.float64:
        rows[4] *= 1e150
        rows[7] *= 1e300
    rows[3, 4] = np.nan
    found = ClippedSum(sizes, clips, unit)
    found.add(np.split(rows, np.cumsum(sizes)[:-1], axis=1))
    due = sum(clips.clipped(row.astype(np.float64)) for k, row in enumerate(rows) if k != 3)
    np.testing.assert_allclose(found.total, due, atol=9 * unit)


# -- runs and terms ----------------------------------------------------------------------------------------------------

CONFIG: dict[str, Any] = {
    "data": {"source": "synthetic:rows=300,features=4"},
    "clients": {"count": 2},
    "schedule": {"rounds": 3, "sizes": {"kind": "constant", "size": 40}, "steps": {"kind": "constant", "eta": 0.1}},
    "privacy": {"mechanism": "minibatch", "epsilon": 4.0, "delta": 1e-5, "records": 150, "clip": [[8, 0.3], [2, 0.1]]},
    "serve": {"federation": "layers", "features": 4},
}


@pytest.mark.slow
def test_a_run_and_its_terms_have_clips_by_layer() -> None:
    pytest.importorskip("jax", reason="jax is not installed: the jax extra")
    result = crescendo.simulate({**CONFIG, "objective": {"kind": "jax:mlp", "options": {"hidden": []}}})
    assert result.privacy is not None and result.privacy["clip"] == [[8, 0.3], [2, 0.1]]
    text = terms_text(
        Config.checked({**CONFIG, "objective": {"kind": "jax:mlp", "options": {"hidden": []}}}, "a run file has")
    )
    agreed = build_terms(text)
    assert agreed.certificate is not None
    assert agreed.certificate.layers == LayerClips(((8, 0.3), (2, 0.1)))
    assert agreed.certificate.clip == LayerClips(((8, 0.3), (2, 0.1))).length
    for clip in (
        [[8, 0.3], [3, 0.1]],
        [[8, 0.3], [2, 1e-9]],
        [[8, 1e200], [2, 1e200]],
        [],
        [[0, 1.0]],
        [[10, -1.0]],
        [[10]],
    ):
        raw = json.loads(text)
        raw["privacy"]["clip"] = clip
        with pytest.raises(CrescendoError) as refused:
            build_terms(canonical(raw))
        assert "clip" in str(refused.value), clip


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "local": ({"mechanism": "local"}, "privacy.clip has a list of layers, and local takes one clip; give one number"),
    "batch-clip": ({"mechanism": "batch-clip"}, "and batch-clip takes one clip; give one number"),
    "too few": ({"clip": [[2, 1.0]]}, "the layers of privacy.clip have 2 numbers, and the model has 3"),
    "too many": ({"clip": [[2, 1.0], [2, 1.0]]}, "the layers of privacy.clip have 4 numbers, and the model has 3"),
    "too fine": (
        {"clip": [[2, 1.0], [1, 1e-7]]},
        "cuts one layer to 1e-07 and another to 1; one must be at least a millionth",
    ),
    "too large": ({"clip": [[2, 1e61], [1, 1e61]]}, "privacy.clip must lie between 1e-60 and 1e+60, got 1.41421e+61"),
    "too small": ({"clip": [[2, 1e-61], [1, 9.99e-61]]}, "privacy.clip must lie between 1e-60 and 1e+60, got 1e-61"),
    "endless": (
        {"clip": [[2, math.inf], [1, math.inf]]},
        "privacy.clip is a number above 0, or a list of 1 to 4096 layers",
    ),
    "none": ({"clip": []}, "privacy.clip is a number above 0, or a list of 1 to 4096 layers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_clipped_by_layer_is_refused_in_a_sentence(case: str) -> None:
    changed, sentence = REFUSED[case]
    with pytest.raises((Refused, UsageError)) as error:
        made(**{"clip": LAYERS, **changed})
    assert sentence in str(error.value)


def test_a_logistic_model_has_no_layers() -> None:
    with pytest.raises(Refused, match=r"takes one clip; give one number"):
        made([[2, 1.0], [2, 1.0]], goal=Logistic(3))
    with pytest.raises(ConfigError, match=r"privacy.clip must be a number above 0, or a list of \[numbers, clip\]"):
        crescendo.simulate({**CONFIG, "privacy": {**CONFIG["privacy"], "clip": "by layer"}})
