"""What a torch module keeps outside of itself is put back; what a JAX function could keep on the host is refused."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")

import jax
import jax.numpy as jnp
import torch
from torch import nn

import crescendo
from crescendo.data.records import Records
from crescendo.errors import Refused
from crescendo.objectives import OwnModel
from crescendo.objectives.base import Slots
from crescendo.objectives.isolation.pristine import Pristine
from crescendo.privacy.mechanisms.batch_clip import BatchClip
from crescendo.privacy.mechanisms.minibatch import Minibatch

FEATURES, SIZE, CLIP = 4, 10, 0.5
_rng = np.random.default_rng(6)
DATA = Records(_rng.normal(size=(90, FEATURES)) + 1.0, (np.arange(90) % 2).astype(float))
SAMPLE = DATA.take(np.arange(3))
KEPT: list[Any] = []
COUNT = torch.zeros((), dtype=torch.float64)
put_back = Pristine.restore


class GlobalList(nn.Module):
    """Adds the number of its calls to what comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, 2, dtype=torch.float64)

    def forward(self, x: Any) -> Any:
        KEPT.append(1)
        return self.inner(x) * len(KEPT)


class GlobalTensor(GlobalList):
    def forward(self, x: Any) -> Any:
        COUNT.add_(1.0)
        return self.inner(x) * COUNT


_alive = torch.zeros((), dtype=torch.float64)
REFERRED = weakref.ref(_alive)


class ReferredTensor(GlobalList):
    """A tensor that only a weak reference leads to cannot be replaced by a copy."""

    def forward(self, x: Any) -> Any:
        count = REFERRED()
        assert count is not None
        count.add_(1.0)
        return self.inner(x) * count


class OfTheClass(GlobalList):
    calls = 0

    def forward(self, x: Any) -> Any:
        OfTheClass.calls += 1
        return self.inner(x) * OfTheClass.calls


