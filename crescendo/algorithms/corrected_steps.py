"""Local steps with a corrected gradient, for any objective, as in FedProx and SCAFFOLD.

A step w <- w - eta (g(w) + r(w)) is the objective's own step followed by a translation of -eta r(w), with w from
before the step. So the objective's stepper needs no change. It runs one step at a time, which costs about five extra
microseconds per step; `lab/benchmarks/rivals.py` measures it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints, Vector
from crescendo.errors import ConfigError
from crescendo.objectives.base import Objective, Slots, Stepper, Traits

if TYPE_CHECKING:
    from crescendo.data.records import Records


@runtime_checkable
class CorrectingClient(Protocol):
    """A client that corrects its local steps."""

    def correction(self, w: Floats, eta: float) -> Floats:
        """Return the correction to the gradient at ``w``; called once per step, with its step size."""


class CorrectedObjective(Objective):
    """An objective whose steps add a client's correction to every gradient."""

    def __init__(self, objective: Objective, client: CorrectingClient) -> None:
        self._objective, self._client = objective, client

    @property
    def size(self) -> int:
        return self._objective.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._objective.dtype

    @property
    def traits(self) -> Traits:
        return self._objective.traits

    def initial(self, rng: np.random.Generator) -> Vector:
        return self._objective.initial(rng)

    def gradient(self, w: Vector, data: Records, rows: Ints) -> Vector:
        return self._objective.gradient(w, data, rows)

    def evaluate(
        self, w: Vector, data: Records, weighted: npt.ArrayLike | None = None, metrics: Sequence[str] = ()
    ) -> dict[str, Any]:
        return self._objective.evaluate(w, data, weighted, metrics)

    def stepper(self, data: Records) -> Stepper:
        return CorrectedStepper(self._objective.stepper(data), self._client, self.traits.batch)


class CorrectedStepper:
    """Runs another stepper one step at a time; a step has ``batch`` slots, the last one of a round may have fewer.

    >>> from crescendo.objectives.base import LoopStepper
    >>> class Mean(Objective):                          # the loss |w - y|^2 / 2
    ...     def gradient(self, w, data, rows):
    ...         return w - data[rows]
    >>> class Pull:
    ...     def correction(self, w, eta):
    ...         return w + 1.0
    >>> stepper = CorrectedStepper(LoopStepper(Mean(), np.array([1.0, 3.0])), Pull())
    >>> stepper.load(np.full(1, 2.0)); stepper.advance(Slots(np.array([0, 1]), np.array([0.5, 0.1])), 0, 2); stepper.read()
    array([0.2])
    """

    def __init__(self, inner: Stepper, client: CorrectingClient, batch: int = 1) -> None:
        self._inner, self._client, self._batch = inner, client, batch

    def load(self, w: Vector) -> None:
        self._inner.load(w)

    def translate(self, by: Vector) -> None:
        self._inner.translate(by)

    def read(self) -> Floats:
        return self._inner.read()

    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        inner, h = self._inner, h0
        while h < h1:
            whole = min(h - h % self._batch + self._batch, len(slots))  # the end of the step that contains slot h
            stop = min(whole, h1)
            if stop < whole:
                inner.advance(slots, h, stop)
            else:
                eta = float(slots.etas[stop - 1]) * slots.factor
                by = -eta * self._client.correction(inner.read(), eta)
                inner.advance(slots, h, stop)
                inner.translate(by)
            h = stop


def check_correctable(name: str, traits: Traits) -> None:
    """Refuse a model whose steps are not those of SGD: the place of a correction in other steps is undefined."""
    if not traits.plain_steps:
        raise ConfigError(
            f'{name} corrects the steps of SGD, but {traits.name} has others; use optimiser = "sgd" without momentum'
        )
    if traits.running_layer is not None:
        raise ConfigError(
            f"{name} would also correct the running statistics of {traits.running_layer}; use a layer without them"
        )
