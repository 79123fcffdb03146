"""The cost of isolating a user's own code: a clipped gradient of `minibatch` with isolation, against the same code without.

Turns of both alternate in one run, so that the quotient is meaningful on a busy machine.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np

from crescendo.data import Records, load
from crescendo.objectives import ModelFile, OwnModel
from crescendo.objectives.base import Slots
from crescendo.privacy.mechanisms.minibatch import FrozenStepper

RECORDS, TURNS = 512, 9


def models(data: Records) -> dict[str, OwnModel]:
    found = {
        "numpy, softmax of 10 classes": ModelFile.read(
            f"{Path(__file__).parents[2]}/examples/own_model.py:Softmax"
        ).made(data, {})
    }
    try:
        from torch import nn

        import crescendo

        net = nn.Sequential(nn.Linear(data.features, 64), nn.ReLU(), nn.Linear(64, 10))
        found["torch, a hidden layer of 64"] = OwnModel(crescendo.torch.model(net), data)
    except ImportError:
        pass
    try:
        import jax

        import crescendo

        def loss(w, x, y):  # type: ignore[no-untyped-def]
            return -jax.numpy.take_along_axis(jax.nn.log_softmax(x @ w), y[:, None], 1).mean()

        found["JAX, softmax of 10 classes"] = OwnModel(
            crescendo.jax.model(loss, np.zeros((data.features, 10), np.float32)), data
        )
    except ImportError:
        pass
    return found


def seconds(goal: OwnModel, data: Records, exposed: bool) -> float:
    stepper = FrozenStepper(goal, data)
    stepper.load(np.zeros(goal.size))
    slots = Slots(np.arange(RECORDS), np.ones(1), ends=np.array([RECORDS]), clip=1.0, unit=2.0**-40)
    start = time.perf_counter()
    if exposed:
        with goal.exposed():
            stepper.advance(slots, 0, 1)
    else:
        stepper.advance(slots, 0, 1)
    return time.perf_counter() - start


def main() -> None:
    data = load("synthetic:rows=2000,features=100").train
    for name, goal in models(data).items():
        for exposed in (False, True):
            seconds(goal, data, exposed)
        pairs = [(seconds(goal, data, True), seconds(goal, data, False)) for _ in range(TURNS)]
        before = statistics.median(plain for plain, _ in pairs) / RECORDS
        ratio = statistics.median(isolated / plain for plain, isolated in pairs)
        print(f"{name}: {ratio:.2f} times the {1e6 * before:.0f} us of a record's gradient as the code is")


if __name__ == "__main__":
    main()
