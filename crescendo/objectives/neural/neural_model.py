"""Base of torch and JAX models, the user's own; `OwnModel` makes an objective of either."""

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
_MOST_AT_ONCE = 32  # records in a chunk; a partial chunk costs as much as a full one
_OURS = ("batch", "l2", "shape", "optimiser", "momentum")


class Options(NamedTuple):
    """Training options of a neural model; `crescendo.torch.model` documents them."""

    shape: tuple[int, ...] = ()
    batch: int = 1
    l2: float = 0.0
    optimiser: str = "sgd"
    momentum: float = 0.0

    def check(self) -> None:
        """Raise ConfigError for invalid options."""
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
            raise ConfigError("adam has its own momentum; remove the option momentum")


def optimiser_of(call: str, optimiser: str, optimizer: Any, others: Mapping[str, Any]) -> str:
    """Return the optimiser's name, given in either spelling or as a torch class; raise ConfigError for unknown options.

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
    """Options, record shape and labels, and sums of clipped gradients. A subclass computes the gradients."""

    name: str
    size: int
    dtype: np.dtype[Any]

    def __init__(self, options: Options) -> None:
        options.check()
        _, self.batch, self.l2, self.optimiser, self.momentum = options
        self.shape = tuple(options.shape)
        self.between: Callable[[], None] | None = (
            None  # called before each call of the user's code, to restore its state
        )

    @property
    def plain_steps(self) -> bool:
        """True if a round's steps can be taken as one, by the sum of gradients."""
        return self.optimiser == "sgd" and not self.momentum

    @property
    @abstractmethod
    def clips(self) -> bool:
        """True if many records' gradients can be computed at once; otherwise the caller passes one record at a time."""

    @property
    def slow(self) -> str | None:
        """The note about a model whose gradients cannot be computed at once."""
        if self.clips:
            return None
        return (
            f"{self.name} cannot be computed for many records at once so that each is as if it were alone; their gradients are "
            "computed one by one, which takes several times as long"
        )

    @property
    def at_once(self) -> int:
        """The number of records' gradients held at once, for any number drawn."""
        return max(1, min(_MOST_AT_ONCE, _NUMBERS_AT_ONCE // self.size))

    @abstractmethod
    def alone(self) -> AbstractContextManager[None]:
        """Return a context for computing: one thread, and none of the caller's settings."""

    @property
    def own_code(self) -> tuple[Any, ...]:
        """Return the user's code that runs on records and may keep some of them."""
        return ()

    @property
    def copied(self) -> list[Any]:
        """Return the part of it that is copied for each call anyway."""
        return []

    def refuse_callbacks(self) -> None:
        """Refuse, from now on, code that leaves its compiled program; uncompiled code has none."""
        return

    @property
    @abstractmethod
    def part_sizes(self) -> tuple[int, ...]:
        """Return the size of each tensor of the model, in the order of the vector."""

    @abstractmethod
    def gradients_at(self, w: Vector, data: Records) -> Callable[[Ints], Parts]:
        """Return a function that gives, per tensor, one row for each of up to `at_once` records. Called within `alone`."""

    def gradient(
        self,
        w: Vector,
        data: Records,
        rows: Ints,
        clip: float | None = None,
        unit: float | None = None,
        layers: LayerClips | None = None,
    ) -> Floats:
        """Return the sum of the records' gradients; with ``clip`` each is clipped, and rounded to ``unit``, before it
        is added.

        With ``layers`` too, each layer is clipped separately.
        """
        clips = layers if clip is None or layers is not None else LayerClips(((self.size, clip),))
        found = ClippedSum(self.part_sizes, clips, unit or 0.0)
        with self.alone(), np.errstate():  # undo settings made by the model's code
            gradients = self.gradients_at(w, data)
            for first in range(0, len(rows), self.at_once):
                chunk = rows[first : first + self.at_once]
                found.add(gradients(chunk) if clip is None else self._whatever_happens(gradients, chunk))
        return found.total

    def _whatever_happens(self, gradients: Callable[[Ints], Parts], rows: Ints) -> Parts:
        """Return gradients in a private round: a record on which the code fails counts as 0, since stopping would reveal it."""
        try:
            return gradients(rows)
        except BaseException as error:  # the code may even call sys.exit
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # from the user; in other threads only the code itself can have raised it
            if len(rows) == 1:
                return [np.zeros((1, size)) for size in self.part_sizes]
        return one_by_one(partial(self._whatever_happens, gradients), rows)

    def shape_of(self, data: Records) -> tuple[int, ...]:
        """Return the shape of one record as the model reads it."""
        shape = self.shape or data.shape or (data.features,)
        if math.prod(shape) != data.features:
            raise ConfigError(f"a record of shape {shape} does not have {data.features} numbers; check shape")
        return shape

    @staticmethod
    def labels_of(data: Records) -> Ints:
        """Return class numbers as integers."""
        return data.y.astype(np.int64)

    def penalty(self, w: Vector) -> float:
        return 0.5 * self.l2 * float(np.dot(w, w))


def one_by_one(gradients: Callable[[Ints], Parts], rows: Ints) -> Parts:
    """Return the gradients of records computed in separate calls."""
    each = [gradients(rows[k : k + 1]) for k in range(len(rows))]
    return [np.concatenate(tensor) for tensor in zip(*each, strict=True)]


def split_options(
    make: Any, name: str, features: int, options: dict[str, Any]
) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Split a run file's options: a maker of the model with the options it names and ``features``, and our own options."""
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
