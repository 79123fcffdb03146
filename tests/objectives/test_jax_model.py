"""JAX functions as objectives: against loops of one's own, interrupted, clipped, in company, compiled once, and refused."""

from __future__ import annotations

import contextlib
import functools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.core.arrays import Array, Floats
from crescendo.data.from_arrays import dataset
from crescendo.data.records import Dataset, Records
from crescendo.errors import ConfigError, Refused, UsageError
from crescendo.objectives.base import LoopStepper, Slots, clipped
from crescendo.objectives.model_file import ModelFile
from crescendo.objectives.neural.probes import independent
from crescendo.objectives.own import OwnModel

jax = pytest.importorskip("jax", reason="jax is not installed: the jax extra")
import jax.numpy as jnp  # noqa: E402

from crescendo.objectives.neural import jax_model  # noqa: E402

pytestmark = pytest.mark.slow  # a program takes a few tenths of a second to compile

RNG = np.random.default_rng(0)
WIDE = RNG.uniform(-1, 1, (200, 5)) * 10 ** RNG.uniform(-6, 6, (200, 5))  # large terms that cancel


def records(x: Array, classes: int = 3) -> Dataset:
    return dataset(x, np.arange(len(x)) % classes, test=0.2, classes=list(range(classes)))


DATA = records(RNG.normal(size=(50, 5)))


def params(dtype: Any = np.float64) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    first = {"w": rng.normal(size=(5, 4)) / 2, "b": np.zeros(4)}
    return jax.tree.map(lambda leaf: leaf.astype(dtype), {"first": first, "last": rng.normal(size=(4, 3))})  # type: ignore[no-any-return]


def predict(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["first"]["w"] + params["first"]["b"]) @ params["last"]


def loss(params: Any, x: Any, y: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(predict(params, x)), y[:, None], 1)[:, 0]  # one number a record


@functools.cache
def goal(dtype: Any = np.float64, **options: Any) -> OwnModel:
    return OwnModel(crescendo.jax.model(loss, params(dtype), predict=predict, **options), DATA.train)


def start(objective: OwnModel) -> Floats:
    return np.asarray(objective.initial(np.random.default_rng(0)), dtype=np.float64)


def moved(objective: OwnModel, slots: Slots, stops: tuple[int, ...] = ()) -> Floats:
    stepper = objective.stepper(DATA.train)
    stepper.load(start(objective))
    for first, last in zip((0, *stops), (*stops, len(slots)), strict=True):
        stepper.advance(slots, first, last)
        if objective.dtype == np.float32:  # which changes no bit
            stepper.translate(np.zeros(objective.size))
    return stepper.read()


def drawn(count: int) -> Slots:
    rng = np.random.default_rng(1)
    return Slots(rng.integers(0, len(DATA.train), count), rng.uniform(0.01, 0.1, count))


# -- steps ---------------------------------------------------------------------------------------------------------------


def by_loop(objective: OwnModel, slots: Slots) -> Floats:
    loop = LoopStepper(objective, DATA.train)
    loop.load(start(objective))
    loop.advance(slots, 0, len(slots))
    return loop.read()


def test_steps_of_one_record_are_those_of_the_loop_over_gradients() -> None:
    some, objective = drawn(30), goal(l2=0.1)
    slots = Slots(some.rows, some.etas, block=(3, 30), factor=2.0)
    found, first = moved(objective, slots), start(objective)
    assert np.allclose(found, by_loop(objective, slots), atol=1e-12)
    assert np.array_equal(found[:3], first[:3]) and np.array_equal(found[30:], first[30:])


def test_slots_of_a_private_draw_are_stepped_as_by_every_stepper() -> None:
    """Empty slots shrink the model, full ones take a step for each of their records."""
    slots = Slots(np.array([3, 1, 4, 1]), np.array([0.1, 0.2, 0.05, 0.3]), ends=np.array([0, 3, 4, 4]), block=(2, 20))
    assert np.allclose(moved(goal(l2=0.1), slots), by_loop(goal(l2=0.1), slots), atol=1e-12)
    nobody = Slots(np.array([], dtype=np.int64), np.array([0.1, 0.2]), ends=np.array([0, 0]), block=(2, 20))
    assert np.allclose(moved(goal(l2=0.1), nobody), by_loop(goal(l2=0.1), nobody), atol=1e-12)


