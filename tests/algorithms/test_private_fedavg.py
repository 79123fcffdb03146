"""Private FedAvg: the mechanisms, the certificate and the accountant of our own algorithm, over FedAvg's own rounds."""

from __future__ import annotations

from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

import crescendo
from crescendo.algorithms.rival_terms import EqualTerms
from crescendo.runs.result import Result

N, CLIENTS, FEATURES = 400, 4, 6


def job(gradients: int = 1600, **privacy: Any) -> dict[str, Any]:
    rows = N * CLIENTS
    return {
        "run": {"seed": 2, "wire": "float64"},
        "data": {"source": f"synthetic:rows={rows},features={FEATURES}", "test": 0.0},
        "clients": {"count": CLIENTS},
        "schedule": {
            "gradients": gradients,
            "sizes": {"kind": "power", "scale": 40},
            "steps": {"kind": "constant", "eta": 0.05},
        },
        "privacy": {"mechanism": "minibatch", "delta": 1e-5, "clip": 1.0, "records": N, "sigma": 2.0, **privacy},
    }


def run(config: dict[str, Any], **options: Any) -> Result:
    return crescendo.simulate(config, algorithm="fedavg", options=options)


def by_the_library(rate: float, rounds: int, sigma: float, delta: float) -> float:
    """What dp-accounting says of so many Poisson-sampled Gaussian releases."""
    release = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
    spent = PLDAccountant().compose(dp_accounting.SelfComposedDpEvent(release, rounds))
    return float(spent.get_epsilon(delta))


@pytest.mark.slow
def test_the_epsilon_is_that_of_its_own_rounds_and_not_of_the_run_files() -> None:
    result, ours = run(job(), local_steps=50), crescendo.simulate(job())
    assert result.privacy is not None and ours.privacy is not None
    assert result.rounds == 8 and ours.rounds != 8
    assert result.privacy["epsilon"] == pytest.approx(by_the_library(50 / N, 8, 2.0, 1e-5), rel=2e-3)
    assert result.privacy["epsilon"] != pytest.approx(ours.privacy["epsilon"], rel=0.01)
    assert isinstance(result.prepared.working, EqualTerms)


@pytest.mark.slow
def test_a_stated_epsilon_gets_the_noise_that_its_rounds_need() -> None:
    result = run(job(epsilon=1.0, sigma=None), local_steps=50)
    assert result.privacy is not None
    sigma = result.privacy["sigma"]
    assert result.privacy["epsilon"] <= 1.0
    assert by_the_library(50 / N, 8, sigma, 1e-5) == pytest.approx(1.0, rel=5e-3)


def test_the_server_moves_by_the_mean_of_certified_releases() -> None:
    """One round: the noise of each client has the certificate's scale, and their mean is that of FedAvg."""
    config = job(gradients=400)
    config["data"]["source"] = f"synthetic:rows={N * CLIENTS},features=300"
    config["evaluate"] = {"without_noise": True}
    noisy = run(config, local_steps=100)
    quiet = crescendo.runs.simulate.run_prepared(noisy.prepared, noise=False)
    guarantee = noisy.prepared.privacy
    assert guarantee is not None and noisy.rounds == 1 and quiet.privacy is None
    scale = guarantee.certificate.noise_scale(0, 0)
    assert scale == pytest.approx(2.0 * 0.05, rel=1e-3), "sigma eta C"
    found = np.std(noisy.model - quiet.model)
    assert found == pytest.approx(scale / np.sqrt(CLIENTS), rel=0.15)


@pytest.mark.parametrize("deadline", [60.0, 20.0])
def test_what_came_too_late_was_released_and_is_charged(deadline: float) -> None:
    config = job() | {"timing": {"speed": [1.0, 1.0, 1.0, 0.7], "latency": {"kind": "exponential", "mean": 20.0}}}
    late, all_there = run(config, local_steps=50, deadline=deadline), run(config, local_steps=50)
    assert late.privacy is not None and all_there.privacy is not None
    assert len(late.trace.tables["updates"]["round"]) < 32 == len(all_there.trace.tables["updates"]["round"])
    assert late.privacy["epsilon"] == all_there.privacy["epsilon"], "every planned release is paid for, applied or not"
    assert deadline < 50.0 or late.trace.late > 0


@pytest.mark.parametrize("mechanism", ["minibatch", "local", "batch-clip"])
def test_every_mechanism_is_certified_for_it(mechanism: str) -> None:
    config = job(mechanism=mechanism, norm_bound=4.0 if mechanism == "local" else None)
    result = run(config, local_steps=50)
    assert result.privacy is not None and result.privacy["mechanism"] == mechanism and result.gradients == 1600
    assert result.prepared.agreement.certificate is not None
    assert result.prepared.agreement.certificate.terms == result.prepared.working


def test_more_local_steps_than_records_are_refused() -> None:
    with pytest.raises(crescendo.UsageError, match="at most 400 slots would pass"):
        run(job(gradients=4000), local_steps=N + 1)
