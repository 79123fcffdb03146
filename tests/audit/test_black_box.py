"""The black-box audit: its bounds hold, sound mechanisms pass, and the broken ones are caught."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lab.trials.black_box import BITS, Case, broken, clipped, gaussian, responses, sound

NEAR = (
    "half of the noise",
    "twice the sensitivity",
    "a record that is always drawn",
)  # not far above what they claim, so that it takes more runs


@pytest.mark.slow
@pytest.mark.parametrize("case", sound(), ids=lambda case: case.name)
def test_a_sound_mechanism_passes_at_exactly_what_is_true_of_it(case: Case) -> None:
    """`python -m lab.trials.black_box` does the same with hundreds of seeds."""
    found = [case.attacked(10_000, seed) for seed in range(3)]
    assert all(one.passed and one.lower <= case.epsilon < one.most for one in found)
    assert max(one.lower for one in found) > 0.05 * case.epsilon, "and the attack is not blind"


@pytest.mark.slow
@pytest.mark.parametrize("case", broken(), ids=lambda case: case.name)
def test_a_broken_mechanism_is_caught(case: Case) -> None:
    found = case.attacked(250_000 if case.name in NEAR else 40_000, 0)
    assert (
        not found.passed and found.lower > case.epsilon and "claimed" in found.findings[0]
    ) or found.lower == math.inf


def test_without_noise_it_fails_at_once_and_the_same_answer_for_all_passes() -> None:
    bare = Case("bare", lambda records, rng, runs: np.tile(clipped(records).sum(axis=0), (runs, 1)), 50.0)
    found = bare.attacked(1_000_000, 0)
    assert (
        not found.passed
        and found.lower == math.inf
        and found.runs < 250_000
        and "there is no noise" in found.findings[0]
    )
    blind = Case("blind", lambda records, rng, runs: np.full((runs, 2), 7.0), 0.0, 0.0)
    assert blind.attacked(2_000, 0).passed


@pytest.mark.parametrize("own_noise", [False, True])
def test_an_answer_that_is_nearly_always_true_is_no_missing_noise(own_noise: bool) -> None:
    """Randomised response at epsilon 7: 64 runs are alike, though it is sound; with ``rng`` or with randomness of its own."""
    own = np.random.Generator(np.random.PCG64(5))

    def many(records: Any, rng: np.random.Generator, runs: int) -> Any:
        return responses(7.0)(records, own if own_noise else rng, runs)

    case = Case("sure", many, 7.0, 0.0, neighbours="replace", records=BITS[:1], canaries=np.array([[0], [1]]))
    found = case.attacked(8_000, 0)
    assert found.passed and 3 < found.lower <= 7
    assert own_noise or "so many runs could show" in found.notes[0]


@pytest.mark.slow
def test_the_last_bits_of_floats_count_if_asked() -> None:
    """Noise that is drawn as a float and added to a float lands on a grid that depends on the sum (Mironov 2012)."""
    zeros = np.zeros((2, 3))  # and a canary: sums of 0 and of 1
    plain = Case("floats", gaussian(2.0), sound()[0].epsilon, records=zeros)
    found = plain.attacked(100_000, 0)
    assert found.passed and any("--floats" in note for note in found.notes)
    assert not plain.attacked(100_000, 0, floats=True).passed


@pytest.mark.slow
def test_gaussian_releases_need_far_fewer_runs_if_it_is_said_that_they_are() -> None:
    half = Case("half of the noise", gaussian(1.0), sound()[0].epsilon)
    assert half.attacked(8_000, 0).passed
    found = half.attacked(8_000, 0, gaussian=True)
    assert not found.passed and "as releases are Gaussian" in found.findings[0]
    assert found.lower_gaussian is not None and 2.5 < found.lower_gaussian < 4.377
    sure = sound()[0].attacked(8_000, 0, gaussian=True)
    assert sure.passed and sure.lower_gaussian is not None and sure.lower_gaussian > 0.5


@pytest.mark.slow
def test_one_seed_gives_one_answer() -> None:
    case = sound()[0]
    first, again, other = (case.attacked(3_000, seed) for seed in (1, 1, 2))
    assert first == again and first.to_json() != other.to_json()
    assert first.to_json()["verdict"] == "passed" and first.runs >= 3_000


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e150, 1e300])
def test_releases_of_any_size_are_attacked(size: float) -> None:
    def many(records: Any, rng: np.random.Generator, runs: int) -> Any:
        noise = rng.standard_normal((runs, 3)) * [1.0, 0.0, 1.0]
        noise[:, 1] = len(records) > 20
        return size * noise

    found = Case("sized", many, 1.0).attacked(2_000, 0)
    assert not found.passed
