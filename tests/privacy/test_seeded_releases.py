"""Seeded private runs give the bytes that they always gave: draws, noise and the releases of every built-in objective.

A release is a multiple of a grid far coarser than the last bits of a float, so these are the same bytes on other processors too.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.privacy.mechanisms.gaussian import noised
from crescendo.privacy.mechanisms.noise import SeededSource, poisson_slots


def digest(*arrays: Any) -> str:
    hashed = hashlib.sha256()
    for array in arrays:
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()[:16]


def test_draws_are_those_of_before() -> None:
    drawn: list[Any] = []
    source = SeededSource(11, 3)
    for i, (records, rate, slots) in enumerate(
        [(1000, 0.01, 7), (5000, 0.2, 1000), (50, 0.9, 3), (0, 0.5, 4), (9, 0.0, 2)]
    ):
        drawn += poisson_slots(source, i, records, rate, slots)
    drawn += poisson_slots(source, 1, 5000, 0.2, 1000)  # a round that is drawn again
    assert digest(*drawn) == "37317093f6d5ab3d"


def test_noise_is_that_of_before() -> None:
    source, released = SeededSource(11, 3), []
    for i in (0, 5, 0):
        x = np.linspace(-3.0, 3.0, 40_000 if i else 7)
        released.append(noised(x, 0.7, source.words(i, len(x)), lambda number, i=i: source.more(i, number)))  # type: ignore[misc]
    assert digest(*released) == "824c2e0848debee9"


CASES = {
    ("logistic", "minibatch"): "a3c2ca5312681d5a",
    ("logistic", "local"): "cd31f22fe006d82d",
    ("logistic", "batch-clip"): "da34faad31cf0dcb",
    ("softmax", "minibatch"): "0714643151466271",
    ("least-squares", "minibatch"): "3df8bd5e37a2e965",
}


@pytest.mark.parametrize(("kind", "mechanism"), CASES.keys())
def test_a_seeded_private_run_ends_in_the_bytes_of_before(kind: str, mechanism: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 6))
    y = np.arange(300) % (2 if kind == "logistic" else 3)
    numbers = kind == "least-squares"
    classes = () if numbers else sorted(set(y.tolist()))
    data = crescendo.dataset(x, x[:, 0] * 1.0 if numbers else y, classes=classes)
    objective = {"kind": kind, "l2": 0.0} | ({"label_range": [-3, 3]} if numbers else {})
    asked = {
        "run": {"seed": 5},
        "objective": objective,
        "clients": {"count": 2, "combine": "sum"},
        "schedule": {
            "rounds": 4,
            "sizes": {"kind": "constant", "size": 60},
            "steps": {"kind": "constant", "eta": 0.01},
        },
        "privacy": {"mechanism": mechanism, "sigma": 1.0, "delta": 1e-5, "clip": 1.5, "records": [120, 120]}
        | ({"norm_bound": 5.0} if mechanism == "local" else {}),
    }
    assert digest(crescendo.simulate(asked, data=data).model) == CASES[kind, mechanism]
