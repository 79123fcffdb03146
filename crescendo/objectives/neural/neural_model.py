"""What a torch module and a JAX function have in common as models of the user's own; `OwnModel` makes an objective of either."""

from __future__ import annotations

import inspect
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crescendo.core.arrays import Floats, Ints, Vector
from crescendo.errors import ConfigError
from crescendo.objectives.layer_clips import LayerClips
from crescendo.objectives.neural.clipping import ClippedSum, Parts

if TYPE_CHECKING:
    from crescendo.data.records import Records

_NUMBERS_AT_ONCE = 1 << 22  # of the gradients of a chunk: 16 MB of float32
_MOST_AT_ONCE = 32  # records in a chunk: a chunk that is not full is computed as if it were
_OURS = ("batch", "l2", "shape", "optimiser", "momentum")


class Options(NamedTuple):
    """How a neural model is trained: `crescendo.torch.model` says what each means."""

    shape: tuple[int, ...] = ()
    batch: int = 1
    l2: float = 0.0
    optimiser: str = "sgd"
    momentum: float = 0.0

    def check(self) -> None:
        """ConfigError, in one sentence, for what makes no sense."""
        if isinstance(self.batch, bool) or not isinstance(self.batch, int | np.integer) or self.batch < 1:
            raise ConfigError(f"batch must be a whole number, 1 or more, got {self.batch!r}")
        if isinstance(self.l2, str) or not 0 <= self.l2 < math.inf:
            raise ConfigError(f"l2 must be a number of at least 0, got {self.l2!r}")
        whole = isinstance(self.shape, tuple | list) and all(isinstance(n, int | np.integer) for n in self.shape)
        if not whole or not all(n > 0 for n in self.shape):
            raise ConfigError(f"shape must be that of one record, such as (1, 28, 28), got {self.shape!r}")
        if self.optimiser not in ("sgd", "adam"):
            raise ConfigError(f'optimizer must be "sgd" or "adam", got {self.optimiser!r}')
        if isinstance(self.momentum, str) or not 0 <= self.momentum < 1:
            raise ConfigError(f"momentum must be a number from 0 up to but not 1, got {self.momentum!r}")
        if self.optimiser == "adam" and self.momentum:
            raise ConfigError("adam has a momentum of its own; remove the option momentum")


def optimiser_of(call: str, optimiser: str, optimizer: Any, others: Mapping[str, Any]) -> str:
    """The name of the optimiser in either spelling, or as a class of torch; ConfigError for an option that no model has.

    >>> optimiser_of("torch", "sgd", "Adam", {})
    'adam'
    """
    if others:
        raise ConfigError(
            f"crescendo.{call}.model has no option {next(iter(others))}; it has shape, batch, l2, optimizer and momentum, and "
            'step sizes (steps={"kind": "constant", "eta": 0.1}), lengths and privacy are keywords of crescendo.simulate'
        )
    if optimizer is None:
        return optimiser
    if hasattr(optimizer, "param_groups"):
        rate = next((group["lr"] for group in optimizer.param_groups if "lr" in group), 0.1)
        raise ConfigError(
            f'an optimizer that holds parameters is of no use here, since every client has its own; write optimizer="'
            f'{type(optimizer).__name__.lower()}", and the step size as steps={{"kind": "constant", "eta": {rate}}}'
        )
    return optimizer.__name__.lower() if isinstance(optimizer, type) else str(optimizer).lower()


