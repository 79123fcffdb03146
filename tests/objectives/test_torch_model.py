"""Torch modules as objectives: against a loop of one's own, interrupted, clipped, in company, and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.core.arrays import Floats, Ints
from crescendo.data.from_arrays import dataset
from crescendo.data.records import Dataset, Records
from crescendo.errors import ConfigError, CrescendoError, Refused
from crescendo.objectives.base import LoopStepper, Slots, Stepper, clipped
from crescendo.objectives.model_file import ModelFile
from crescendo.objectives.own import OwnModel
from crescendo.privacy.mechanisms.minibatch import FrozenStepper
from tests.objectives.bare import Bare

torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
from torch import nn  # noqa: E402

from crescendo.objectives.neural.torch_stepper import TorchStepper  # noqa: E402


def images(count: int = 60, seed: int = 0) -> Dataset:
    """Small random images whose label is where they are brightest."""
    rng = np.random.default_rng(seed)
    x = rng.random((count, 1, 6, 6)).astype(np.float32)
    return dataset(x, x.reshape(count, 3, 12).sum(axis=2).argmax(axis=1), test=0.2, classes=[0, 1, 2])


def small_net(dtype: Any = torch.float32) -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 3)).to(
        dtype
    )


def objective(net: nn.Module, data: Dataset, **options: Any) -> OwnModel:
    return OwnModel(crescendo.torch.model(net, **options), data.train)


def textbook(net: nn.Module, data: Records, slots: Slots, batch: int, l2: float) -> Floats:
    """SGD as every tutorial has it."""
    x, y = torch.from_numpy(data.x).reshape(-1, 1, 6, 6), torch.from_numpy(data.y).long()
    for first in range(0, len(slots), batch):
        rows = torch.from_numpy(slots.rows[first : first + batch])
        last = min(first + batch, len(slots)) - 1
        optimiser = torch.optim.SGD(net.parameters(), lr=float(slots.etas[last]), weight_decay=l2)
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return np.concatenate([p.detach().numpy().ravel() for p in net.parameters()]).astype(np.float64)


def drawn(data: Dataset, count: int, seed: int = 1) -> Slots:
    rng = np.random.default_rng(seed)
    return Slots(rng.integers(0, len(data.train), count), rng.uniform(0.01, 0.1, count))


@pytest.mark.parametrize(("batch", "l2"), [(1, 0.0), (1, 0.01), (8, 0.0), (8, 0.01)])
def test_steps_are_those_of_the_textbook(batch: int, l2: float) -> None:
    data, slots = images(), drawn(images(), 50)
    goal = objective(small_net(), data, batch=batch, l2=l2)
    stepper = goal.stepper(data.train)
    stepper.load(goal.initial(np.random.default_rng(0)))
    stepper.advance(slots, 0, 50)
    assert np.allclose(stepper.read(), textbook(small_net(), data.train, slots, batch, l2), atol=2e-6)


def test_steps_of_one_record_are_those_of_the_loop_over_gradients() -> None:
    data, slots = images(), drawn(images(), 30)
    goal = objective(small_net(torch.float64), data, l2=0.1)
    start, found = goal.initial(np.random.default_rng(0)), []
    for stepper in (goal.stepper(data.train), LoopStepper(goal, data.train)):
        stepper.load(start)
        stepper.advance(Slots(slots.rows, slots.etas, block=(3, 40), factor=2.0), 0, 30)
        found.append(stepper.read())
    assert np.allclose(found[0], found[1], atol=1e-12)
    assert np.array_equal(found[0][:3], start[:3]) and np.array_equal(found[0][40:], start[40:])


@pytest.mark.parametrize("batch", [1, 7])
def test_an_interrupted_round_ends_where_it_would_have(batch: int) -> None:
    data, slots = images(), drawn(images(), 40)
    goal = objective(nn.Sequential(small_net(), nn.Dropout(0.2)), data, batch=batch)
    start, found = goal.initial(np.random.default_rng(0)), []
    for stops in ([40], [1, 5, 6, 33, 40], list(range(1, 41))):
        stepper = goal.stepper(data.train)
        stepper.load(start)
        for first, last in zip([0, *stops[:-1]], stops, strict=True):
            torch.manual_seed(last)  # what others do with torch's generator does not show
            stepper.advance(slots, first, last)
            stepper.translate(np.zeros(goal.size))
        found.append(stepper.read())
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_a_start_that_float32_cannot_hold_is_not_rounded() -> None:
    data = images()
    goal = objective(small_net(), data)
    start = goal.initial(np.random.default_rng(0)) + 1e-12
    stepper = goal.stepper(data.train)
    stepper.load(start)
    assert np.array_equal(stepper.read(), start)
    stepper.translate(np.full(goal.size, 1e-13))
    assert np.array_equal(stepper.read(), start + 1e-13)


def one_by_one(net: nn.Module, data: Records, rows: Ints, clip: float, unit: float) -> Floats:
    """The clipped sum, record by record."""
    total = np.zeros(sum(p.numel() for p in net.parameters()))
    for row in rows.tolist():
        net.zero_grad()
        x, y = torch.from_numpy(data.x[row : row + 1]), torch.from_numpy(data.y[row : row + 1]).long()
        nn.functional.cross_entropy(net(x.reshape(1, 1, 6, 6)), y).backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad.numpy().ravel() for p in net.parameters() if p.grad is not None]
        gradient = np.concatenate(gradients).astype(np.float64)
        total += np.rint(clipped(gradient, clip) / unit) * unit
    return total


def whole_gradient(net: nn.Module, data: Records, weights: Floats, l2: float) -> Floats:
    """The gradient of the weighted loss and its penalty, record by record."""
    x, y = torch.from_numpy(data.x).reshape(-1, 1, 6, 6).double(), torch.from_numpy(data.y).long()
    moving, total = list(net.parameters()), 0.0
    for row in range(len(data)):
        loss = nn.functional.cross_entropy(net(x[row : row + 1]), y[row : row + 1])
        parts = torch.autograd.grad(loss, moving)
        total = total + weights[row] * np.concatenate([part.numpy().ravel() for part in parts])
    flat = np.concatenate([p.detach().numpy().ravel() for p in moving])
    return np.asarray(total + l2 * flat)


@pytest.mark.slow
@pytest.mark.parametrize("private", [False, True])
def test_a_run_records_the_squared_gradient_of_a_module_averaged_over_its_models(
    private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the weighted loss over all records with L2, as `evaluate` has it: dropout is off."""
    monkeypatch.setattr("crescendo.objectives.own._MEASURED_AT_ONCE", 16)
    data = images(100)
    net = nn.Sequential(small_net(torch.float64), nn.Dropout(0.0 if private else 0.5))
    config: dict[str, Any] = {
        "clients": {"count": 2, "combine": "mean", "weights": [0.9, 0.1], "sizes": [1, 3]},
        "schedule": {"rounds": 2, "sizes": {"kind": "constant", "size": 20}, "steps": {"kind": "constant", "eta": 0.1}},
        "evaluate": {"gradient": True},
    }
    if private:
        config["privacy"] = {"mechanism": "minibatch", "clip": 1.0, "sigma": 2.0, "epsilon": 500.0, "delta": 1e-5}
        config["privacy"]["records"] = [20, 60]
    found = crescendo.simulate(config, objective=crescendo.torch.model(net, l2=0.01), data=data)
    train, weights = found.prepared.dataset.train, found.prepared.row_weights()
    assert weights is not None and len(train) == 80
    nets = [found.prepared.objective.module(w) for w in (found.prepared.agreement.initial(), found.model)]  # type: ignore[attr-defined]
    norms = [np.linalg.norm(whole_gradient(net, train, weights, 0.01)) for net in nets]
    rows = found.metrics
    assert [rows[0]["gradient_norm"], rows[-1]["gradient_norm"]] == pytest.approx(norms, rel=1e-10)
    squares = [row["gradient_norm"] ** 2 for row in rows]
    assert len(rows) == 3 and rows[-1]["averaged_squared_gradient"] == pytest.approx(np.mean(squares), rel=1e-12)
    assert "averaged_excess_loss" not in rows[-1]


