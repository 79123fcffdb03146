"""Softmax regression: one margin per class, over dense or CSR records.

    F(W) = sum_i p_i ( log sum_k exp(z_ik) - z_i,y_i ) + l2/2 |W|^2,     z_ik = W_k . (x_i, 1)

with class numbers y from 0 on. Number j * classes + k of the model is the weight of feature j for class k, intercepts
last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints, Vector
from crescendo.errors import DataError, UsageError
from crescendo.objectives.base import Traits
from crescendo.objectives.linear.linear_model import Kernels, LinearModel, scored
from crescendo.objectives.weighting import shares

if TYPE_CHECKING:
    from crescendo.data.records import Records

_AT_ONCE = 1 << 12  # records with margins in memory at once


@dataclass(frozen=True)
class Softmax(LinearModel):
    """Softmax regression on ``features`` features and ``classes`` classes.

    >>> Softmax(features=3, classes=4).size, Softmax(3, classes=4, intercept=False).size
    (16, 12)
    """

    classes: int = 2

    about, metrics = "softmax regression", ("loss", "accuracy")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 2:
            raise UsageError(f"softmax regression tells at least two classes apart, got {self.classes}")

    @property
    def size(self) -> int:
        return (self.features + self.intercept) * self.classes

    @property
    def loop_arguments(self) -> tuple[int]:
        """The loops take the number of classes."""
        return (self.classes,)

    @property
    def traits(self) -> Traits:
        """The Hessian in z is diag(p) - p p'; its largest eigenvalue is at most 1/2, reached with two classes at 1/2 each."""
        return Traits(
            name="softmax",
            l2=self.l2,
            convexity=self.l2,
            smoothness=lambda square: square / 2 + self.l2,
            no_margin="has a margin for each class: clipping such a gradient can bring two models further apart",
            intercept=self.intercept,
            features=self.features,
            clips=True,
            threads=True,
        )

    def summing(self) -> Kernels:
        from crescendo.objectives.softmax.softmax_kernels import sum_dense, sum_sparse

        return sum_dense, sum_sparse

    def stepping(self) -> Kernels:
        from crescendo.objectives.softmax.softmax_kernels import advance_dense, advance_sparse

        return advance_dense, advance_sparse

    def check_labels(self, y: Floats) -> None:
        if not np.isin(y, np.arange(self.classes)).all():
            raise DataError(f"softmax regression on {self.classes} classes needs class numbers 0 to {self.classes - 1}")

    def mean_gradient(self, w: Vector, data: Records, weighted: npt.ArrayLike | None = None) -> Floats:
        """Return the gradient of F, L2 included."""
        self.admit(data)
        weights, total = shares(weighted, len(data)), np.zeros((self.features + self.intercept, self.classes))
        for rows, z in self._margins(w, data):
            off = np.exp(z - _log_sums(z)[:, None])
            off[np.arange(len(off)), data.y[rows].astype(np.int64)] -= 1
            off *= 1 / len(data) if weights is None else weights[rows, None]
            total[: self.features] += data.x[rows].T @ off
            if self.intercept:
                total[self.features] += off.sum(axis=0)
        return total.ravel() + self.l2 * w

    def decide(self, w: Vector, data: Records) -> Ints:
        """Return the class of each record's largest margin; ties go to the first.

        >>> from crescendo.data.records import Records
        >>> data = Records(np.array([[-2.0], [3.0]]), np.zeros(2))
        >>> Softmax(1, classes=3, intercept=False).decide(np.array([-1.0, 0.0, 1.0]), data)
        array([0, 2])
        """
        return np.concatenate([np.argmax(z, axis=1) for _, z in self._margins(w, data)])

    def evaluate(
        self,
        w: Vector,
        data: Records,
        weighted: npt.ArrayLike | None = None,
        metrics: Sequence[str] = ("loss", "accuracy"),
    ) -> dict[str, Any]:
        """Score one model, or a stack of models (2-d, one per row), as arrays with the same bits as one by one.

        ``weighted``: row weights (see `weights_of_rows`), uniform if None. A record with a NaN margin counts as wrong.

        >>> from crescendo.data.records import Records
        >>> data = Records(np.array([[1.0], [2.0]]), np.array([0.0, 2.0]))
        >>> bool(abs(Softmax(1, classes=3).evaluate(np.zeros(6), data)["loss"] - np.log(3)) < 1e-15)
        True
        """
        models = self.stacked(w, metrics)
        self.admit(data)
        weights = shares(weighted, len(data))
        each = np.array([self._score(model, data, weights) for model in models])
        found = {"loss": each[:, 0] + self.penalties(models), "accuracy": each[:, 1]}
        return scored({name: found[name] for name in metrics}, w)

    def _score(self, w: Floats, data: Records, weights: Floats | None) -> tuple[float, float]:
        """Return the mean loss (without L2) and the share of correctly classified records."""
        losses, hits = np.empty(len(data)), np.empty(len(data))
        with np.errstate(all="ignore"):  # a diverged model shows in the results
            for rows, z in self._margins(w, data):
                own, each = data.y[rows].astype(np.int64), np.arange(len(z))
                losses[rows] = _log_sums(z) - z[each, own]
                hits[rows] = (np.argmax(z, axis=1) == own) & ~np.isnan(z).any(axis=1)
            return float(np.average(losses, weights=weights)), float(np.average(hits, weights=weights))

    def _margins(self, w: Vector, data: Records) -> Iterator[tuple[slice, Floats]]:
        """Yield the margins of some records at a time, one row each."""
        table = np.asarray(w, dtype=np.float64).reshape(-1, self.classes)
        for first in range(0, len(data), _AT_ONCE):
            rows = slice(first, min(first + _AT_ONCE, len(data)))
            with np.errstate(all="ignore"):
                z = np.asarray(data.x[rows] @ table[: self.features])
                yield rows, z + table[self.features] if self.intercept else z


def _log_sums(z: Floats) -> Floats:
    """Return log sum_k exp(z_k) of every row."""
    largest = z.max(axis=1)
    return np.asarray(largest + np.log(np.exp(z - largest[:, None]).sum(axis=1)))
