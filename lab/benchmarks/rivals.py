"""A corrected local step (FedProx, SCAFFOLD), one at a time, against the compiled loop of the steps that it corrects.

On 124 and on 785 coordinates, dense; with a correction of 0 both must end at the same model.
"""

from __future__ import annotations

import time
import timeit

import numpy as np

from crescendo.algorithms.corrected_steps import CorrectedObjective
from crescendo.core.arrays import Floats
from crescendo.data.records import Records
from crescendo.objectives.base import Slots, Stepper
from crescendo.objectives.logistic.objective import Logistic

STEPS = 20_000


class Held:
    """FedProx's pull towards 0."""

    def __init__(self, mu: float) -> None:
        self._mu = mu

    def correction(self, w: Floats, eta: float) -> Floats:
        return self._mu * w


def ran(stepper: Stepper, slots: Slots, start: Floats) -> Floats:
    stepper.load(start)
    stepper.advance(slots, 0, len(slots))
    return stepper.read()


def timed(stepper: Stepper, slots: Slots, start: Floats) -> float:
    """Return the processor time in seconds."""
    return min(timeit.repeat(lambda: ran(stepper, slots, start), timer=time.process_time, number=1, repeat=5))


def main() -> None:
    rng = np.random.default_rng(1)
    for features in (123, 784):
        data = Records(rng.normal(size=(1000, features)), rng.choice([-1.0, 1.0], 1000))
        goal, start = Logistic(features, l2=1e-3), np.zeros(features + 1)
        slots = Slots(rng.integers(0, 1000, STEPS), np.full(STEPS, 0.01))
        plain, held = goal.stepper(data), CorrectedObjective(goal, Held(0.1)).stepper(data)
        free = CorrectedObjective(goal, Held(0.0)).stepper(data)
        np.testing.assert_allclose(ran(free, slots, start), ran(plain, slots, start), rtol=1e-9, atol=1e-12)
        compiled, corrected = (timed(stepper, slots, start) for stepper in (plain, held))
        print(
            f"{features + 1} coordinates, {STEPS:,} steps: {corrected:.2f} s corrected, {1e6 * corrected / STEPS:.1f} us a step, "
            f"{corrected / compiled:.0f} times the compiled loop's {1e3 * compiled:.1f} ms"
        )


if __name__ == "__main__":
    main()