def test_a_drawn_batch_counts_by_its_public_size() -> None:
    """Of two batches of 4 slots the first drew seven records, more than the program takes at once, the second none."""
    objective, rows = goal(batch=4), np.array([3, 8, 1, 1, 0, 2, 30])
    slots = Slots(rows, np.full(8, 0.1), ends=np.array([1, 1, 7, 7, 7, 7, 7, 7]))
    due = start(objective) - 0.1 / 4 * objective.gradient(start(objective), DATA.train, rows)
    assert np.allclose(moved(objective, slots), due, atol=1e-12)


class ByHand:
    """Momentum and Adam as their papers have them, with mean gradients of batches of 4."""

    def __init__(self, rule: str, size: int) -> None:
        self.rule, self.steps, self.v, self.s = rule, 0, np.zeros(size), np.zeros(size)

    def step(self, w: Floats, slope: Floats, eta: float) -> Floats:
        self.steps += 1
        if self.rule != "adam":
            self.v = (0.9 if self.rule == "momentum" else 0.0) * self.v + slope
            return np.asarray(w - eta * self.v)
        self.v, self.s = 0.9 * self.v + 0.1 * slope, 0.999 * self.s + 0.001 * slope**2
        mean, square = self.v / (1 - 0.9**self.steps), self.s / (1 - 0.999**self.steps)
        return np.asarray(w - eta * mean / (np.sqrt(square) + 1e-8))


OPTIONS: dict[str, dict[str, Any]] = {"sgd": {}, "momentum": {"momentum": 0.9}, "adam": {"optimiser": "adam"}}


@pytest.mark.parametrize("rule", OPTIONS)
def test_steps_of_a_batch_are_those_of_the_textbook(rule: str) -> None:
    objective, slots = goal(batch=4, **OPTIONS[rule]), drawn(30)  # the last batch has two records
    w, hand = start(objective), ByHand(rule, objective.size)
    for first in range(0, 30, 4):
        rows = slots.rows[first : first + 4]
        slope = objective.gradient(w, DATA.train, rows) / len(rows)
        w = hand.step(w, slope, float(slots.etas[min(first + 3, 29)]))
    assert np.allclose(moved(objective, slots), w, atol=1e-12)
    again = objective.stepper(DATA.train)
    for _ in range(2):  # the state lasts one round
        again.load(start(objective))
        again.advance(slots, 0, 30)
    assert np.array_equal(again.read(), moved(objective, slots))
    assert np.array_equal(moved(objective, slots), moved(objective, slots, (1, 5, 6, 7, 8, 23)))


def test_an_interrupted_round_ends_where_it_would_have() -> None:
    slots = drawn(600)  # more than one call of the program takes
    whole = moved(goal(np.float32), slots)
    assert np.array_equal(whole, moved(goal(np.float32), slots, (1, 2, 3, 255, 256, 257, 400)))


def test_a_start_that_float32_cannot_hold_is_not_rounded() -> None:
    objective = goal(np.float32)
    first, stepper = start(objective) + 1e-12, objective.stepper(DATA.train)
    stepper.load(first)
    assert np.array_equal(stepper.read(), first)
    stepper.translate(np.full(objective.size, 1e-13))
    assert np.array_equal(stepper.read(), first + 1e-13)


def test_rounds_of_any_size_run_one_program_that_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traces, compiled, jit = [], [], jax.jit

    def counted(params: Any, x: Any, y: Any) -> Any:
        traces.append(x.shape)
        return loss(params, x, y)

    def compiles(function: Any) -> Any:
        compiled.append(function)
        return jit(function)

    monkeypatch.setattr(jax, "jit", compiles)
    objective = OwnModel(crescendo.jax.model(counted, params(np.float32)), DATA.train)
    for part in (DATA.train, DATA.train.take(np.arange(17)), DATA.test):
        assert part is not None
        stepper = objective.stepper(part)
        stepper.load(start(objective))
        for size in (1, 2, 3, 40, 100, 257, 300):
            stepper.advance(Slots(np.arange(size) % len(part), np.full(size, 0.01)), 0, size)
        objective.gradient(start(objective), part, np.arange(size) % len(part), 0.5)
        objective.evaluate(start(objective), part)
    assert traces == [(1, 5), (1, 5)]  # twice, to see that it is a pure function
    assert len(compiled) == 3  # gradients, scores and steps


