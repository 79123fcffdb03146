"""Base stepper of neural models: one client's model between and within rounds, for any library."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from crescendo.core.arrays import Array, Floats, Vector
from crescendo.errors import CrescendoError, UsageError
from crescendo.objectives.base import Slots, StepperState, stored
from crescendo.objectives.neural.neural_model import NeuralModel
from crescendo_dp.own_code import own_code_failed


class NeuralStepper(ABC):
    """The start of the round, in float64, and the displacement since, in the model's own floats.

    A local batch of b records is one step, by their mean gradient, at the last of its b slots; the last batch of a
    round may be smaller. An interruption of a round changes nothing: the slots alone determine the batches. The
    optimiser's state lasts one round.
    """

    def __init__(self, model: NeuralModel) -> None:
        self._trained = model
        self._origin: Floats = np.zeros(model.size)
        self._loaded: Floats = self._origin
        self._translated = False

    @abstractmethod
    def _reset(self) -> None:
        """Reset the optimiser's state."""

    @abstractmethod
    def _put(self, w: Floats) -> None:
        """Set the weights, rounded to the model's floats."""

    @abstractmethod
    def _in_full(self) -> Floats:
        """Return a copy of the weights."""

    @abstractmethod
    def _advance(self, slots: Slots, h0: int, h1: int) -> None: ...

    def load(self, w: Vector) -> None:
        self._reset()
        self._origin = np.array(w, dtype=np.float64)
        self._put(self._origin)
        self._loaded = self._in_full()
        self._translated = False

    def translate(self, by: Vector) -> None:
        """Move along with a newer global model; the displacement does not change by a bit."""
        moved = self._in_full() - self._loaded
        self._origin = self._origin + by
        self._put(self._origin + moved)
        self._loaded = self._in_full() - moved
        self._translated = True

    def read(self) -> Floats:
        """Return the round's start plus the displacement: the rounding of the start to the model's floats cancels out."""
        return np.asarray(self._origin + (self._in_full() - self._loaded))

    def _exported(self) -> dict[str, Array]:
        """Export the reference point if it is no longer the start; a subclass adds its weights and its optimiser."""
        return {"origin": self._origin, "loaded": self._loaded} if self._translated else {}

    def _go_on(self, state: StepperState) -> None:
        """Restore the same from a state; a subclass has already checked the rest."""
        if "origin" in state:
            origin, loaded = stored(state, "origin", self._origin), stored(state, "loaded", self._loaded)
            self._origin, self._loaded, self._translated = origin, loaded, True

    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        slots.check(h0, h1, len(self._origin))
        if slots.clip is not None:
            raise UsageError("the steps of a neural model clip nothing; minibatch and batch-clip do")
        with self._trained.alone():
            try:
                self._advance(slots, h0, h1)
            except CrescendoError:
                raise
            except Exception as error:
                raise own_code_failed(f"a step of {self._trained.name} failed with", error) from error