class Buffered(GlobalList):
    """A buffer is a part of the module, which is copied for each call."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        self.count.add_(1.0)
        return self.inner(x) * self.count


def hooked() -> nn.Module:
    net, seen = nn.Sequential(nn.Linear(FEATURES, 2, dtype=torch.float64)), list[int]()

    def hook(module: Any, given: Any, found: Any) -> Any:
        seen.append(1)
        return found * len(seen)

    net[0].register_forward_hook(hook)
    return net


def keeping_loss() -> Callable[..., Any]:
    seen = list[int]()

    def loss(found: Any, y: Any) -> Any:
        seen.append(1)
        return nn.functional.cross_entropy(found, y) * len(seen)

    return loss


TORCH: dict[str, Callable[[], Any]] = {
    "a global list": lambda: crescendo.torch.model(GlobalList()),
    "a global tensor": lambda: crescendo.torch.model(GlobalTensor()),
    "a tensor that is referred to": lambda: crescendo.torch.model(ReferredTensor()),
    "a class attribute": lambda: crescendo.torch.model(OfTheClass()),
    "a forward hook": lambda: crescendo.torch.model(hooked()),
    "the loss": lambda: crescendo.torch.model(nn.Linear(FEATURES, 2, dtype=torch.float64), keeping_loss()),
}


def two_rounds(goal: OwnModel, kind: Any, first: int) -> Any:
    stepper, found = kind.stepper(goal, DATA), []
    for part in (np.arange(first, 45), np.arange(45, 90)):
        start = np.full(SIZE, 0.1)
        stepper.load(start)
        clip: dict[str, Any] = {"clip": CLIP, "unit": 2.0**-40} if kind is Minibatch else {}
        stepper.advance(Slots(part, np.ones(1), ends=np.array([len(part)]), **clip), 0, 1)
        found.append(stepper.gradients() if kind is Minibatch else start - stepper.read())
        goal.evaluate(start, DATA.take(np.arange(first, 90)))
    return np.array(found)


@pytest.mark.parametrize("kind", [Minibatch, BatchClip], ids=["minibatch", "batch-clip"])
@pytest.mark.parametrize("make", TORCH.values(), ids=TORCH.keys())
def test_what_a_module_keeps_outside_of_itself_reaches_no_other_round(
    make: Callable[[], Any], kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved() -> tuple[float, float]:
        torch.manual_seed(0)
        goal, found = OwnModel(make(), SAMPLE), []
        goal.isolate()
        for first in (0, 1):
            found.append(two_rounds(goal, kind, first))
            assert goal._pristine is not None
            put_back(goal._pristine)
        here, later = np.linalg.norm(found[0] - found[1], axis=1)
        return float(here) / CLIP, float(later) / CLIP

    here, later = moved()
    assert (here <= 1 + 1e-9 or kind is BatchClip) and later == 0.0
    monkeypatch.setattr(Pristine, "restore", lambda self: None)
    here, later = moved()
    assert max(here, later) > 1.0 or (later > 0.0), "this memory shows nothing, so the test sees nothing"


@pytest.mark.parametrize("make", TORCH.values(), ids=TORCH.keys())
def test_such_a_module_is_refused_at_set_up(make: Callable[[], Any]) -> None:
    goal = OwnModel(make(), SAMPLE)
    with pytest.raises(Refused, match="says something else of a record once it has seen others"):
        goal.check_forgetful(np.full(SIZE, 0.1), SAMPLE, "torch:net.py:Net", by_record=True)


def test_a_buffer_that_counts_is_part_of_the_module_and_so_harmless() -> None:
    goal = OwnModel(crescendo.torch.model(Buffered()), SAMPLE)
    goal.check_forgetful(np.full(SIZE, 0.1), SAMPLE, "torch:net.py:Net", by_record=True)
    here, later = np.linalg.norm(two_rounds(goal, Minibatch, 0) - two_rounds(goal, Minibatch, 1), axis=1)
    assert here <= CLIP * (1 + 1e-9) and later == 0.0


HOST = {"count": 0.0}


def counted(x: Any) -> Any:
    HOST["count"] += 1.0
    return np.asarray(HOST["count"], np.float32)


ONE = jax.ShapeDtypeStruct((), np.float32)


def _plain(w: Any, x: Any, y: Any) -> Any:
    return ((x @ w - y) ** 2).mean()


def pure_callback(w: Any, x: Any, y: Any) -> Any:
    return _plain(w, x, y) * jax.lax.stop_gradient(jax.pure_callback(counted, ONE, jax.lax.stop_gradient(x)))


def io_callback(w: Any, x: Any, y: Any) -> Any:
    from jax.experimental import io_callback as call

    return _plain(w, x, y) * jax.lax.stop_gradient(call(counted, ONE, jax.lax.stop_gradient(x)))


def debug_callback(w: Any, x: Any, y: Any) -> Any:
    jax.debug.callback(counted, x)
    return _plain(w, x, y)


def debug_print(w: Any, x: Any, y: Any) -> Any:
    jax.debug.print("{}", x)
    return _plain(w, x, y)


def within_a_branch(w: Any, x: Any, y: Any) -> Any:
    return jax.lax.cond(x.sum() > 1e9, lambda: pure_callback(w, x, y), lambda: _plain(w, x, y))


def _itself(x: Any) -> Any:
    return x


_same: Any = jax.custom_vjp(_itself)


_same.defvjp(
    lambda x: (x, x),
    lambda x, g: (g * jax.pure_callback(counted, ONE, x.sum()),),
)


def within_its_gradient(w: Any, x: Any, y: Any) -> Any:
    return _plain(_same(w), x, y)


@pytest.mark.parametrize(
    "loss",
    [pure_callback, io_callback, debug_callback, debug_print, within_a_branch, within_its_gradient],
    ids=lambda loss: loss.__name__,
)
def test_jax_code_that_leaves_its_program_is_refused(loss: Any) -> None:
    model = crescendo.jax.model(loss, np.zeros(FEATURES, np.float32))
    model.programs(SAMPLE)  # as a gradient makes them
    with pytest.raises(
        Refused, match=rf"{loss.__name__} has a \w*(callback|print) in it, which may keep records on the host"
    ):
        model.refuse_callbacks()
    model = crescendo.jax.model(loss, np.zeros(FEATURES, np.float32))
    model.refuse_callbacks()
    with pytest.raises(Refused, match="so no privacy can be certified for it"):
        model.programs(SAMPLE)


def test_a_prediction_that_calls_the_host_is_refused_too() -> None:
    def predict(w: Any, x: Any) -> Any:
        return x @ w * jax.pure_callback(counted, ONE, x.sum())

    goal = OwnModel(crescendo.jax.model(_plain, np.zeros(FEATURES, np.float32), predict=predict), SAMPLE)
    with pytest.raises(Refused, match="has a pure_callback in it"):
        goal.isolate()


def test_an_array_that_jax_code_reads_is_what_it_was_when_it_was_traced() -> None:
    scale = np.ones(FEATURES, np.float32)

    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((x * jnp.asarray(scale) @ w - y) ** 2).mean()

    goal = OwnModel(crescendo.jax.model(loss, np.zeros(FEATURES, np.float32)), SAMPLE)
    rows, w = np.array([3, 4]), np.full(FEATURES, 0.1)
    traced = goal.gradient(w, DATA, rows, CLIP)
    scale[:] = 7.0
    np.testing.assert_array_equal(goal.gradient(w, DATA, rows, CLIP), traced)
    other = DATA.take(np.arange(90))
    np.testing.assert_array_equal(goal.gradient(w, other, rows, CLIP), traced)
    assert np.isfinite(goal.evaluate(w, other)["loss"]) and goal.evaluate(w, other)["loss"] < 5.0