# -- clipped sums ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 33, 130])
def test_clipped_sums_are_those_of_a_loop(count: int) -> None:
    objective, rows, unit = goal(np.float32), np.random.default_rng(2).integers(0, 40, count), 2.0**-30
    found, due, first = np.zeros(0), np.zeros(objective.size), start(objective)
    found = objective.gradient(first, DATA.train, rows, 0.5, unit=unit)
    plain = jax.grad(lambda these, x, y: loss(these, x, y).sum())
    for row in rows:
        x, y = DATA.train.x[row : row + 1].astype(np.float32), DATA.train.y[row : row + 1].astype(np.int32)
        slope = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(plain(params(np.float32), x, y))])
        due += np.rint(clipped(slope.astype(np.float64), 0.5) / unit) * unit
    assert np.allclose(found, due, atol=1e-5)
    assert np.array_equal(found, np.rint(found / unit) * unit)


def test_the_gradient_that_a_run_measures_is_that_of_its_loss() -> None:
    """And of a model that has diverged it is not 0, as a private sum is."""
    objective = goal(l2=0.1)
    first = start(objective)
    due = objective.gradient(first, DATA.train, np.arange(40)) / 40 + 0.1 * first
    assert np.allclose(objective.mean_gradient(first, DATA.train), due, atol=1e-12)
    assert np.isnan(objective.mean_gradient(np.full_like(first, np.nan), DATA.train)).any()


@pytest.mark.parametrize("chunks", [True, False], ids=["chunks", "one by one"])
def test_a_record_adds_the_same_bits_in_any_company(chunks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With sums that are exact, any difference would show; these records make much of a last bit."""
    data, rng, unit = records(WIDE.astype(np.float32)).train, np.random.default_rng(3), 2.0**-30
    if not chunks:
        monkeypatch.setattr(jax_model, "independent", lambda *asked: False)
    objective = OwnModel(crescendo.jax.model(loss, params(np.float32)), data) if not chunks else goal(np.float32)
    assert objective.traits.clips is chunks
    each = [objective.gradient(start(objective), data, np.array([row]), 0.5, unit=unit) for row in range(100)]
    for _ in range(8 if chunks else 1):
        rows = rng.permutation(100)[: rng.integers(1, 100)]
        found = objective.gradient(start(objective), data, rows, 0.5, unit=unit)
        if chunks:
            assert np.array_equal(found, sum(each[row] for row in rows))
        else:  # the mechanism shows it one record at a time, and rounds by itself
            assert np.allclose(found, sum(each[row] for row in rows), atol=1e-6)


@pytest.mark.parametrize("bug", ["none", "place", "company", "fails"])
def test_probes_find_gradients_that_depend_on_more_than_the_record(bug: str) -> None:
    def chunk(x: Array, y: Array) -> Array:
        rows = x * 2.0
        if bug == "place":
            rows[7] = np.nextafter(rows[7], np.inf)
        if bug == "company":
            rows = rows + (0.0 if np.isfinite(x).all() else 1.0)
        if bug == "fails":
            raise ValueError
        return np.asarray(rows)

    assert independent(chunk, 8, (3,), np.float32) is (bug == "none")


def test_a_record_that_breaks_the_code_counts_as_nothing() -> None:
    """Only a callback can fail so, and none is allowed in a private run: the model's own sum is tried here."""

    def refuses(x: Any) -> Any:
        if (x == 99.0).all():
            raise ValueError("no such record")
        return x

    def fragile(params: Any, x: Any, y: Any) -> Any:
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return loss(params, jax.lax.stop_gradient(jax.pure_callback(refuses, like, x)), y)

    x = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    x[3], x[4] = np.nan, 99.0
    data = Records(x, np.arange(40.0) % 3)
    objective = OwnModel(crescendo.jax.model(fragile, params(np.float32)), data)
    assert objective.traits.clips

    def private_sum(rows: list[int]) -> Floats:
        return objective.gradient(start(objective), data, np.array(rows), 0.5, unit=2.0**-30)

    assert np.array_equal(private_sum([0, 3, 4, 5]), private_sum([0]) + private_sum([5]))
    with pytest.raises(ConfigError, match="the code of the model failed with ValueError: no such record"):
        objective.gradient(start(objective), data, np.array([4]))
    stepper = objective.stepper(data)
    stepper.load(start(objective))
    with pytest.raises(ConfigError, match="the code of the model failed with ValueError: no such record"):
        stepper.advance(Slots(np.arange(6), np.ones(6)), 0, 6)


# -- what a user brings ------------------------------------------------------------------------------------------------------


def asked(**privacy: Any) -> dict[str, Any]:
    schedule = {"rounds": 2, "sizes": {"kind": "constant", "size": 16}, "steps": {"kind": "constant", "eta": 0.05}}
    private = {"privacy": {"sigma": 1.0, "delta": 1e-5, "clip": 0.5, "records": [20, 20]} | privacy} if privacy else {}
    return {"clients": {"count": 2, "combine": "mean"}, "schedule": schedule, **private}


def test_the_trained_pytree_comes_back() -> None:
    before = params(np.float32)
    model = crescendo.jax.model(loss, before, predict=predict)
    found = crescendo.simulate(asked(), objective=model, data=DATA)
    trained = found.jax_params()
    assert jax.tree.structure(trained) == jax.tree.structure(before)
    assert all(isinstance(leaf, jax.Array) and leaf.dtype == np.float32 for leaf in jax.tree.leaves(trained))
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(trained)])
    assert np.allclose(flat, found.model, atol=1e-6) and not np.allclose(flat, start(goal(np.float32)))
    assert DATA.test is not None
    right = np.argmax(predict(trained, DATA.test.x.astype(np.float32)), axis=1) == DATA.test.y
    assert found.accuracy == np.asarray(right).mean()
    assert jax.tree.all(jax.tree.map(np.array_equal, before, params(np.float32)))
    with pytest.raises(UsageError, match="trained no torch module"):
        found.torch_model()
    plain = crescendo.simulate({"data": {"source": "wine", "classes": [1, 2]}, **asked()})
    with pytest.raises(UsageError, match="trained no JAX model"):
        plain.jax_params()