def test_the_gradient_of_a_model_that_is_no_number_is_none_either() -> None:
    goal = objective(small_net(), images())
    assert np.isnan(goal.mean_gradient(np.full(goal.size, 1e38), images().train)).all()


@pytest.mark.parametrize("count", [0, 1, 2, 31, 32, 33, 130])
def test_clipped_sums_are_those_of_a_loop(count: int) -> None:
    data, rows = images(200), np.random.default_rng(2).integers(0, 160, count)
    goal, unit = objective(small_net(), data), 2.0**-30
    found = goal.gradient(goal.initial(np.random.default_rng(0)), data.train, rows, 0.5, unit=unit)
    assert np.allclose(found, one_by_one(small_net(), data.train, rows, 0.5, unit), atol=1e-5)
    assert np.array_equal(found, np.rint(found / unit) * unit)


@pytest.mark.parametrize("outputs", [3, 10])
def test_a_record_adds_the_same_bits_in_any_company(outputs: int) -> None:
    """Insertion, permutation and other chunks: with sums that are exact, any difference would show.

    A product of all records with 27 by 3 numbers would add up in another order in every other pair of rows.
    """
    data = images(300)
    net = nn.Sequential(*list(small_net())[:-1], nn.Linear(27, outputs))  # type: ignore[call-overload]
    goal, unit = objective(net, data), 2.0**-30
    assert goal.traits.clips
    start, rng = goal.initial(np.random.default_rng(0)), np.random.default_rng(3)
    each = [goal.gradient(start, data.train, np.array([row]), 0.5, unit=unit) for row in range(150)]
    for _ in range(6):
        rows = rng.permutation(150)[: rng.integers(1, 150)]
        assert np.array_equal(goal.gradient(start, data.train, rows, 0.5, unit=unit), sum(each[row] for row in rows))


