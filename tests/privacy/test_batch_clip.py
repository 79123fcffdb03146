"""`batch-clip`: whatever the code of a round does, what is hidden is no longer than the clip and follows from the draw alone."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crescendo.audit import audit
from crescendo.audit.driving.subject import Draw, Script, Subject, build
from crescendo.core.arrays import Floats, Ints
from crescendo.core.terms import Terms
from crescendo.data.records import Records, as_records
from crescendo.errors import UsageError
from crescendo.objectives.base import LoopStepper, Objective, Slots, Stepper
from crescendo.privacy.mechanisms.batch_clip import BatchClip
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.privacy.mechanisms.norm_limits import NormLimits
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps, DiminishingSteps
from tests.objectives.bare import Bare

CLIP = 0.25


class Pull(Bare):
    """A record pulls the model towards itself: the loss |w - x|^2 / 2."""

    size = 2
    dtype = np.dtype(np.float64)

    def initial(self, rng: np.random.Generator) -> Any:
        return np.zeros(2)

    def gradient(self, w: Any, data: Records, rows: Ints) -> Any:
        return np.sum(w - np.asarray(data.x)[rows], axis=0)


def terms(**changes: Any) -> Terms:
    given: dict[str, Any] = {"ahead": 1, "whole_rounds": True} | changes
    return Terms(ConstantSizes(8), ConstantSteps(0.1), (1.0,), 4, **given)


def certified(objective: Objective, made: Terms | None = None) -> Certificate:
    return certify("batch-clip", made or terms(), objective, clip=CLIP, sigma=1.0, records=(40,))


def sent(objective: Objective, x: Any, members: list[int], rounds: tuple[int, ...] = (0,)) -> list[Floats]:
    """Noise-free releases of rounds that all draw these records."""
    made = certified(objective)
    subject = Subject(made, objective, 0, 2, (-1.0, 1.0), "float64", build).without_noise()
    records = as_records(np.array(x, dtype=np.float64), np.ones(len(x)))
    draw = Draw(np.array(members, dtype=np.int64), np.linspace(0, 0.9, len(members)))
    found = subject.releases(
        records, np.arange(len(x)), Script(dict.fromkeys(rounds, draw)), rounds, (np.zeros(2),) * len(rounds)
    )
    return [np.asarray(each) for each in found]


def test_a_short_displacement_is_sent_as_it_is_and_a_long_one_cut_to_the_clip() -> None:
    (short,), (long,) = sent(Pull(), [[0.5, 0.0]], [0]), sent(Pull(), [[30.0, 40.0]], [0])
    assert np.allclose(short, [-0.05, 0.0], rtol=1e-12)
    assert np.allclose(long, [-0.6 * CLIP, -0.8 * CLIP], rtol=1e-12)


def test_one_record_can_turn_a_round_round_so_the_sensitivity_is_twice_the_clip() -> None:
    (without,) = sent(Pull(), [[1e3, 0.0], [-1e6, 0.0]], [0])
    (with_it,) = sent(Pull(), [[1e3, 0.0], [-1e6, 0.0]], [0, 1])
    moved, most = float(np.linalg.norm(with_it - without)), certified(Pull()).sensitivity(0, 0)
    assert 0.999999 * most < moved <= most


def test_noise_and_norm_limits_do_not_depend_on_the_steps() -> None:
    made, faster = certified(Pull()), certified(Pull(), replace(terms(), steps=ConstantSteps(0.9)))
    assert made.noise_scale(0, 0) == faster.noise_scale(0, 0) == pytest.approx(2 * CLIP, rel=1e-9)
    longest = NormLimits(made, 2).longest(0, 0)
    assert longest == NormLimits(faster, 2).longest(0, 0)
    assert CLIP + made.noise_scale(0, 0) < longest < CLIP + 12 * made.noise_scale(0, 0)
    falling = replace(terms(), steps=DiminishingSteps(0.9, 10.0, per="slot"), weights=(0.05, 0.95))
    uneven = certify("batch-clip", falling, Pull(), clip=CLIP, sigma=1.0, records=(40, 40))
    allowed = [NormLimits(uneven, 2).longest(i, c) for i in range(4) for c in range(2) if falling.share(i, c)]
    assert allowed == pytest.approx([longest] * len(allowed))


class Broken(Pull):
    """Code that fails on the record (1, 1), in a way of the test's choice."""

    def __init__(self, fails: Any) -> None:
        self._fails = fails

    def gradient(self, w: Any, data: Records, rows: Ints) -> Any:
        if (np.asarray(data.x)[rows] == 1).any():
            return np.asarray(self._fails())
        return super().gradient(w, data, rows)