def made(key: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.random.normal(key, leaf.shape), params(np.float32))


@pytest.mark.parametrize("mechanism", ["minibatch", "batch-clip"])
def test_a_model_is_trained_privately(mechanism: str) -> None:
    options: dict[str, Any] = {"optimiser": "adam", "batch": 4} if mechanism == "batch-clip" else {}
    model = crescendo.jax.model(loss, made, **options)
    found = crescendo.simulate(asked(mechanism=mechanism), objective=model, data=DATA)
    assert found.privacy is not None and found.privacy["mechanism"] == mechanism
    assert np.isfinite(found.model).all() and found.accuracy is None
    if options:
        with pytest.raises(Refused, match="an optimiser of its own"):
            crescendo.simulate(asked(mechanism="minibatch"), objective=model, data=DATA)
        return
    with pytest.raises(Refused, match="local"):
        crescendo.simulate(asked(mechanism="local", norm_bound=2.0), objective=model, data=DATA)


def test_a_function_begins_anew_with_each_seed() -> None:
    model = crescendo.jax.model(loss, made)
    first, again, other = (model.initial(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_two_classes_arrive_as_0_and_1_and_images_as_images() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2, 3)).astype(np.float32)
    data = dataset(x, np.where(x[:, 0, 1] > 0, "yes", "no"), test=0.25, classes=["no", "yes"])

    def margin(params: Any, x: Any, y: Any) -> Any:
        assert x.shape == (1, 2, 3) and y.dtype == np.int32
        return jnp.mean(params * 0 + (y - (x[:, 0, 1] > 0)) ** 2)

    for predicts in (lambda _, x: x[:, 0, 1], lambda _, x: (x[:, :1, 1] > 0).astype(int)):
        objective = OwnModel(crescendo.jax.model(margin, np.ones(1), predict=predicts), data.train)
        assert objective.evaluate(np.ones(1), data.train) == {"loss": 0.0, "accuracy": 1.0}


def test_what_the_caller_has_set_in_jax_changes_nothing() -> None:
    settings = (jax.debug_nans(True), jax.enable_x64(True), jax.disable_jit(True), jax.numpy_dtype_promotion("strict"))
    rows, slots, due = np.arange(5), drawn(5), goal(np.float32)
    with contextlib.ExitStack() as stack:
        for setting in settings:
            stack.enter_context(setting)
        objective = OwnModel(crescendo.jax.model(loss, params(np.float32), predict=predict), DATA.train)
        found = [objective.gradient(start(objective), DATA.train, rows, 0.5), moved(objective, slots)]
        scores = objective.evaluate(start(objective), DATA.train)
    assert np.array_equal(found[0], due.gradient(start(due), DATA.train, rows, 0.5))
    assert np.array_equal(found[1], moved(due, slots)) and scores == due.evaluate(start(due), DATA.train)


def test_the_same_weights_have_the_same_losses_and_steps_as_in_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3, bias=False)).double()
    for value, leaf in zip(net.parameters(), (params()["first"]["w"].T, np.zeros(4), params()["last"].T), strict=True):
        value.data = torch.from_numpy(leaf.copy())
    theirs, ours = OwnModel(crescendo.torch.model(net, batch=4), DATA.train), goal(batch=4)
    trained = [one.evaluate(moved(one, drawn(30)), DATA.train) for one in (theirs, ours)]
    assert trained[0] == pytest.approx(trained[1], abs=1e-12)


