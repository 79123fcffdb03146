"""A record's gradient is the same to the last bit whatever chunk, place and company it has: by layers, in torch and in JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.core.arrays import Array, Floats
from crescendo.data.records import Records
from crescendo.objectives.base import Slots
from crescendo.objectives.neural.neural_model import NeuralModel
from crescendo.objectives.own import OwnModel
from crescendo.privacy.mechanisms.minibatch import FrozenStepper

torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
jax = pytest.importorskip("jax", reason="jax is not installed: the jax extra")
import jax.numpy as jnp  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:There is a performance drop")]

RNG = np.random.default_rng(0)
WIDE = RNG.uniform(-1, 1, (70, 36)) * 10 ** RNG.uniform(-6, 6, (70, 36))  # large terms that cancel
DATA = Records(WIDE.astype(np.float32), RNG.integers(0, 3, 70).astype(np.float64))
CLIP, UNIT = 0.5, 2.0**-41


class Tokens(nn.Module):
    """Numbers as words, which meet each other in ``layer``."""

    def __init__(self, layer: nn.Module, width: int = 8) -> None:
        super().__init__()
        self.table, self.layer, self.last = nn.Embedding(10, 8), layer, nn.Linear(width, 3)

    def forward(self, x: Any) -> Any:
        words = self.table((x.abs() * 7).long().clamp(0, 9))
        return self.last(self.layer(words).mean(dim=1))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.heads(x, x, x, need_weights=False)[0]


class ScaledProduct(nn.Linear):
    def forward(self, x: Any) -> Any:
        query, key, value = super().forward(x)[:, None].chunk(3, dim=-1)
        return nn.functional.scaled_dot_product_attention(query, key, value)[:, 0]


class Recurrent(nn.LSTM):
    def forward(self, x: Any) -> Any:  # type: ignore[override]
        return super().forward(x)[0]


class Branching(nn.Linear):
    """Goes one way or the other by a record's own numbers, which `torch.func` cannot map over records."""

    def forward(self, x: Any) -> Any:
        return super().forward(torch.tanh(x if x.sum() > 0 else -x))


MODULES: dict[str, Callable[[], nn.Module]] = {
    "convolution and GroupNorm": lambda: nn.Sequential(
        *(nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 4, 2), nn.Flatten(), nn.Linear(16, 3)),
    ),
    "LayerNorm and a convolution of one side": lambda: nn.Sequential(
        nn.Unflatten(1, (4, 9)), nn.Conv1d(4, 4, 3), nn.LayerNorm(7), nn.SiLU(), nn.Flatten(), nn.Linear(28, 3)
    ),
    "embedding": lambda: Tokens(nn.Identity()),
    "nn.MultiheadAttention": lambda: Tokens(Attention()),
    "scaled_dot_product_attention": lambda: Tokens(ScaledProduct(8, 24)),
    "LSTM": lambda: Tokens(Recurrent(8, 5, batch_first=True), 5),
    "a branch": lambda: Branching(36, 3),
}


def jax_loss(outputs: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    return lambda params, x, y: -jnp.take_along_axis(jax.nn.log_softmax(outputs(params, x)), y[:, None], 1)[:, 0]


def drawn(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=shape).astype(np.float32) / 2 for shape in shapes]


def convolved(params: Any, x: Any) -> Any:
    sides = ("NCHW", "OIHW", "NCHW")
    x = jax.lax.conv_general_dilated(x.reshape(-1, 1, 6, 6), params[0], (1, 1), "SAME", dimension_numbers=sides)
    groups = x.reshape(len(x), 2, -1)
    normal = (groups - groups.mean(-1, keepdims=True)) / jnp.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    return jax.nn.relu(normal.reshape(len(x), -1)) @ params[1]


def words(params: Any, x: Any) -> Any:
    return params[0][jnp.clip(jnp.abs(x) * 7, 0, 9).astype(jnp.int32)]


def attended(params: Any, x: Any) -> Any:
    q, k, v = jnp.split(words(params, x) @ params[1], 3, axis=-1)
    return (jax.nn.softmax(q @ k.swapaxes(1, 2) / 3) @ v).mean(axis=1) @ params[2]


def recurrent(params: Any, x: Any) -> Any:
    def cell(state: Any, word: Any) -> Any:
        hidden, kept = state
        forget, enter, leave, new = jnp.split(jnp.concatenate([word, hidden], -1) @ params[1], 4, axis=-1)
        kept = jax.nn.sigmoid(forget) * kept + jax.nn.sigmoid(enter) * jnp.tanh(new)
        hidden = jax.nn.sigmoid(leave) * jnp.tanh(kept)
        return (hidden, kept), hidden

    nothing = jnp.zeros((len(x), 5), jnp.float32)
    (hidden, _), _ = jax.lax.scan(cell, (nothing, nothing), words(params, x).swapaxes(0, 1))
    return hidden @ params[2]


FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], list[Any]]] = {
    "convolution and group normalisation": (convolved, drawn((4, 1, 3, 3), (144, 3))),
    "embedding": (lambda params, x: words(params, x).mean(axis=1) @ params[1], drawn((10, 8), (8, 3))),
    "attention": (attended, drawn((10, 8), (8, 24), (8, 3))),
    "LSTM": (recurrent, drawn((10, 8), (13, 20), (5, 3))),
    "a branch": (
        lambda params, x: jnp.tanh(jax.lax.cond(x.sum() > 0, lambda: x, lambda: -x)) @ params[0],
        drawn((36, 3)),
    ),
}


def made(library: str, name: str) -> NeuralModel:
    if library == "torch":
        return crescendo.torch.model(MODULES[name])
    outputs, params = FUNCTIONS[name]
    return crescendo.jax.model(jax_loss(outputs), params)


CASES = [*(("torch", name) for name in MODULES), *(("jax", name) for name in FUNCTIONS)]


@functools.cache
def goal_of(library: str, name: str) -> tuple[NeuralModel, OwnModel]:
    model = made(library, name)
    return model, OwnModel(model, DATA)


def a_model(goal: OwnModel) -> Floats:
    return np.random.default_rng(5).normal(size=goal.size) / 2


@pytest.mark.parametrize(("library", "name"), CASES)
def test_a_gradient_has_the_same_bits_at_every_place_of_every_chunk(library: str, name: str) -> None:
    model, goal = goal_of(library, name)
    assert model.clips is (name != "a branch" or library == "jax")
    with model.alone():
        gradients = model.gradients_at(a_model(goal), DATA)

        def of(rows: Any) -> Array:
            return np.concatenate(gradients(np.asarray(rows)), axis=1)

        alone = np.concatenate([of([k]) for k in range(len(DATA))])
        assert np.isfinite(alone).all() and (np.abs(alone).max(axis=1) > 0).mean() > 0.9
        for count in (2, model.at_once - 1, model.at_once):
            order = np.random.default_rng(count).permutation(len(DATA))[:count]
            np.testing.assert_array_equal(of(order), alone[order])


@pytest.mark.parametrize(("library", "name"), CASES)
def test_one_record_more_moves_a_sum_by_its_own_gradient_and_no_bit_beside(library: str, name: str) -> None:
    _, goal = goal_of(library, name)

    def summed(rows: Any) -> Floats:
        slots = Slots(np.asarray(rows), np.ones(1), np.array([len(rows)]), clip=CLIP, unit=UNIT)
        stepper = FrozenStepper(goal, DATA)
        stepper.load(a_model(goal))
        stepper.advance(slots, 0, 1)
        return stepper.gradients()

    others = np.random.default_rng(2).permutation(np.arange(1, 40))
    due, without = summed([0]), summed(others)
    assert 0 < np.linalg.norm(due) <= CLIP * (1 + 1e-9)
    for place in (0, 7, 31, 32, 39):
        np.testing.assert_array_equal(summed(np.insert(others, place, 0)) - without, due)
    np.testing.assert_array_equal(summed(others[::-1]), without)


def test_a_module_whose_records_are_computed_one_by_one_says_so() -> None:
    says = goal_of("torch", "a branch")[1].traits.slow
    assert says is not None and "Branching cannot be computed for many records at once" in says
    assert goal_of("torch", "embedding")[1].traits.slow is None
    config = {
        "clients": {"count": 2},
        "schedule": {"rounds": 1, "sizes": {"kind": "constant", "size": 8}, "steps": {"kind": "constant", "eta": 0.1}},
        "privacy": {"mechanism": "minibatch", "sigma": 2.0, "delta": 1e-3, "clip": 0.5, "records": 20},
    }
    data = crescendo.dataset(DATA.x[:40], DATA.y[:40], test=0.2, classes=sorted(set(DATA.y[:40].tolist())))
    for mechanism, told in (("minibatch", True), ("batch-clip", False)):
        config["privacy"]["mechanism"] = mechanism  # type: ignore[index]
        result = crescendo.simulate(config, objective=made("torch", "a branch"), data=data)
        found = result.prepared.privacy
        assert found is not None and any("one by one" in caution for caution in found.cautions()) is told


class Strict(nn.Linear):
    """Sets numpy to raise where a number is too small or too large."""

    def forward(self, x: Any) -> Any:
        np.seterr(all="raise")
        return super().forward(x)


def test_a_module_that_sets_numpy_to_raise_stops_no_private_round() -> None:
    """What a record raises the server would see: its round is void. Numbers are this far apart in one record's own."""
    data = Records(np.array([[1.0, 2.0], [1e300, 1e-300]]), np.array([0.0, 1.0]))
    with np.errstate():  # restores what the module sets when it is tried
        goal = OwnModel(crescendo.torch.model(lambda: Strict(2, 3, dtype=torch.float64)), data)
        stepper = FrozenStepper(goal, data)
        np.seterr(all="warn")
        stepper.load(np.zeros(goal.size))
        stepper.advance(Slots(np.arange(2), np.ones(1), np.array([2]), clip=CLIP, unit=UNIT), 0, 1)
        assert 0.9 * CLIP < np.linalg.norm(stepper.gradients()) < 2.1 * CLIP
        assert set(np.geterr().values()) == {"warn"}, "what the module sets ends with its call"
