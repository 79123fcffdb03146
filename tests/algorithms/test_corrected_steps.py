"""Corrected local steps are w <- w - eta (g(w) + r(w)) for any objective, wherever a round is interrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crescendo
from crescendo.algorithms.corrected_steps import CorrectedObjective, CorrectedStepper
from crescendo.core.arrays import Floats
from crescendo.data.records import Records
from crescendo.objectives.base import Slots
from crescendo.objectives.logistic.objective import Logistic
from tests.paper import logistic_gradient

SLOTS = 24


class Pull:
    """Towards a point, and the steps that were asked for."""

    def __init__(self, mu: float = 0.3) -> None:
        self.mu, self.asked = mu, list[float]()

    def correction(self, w: Floats, eta: float) -> Floats:
        self.asked.append(eta)
        return np.asarray(self.mu * (w - 1.0) + 0.1)


def records(rng: np.random.Generator, features: int) -> Records:
    return Records(rng.normal(size=(12, features)), rng.choice([-1.0, 1.0], 12))


@pytest.mark.slow
@given(st.integers(1, 5), st.floats(0, 0.5), st.sets(st.integers(1, SLOTS - 1), max_size=4), st.integers(0, 99))
def test_logistic_regression_takes_the_corrected_step(features: int, l2: float, cuts: set[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    data, goal = records(rng, features), Logistic(features, l2=l2)
    slots = Slots(rng.integers(0, 12, SLOTS), rng.uniform(0.01, 0.5, SLOTS))
    w, pull = rng.normal(size=features + 1), Pull()
    stepper = CorrectedObjective(goal, pull).stepper(data)
    stepper.load(w)
    for first, stop in zip([0, *sorted(cuts)], [*sorted(cuts), SLOTS], strict=True):
        stepper.advance(slots, first, stop)
    for row, eta in zip(slots.rows, slots.etas, strict=True):
        w = w - eta * (logistic_gradient(w, data.x[row], data.y[row], l2, True) + Pull().correction(w, eta))
    np.testing.assert_allclose(stepper.read(), w, rtol=1e-10, atol=1e-12)
    assert pull.asked == slots.etas.tolist()


class MeanOfBatch:
    """Steps by the mean gradient of (w - y)^2 / 2 over a batch, at its last slot."""

    def __init__(self, y: Floats, batch: int) -> None:
        self.y, self.batch, self.w = y, batch, np.zeros(1)

    def load(self, w: Any) -> None:
        self.w = np.array(w, dtype=float)

    def translate(self, by: Any) -> None:
        self.w = self.w + by

    def read(self) -> Floats:
        return self.w.copy()

    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        for h in range(h0, h1):
            if (h + 1) % self.batch == 0 or h + 1 == len(slots):
                rows = slots.rows[h - h % self.batch : h + 1]
                self.w = self.w - slots.etas[h] * (self.w - self.y[rows].mean())


@pytest.mark.slow
@given(st.integers(1, 7), st.sets(st.integers(1, SLOTS - 1), max_size=4))
def test_a_batch_is_corrected_once_at_its_last_slot(batch: int, cuts: set[int]) -> None:
    rng = np.random.default_rng(batch)
    y, slots, pull = rng.normal(size=12), Slots(rng.integers(0, 12, SLOTS), rng.uniform(0.01, 0.5, SLOTS)), Pull()
    stepper = CorrectedStepper(MeanOfBatch(y, batch), pull, batch)
    stepper.load(np.full(1, 2.0))
    for first, stop in zip([0, *sorted(cuts)], [*sorted(cuts), SLOTS], strict=True):
        stepper.advance(slots, first, stop)
    w = np.full(1, 2.0)
    for first in range(0, SLOTS, batch):
        last = min(first + batch, SLOTS)
        eta = slots.etas[last - 1]
        w = w - eta * (w - y[slots.rows[first:last]].mean() + Pull().correction(w, eta))
    np.testing.assert_allclose(stepper.read(), w, rtol=1e-12)
    assert len(pull.asked) == -(-SLOTS // batch)


@pytest.mark.slow
def test_a_torch_module_in_batches_is_held_and_controlled_too() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(90, 3)), rng.integers(0, 3, 90)

    def trained(name: str, options: dict[str, Any], **more: Any) -> np.ndarray:
        torch.manual_seed(0)
        model = crescendo.torch.model(torch.nn.Linear(3, 3), torch.nn.functional.cross_entropy, batch=4, **more)
        config = {
            "clients": {"count": 3, "split": "label"},
            "schedule": {
                "gradients": 360,
                "sizes": {"kind": "constant", "size": 36},
                "steps": {"kind": "constant", "eta": 0.3},
            },
        }
        data = crescendo.dataset(x, y, test=0.0)
        return crescendo.simulate(config, objective=model, data=data, algorithm=name, options=options).model

    fedavg = trained("fedavg", {})
    np.testing.assert_allclose(trained("fedprox", {"mu": 0.0}), fedavg, rtol=1e-4, atol=1e-6)
    start, held = trained("fedprox", {"mu": 0.0, "step_scale": 1e-9}), trained("fedprox", {"mu": 3.0})
    assert np.linalg.norm(held - start) < 0.8 * np.linalg.norm(fedavg - start)
    controlled = trained("scaffold", {})
    assert np.isfinite(controlled).all() and np.linalg.norm(controlled - fedavg) > 1e-3
    for name in ("fedprox", "scaffold"):
        with pytest.raises(crescendo.ConfigError, match='use optimiser = "sgd" without momentum'):
            trained(name, {}, momentum=0.9)
