"""What is said of a run whose loss did not fall: it diverged, or it did not learn, and why."""

from __future__ import annotations

import pytest

from crescendo.federation.divergence import divergence
from crescendo.runs.simulate import simulate
from tests.config.small import SMALL


class Steps:
    eta0 = 0.2


NOISE = "the noise is 8 times as long"


@pytest.mark.parametrize(
    ("last", "factor", "drowned", "says"),
    [
        (0.6945, 1.0, None, "the run did not learn: the loss went from 0.693 to 0.6945; more gradients may"),
        (0.6945, 0.2, None, "the run did not learn: the loss went from 0.693 to 0.6945; schedule.steps"),
        (0.6945, 1.0, NOISE, f"the run did not learn: the loss went from 0.693 to 0.6945; {NOISE}"),
        (5.0, 1.0, NOISE, f"the run did not learn: the loss went from 0.693 to 5; {NOISE}"),
        (0.6945, 0.01, NOISE, "the run diverged: the loss rose from 0.693 to 0.6945; schedule.steps.eta0 <= 0.002"),
        (5.0, 1.0, None, "the run diverged: the loss rose from 0.693 to 5; a smaller step size"),
        (float("nan"), 1.0, NOISE, "the run diverged: the loss became infinite"),
    ],
)
def test_the_cause_is_told_by_the_rise_the_steps_and_the_noise(
    last: float, factor: float, drowned: str | None, says: str
) -> None:
    found = divergence(0.693, last, Steps(), factor, drowned)
    assert found is not None and found.startswith(says), found


def test_a_loss_that_fell_is_a_success_whatever_the_noise() -> None:
    assert divergence(0.693, 0.69, Steps(), 0.01, NOISE) is None


def test_a_private_run_that_drowned_in_its_noise_is_told_so_and_not_of_its_steps() -> None:
    steps = {"kind": "diminishing", "eta0": 0.1, "beta": 0.01, "per": "round"}
    privacy = {"mechanism": "minibatch", "sigma": 30.0, "delta": 1e-5, "clip": 0.5, "records": 100}
    result = simulate({**SMALL, "privacy": privacy, "schedule": {**SMALL["schedule"], "steps": steps}})
    assert result.diverged is not None and "the run did not learn" in result.diverged
    assert "the noise of all rounds together is 2.45 times" in result.diverged and "step" not in result.diverged
    assert repr(result).endswith(", did not learn)")


def test_first_and_last_model_are_measured_however_sparse_the_measuring() -> None:
    result = simulate({**SMALL, "evaluate": {"every": 1000}})
    assert [row["k"] for row in result.metrics] == [0, result.rounds]