# -- what is refused -----------------------------------------------------------------------------------------------------------

CALLS = [0]


def counting(params: Any, x: Any, y: Any) -> Any:
    CALLS[0] += 1
    return loss(params, x, y) * CALLS[0]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"loss": 3}, "a loss is a function"),
        ({"loss": lambda params, x, y: None}, "is a NoneType; an array of one number is needed"),
        ({"loss": predict}, r"JAX cannot trace predict on a record of shape \(5,\): TypeError"),
        (
            {"loss": lambda params, x, y: predict(params, x)},
            r"float32 and shape \(1, 3\); an array of one number is needed",
        ),
        ({"loss": lambda params, x, y: x.mean()}, "does not depend on the params"),
        ({"loss": counting}, "changes each time JAX traces it"),
        ({"loss": lambda params, x, y: 1.0 if predict(params, x)[0, 0] > 0 else 0.0}, "TracerBoolConversionError"),
        ({"predict": 3}, "predict is a function"),
        ({"predict": lambda params, x: x[0]}, r"predict gave shape \(5,\)"),
        ({"params": {}}, "no trainable number"),
        ({"params": {"w": np.zeros(3), "b": np.zeros(3, np.float32)}}, "float32 and of float64"),
        ({"params": {"w": [np.zeros(3, int)]}}, r"params\['w'\]\[0\] is of int64"),
        ({"params": {"w": "text"}}, r"params\['w'\] is of str"),
        ({"params": lambda key: key.missing}, "params could not be made: AttributeError"),
        ({"batch": 2.5}, "batch must be a whole number"),
        ({"l2": -1.0}, "l2 must be a number of at least 0"),
        ({"shape": (4,)}, r"shape \(4,\) does not have 5 numbers"),
        ({"optimiser": "lion"}, 'optimizer must be "sgd" or "adam"'),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        OwnModel(crescendo.jax.model(**{"loss": loss, "params": params(np.float32), **changed}), DATA.train)
    assert "\n" not in str(caught.value)


# -- from a file -----------------------------------------------------------------------------------------------------------

FILE = """
import jax, jax.numpy as jnp

class Net:
    def __init__(self, features, hidden=4):
        self.sizes = features, hidden

    def params(self, rng):
        first, last = jax.random.split(rng)
        return [jax.random.normal(first, self.sizes) / 10, jax.random.normal(last, (self.sizes[1], 3))]

    def predict(self, params, x):
        return jnp.tanh(x @ params[0]) @ params[1]

    def loss(self, params, x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(self.predict(params, x)), y[:, None], 1).mean()
"""


def test_a_model_of_a_file_is_named_in_a_run_file(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FILE)
    (tmp_path / "run.toml").write_text(
        """
[data]
source = "wine"
[clients]
count = 2
combine = "mean"
[objective]
kind = "jax:net.py:Net"
options = {hidden = 5, batch = 4}
[schedule]
rounds = 3
sizes = {kind = "constant", size = 40}
steps = {kind = "constant", eta = 0.1}
"""
    )
    found = crescendo.simulate(tmp_path / "run.toml")
    assert found.model.size == 13 * 5 + 5 * 3 and found.accuracy is not None
    assert [leaf.shape for leaf in found.jax_params()] == [(13, 5), (5, 3)]


def test_mistakes_in_such_a_file_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text(FILE + "class Half:\n    loss = None\n")
    for name, options, sentence in (
        ("Net", {"width": 3}, "takes no width"),
        ("Nett", {}, r"net\.py has no Nett; did you mean Net"),
        ("Half", {}, "Half has no params; a JAX model needs params and loss"),
        ("Net", {"batch": 0}, "batch must be a whole number, 1 or more"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            ModelFile.read(f"jax:net.py:{name}", tmp_path).made(DATA.train, options)
    monkeypatch.setitem(sys.modules, "crescendo.objectives.neural.jax_model", None)
    monkeypatch.delattr("crescendo.objectives.neural.jax_model")
    for ask in (lambda: ModelFile.read("jax:net.py:Net", tmp_path).made(DATA.train, {}), lambda: crescendo.jax):
        with pytest.raises(ConfigError, match=r"needs jax; install it with pip install 'crescendo-fl\[jax\]'"):
            ask()
