"""A rule of one's own is one class and one call: its keys, limits, errors, reference and terms follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

from crescendo.config.loading import read
from crescendo.config.reference import reference
from crescendo.config.to_terms import terms_text
from crescendo.errors import ConfigError, Refused, UsageError
from crescendo.federation.agreement import build_terms
from crescendo.runs.simulate import simulate
from crescendo.schedules import ConstantSteps, Sizes, Steps
from crescendo.schedules.kinds import SIZES, STEPS
from crescendo.schedules.parameters import COUNT, POSITIVE, UNIT, FloatArray, IntArray
from crescendo.tables import one_of
from tests.config.small import small
from tests.conformance.cases import case

KNOWN = [kind.name for kind in STEPS]
HALVING = {"kind": "halving", "eta": 0.5, "every": 40}


@dataclass(frozen=True)
class HalvingSteps(Steps):
    """eta keep^floor(t / every)."""

    eta: Annotated[float, POSITIVE, "the first step"]
    every: Annotated[int, COUNT, "gradients between two cuts"]
    keep: Annotated[float, UNIT, "what a cut leaves"] = 0.5

    def _eta(self, t: FloatArray) -> FloatArray:
        return np.asarray(self.eta * self.keep ** np.floor(t / self.every))


@dataclass(frozen=True)
class SquareSizes(Sizes):
    """(i + 1)^2 root^2."""

    root: Annotated[int, COUNT, "s_i = (root (i + 1))^2"]

    def _between(self, lo: int, hi: int) -> IntArray | FloatArray:
        return (self.root * np.arange(lo + 1, hi + 1, dtype=np.float64)) ** 2


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    STEPS.register("halving", HalvingSteps)
    SIZES.register("squares", SquareSizes)
    yield
    STEPS.unregister("halving")
    SIZES.unregister("squares")


def test_a_registered_rule_runs_from_a_run_file() -> None:
    config = small(
        "schedule.steps={kind = 'halving', eta = 0.5, every = 40}", "schedule.sizes={kind = 'squares', root = 3}"
    )
    terms = simulate(config).prepared.terms
    assert terms.steps == HalvingSteps(0.5, 40) and terms.rounds == 3
    assert [terms.sizes(i) for i in range(3)] == [9, 36, 81]


def test_its_config_is_written_down_and_read_again() -> None:
    config = small("schedule.steps={kind = 'halving', eta = 0.5, every = 40}")
    assert "keep = 0.5" in config.to_toml()
    assert small("schedule.steps={kind = 'halving', eta = 0.5, every = 40, keep = 0.5}") == config


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ("{kind = 'halving', eta = 0, every = 40}", "schedule.steps.eta must be a number above 0, not 0"),
        ("{kind = 'halving', eta = 1}", "schedule.steps.every is missing; add a whole number of at least 1"),
        (
            "{kind = 'halving', eta = 1, every = 4, keep = 2}",
            "schedule.steps.keep must be a number from 0 to 1, not 2",
        ),
        (
            "{kind = 'halving', eta = 1, evry = 4}",
            "there is no key schedule.steps.evry; did you mean schedule.steps.every?",
        ),
        (
            "{kind = 'halvng'}",
            f'schedule.steps.kind must be {one_of(*KNOWN, "halving", "auto")}, not "halvng"; did you mean "halving"?',
        ),
    ],
)
def test_mistakes_are_answered_as_for_any_other(steps: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        small(f"schedule.steps={steps}")
    assert str(caught.value) == sentence


def test_the_reference_has_its_keys() -> None:
    assert (
        "| `schedule.steps.halving.every` | a whole number of at least 1 | must be given | gradients between two cuts |"
        in reference()
    )


def test_both_sides_of_a_federation_build_it_from_the_terms() -> None:
    text = terms_text(read(case(schedule={"rounds": 2, "steps": HALVING})))
    assert '"steps":{"eta":0.5,"every":40,"keep":0.5,"kind":"halving"}' in text
    assert build_terms(text).terms.steps == HalvingSteps(0.5, 40)


def test_a_side_that_has_not_registered_it_refuses_the_terms() -> None:
    text = terms_text(read(case(schedule={"rounds": 2, "steps": HALVING})))
    STEPS.unregister("halving")
    with pytest.raises(Refused, match=r'schedule.steps.kind must be .*, not "halving"'):
        build_terms(text)
    STEPS.register("halving", HalvingSteps)


def test_the_class_itself_refuses_a_bad_parameter() -> None:
    with pytest.raises(UsageError, match="every must be 1 or more, got 0"):
        HalvingSteps(0.5, 0)


def test_a_name_is_registered_once_and_for_its_own_family() -> None:
    with pytest.raises(UsageError, match="name of its own"):
        STEPS.register("constant", HalvingSteps)
    with pytest.raises(UsageError, match="must be a Sizes"):
        SIZES.register("steps", ConstantSteps)  # type: ignore[arg-type]
