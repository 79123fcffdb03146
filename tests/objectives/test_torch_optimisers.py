"""Local optimisers of torch modules: against torch's own, with the records of a private draw, and where they are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.core.terms import Terms
from crescendo.data.from_arrays import dataset
from crescendo.errors import ConfigError, Refused
from crescendo.objectives.base import LoopStepper, Slots
from crescendo.objectives.own import OwnModel
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps

torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
from torch import nn  # noqa: E402

RNG = np.random.default_rng(0)
DATA = dataset(RNG.normal(size=(40, 5)), RNG.integers(0, 3, 40), test=0.2, classes=[0, 1, 2])


def net(**more: Any) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).to(torch.float64)


def goal(**options: Any) -> OwnModel:
    return OwnModel(crescendo.torch.model(net(), **options), DATA.train)


def moved(objective: OwnModel, slots: Slots) -> Any:
    stepper = objective.stepper(DATA.train)
    stepper.load(objective.initial(np.random.default_rng(0)))
    stepper.advance(slots, 0, len(slots))
    return stepper.read()


def of_torch(optimiser: Any, slots: Slots) -> Any:
    """The same steps by torch's own optimiser."""
    model = net()
    made = optimiser(model.parameters())
    x, y = torch.from_numpy(np.asarray(DATA.train.x, dtype=np.float64)), torch.from_numpy(DATA.train.y).long()
    for h in range(len(slots)):
        for group in made.param_groups:
            group["lr"] = float(slots.etas[h])
        row = slots.rows[h : h + 1]
        made.zero_grad()
        nn.functional.cross_entropy(model(x[row]), y[row]).backward()  # type: ignore[no-untyped-call]
        made.step()
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])


@pytest.mark.parametrize(
    ("options", "optimiser"),
    [
        ({}, lambda p: torch.optim.SGD(p, lr=1.0)),
        ({"momentum": 0.9}, lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9)),
        ({"optimiser": "adam"}, lambda p: torch.optim.Adam(p, lr=1.0)),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_steps_are_those_of_torch_s_own_optimiser(options: dict[str, Any], optimiser: Any) -> None:
    slots = Slots(RNG.integers(0, len(DATA.train), 30), np.linspace(0.02, 0.01, 30))
    assert np.allclose(moved(goal(**options), slots), of_torch(optimiser, slots), atol=1e-12)


def test_the_state_of_an_optimiser_lasts_one_round() -> None:
    objective, slots = goal(optimiser="adam"), Slots(np.arange(10), np.full(10, 0.01))
    stepper, ends = objective.stepper(DATA.train), []
    for _ in range(2):
        stepper.load(objective.initial(np.random.default_rng(0)))
        stepper.advance(slots, 0, 10)
        ends.append(stepper.read())
    assert np.array_equal(ends[0], ends[1])


def test_slots_of_a_private_draw_are_stepped_as_by_every_stepper() -> None:
    """Empty slots shrink the model, full ones take a step for each of their records."""
    slots = Slots(np.array([3, 1, 4, 1]), np.array([0.1, 0.2, 0.05]), ends=np.array([0, 3, 4]), block=(2, 20))
    objective = goal(l2=0.3)
    loop = LoopStepper(objective, DATA.train)
    loop.load(objective.initial(np.random.default_rng(0)))
    loop.advance(slots, 0, 3)
    assert np.allclose(moved(objective, slots), loop.read(), atol=1e-12)


def test_a_drawn_batch_counts_by_its_public_size() -> None:
    """Four slots of a batch of 4 drew two records: their summed gradient over 4 is the step."""
    objective, slots = goal(batch=4), Slots(np.array([3, 8]), np.full(4, 0.1), ends=np.array([1, 1, 2, 2]))
    start = objective.initial(np.random.default_rng(0))
    due = start - 0.1 / 4 * objective.gradient(start, DATA.train, np.array([3, 8]))
    assert np.allclose(moved(objective, slots), due, atol=1e-12)


def certified(mechanism: str, objective: OwnModel) -> Any:
    terms = Terms(ConstantSizes(8), ConstantSteps(0.1), (1.0,), 4, ahead=1, whole_rounds=True)
    return certify(mechanism, terms, objective, clip=0.5, sigma=1.0, records=(40,))


@pytest.mark.parametrize("options", [{"optimiser": "adam"}, {"momentum": 0.5}])
def test_minibatch_takes_plain_steps_and_batch_clip_any(options: dict[str, Any]) -> None:
    certified("batch-clip", goal(**options))
    with pytest.raises(Refused, match="an optimiser of its own"):
        certified("minibatch", goal(**options))


def test_dropout_is_refused_by_minibatch_and_not_by_batch_clip() -> None:
    objective = OwnModel(crescendo.torch.model(nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3))), DATA.train)
    certified("batch-clip", objective)
    with pytest.raises(
        Refused, match=r"random numbers .*; remove it for a private run, or choose the mechanism batch-clip"
    ):
        certified("minibatch", objective)
    with pytest.raises(Refused, match="local mechanism needs a convex loss"):  # leaving it out would not do
        certified("local", objective)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"optimiser": "lion"}, 'optimizer must be "sgd" or "adam"'),
        ({"momentum": 1.0}, "momentum must be a number"),
        ({"momentum": "much"}, "momentum must be a number"),
        ({"optimiser": "adam", "momentum": 0.9}, "its own momentum"),
    ],
)
def test_what_is_no_optimiser_is_refused_in_a_sentence(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        goal(**options)


@pytest.mark.slow
def test_a_module_with_adam_and_dropout_is_trained_privately_by_batch_clip() -> None:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    config = {
        "clients": {"count": 2, "weights": "uniform", "combine": "mean"},
        "schedule": {
            "rounds": 3,
            "sizes": {"kind": "constant", "size": 16},
            "steps": {"kind": "constant", "eta": 0.01},
        },
        "privacy": {"mechanism": "batch-clip", "sigma": 1.0, "delta": 1e-5, "clip": 0.5, "records": 16},
    }
    model = crescendo.torch.model(made, optimiser="adam", batch=4)
    result = crescendo.simulate(config, objective=model, data=DATA)
    assert result.privacy is not None and np.isfinite(result.model).all()
    assert result.privacy["mechanism"] == "batch-clip"


def test_dropout_of_a_private_draw_differs_from_round_to_round() -> None:
    """`batch-clip` numbers the drawn records 0, 1, 2, ..., so that their rows say no more than how many they are."""
    torch.manual_seed(3)
    objective = OwnModel(crescendo.torch.model(nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3))), DATA.train)
    slots = Slots(np.arange(4), np.full(4, 0.1), ends=np.arange(1, 5))
    start = objective.initial(np.random.default_rng(0))

    def kept(begin: Any) -> Any:
        stepper, found = objective.stepper(DATA.train), []
        stepper.load(begin)
        for h in range(4):
            before = stepper.read()
            stepper.advance(slots, h, h + 1)
            found.append((stepper.read() != before)[:5].tolist())
        return found

    assert kept(start) == kept(start)
    assert kept(start) != kept(start + 1e-3), "another round, another start model, and the same masks"
