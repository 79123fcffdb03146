"""Where a torch module computes. No GPU was at hand: the "meta" device, whose tensors have no numbers, stands in for one."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.errors import ConfigError, Refused
from crescendo.objectives.base import Slots

torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
from torch import nn  # noqa: E402

from crescendo.objectives.neural.torch_model import TorchModel  # noqa: E402
from tests.objectives.test_torch_model import images, objective, small_net  # noqa: E402

CONFIG: dict[str, Any] = {
    "clients": {"count": 2, "combine": "mean"},
    "schedule": {"gradients": 40, "sizes": {"kind": "constant", "size": 20}, "steps": {"kind": "constant", "eta": 0.1}},
}
PRIVATE = {"mechanism": "minibatch", "sigma": 2.0, "delta": 1e-5, "clip": 0.5, "records": 24}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> str:
    """A device to which a module can be moved; what comes back from it to the CPU is zeros."""

    def back(tensor: Any) -> Any:
        return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor

    monkeypatch.setattr(torch.Tensor, "cpu", back)
    monkeypatch.setattr(TorchModel, "_generators", lambda self: [torch.get_rng_state()])
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())  # it knows real devices only
    return "meta"


def test_a_run_on_the_cpu_by_name_is_the_run_without_a_name() -> None:
    data = images()
    found = [
        crescendo.simulate(CONFIG, objective=crescendo.torch.model(small_net(), **where), data=data).model
        for where in ({}, {"device": "cpu"}, {"device": torch.device("cpu")})
    ]
    assert all(np.array_equal(found[0], one) for one in found[1:])


def test_a_device_that_is_not_there_or_makes_no_sense_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for name, sentence in (
        ("cuda:99", "torch cannot compute on device 'cuda:99' .*; leave device out to compute on the CPU"),
        ("gpu", "torch cannot compute on device 'gpu'"),
        ("meta", "torch cannot compute on device 'meta'"),
        (3.5, "device must be the name of a torch device"),
    ):
        with pytest.raises(ConfigError, match=sentence) as told:
            crescendo.torch.model(small_net(), device=name)  # type: ignore[arg-type]
        assert "\n" not in str(told.value)
    (tmp_path / "net.py").write_text(
        "from torch import nn\ndef Net(features):\n    return nn.Sequential(nn.Flatten(), nn.Linear(features, 3))\n"
    )
    options = {"kind": f"torch:{tmp_path}/net.py:Net", "options": {"device": "cuda:99"}}
    with pytest.raises(ConfigError, match="torch cannot compute on device 'cuda:99'"):
        crescendo.simulate({**CONFIG, "objective": options}, data=images())
    options["options"] = {"device": "cpu"}
    assert crescendo.simulate({**CONFIG, "objective": options}, data=images()).rounds == 2


def test_a_module_in_two_places_is_refused() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Linear(8, 3, device="meta"))
    with pytest.raises(ConfigError, match=r"1\.weight of Sequential is on cpu and 2\.weight on meta; move the whole"):
        objective(net, images())


def test_all_that_a_round_touches_is_where_the_module_is(elsewhere: str) -> None:
    """An operation on tensors of two devices fails, so one that stayed behind would show."""
    data, loss = images(), nn.CrossEntropyLoss(weight=torch.ones(3))
    for optimiser in ({}, {"momentum": 0.5}, {"optimiser": "adam"}):
        model = crescendo.torch.model(small_net(), loss, batch=4, l2=0.1, device=elsewhere, **optimiser)
        assert model.device.type == "meta" and all(one.device.type == "meta" for one in model.net.parameters())
        stepper = model.stepper(data.train)
        stepper.load(np.ones(model.size))
        stepper.advance(Slots(np.arange(10), np.full(10, 0.1)), 0, 10)
        assert stepper.read().dtype == np.float64
        stepper.restore(stepper.export(), Slots(np.arange(10), np.full(10, 0.1)))
        assert model.gradient(np.ones(model.size), data.train, np.arange(5)).shape == (model.size,)
        assert model.clips, "made-up records are there too"
        assert model.measured_gradient(np.ones(model.size), data.train, np.arange(5)).shape == (model.size,)
        assert model.decide(np.ones(model.size), data.train).shape == (len(data.train),)
        assert all(one.device.type == "meta" for one in model.module(np.ones(model.size)).parameters())


def test_records_are_clipped_on_the_cpu_alone_and_displacements_anywhere(elsewhere: str) -> None:
    model = crescendo.torch.model(small_net(), device=elsewhere)
    assert model.unfit is not None and "tried on the CPU alone, not on meta" in model.unfit
    assert "batch-clip" in model.unfit
    assert crescendo.torch.model(small_net(), device="cpu").unfit is None


def test_minibatch_is_refused_for_a_module_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run itself is on the CPU: what is refused is a module that says it is not."""
    model = crescendo.torch.model(small_net())
    crescendo.simulate({**CONFIG, "privacy": PRIVATE}, objective=model, data=images())
    why = "is tried on the CPU alone, not on cuda; leave device out, or choose batch-clip"
    monkeypatch.setattr(TorchModel, "unfit", property(lambda self: why))
    with pytest.raises(Refused, match="the minibatch mechanism cannot be certified: is tried on the CPU alone"):
        crescendo.simulate({**CONFIG, "privacy": PRIVATE}, objective=model, data=images())
    kept = {**PRIVATE, "mechanism": "batch-clip"}
    assert crescendo.simulate({**CONFIG, "privacy": kept}, objective=model, data=images()).privacy is not None
