"""Base of the built-in regressions: a model linear in (x, 1), over dense or CSR records, moved by compiled loops.

The intercept is the last coordinate (softmax has one per class). L2 covers it: otherwise F would not be l2-strongly
convex.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints, Vector
from crescendo.errors import DataError, UsageError
from crescendo.objectives.base import Block, Stepper, Traits

if TYPE_CHECKING:
    from crescendo.data.records import Records

Kernels = tuple[Callable[..., Any], Callable[..., Any]]  # for dense records and for sparse ones
_admitted: WeakKeyDictionary[Any, set[Any]] = WeakKeyDictionary()  # models for which the data were checked


@dataclass(frozen=True)
class LinearModel(ABC):
    """A regression on ``features`` features."""

    features: int
    l2: float = 0.0
    intercept: bool = True
    dtype: Any = "float64"  # of the moving local model; models are passed as float64

    about: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        if self.features < 1:
            raise UsageError(f"{self.about} needs at least one feature, got {self.features}")
        if not 0 <= self.l2 < math.inf:
            raise UsageError(f"l2 must be 0 or a positive number, got {self.l2}")
        if self.dtype not in (np.float32, np.float64):
            raise UsageError(f"dtype must be float32 or float64, got {self.dtype}")

    @property
    def size(self) -> int:
        return self.features + self.intercept

    def initial(self, rng: np.random.Generator) -> Floats:
        return np.zeros(self.size)

    # -- defined by each regression ------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def traits(self) -> Traits: ...

    @property
    @abstractmethod
    def loop_arguments(self) -> tuple[int, ...]:
        """Arguments that only this model's loops take, after all others."""

    @abstractmethod
    def summing(self) -> Kernels:
        """Return the loops that sum gradients. Importing them loads numba."""

    @abstractmethod
    def stepping(self) -> Kernels:
        """Return the loops that take steps."""

    @abstractmethod
    def check_labels(self, y: Floats) -> None:
        """Raise DataError for labels that this model cannot use."""

    @abstractmethod
    def evaluate(
        self, w: Vector, data: Records, weighted: npt.ArrayLike | None = None, metrics: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Score one model, or a stack of models as arrays: see `Objective`."""

    def labels_of(self, y: Floats) -> Floats:
        """Return the labels in the form that the loss takes."""
        return y

    # -- shared by all -------------------------------------------------------------------------------------------------

    def gradient(
        self,
        w: Vector,
        data: Records,
        rows: Ints,
        clip: float | None = None,
        block: Block | None = None,
        unit: float | None = None,
    ) -> Floats:
        """Return the sum of the gradients of ``rows`` without L2, each optionally clipped over all coordinates; the
        block's if given.

        With ``unit``, a power of two, each record's gradient is rounded to multiples of it, so that the sum is exact.
        """
        self.admit(data)
        x: Any = data.x
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(data):
            raise UsageError(f"there is no record outside 0..{len(data) - 1}")
        dense, sparse = self.summing()
        total, model = np.zeros(self.size), np.array(w, dtype=np.float64)
        rest = (self.features, self.labels_of(data.y), rows, clip or 0.0, unit or 0.0, *self.loop_arguments)
        if isinstance(x, np.ndarray):
            dense(total, model, x, *rest)
        else:
            sparse(total, model, x.data, x.indices, x.indptr, *rest)
        return total[slice(*(block or (0, self.size)))]

    def stepper(self, data: Records) -> Stepper:
        from crescendo.objectives.linear.compiled_stepper import CompiledStepper

        self.admit(data)
        return CompiledStepper(self, data)

    def admit(self, data: Records) -> None:
        """Refuse data that the compiled loops would misread; checked once."""
        mine = (type(self), self.features, self.loop_arguments)
        if mine in _admitted.get(data, ()):
            return
        if data.x.shape[1] != self.features:
            raise DataError(f"the model has {self.features} features and the data {data.x.shape[1]}; make them equal")
        self.check_labels(data.y)
        if not isinstance(data.x, np.ndarray):
            indices = data.x.indices
            if indices.size and not 0 <= indices.min() <= indices.max() < self.features:
                raise DataError(f"the sparse data have a column outside 0..{self.features - 1}; parse the file again")
            if not data.x.has_canonical_format:
                raise DataError("the sparse data have unsorted or repeated columns; call x.sum_duplicates() first")
        _admitted.setdefault(data, set()).add(mine)

    def stacked(self, w: Vector, metrics: Sequence[str]) -> Floats:
        """Return models as rows; raise UsageError for a wrong shape or an unknown metric."""
        if unknown := set(metrics) - set(self.metrics):
            raise UsageError(f"no metric {sorted(unknown)[0]!r}; choose from {', '.join(self.metrics)}")
        models = np.atleast_2d(np.asarray(w, dtype=np.float64))
        if models.ndim != 2 or models.shape[1] != self.size:
            raise UsageError(f"a model of {self.size} coordinates was due, got an array of shape {np.shape(w)}")
        return models

    def penalties(self, models: Floats) -> Floats:
        """Return l2/2 |w|^2 of models given as rows."""
        return self.l2 / 2 * np.sum(models * models, axis=1) if self.l2 else np.zeros(len(models))


def scored(scores: dict[str, Floats], w: Vector) -> dict[str, Any]:
    """Return scores as numbers for one model, and as arrays for a stack of models."""
    return scores if np.ndim(w) == 2 else {name: float(values[0]) for name, values in scores.items()}