def _raises() -> None:
    raise RuntimeError("the record (1, 1)")


@pytest.mark.parametrize(
    "fails",
    [_raises, lambda: sys.exit(3), lambda: np.full(2, np.nan), lambda: np.full(2, np.inf), lambda: np.zeros(7)],
    ids=["raises", "exits", "nan", "inf", "shape"],
)
def test_a_record_on_which_the_code_fails_moves_nothing_and_stops_nothing(fails: Any) -> None:
    assert [each.tolist() for each in sent(Broken(fails), [[0.5, 0.0], [1.0, 1.0]], [0, 1])] == [[0.0, 0.0]]


class Nosy(Pull):
    """Steps that look at every record they can reach, and remember what they saw."""

    def stepper(self, data: Records) -> Stepper:
        class Looks(LoopStepper):
            seen = 0.0

            def advance(self, slots: Slots, h0: int, h1: int) -> None:
                self.seen += float(np.asarray(self._data.x).sum())
                self._w = self._w - 1e-3 * self.seen

        return Looks(self, data)


def test_a_round_sees_the_drawn_records_alone_and_nothing_of_the_rounds_before() -> None:
    first, second = sent(Nosy(), [[1.0, 0.0], [100.0, 0.0]], [0], rounds=(0, 1))
    assert np.allclose(first, 1e-3) and np.array_equal(first, second)


def test_a_broadcast_in_the_middle_of_a_round_is_not_taken_in() -> None:
    with pytest.raises(UsageError, match="between rounds"):
        BatchClip.stepper(Pull(), as_records(np.zeros((1, 2)), np.ones(1))).translate(np.zeros(2))


def report(kind: type[BatchClip], objective: Objective) -> Any:
    made = replace(certified(objective), kind=kind)
    return audit(
        made,
        objective,
        claimed=50.0,
        delta=1e-5,
        features=2,
        labels=(-1.0, 1.0),
        runs=6,
        tries=24,
        seed=3,
        cost=lambda e: 0.0,
        sources=SeededSource,
    )


class OnceTheClip(BatchClip):
    """The sensitivity is taken for S, as if a record could only add."""

    @classmethod
    def sensitivity(cls, terms: Terms, i: int, c: int, clip: float) -> float:
        return clip


class NotClipped(BatchClip):
    """The displacement is hidden as it is."""

    @classmethod
    def parts(cls, certificate: Certificate, i: int, start: Floats, stepper: Stepper) -> tuple[Floats, Floats | float]:
        return start - stepper.read(), 0.0


class ClipByCoordinate(BatchClip):
    """Each coordinate is cut by itself."""

    @classmethod
    def parts(cls, certificate: Certificate, i: int, start: Floats, stepper: Stepper) -> tuple[Floats, Floats | float]:
        return np.clip(start - stepper.read(), -certificate.clip, certificate.clip), 0.0


class KeptStepper(BatchClip):
    """One stepper for all rounds, on all records: what it keeps goes from round to round."""

    @classmethod
    def stepper(cls, objective: Objective, data: Records) -> Stepper:
        return objective.stepper(data)


@pytest.mark.slow
def test_the_audit_passes_on_batch_clip() -> None:
    found = report(BatchClip, Pull())
    assert found.passed, found.findings
    assert 0.9 < found.worst_ratio <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "objective"),
    [(OnceTheClip, Pull()), (NotClipped, Pull()), (ClipByCoordinate, Pull()), (KeptStepper, Nosy())],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_planted_bug_of_batch_clip_is_caught(bug: type[BatchClip], objective: Objective) -> None:
    assert not report(bug, objective).passed
