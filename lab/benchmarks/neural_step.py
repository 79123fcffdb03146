"""LeNet-5, steps of one record: torch as in every tutorial, our torch stepper, and our JAX stepper.

All begin with the same weights and take the same steps; the answers are compared. They are timed in turns, so that other load on
the machine affects all of them equally. The network is written twice in JAX: first with the library's convolution, as most
people would write it, then as in our package, with products of plain matrices alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import nn

import crescendo
from crescendo.core.arrays import Floats
from crescendo.data.records import Records
from crescendo.objectives.base import Slots
from crescendo.objectives.model_file import ModelFile
from crescendo.objectives.nets.torch_nets import lenet
from crescendo.objectives.own import OwnModel

STEPS, TURNS, ETA = 256, 25, 0.01


def library_convolution(x: Any, weight: Any, pad: int) -> Any:
    sides = ("NCHW", "OIHW", "NCHW")
    return jax.lax.conv_general_dilated(x, weight, (1, 1), [(pad, pad)] * 2, dimension_numbers=sides)


def loss(params: Any, x: Any, y: Any) -> Any:
    """LeNet-5 with the library's convolution, and the parameters in torch's own order and shapes."""
    x, pairs = x.reshape(-1, 1, 28, 28), list(zip(params[::2], params[1::2], strict=True))
    for (weight, bias), pad in zip(pairs[:2], (2, 0), strict=True):
        x = jax.nn.relu(library_convolution(x, weight, pad) + bias[:, None, None])
        count, channels, side, _ = x.shape
        x = x.reshape(count, channels, side // 2, 2, side // 2, 2).max(axis=(3, 5))
    x = x.reshape(len(x), -1)
    for weight, bias in pairs[2:-1]:
        x = jax.nn.relu(x @ weight.T + bias)
    outputs = jax.nn.log_softmax(x @ pairs[-1][0].T + pairs[-1][1])
    return -jnp.take_along_axis(outputs, y[:, None], axis=1).mean()


def eager(net: nn.Module, data: Records, slots: Slots) -> Floats:
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y).long()
    optimiser = torch.optim.SGD(net.parameters(), lr=ETA)
    for row in slots.rows.tolist():
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[row : row + 1]), y[row : row + 1]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return np.concatenate([value.detach().numpy().ravel() for value in net.parameters()]).astype(np.float64)


def ours(objective: OwnModel, data: Records, slots: Slots, start: Floats) -> Floats:
    stepper = objective.stepper(data)
    stepper.load(start)
    stepper.advance(slots, 0, len(slots))
    return stepper.read()


def made() -> nn.Module:
    torch.manual_seed(0)
    return lenet(784)


def main() -> None:
    """Print steps a second and the speed relative to torch's own loop, the median of all turns; last, the time to compile."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    data = Records(rng.random((256, 784), dtype=np.float32), rng.integers(0, 10, 256).astype(np.float64))
    slots = Slots(rng.integers(0, 256, STEPS), np.full(STEPS, ETA))
    params = [value.detach().numpy().copy() for value in made().parameters()]
    start = np.concatenate([value.ravel() for value in params]).astype(np.float64)
    goals = {
        "torch, our stepper": ModelFile.read("torch:lenet").made(data, {}),
        "jax, lax.conv": OwnModel(crescendo.jax.model(loss, params), data),
        "jax, ours": ModelFile.read("jax:lenet").made(data, {}),
    }
    rivals: dict[str, Callable[[], Floats]] = {"torch, eager": lambda: eager(made(), data, slots)}
    rivals |= {name: partial(ours, goal, data, slots, start) for name, goal in goals.items()}
    took: dict[str, list[float]] = {}
    due = rivals["torch, eager"]()
    for name, run in rivals.items():
        began = time.perf_counter()
        np.testing.assert_allclose(run(), due, atol=1e-4)
        print(f"{name}: the first {STEPS} steps took {time.perf_counter() - began:.2f} s, same answers", flush=True)
    for _ in range(TURNS):
        for name, run in rivals.items():
            began = time.perf_counter()
            run()
            took.setdefault(name, []).append(time.perf_counter() - began)
    first = np.array(took["torch, eager"])
    for name, times in took.items():
        ratio = np.median(first / np.array(times))
        print(f"{name}: {STEPS / np.median(times):,.0f} steps/s, {ratio:.2f} of torch eager", flush=True)


if __name__ == "__main__":
    main()