class NeuralModel(ABC):
    """Options, the shape and labels of records, and sums of clipped gradients. A subclass says how gradients are computed."""

    name: str
    size: int
    dtype: np.dtype[Any]

    def __init__(self, options: Options) -> None:
        options.check()
        _, self.batch, self.l2, self.optimiser, self.momentum = options
        self.shape = tuple(options.shape)
        self.between: Callable[[], None] | None = (
            None  # called before each call of the user's code, to put back what it keeps
        )

    @property
    def plain_steps(self) -> bool:
        """Whether a round's steps can be taken as one, by the sum of gradients."""
        return self.optimiser == "sgd" and not self.momentum

    @property
    @abstractmethod
    def clips(self) -> bool:
        """Whether many records' gradients can be had at once. If not, the code is shown one record at a time, by others."""

    @property
    def slow(self) -> str | None:
        """What to say of a model whose gradients cannot be had so."""
        if self.clips:
            return None
        return (
            f"{self.name} cannot be computed for many records at once so that each is as if it were alone; their gradients are "
            "computed one by one, which takes several times as long"
        )

    @property
    def at_once(self) -> int:
        """How many records' gradients are held at once, however many were drawn."""
        return max(1, min(_MOST_AT_ONCE, _NUMBERS_AT_ONCE // self.size))

    @abstractmethod
    def alone(self) -> AbstractContextManager[None]:
        """While it computes: one thread, and nothing that the caller has set."""

    @property
    def own_code(self) -> tuple[Any, ...]:
        """What runs of the user's when records are computed, and may keep something of them."""
        return ()

    @property
    def copied(self) -> list[Any]:
        """What of that is copied for each call anyway."""
        return []

    def refuse_callbacks(self) -> None:
        """Refuse code that leaves the program that was made of it, from here on. Code that is run as it is has no program."""
        return

    @property
    @abstractmethod
    def part_sizes(self) -> tuple[int, ...]:
        """How many numbers each tensor of the model has, in the order of the vector."""

    @abstractmethod
    def gradients_at(self, w: Vector, data: Records) -> Callable[[Ints], Parts]:
        """What gives, for each tensor of the model, one row for each of up to `at_once` records. Called within `alone`."""

    def gradient(
        self,
        w: Vector,
        data: Records,
        rows: Ints,
        clip: float | None = None,
        unit: float | None = None,
        layers: LayerClips | None = None,
    ) -> Floats:
        """The sum of the records' gradients; with ``clip`` each is clipped, and rounded to ``unit``, before it is added.

        With ``layers`` too, each layer is clipped by itself.
        """
        clips = layers if clip is None or layers is not None else LayerClips(((self.size, clip),))
        found = ClippedSum(self.part_sizes, clips, unit or 0.0)
        with self.alone(), np.errstate():  # what the model's code sets ends with its call
            gradients = self.gradients_at(w, data)
            for first in range(0, len(rows), self.at_once):
                chunk = rows[first : first + self.at_once]
                found.add(gradients(chunk) if clip is None else self._whatever_happens(gradients, chunk))
        return found.total

    def _whatever_happens(self, gradients: Callable[[Ints], Parts], rows: Ints) -> Parts:
        """The same for a private round: a record on which the code fails counts as 0, since stopping would tell of it."""
        try:
            return gradients(rows)
        except BaseException as error:  # the code may even call sys.exit
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # a person's; elsewhere only the code itself can have raised it
            if len(rows) == 1:
                return [np.zeros((1, size)) for size in self.part_sizes]
        return one_by_one(partial(self._whatever_happens, gradients), rows)

    def shape_of(self, data: Records) -> tuple[int, ...]:
        """Of one record, as the model reads it."""
        shape = self.shape or data.shape or (data.features,)
        if math.prod(shape) != data.features:
            raise ConfigError(f"a record of shape {shape} does not have {data.features} numbers; check shape")
        return shape

    @staticmethod
    def labels_of(data: Records) -> Ints:
        """Class numbers as whole numbers."""
        return data.y.astype(np.int64)

    def penalty(self, w: Vector) -> float:
        return 0.5 * self.l2 * float(np.dot(w, w))


def one_by_one(gradients: Callable[[Ints], Parts], rows: Ints) -> Parts:
    """The gradients of records that are computed in calls of their own."""
    each = [gradients(rows[k : k + 1]) for k in range(len(rows))]
    return [np.concatenate(tensor) for tensor in zip(*each, strict=True)]


def split_options(
    make: Any, name: str, features: int, options: dict[str, Any]
) -> tuple[Callable[[], Any], dict[str, Any]]:
    """A run file's options: what makes the model, with those it asks for by name and ``features``; and those that are ours."""
    ours = {key: value for key, value in options.items() if key in _OURS}
    theirs = {key: value for key, value in options.items() if key not in _OURS}
    asked = inspect.signature(make).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in asked.values())
    for option in theirs:
        if option not in asked and not anything:
            raise ConfigError(
                f"objective.options.{option} is given but {name} takes no {option}; remove that option, or add it to {name}"
            )
    given = {key: value for key, value in ({"features": features} | theirs).items() if anything or key in asked}
    for key, argument in asked.items():
        if (
            key not in given
            and argument.default is argument.empty
            and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD)
        ):
            raise ConfigError(
                f"{name} needs {key}, and is made with features and what objective.options names; add {key} there, or give it a "
                "default"
            )
    return (lambda: make(**given)), ours
