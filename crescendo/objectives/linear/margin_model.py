"""Base of single-margin losses: F(w) = sum_i p_i phi(z_i, y_i) + l2/2 |w|^2, z_i = w . (x_i, 1), phi convex in z."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Vector
from crescendo.objectives.linear.linear_model import Kernels, LinearModel
from crescendo.objectives.weighting import shares

if TYPE_CHECKING:
    from crescendo.data.records import Records


@dataclass(frozen=True)
class MarginModel(LinearModel):
    """Logistic regression, or least squares."""

    @abstractmethod
    def slopes(self, margins: Floats, y: Floats) -> Floats:
        """Return d phi / dz of every record."""

    @abstractmethod
    def curvatures(self, slopes: Floats) -> Floats:
        """Return d^2 phi / dz^2 of every record, given its slope."""

    def summing(self) -> Kernels:
        from crescendo.objectives.linear.margin_kernels import sum_dense, sum_sparse

        return sum_dense, sum_sparse

    def stepping(self) -> Kernels:
        from crescendo.objectives.linear.margin_kernels import advance_dense, advance_sparse

        return advance_dense, advance_sparse

    def mean_gradient(self, w: Vector, data: Records, weighted: npt.ArrayLike | None = None) -> Floats:
        """Return the gradient of F, L2 included."""
        self.admit(data)
        weights = shares(weighted, len(data))
        slopes = self.slopes(self.margins(w, data.x), data.y)
        return self.pulled(data.x, slopes / len(data) if weights is None else slopes * weights) + self.l2 * w

    def margins_and_slopes(self, w: Vector, data: Records) -> tuple[Floats, Floats]:
        """Return z and d phi / dz of every record."""
        z = self.margins(w, data.x)
        return z, self.slopes(z, data.y)

    def margins(self, w: Vector, x: Any) -> Floats:
        """Return w . (x, 1) for every row of a matrix."""
        with np.errstate(all="ignore"):  # a diverged model shows in the results
            margins: Floats = x @ np.asarray(w[: self.features], dtype=np.float64)
        return np.asarray(margins + w[self.features]) if self.intercept else margins

    def pulled(self, x: Any, slopes: Floats) -> Floats:
        """Return the sum of slope * (x, 1) over the rows of a matrix."""
        gradient = np.asarray(x.T @ slopes)
        return np.append(gradient, slopes.sum()) if self.intercept else gradient
