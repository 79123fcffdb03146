"""Sum or mean: the global model moves by the mean of what the clients moved by, simulated, private and served."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_and_cost
from crescendo.core.terms import Terms
from crescendo.federation.agreement import build_terms
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.minibatch import Minibatch
from crescendo.privacy.mechanisms.norm_limits import NormLimits
from crescendo.privacy.mechanisms.reach import reach
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps
from crescendo_dp.planning.sigmas import Sigmas


def config(combine: str, clients: int = 4, **sections: Any) -> dict[str, Any]:
    return {
        "data": {"source": "wine", "classes": [1, 2]},
        "clients": {"count": clients, "combine": combine, "weights": "uniform"},
        "objective": {"intercept": False},
        "schedule": {"rounds": 1, "sizes": {"kind": "constant", "size": 40}, "steps": {"kind": "constant", "eta": 0.1}},
        "timing": {"preset": "lock-step"},
        "run": {"wire": "float64"},
    } | sections


def test_the_mean_of_one_round_is_its_sum_over_the_clients() -> None:
    summed, mean = (crescendo.simulate(config(combine)).model for combine in ("sum", "mean"))
    assert np.allclose(mean, summed / 4, rtol=1e-12)  # both began at 0
    assert not np.allclose(mean, summed)


def test_one_client_is_its_own_mean() -> None:
    summed, mean = (crescendo.simulate(config(combine, clients=1)).model for combine in ("sum", "mean"))
    assert np.array_equal(mean, summed)


def test_an_absent_factor_leaves_the_fingerprint_of_terms_as_it_was() -> None:
    made = Terms(ConstantSizes(4), ConstantSteps(0.1), (0.5, 0.5), 3, ahead=1)
    assert "combine" not in repr(made)
    assert made.digest != replace(made, combine="mean").digest
    with pytest.raises(crescendo.UsageError, match="sum or their mean, not 'median'"):
        replace(made, combine="median")  # type: ignore[arg-type]


def test_a_private_mean_has_the_same_cost_and_a_shorter_reach() -> None:
    """Dividing by n is a post-processing: nothing of the certificate changes but how long models and updates become."""
    summed = Terms(ConstantSizes(40), ConstantSteps(0.1), (0.25,) * 4, 5, ahead=1, whole_rounds=True)
    mean = replace(summed, combine="mean")
    made = [
        certify("minibatch", terms, Logistic(3, l2=0.1), clip=0.5, sigma=1.5, records=(100,) * 4)
        for terms in (summed, mean)
    ]
    assert made[0].events(0) == made[1].events(0)
    assert made[0].noise_scale(0, 0) == pytest.approx(made[1].noise_scale(0, 0), rel=1e-6)
    limits = [NormLimits(each, 4) for each in made]
    assert limits[1].longest(0, 0) < limits[0].longest(0, 0) / 3.9
    proposed = [Minibatch(terms, Logistic(3), 0.5, Sigmas.of(1.5), (100,) * 4, None) for terms in (summed, mean)]
    reaches = [reach(each.terms, 4, each.lengths, each.sigma, 0.0) for each in proposed]
    assert reaches[1].least == pytest.approx(reaches[0].least / 4)
    assert reaches[1].most == pytest.approx(reaches[0].most / 4)


def test_a_private_run_takes_the_mean_of_its_releases() -> None:
    private = {"mechanism": "minibatch", "sigma": 1.0, "delta": 1e-5, "clip": 0.5, "records": [26] * 4}
    summed, mean = (crescendo.simulate(config(combine, privacy=private)) for combine in ("sum", "mean"))
    assert np.allclose(mean.model, summed.model / 4, rtol=1e-12)
    assert summed.privacy is not None and mean.privacy is not None
    assert summed.privacy["epsilon"] == mean.privacy["epsilon"]


def test_terms_that_are_served_say_mean_and_say_nothing_of_the_sum() -> None:
    texts = []
    for combine in ("sum", "mean"):
        asked = config(combine, data={"source": "elsewhere"}, serve={"federation": "test", "features": 3})
        texts.append(terms_and_cost(read(asked))[0])
    assert "combine" not in texts[0] and '"combine":"mean"' in texts[1]
    assert [build_terms(text).terms.combined for text in texts] == [1.0, 0.25]
    with pytest.raises(crescendo.Refused):
        build_terms(texts[1].replace('"combine":"mean"', '"combine":"median"'))
