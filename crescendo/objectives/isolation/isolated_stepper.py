"""Isolate a user's stepper: each call begins and ends with the code in its state at set-up (see `pristine`).

State in the stepper itself lasts a round, as the stepper is made for that round. State elsewhere ends with each call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crescendo.core.arrays import Floats, Vector
from crescendo.objectives.base import Slots, Stepper, StepperState, exported, resumed

if TYPE_CHECKING:
    from crescendo.objectives.isolation.pristine import Pristine


class IsolatedStepper:
    """Passes every call on to a stepper, isolated."""

    def __init__(self, stepper: Stepper, pristine: Pristine) -> None:
        self._stepper, self._pristine = stepper, pristine

    def load(self, w: Vector) -> None:
        with self._pristine:
            self._stepper.load(w)

    def translate(self, by: Vector) -> None:
        with self._pristine:
            self._stepper.translate(by)

    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        with self._pristine:
            self._stepper.advance(slots, h0, h1)

    def read(self) -> Floats:
        with self._pristine:
            return self._stepper.read()

    def export(self) -> StepperState | None:
        with self._pristine:
            return exported(self._stepper)

    def restore(self, state: StepperState, slots: Slots) -> None:
        with self._pristine:
            resumed(self._stepper, state, slots)