def test_a_record_of_large_terms_that_cancel_is_the_same_at_every_place() -> None:
    """In a product of 5 by 4 numbers another order shows rarely, and then doubles what one record can change."""
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, (600, 5)) * 10 ** rng.uniform(-6, 6, (600, 5))
    data = dataset(x.astype(np.float32), rng.integers(0, 3, 600), test=0.1, classes=[0, 1, 2])
    goal = objective(nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), data)
    assert goal.traits.clips
    start, unit = goal.initial(rng), 2.0**-30
    each = [goal.gradient(start, data.train, np.array([row]), 0.5, unit=unit) for row in range(400)]
    for _ in range(10):
        rows = rng.permutation(400)[: rng.integers(1, 400)]
        assert np.array_equal(goal.gradient(start, data.train, rows, 0.5, unit=unit), sum(each[row] for row in rows))


def test_a_record_that_breaks_the_module_counts_as_nothing() -> None:
    data = images()
    data.train.x[3] = np.nan
    goal = objective(small_net(), data)
    start = goal.initial(np.random.default_rng(0))
    with_it = goal.gradient(start, data.train, np.array([0, 3, 5]), 0.5, unit=2.0**-30)
    assert np.array_equal(with_it, goal.gradient(start, data.train, np.array([0, 5]), 0.5, unit=2.0**-30))


def test_the_users_own_module_stays_as_it_is() -> None:
    data, net = images(), small_net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    crescendo.simulate(
        {
            "clients": {"count": 2},
            "schedule": {
                "rounds": 2,
                "sizes": {"kind": "constant", "size": 20},
                "steps": {"kind": "constant", "eta": 0.1},
            },
        },
        objective=crescendo.torch.model(net),
        data=data,
    )
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in before.items())
    assert torch.get_num_threads() >= 1


def test_the_trained_module_comes_back() -> None:
    data = images()
    asked = {
        "clients": {"count": 2, "combine": "mean"},
        "schedule": {"rounds": 2, "sizes": {"kind": "constant", "size": 20}, "steps": {"kind": "constant", "eta": 0.1}},
    }
    found = crescendo.simulate(asked, objective=crescendo.torch.model(small_net()), data=data)
    net = found.torch_model()
    with torch.no_grad():
        outputs = net(torch.from_numpy(data.test.x).reshape(-1, 1, 6, 6))  # type: ignore[union-attr]
    assert float((outputs.argmax(dim=1).numpy() == data.test.y).mean()) == found.accuracy  # type: ignore[union-attr]
    again = small_net()
    again.load_state_dict(found.state_dict())
    assert np.allclose(np.concatenate([p.detach().numpy().ravel() for p in again.parameters()]), found.model, atol=1e-6)
    plain = crescendo.simulate({"data": {"source": "wine", "classes": [1, 2]}, **asked})
    with pytest.raises(crescendo.UsageError, match="trained no torch module"):
        plain.torch_model()


