"""A norm bound of any size that a float can have is used, or refused in a sentence before a record is shortened to it."""

from __future__ import annotations

import numpy as np
import pytest

import crescendo
from crescendo.errors import UsageError

_TYPED = {"kind": "constant", "eta": 0.01}


def _run(norm_bound: float, mechanism: str, steps: object) -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    privacy = {
        "mechanism": mechanism,
        "sigma": 2.0,
        "delta": 1e-5,
        "clip": 1.0,
        "norm_bound": norm_bound,
        "records": 20,
    }
    run = {
        "data": {"source": "mine", "classes": [0, 1]},
        "clients": {"count": 2},
        "schedule": {"rounds": 2, "sizes": {"kind": "constant", "size": 4}, "steps": steps},
        "privacy": privacy,
    }
    crescendo.simulate(run, data=crescendo.dataset(x, (x[:, 0] > 0).astype(int), classes=[0, 1]))


@pytest.mark.parametrize("steps", ["auto", _TYPED], ids=["auto", "typed"])
@pytest.mark.parametrize("mechanism", ["minibatch", "local", "batch-clip"])
@pytest.mark.parametrize("norm_bound", [5e-324, 1e-61, 0.5, 1.0, 1e61, 1e154, 1e160, 1.7e308])
def test_a_bound_that_no_record_can_be_held_to_is_refused_in_a_sentence(
    norm_bound: float, mechanism: str, steps: object
) -> None:
    with pytest.raises(UsageError, match=r"privacy\.norm_bound"):
        _run(norm_bound, mechanism, steps)


@pytest.mark.parametrize("norm_bound", [1 + 2**-52, 2.0, 1e59])
def test_any_other_bound_runs(norm_bound: float) -> None:
    _run(norm_bound, "minibatch", "auto")
