"""Softmax regression, steps of one record and clipped sums: our compiled loops against the same model as a JAX function.

    python -m lab.benchmarks.softmax_step

784 features and 10 classes, as MNIST has; a fifth of the numbers are not zero. Both begin with the same weights and take the same
steps; the answers are compared, then times are taken in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_array

import crescendo
from crescendo.core.arrays import Floats
from crescendo.data.records import Records, as_records
from crescendo.objectives.base import ClippingObjective, Slots
from crescendo.objectives.own import OwnModel
from crescendo.objectives.softmax.softmax_regression import Softmax

FEATURES, CLASSES, RECORDS, STEPS, TURNS, ETA = 784, 10, 2000, 2000, 9, 0.01
CLIP, UNIT = 1.0, 2.0**-40


def loss(params: Any, x: Any, y: Any) -> Any:
    """Return the loss of each record; the parameters are laid out as in `Softmax`."""
    said = jax.nn.log_softmax(x @ params[:-1] + params[-1])
    return -jnp.take_along_axis(said, y[:, None], axis=1)[:, 0]


def drawn(rng: np.random.Generator) -> Records:
    x = rng.random((RECORDS, FEATURES)) * (rng.random((RECORDS, FEATURES)) < 0.2)
    return as_records(x.astype(np.float32), rng.integers(0, CLASSES, RECORDS))


def steps(objective: Any, data: Records, slots: Slots, start: Floats) -> Callable[[], Floats]:
    stepper = objective.stepper(data)

    def run() -> Floats:
        stepper.load(start)
        stepper.advance(slots, 0, len(slots))
        return np.asarray(stepper.read())

    return run


def sums(objective: ClippingObjective, data: Records, slots: Slots, start: Floats) -> Callable[[], Floats]:
    return lambda: objective.gradient(start, data, slots.rows, CLIP, unit=UNIT)


def main() -> None:
    """Print records a second, the median of all turns, and the speed relative to JAX."""
    rng = np.random.default_rng(0)
    dense = drawn(rng)
    sparse = as_records(csr_array(dense.x), dense.y)
    start = 0.01 * rng.standard_normal((FEATURES + 1) * CLASSES)
    slots = Slots(rng.integers(0, RECORDS, STEPS), np.full(STEPS, ETA))
    params = start.reshape(-1, CLASSES).astype(np.float32)
    ours: Any = Softmax(FEATURES, classes=CLASSES)
    rival: Any = OwnModel(crescendo.jax.model(loss, params), dense)
    for what, made in (("steps", steps), ("clipped gradients", sums)):
        runs = {"jax": made(rival, dense, slots, start), "compiled, dense": made(ours, dense, slots, start)}
        runs["compiled, sparse"] = made(ours, sparse, slots, start)
        due, took = runs["jax"](), dict[str, list[float]]()
        for run in runs.values():
            np.testing.assert_allclose(run(), due, atol=2e-3 * np.abs(due).max())  # JAX computes in float32
        for _ in range(TURNS):
            for name, run in runs.items():
                began = time.perf_counter()
                run()
                took.setdefault(name, []).append(time.perf_counter() - began)
        for name, times in took.items():
            ratio = np.median(np.array(took["jax"]) / np.array(times))
            print(f"{what}, {name}: {STEPS / np.median(times):,.0f} a second, {ratio:.1f} times jax", flush=True)


if __name__ == "__main__":
    main()