def test_frozen_and_tied_parameters_are_left_out_and_counted_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.scale = nn.Linear(36, 36), nn.Linear(36, 36), nn.Parameter(torch.ones(1))
            self.b.weight = self.a.weight
            self.scale.requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return self.scale * self.b(torch.relu(self.a(x.flatten(1))))

    data, net = images(), Tied()
    goal = objective(net, data)
    assert goal.size == 36 * 36 + 36 + 36
    stepper = goal.stepper(data.train)
    stepper.load(goal.initial(np.random.default_rng(0)))
    stepper.advance(drawn(data, 5), 0, 5)
    assert goal.evaluate(stepper.read(), data.train)["loss"] > 0


def test_a_class_begins_anew_with_each_seed_and_a_module_as_it_is() -> None:
    data = images()
    by_class, by_module = objective(small_net, data), objective(small_net(), data)  # type: ignore[arg-type]
    random = OwnModel(crescendo.torch.model(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 3))), data.train)
    first, again, other = (random.initial(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert np.array_equal(by_class.initial(np.random.default_rng(1)), by_module.initial(np.random.default_rng(2)))


def test_two_classes_arrive_as_0_and_1() -> None:
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    data, seen = dataset(x, np.where(x[:, 0] > 0, "yes", "no"), test=0.25, classes=["no", "yes"]), []

    def loss(outputs: Any, y: Any) -> Any:
        seen.extend(y.tolist())  # which no code can do that is mapped over records
        return nn.functional.cross_entropy(outputs, y)

    goal = OwnModel(crescendo.torch.model(nn.Linear(4, 2), loss), data.train)
    goal.evaluate(goal.initial(np.random.default_rng(0)), data.train)
    assert set(seen) == {0, 1}
    assert not goal.traits.clips


# -- what a record adds is its own affair --------------------------------------------------------------------------------


class Stateful(nn.Module):
    """Keeps a count, a buffer or a hidden state of what it has seen."""

    seen: Any

    def __init__(self, keeps: str) -> None:
        super().__init__()
        self.keeps, self.calls, self.last, self.inner = keeps, 0, None, nn.Linear(36, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        x, self.calls = x.flatten(1), self.calls + 1
        outputs = self.inner(x)
        if self.keeps == "a count":
            return outputs * (1 + 0.1 * (self.calls % 7))
        if self.keeps == "a buffer":
            outputs, self.seen = outputs * (1 + self.seen), self.seen + x.detach().mean()
            return outputs
        if self.last is not None:
            outputs = outputs + self.last
        if self.keeps == "a branch" and x.sum() > 18:  # which cannot be mapped over records
            self.last = x.detach()[:, :3]
        return outputs


class Mixing(torch.autograd.Function):  # type: ignore[name-defined,misc]
    """Takes the mean over a chunk away, where many records are computed at once."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 1.0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:
        return slope

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return x - x.mean(0, keepdim=True), 0


class Mixed(nn.Sequential):
    def forward(self, x: Any) -> Any:
        return super().forward(Mixing.apply(x))  # type: ignore[no-untyped-call]


def flat_net() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 3))


def private_sum(goal: OwnModel, data: Records, rows: list[int]) -> Floats:
    stepper = FrozenStepper(goal, data)
    stepper.load(goal.initial(np.random.default_rng(0)))
    ends = np.array([len(rows)])
    stepper.advance(Slots(np.array(rows), np.ones(1), ends=ends, clip=0.5, unit=2.0**-30), 0, 1)
    return stepper.gradients()


@pytest.mark.parametrize(
    "net",
    [
        Stateful("a count"),
        Stateful("a buffer"),
        Stateful("a branch"),
        nn.Sequential(nn.Flatten(), nn.utils.parametrizations.spectral_norm(nn.Linear(36, 3))),
        Mixed(nn.Flatten(), nn.Linear(36, 3)),
    ],
    ids=["count", "buffer", "branch", "spectral norm", "mixing"],
)
def test_one_record_more_adds_its_own_gradient_whatever_a_module_keeps(net: nn.Module) -> None:
    data, rng = images(200), np.random.default_rng(4)
    goal = objective(net, data)
    alone = private_sum(goal, data.train, [150])
    for _ in range(3):
        rows = rng.permutation(140)[: rng.integers(30, 70)].tolist()
        without, with_it = private_sum(goal, data.train, rows), private_sum(goal, data.train, [*rows, 150])
        assert np.array_equal(with_it - without, alone)


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = flat_net()

    def forward(self, x: Any) -> Any:
        return self.inner(nn.functional.dropout(x, 0.5, self.training))


def test_random_numbers_of_a_modules_own_code_are_noticed() -> None:
    """No layer says so: functional dropout, and that within recurrent layers and attention."""
    data = images()
    goal = objective(Functional(), data)
    assert goal.traits.unfit is not None and "the code of Functional draws random numbers" in goal.traits.unfit
    asked = {
        "clients": {"count": 2},
        "schedule": {"rounds": 2, "sizes": {"kind": "constant", "size": 20}, "steps": {"kind": "constant", "eta": 0.1}},
    }
    found = []
    for seed in (1, 2):  # of torch, which is not the run's
        torch.manual_seed(5)
        net = Functional()
        torch.manual_seed(seed)
        found.append(crescendo.simulate(asked, objective=crescendo.torch.model(net), data=data).model)
    assert np.array_equal(found[0], found[1])


def test_a_model_that_remembers_is_refused_by_a_private_simulation() -> None:
    class Remembers:
        def __init__(self) -> None:
            self.calls = 0

        def initial(self, rng: Any) -> Floats:
            return np.zeros(36)

        def gradient(self, w: Any, data: Records, rows: Ints) -> Floats:
            self.calls += 1
            return np.asarray(data.x[rows].sum(axis=0) * self.calls, dtype=np.float64)

        def evaluate(self, w: Any, data: Records) -> dict[str, float]:
            return {"loss": 0.0}

    asked = {
        "clients": {"count": 2},
        "schedule": {"rounds": 2, "sizes": {"kind": "constant", "size": 20}, "steps": {"kind": "constant", "eta": 0.1}},
        "privacy": {"mechanism": "minibatch", "sigma": 1.0, "delta": 1e-5, "clip": 0.5, "records": [24, 24]},
    }
    with pytest.raises(Refused, match="Remembers says something else of a record once it has seen others"):
        crescendo.simulate(asked, objective=Remembers(), data=images())


def test_steps_that_remember_are_refused_where_a_whole_round_is_clipped() -> None:
    class KeepsItsVelocity:
        velocity: Any = 0.0

        def initial(self, rng: Any) -> Floats:
            return np.zeros(36)

        def gradient(self, w: Any, data: Records, rows: Ints) -> Floats:
            return np.asarray(data.x[rows].sum(axis=0), dtype=np.float64)

        def evaluate(self, w: Any, data: Records) -> dict[str, float]:
            return {"loss": 0.0}

        def stepper(self, data: Records) -> Stepper:
            model = self

            class Heavy(LoopStepper):
                def _gradient(self, rows: Ints, clip: float | None) -> Floats:
                    model.velocity = 0.9 * model.velocity + model.gradient(self._w, data, rows)
                    return np.asarray(model.velocity)

            return Heavy(Bare(), data)

    asked: dict[str, Any] = {
        "clients": {"count": 2},
        "schedule": {"rounds": 2, "sizes": {"kind": "constant", "size": 20}, "steps": {"kind": "constant", "eta": 0.1}},
        "privacy": {"mechanism": "batch-clip", "sigma": 1.0, "delta": 1e-5, "clip": 0.5, "records": [24, 24]},
    }
    with pytest.raises(Refused, match=r"once it has seen others.* its steps must keep nothing between calls"):
        crescendo.simulate(asked, objective=KeepsItsVelocity(), data=images())
    asked["privacy"]["mechanism"] = "minibatch"  # which takes none of these steps
    crescendo.simulate(asked, objective=KeepsItsVelocity(), data=images())


def test_a_module_that_writes_into_its_records_leaves_them_as_they_are() -> None:
    class Writes(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return super().forward(x.sub_(0.1))  # type: ignore[no-untyped-call]

    data = images()
    before, goal = data.train.x.copy(), objective(Writes(nn.Flatten(), nn.Linear(36, 3)), data)
    stepper = goal.stepper(data.train)
    stepper.load(goal.initial(np.random.default_rng(0)))
    stepper.advance(drawn(data, 20), 0, 20)
    assert np.array_equal(data.train.x, before)


def test_what_the_caller_has_set_in_torch_changes_nothing() -> None:
    data, found = images(), []
    for around in (torch.enable_grad(), torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16)):
        goal = objective(flat_net(), data)
        stepper = goal.stepper(data.train)
        with around:
            clipped_sum = private_sum(goal, data.train, [1, 2, 3])
            stepper.load(goal.initial(np.random.default_rng(0)))
            stepper.advance(drawn(data, 5), 0, 5)
        found.append(np.concatenate([clipped_sum, stepper.read()]))
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"loss": lambda outputs, y: None}, "the loss returned a NoneType"),
        ({"loss": nn.CrossEntropyLoss}, "an object such as"),
        ({"loss": nn.CrossEntropyLoss(reduction="sum")}, "the loss of two records is the sum of theirs"),
        ({"loss": lambda outputs, y: outputs.detach().mean()}, "does not depend on the weights"),
        ({"batch": 2.5}, "batch must be a whole number"),
        ({"l2": -1.0}, "l2 must be a number of at least 0"),
        ({"shape": 5}, "shape must be that of one record"),
        ({"shape": (5,)}, r"shape \(5,\) does not have 36 numbers"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        objective(flat_net(), images(), **options)


def test_modules_that_cannot_be_made_or_moved_are_refused_in_a_sentence() -> None:
    data = images()
    for net, sentence in (
        (nn.Linear, "Linear could not be made: TypeError"),
        (nn.LazyLinear(3), "has no shape yet"),
        (nn.Linear(36, 3, device="meta"), "torch cannot compute on device 'meta'"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            objective(net, data)  # type: ignore[arg-type]


class Pair(nn.Linear):
    """Gives more than its outputs, as many modules of other libraries do."""

    def forward(self, x: Any) -> Any:
        return super().forward(x.flatten(1)), x


@pytest.mark.parametrize(
    ("net", "sentence"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(36, 2)), "gives 2 numbers for a record, .* each of 3 classes"),
        (nn.Sequential(nn.Flatten(), nn.Linear(36, 1)), "gives 1 number for a record"),
        (nn.Sequential(nn.Flatten(), nn.Linear(36, 3), nn.Unflatten(1, (3, 1))), r"outputs of shape \(1, 3, 1\)"),
        (nn.Sequential(nn.Flatten(), nn.BatchNorm1d(36), nn.Linear(36, 2)), "gives 2 numbers for a record"),
        (Pair(36, 3), "gives a tuple, and cross-entropy needs a tensor"),
    ],
)
def test_outputs_that_cross_entropy_cannot_read_are_refused_at_set_up(net: nn.Module, sentence: str) -> None:
    data = images()
    data.train.y[:2] = 0.0  # the records that are tried would do
    with pytest.raises(ConfigError, match=sentence):
        objective(net, data)


def test_a_loss_of_ones_own_reads_what_it_likes() -> None:
    def loss(outputs: Any, labels: Any) -> Any:
        return nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], (labels > 0).float())

    assert objective(nn.Sequential(nn.Flatten(), nn.Linear(36, 1)), images(), loss=loss).size == 37


# -- what is refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("net", "sentence"),
    [
        (
            lambda: nn.Sequential(nn.Linear(36, 3), nn.LazyBatchNorm1d(affine=False)),
            "1.running_mean.* has no shape yet",
        ),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(36, 3), nn.BatchNorm1d(3).double()),
            "all must be float32, or all float64",
        ),
        (nn.Sequential(nn.Linear(36, 3), nn.BatchNorm1d(3, affine=False).double()), "has other floats"),
        (nn.Flatten(), "no trainable parameter"),
        (nn.Sequential(nn.Flatten(), nn.Linear(36, 3).half()), "parameters of float16; all must be float32"),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(35, 3)),
            r"has to read records of shape \(1, 6, 6\), as the data have them, and failed on one with RuntimeError",
        ),
        ("net", "a torch.nn.Module is needed"),
    ],
)
def test_modules_that_cannot_be_learned_are_refused_in_a_sentence(net: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        objective(net, images())


def normalised() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(36, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3), nn.BatchNorm1d(3)
    )


def with_rounds(clients: int, **more: Any) -> dict[str, Any]:
    sizes, steps = {"kind": "constant", "size": 16 * clients}, {"kind": "constant", "eta": 0.1}
    return {"clients": {"count": clients}, "schedule": {"rounds": 3, "sizes": sizes, "steps": steps}, **more}


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_one_client_has_the_running_statistics_of_torchs_own_training(
    l2: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its weights: a federation of one is SGD."""
    data, seen, advance = images(), [], TorchStepper.advance

    def noted(self: TorchStepper, slots: Slots, h0: int, h1: int) -> None:
        seen.append(slots.rows[h0:h1])
        advance(self, slots, h0, h1)

    monkeypatch.setattr(TorchStepper, "advance", noted)
    found = crescendo.simulate(with_rounds(1), objective=crescendo.torch.model(normalised(), batch=8, l2=l2), data=data)
    rows, net, train = np.concatenate(seen), normalised(), found.prepared.dataset.train
    assert len(rows) == 48
    textbook(net, train, Slots(rows, np.full(48, 0.1)), 8, l2)
    state, due = found.torch_model().state_dict(), net.state_dict()
    for name in due:
        if "num_batches" not in name:
            assert torch.allclose(state[name], due[name], atol=2e-6), name
    assert not torch.allclose(due["2.running_var"], torch.ones(8), atol=0.1)  # they have moved
    weights = np.concatenate([p.detach().numpy().ravel() for p in net.parameters()]).astype(np.float64)
    x, y = torch.from_numpy(train.x).reshape(-1, 1, 6, 6), torch.from_numpy(train.y).long()
    loss = nn.functional.cross_entropy(net.eval()(x), y).item() + l2 / 2 * weights @ weights
    assert found.loss == pytest.approx(loss, rel=1e-5)


def test_running_statistics_are_averaged_over_clients() -> None:
    """One client has records of 0 and the other of 2: two batches move their means from 0 to 0 and to 1.5."""
    data = dataset(np.repeat([0.0, 2.0], 100)[:, None].astype(np.float32), np.repeat([0, 1], 100), classes=[0, 1])
    net = nn.Sequential(nn.BatchNorm1d(1, momentum=0.5), nn.Linear(1, 2))
    asked = with_rounds(2, evaluate={"gradient": True})
    asked["clients"] |= {"split": "label", "combine": "mean"}
    asked["schedule"]["rounds"] = 1
    found = crescendo.simulate(asked, objective=crescendo.torch.model(net, batch=8, l2=0.5), data=data)
    made, train = found.torch_model(), found.prepared.dataset.train
    state = made.state_dict()
    assert [state["0.running_mean"].item(), state["0.running_var"].item()] == pytest.approx([0.75, 0.25], rel=1e-6)
    labels = torch.from_numpy(np.maximum(train.y, 0)).long()
    loss = nn.functional.cross_entropy(made(torch.from_numpy(train.x)), labels)
    parts = zip(torch.autograd.grad(loss, list(made.parameters())), made.parameters(), strict=True)
    squares = sum(float(((slope + 0.5 * value.detach()) ** 2).sum()) for slope, value in parts)
    assert found.metrics[-1]["gradient_norm"] ** 2 == pytest.approx(squares, rel=1e-4)


def test_a_variance_that_late_updates_brought_below_0_is_taken_for_0() -> None:
    model = crescendo.torch.model(normalised())
    w = model.initial(np.random.default_rng(0))
    w[-3:] = -1.0
    assert model.module(w).state_dict()["5.running_var"].tolist() == [0.0, 0.0, 0.0]
    assert np.isfinite(model.evaluate(w, images().train)["loss"])


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"combine": "sum"}, r'layer 2 \(BatchNorm1d\) keeps .* 2 times too far; use clients.combine = "mean"'),
        ({"blocks": 2}, "must move; leave schedule.blocks out"),
        (
            {"mechanism": "minibatch"},
            r"layer 2 \(BatchNorm1d\) of Sequential keeps running .*; use GroupNorm in its place",
        ),
        (
            {"mechanism": "batch-clip"},
            r"layer 2 \(BatchNorm1d\) of Sequential keeps running .*; use GroupNorm in its place",
        ),
    ],
)
def test_running_statistics_that_cannot_be_averaged_or_hidden_are_refused(more: dict[str, Any], sentence: str) -> None:
    asked = with_rounds(2)
    if "combine" in more:
        asked["clients"]["combine"] = more["combine"]
    if "blocks" in more:
        asked["schedule"]["blocks"] = 2
    if "mechanism" in more:
        asked["privacy"] = more | {"sigma": 1.0, "delta": 1e-5, "clip": 0.5, "records": [24, 24]}
    with pytest.raises(CrescendoError, match=sentence):
        crescendo.simulate(asked, objective=crescendo.torch.model(normalised(), batch=8), data=images())


