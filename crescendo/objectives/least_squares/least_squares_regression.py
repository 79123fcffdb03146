"""Least squares, plain (l2 = 0) or ridge regression, over dense or CSR records with numeric labels.

    F(w) = sum_i p_i (z_i - y_i)^2 / 2 + l2/2 |w|^2,     z_i = w . (x_i, 1)

With a public ``label_range`` (a, b) every label is clipped to the range, a rule on each record alone that is part of
the terms. Private terms must have one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Vector
from crescendo.errors import DataError, UsageError
from crescendo.objectives.base import Traits
from crescendo.objectives.linear.linear_model import scored
from crescendo.objectives.linear.margin_model import MarginModel
from crescendo.objectives.weighting import shares

if TYPE_CHECKING:
    from crescendo.data.records import Records

_MOST = 1e60  # bound on labels, so that slopes and their products stay normal floats


@dataclass(frozen=True)
class LeastSquares(MarginModel):
    """Least squares on ``features`` features.

    >>> LeastSquares(features=3, l2=0.01).size, LeastSquares(2, label_range=(0.0, 5.0)).labels_of(np.array([7.0, -1.0, 2.0]))
    (4, array([5., 0., 2.]))
    """

    label_range: tuple[float, float] | None = None

    about, metrics = "least squares", ("loss", "rmse", "r2")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.label_range is not None:
            low, high = (float(bound) for bound in self.label_range)
            if not -_MOST <= low < high <= _MOST:
                raise UsageError(
                    f"objective.label_range is [lowest, highest] with -1e60 <= lowest < highest <= 1e60, got [{low:g}, {high:g}]"
                )
            object.__setattr__(self, "label_range", (low, high))

    @property
    def loop_arguments(self) -> tuple[bool]:
        """The margin loops square the loss."""
        return (True,)

    @property
    def traits(self) -> Traits:
        return Traits(
            name="least-squares",
            l2=self.l2,
            convexity=self.l2,
            smoothness=lambda square: square + self.l2,
            margin=_clipped_smoothness,
            intercept=self.intercept,
            features=self.features,
            clips=True,
            threads=True,
            numbers=True,
            label_range=self.label_range,
            scores=("rmse", "r2"),
        )

    def check_labels(self, y: Floats) -> None:
        if not np.isfinite(y).all():
            raise DataError("least squares needs labels that are finite numbers; leave out records that have none")

    def labels_of(self, y: Floats) -> Floats:
        return y if self.label_range is None else np.clip(y, *self.label_range)

    def slopes(self, margins: Floats, y: Floats) -> Floats:
        return np.asarray(margins - self.labels_of(y))

    def curvatures(self, slopes: Floats) -> Floats:
        return np.ones_like(slopes)

    def answers(self, w: Vector, data: Records) -> Floats:
        """Return the model's prediction for each record."""
        return self.margins(w, data.x)

    def evaluate(
        self,
        w: Vector,
        data: Records,
        weighted: npt.ArrayLike | None = None,
        metrics: Sequence[str] = ("loss", "rmse", "r2"),
    ) -> dict[str, Any]:
        """Score one model, or a stack of models (2-d, one per row), as arrays with the same bits as one by one.

        The loss is half the mean square with L2, for labels clipped to their range. "rmse" is the root of the mean
        squared error and "r2" the explained share of the labels' variance, both for unclipped labels; "r2" is nan if
        all labels are equal.

        >>> from crescendo.data.records import Records
        >>> data = Records(np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 6.0]))
        >>> scores = LeastSquares(1, intercept=False).evaluate(np.array([1.0]), data)
        >>> {name: round(value, 4) for name, value in scores.items()}
        {'loss': 1.5, 'rmse': 1.7321, 'r2': 0.3571}
        """
        models = self.stacked(w, metrics)
        self.admit(data)
        weights = shares(weighted, len(data))
        each = np.array([self._score(model, data, weights) for model in models])
        found = {"loss": each[:, 0] + self.penalties(models), "rmse": each[:, 1], "r2": each[:, 2]}
        return scored({name: found[name] for name in metrics}, w)

    def _score(self, w: Floats, data: Records, weights: Floats | None) -> tuple[float, float, float]:
        with np.errstate(all="ignore"):  # a diverged model shows in the results
            z = self.margins(w, data.x)
            loss = float(np.average((z - self.labels_of(data.y)) ** 2, weights=weights)) / 2
            error = float(np.average((z - data.y) ** 2, weights=weights))
            spread = float(np.average((data.y - np.average(data.y, weights=weights)) ** 2, weights=weights))
        return loss, math.sqrt(error) if error >= 0 else math.nan, 1 - error / spread if spread > 0 else math.nan


def _clipped_smoothness(norm_bound: float, clip: float) -> float:
    """Return the smoothness of one record's clipped loss: R^2 for any clip.

    The clipped gradient of a record of length r = |(x, 1)| is h(z) (x, 1), with h(z) = z - y cut to +-C/r. h never
    falls and has slope at most 1, so it is the derivative of a convex function of z, Huber's, with second derivative
    at most 1. In w this function is convex and r^2-smooth, and r <= R. Near z = y there is no clipping, so no smaller
    number holds.

    >>> _clipped_smoothness(norm_bound=3.0, clip=0.1)
    9.0
    """
    return norm_bound**2
