"""`steps = "auto"` without privacy: the curvature of the mean loss is that at the end of the run which it allows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from crescendo.config.loading import read
from crescendo.core.arrays import Floats
from crescendo.data.records import Dataset, Records
from crescendo.federation import auto_terms
from crescendo.federation.divergence import BEYOND
from crescendo.runs.prepare import Prepared, prepare
from crescendo.schedules.auto_steps import MEASURED

CLIENTS = 4
TRUTH = np.array([3.0, -2.0, 1.0])


def data(sharp: bool = False) -> Dataset:
    """Records that a model tells apart to some degree or, ``sharp``, without error, where curvature falls for ever."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3))
    noise = 0.0 if sharp else 0.5 * rng.logistic(size=600)
    y = np.where(x @ TRUTH + noise > 0, 1.0, 0.0)
    return Dataset("made up", Records(x, y), None, (-1, 1))


def prepared(gradients: int, made: Dataset, combine: str = "sum") -> Prepared:
    sizes = {"kind": "constant", "size": 25, "per_client": True}
    config = {
        "data": {"source": "made up"},
        "clients": {"count": CLIENTS, "weights": "uniform", "combine": combine},
        "objective": {"intercept": False, "l2": 0.0},
        "schedule": {"gradients": gradients, "sizes": sizes, "steps": "auto"},
    }
    return prepare(read(config), data=made)


def curvature_after(length: float, made: Dataset) -> float:
    """The largest eigenvalue of the Hessian where the gradient flow of the mean loss is at time ``length``, in small steps."""
    x, y, w, steps = made.train.x, 2 * made.train.y - 1, np.zeros(3), 4000
    for _ in range(steps):
        w = w + length / steps * (x.T @ (y / (1 + np.exp(y * (x @ w)))) / len(y))
    p = 1 / (1 + np.exp(-(x @ w)))
    return float(np.linalg.eigvalsh((x.T * (p * (1 - p))) @ x / len(y))[-1])


def pushes(run: Prepared) -> tuple[Floats, float]:
    """Each round's step times its late gradients, and the sum of the steps over all gradients."""
    sums = run.terms.labels(0, run.terms.rounds)
    etas, sizes = np.asarray(run.terms.steps.at(sums[:-1])), np.diff(sums)
    return etas * sizes * (CLIENTS - 1) / CLIENTS, float(etas @ sizes)


@pytest.mark.parametrize("gradients", [200, 1000, 4000])
def test_the_limit_is_met_with_the_curvature_that_the_run_ends_at(gradients: int) -> None:
    made = data()
    late, length = pushes(prepared(gradients, made))
    assert float(late.max()) * curvature_after(length, made) == pytest.approx(MEASURED.together, rel=0.05)


def test_a_run_that_goes_farther_may_take_larger_steps() -> None:
    """Rounds are alike, so nothing but the end of the run differs."""
    late = [float(pushes(prepared(gradients, data(sharp=True)))[0].max()) for gradients in (200, 1000, 4000)]
    assert late[0] * 1.2 < late[1] and late[1] * 1.2 < late[2]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen, gradient = [0], auto_terms.mean_gradient  # type: ignore[attr-defined]

    def mean_gradient(*given: Any) -> Floats:
        seen[0] += 1
        found: Floats = gradient(*given)
        return found

    monkeypatch.setattr(auto_terms, "mean_gradient", mean_gradient)
    return seen


def test_a_mean_of_updates_has_no_late_gradients_and_costs_no_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted(monkeypatch)
    prepared(1000, data(), "mean")
    assert seen == [0]


@pytest.mark.parametrize("made", [data, lambda: data(sharp=True)], ids=["noisy", "sharp"])
def test_however_long_the_run_the_descent_is_short(
    monkeypatch: pytest.MonkeyPatch, made: Callable[[], Dataset]
) -> None:
    seen = counted(monkeypatch)
    run = prepared(1_000_000, made())
    assert 0 < pushes(run)[0].max() < np.inf and 100 < seen[0] <= 400


@pytest.mark.parametrize("gradients", [200, 20_000])
def test_auto_is_never_warned_of(gradients: int) -> None:
    """The limit of what is surely stable uses the same curvature, so auto stands at most six times beyond it."""
    room = prepared(gradients, data(sharp=True)).step_room
    assert room is not None and room >= 0.99 / 6 > 1 / BEYOND