def test_a_batch_of_one_that_a_layer_cannot_take_names_batch_and_sizes() -> None:
    asked = with_rounds(2)
    asked["schedule"]["sizes"]["size"] = 18  # nine a client: a batch of 8, and one more
    with pytest.raises(ConfigError, match=r"BatchNorm1d\) needs two records or more.* set batch .* whole batches"):
        crescendo.simulate(asked, objective=crescendo.torch.model(normalised(), batch=8), data=images())


def test_random_layers_are_refused_with_privacy() -> None:
    data = images()
    private = {"mechanism": "minibatch", "sigma": 1.0, "delta": 1e-5, "clip": 0.5, "records": [24, 24]}
    asked = {
        "clients": {"count": 2},
        "schedule": {"rounds": 2, "sizes": {"kind": "constant", "size": 20}, "steps": {"kind": "constant", "eta": 0.1}},
        "privacy": private,
    }
    with pytest.raises(Refused, match=r"layer 1 \(Dropout\) draws random numbers"):
        crescendo.simulate(
            asked, objective=crescendo.torch.model(nn.Sequential(small_net(), nn.Dropout(0.1))), data=data
        )
    with pytest.raises(Refused, match="local"):
        asked["privacy"] = private | {"mechanism": "local", "norm_bound": 2.0}
        crescendo.simulate(asked, objective=crescendo.torch.model(small_net()), data=data)


# -- from a file -----------------------------------------------------------------------------------------------------------

FILE = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, features, hidden=4):
        super().__init__(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 3))
"""


def test_a_module_of_a_file_is_named_in_a_run_file(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FILE)
    (tmp_path / "run.toml").write_text(
        """
[data]
source = "wine"
[clients]
count = 2
combine = "mean"
[objective]
kind = "torch:net.py:Net"
options = {hidden = 5, batch = 4}
[schedule]
rounds = 3
sizes = {kind = "constant", size = 40}
steps = {kind = "constant", eta = 0.1}
"""
    )
    found = crescendo.simulate(tmp_path / "run.toml")
    assert found.model.size == 13 * 5 + 5 + 5 * 3 + 3
    again = crescendo.simulate(tmp_path / "run.toml")
    assert np.array_equal(found.model, again.model)


def test_mistakes_in_such_a_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FILE)
    data = images().train
    with pytest.raises(ConfigError, match="takes no width"):
        ModelFile.read("torch:net.py:Net", tmp_path).made(data, {"width": 3})
    with pytest.raises(ConfigError, match=r"net\.py has no Nett; did you mean Net"):
        ModelFile.read("torch:net.py:Nett", tmp_path).made(data, {})
    (tmp_path / "wide.py").write_text(FILE.replace("hidden=4", "hidden"))
    with pytest.raises(ConfigError, match=r"Net needs hidden, .* objective\.options names; add hidden there"):
        ModelFile.read("torch:wide.py:Net", tmp_path).made(data, {})
    with pytest.raises(ConfigError, match="batch must be a whole number, 1 or more"):
        ModelFile.read("torch:net.py:Net", tmp_path).made(data, {"batch": 0})
