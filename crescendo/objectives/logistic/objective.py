"""Logistic regression, plain (l2 = 0) or strongly convex, over dense or CSR records.

    F(w) = sum_i p_i log(1 + exp(-y_i z_i)) + l2/2 |w|^2,     z_i = w . (x_i, 1)

with y = +1 for records of class 1 and -1 for those of class 0. (Labels -1 and +1 are accepted too.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints, Vector
from crescendo.core.machine import usable_cores
from crescendo.errors import DataError
from crescendo.objectives.base import Traits
from crescendo.objectives.linear.linear_model import scored
from crescendo.objectives.linear.margin_model import MarginModel
from crescendo.objectives.weighting import shares

if TYPE_CHECKING:
    from crescendo.data.records import Records

_NONE = np.empty(0, dtype=np.int32)


@dataclass(frozen=True)
class Logistic(MarginModel):
    """Logistic regression on ``features`` features.

    >>> Logistic(features=3, l2=0.01).size, Logistic(3, intercept=False).size
    (4, 3)
    """

    about, metrics = "logistic regression", ("loss", "accuracy", "auc")

    @property
    def loop_arguments(self) -> tuple[bool]:
        """The margin loops take the logistic loss, not the squared one."""
        return (False,)

    @property
    def traits(self) -> Traits:
        return Traits(
            name="logistic",
            l2=self.l2,
            convexity=self.l2,
            smoothness=lambda square: square / 4 + self.l2,
            margin=_clipped_smoothness,
            intercept=self.intercept,
            features=self.features,
            clips=True,
            threads=True,
        )

    def check_labels(self, y: Floats) -> None:
        if not (np.all((y == 0.0) | (y == 1.0)) or np.all(np.abs(y) == 1.0)):
            raise DataError("logistic regression takes two classes; choose two with data.classes")

    def slopes(self, margins: Floats, y: Floats) -> Floats:
        from scipy.special import expit

        signs = np.where(y > 0, 1.0, -1.0)
        return np.asarray(-signs * expit(-signs * margins))

    def curvatures(self, slopes: Floats) -> Floats:
        return np.asarray(np.abs(slopes) * (1 - np.abs(slopes)))

    def decide(self, w: Vector, data: Records) -> Ints:
        """Return the index of each record's predicted class; a margin of 0 means the second.

        >>> from crescendo.data.records import Records
        >>> Logistic(1).decide(np.array([1.0, 0.0]), Records(np.array([[-2.0], [3.0]]), np.zeros(2)))
        array([0, 1])
        """
        return (self.margins(w, data.x) >= 0).astype(np.int64)

    def evaluate(
        self,
        w: Vector,
        data: Records,
        weighted: npt.ArrayLike | None = None,
        metrics: Sequence[str] = ("loss", "accuracy"),
    ) -> dict[str, Any]:
        """Score one model, or in one pass a stack of models (2-d, one per row), as arrays with the same bits as one
        by one.

        ``weighted``: row weights (see `weights_of_rows`), uniform if None. A margin of 0 counts as +1, and a NaN as
        wrong. "auc" is nan if all labels are equal or a margin is NaN.

        >>> from crescendo.data.records import Records
        >>> data = Records(np.array([[1.0], [2.0]]), np.array([-1.0, 1.0]))
        >>> Logistic(1).evaluate(np.zeros(2), data)["accuracy"], Logistic(1).evaluate(np.zeros((3, 2)), data)["accuracy"]
        (0.5, array([0.5, 0.5, 0.5]))
        """
        models = self.stacked(w, metrics)
        self.admit(data)
        weights = shares(weighted, len(data))
        scores: dict[str, Any] = {}
        losses, hits = _score(models, data, weights, self.features, "loss" in metrics, "accuracy" in metrics)
        if "loss" in metrics:
            scores["loss"] = losses + self.penalties(models)
        if "accuracy" in metrics:
            scores["accuracy"] = hits
        if "auc" in metrics:
            scores["auc"] = np.array([_auc(self.margins(model, data.x), data.y, weights) for model in models])
        return scored(scores, w)


def _clipped_smoothness(norm_bound: float, clip: float) -> float:
    """Return the smoothness of one record's clipped loss: the largest slope' r^2 over unclipped records of length r
    <= R.

    With p the sigmoid, slope' = p (1 - p), and a record is unclipped while p r <= C. At r = R this gives C (R - C) for
    R >= 2C, and R^2/4 below, where the steepest point is unclipped.

    >>> _clipped_smoothness(norm_bound=5.0, clip=0.5), _clipped_smoothness(norm_bound=1.0, clip=2.0)
    (2.25, 0.25)
    """
    return clip * (norm_bound - clip) if norm_bound >= 2 * clip else norm_bound**2 / 4


def _auc(margins: Floats, y: Floats, weights: Floats | None) -> float:
    from sklearn.metrics import roc_auc_score

    if np.ptp(y) == 0 or np.isnan(margins).any():
        return math.nan
    return float(roc_auc_score(y > 0, margins, sample_weight=weights))


def _score(
    models: Floats, data: Records, weights: Floats | None, features: int, loss: bool, accuracy: bool
) -> tuple[Floats, Floats]:
    """Return mean losses (without L2) and hit rates of all models, in threads for large data."""
    from crescendo.objectives.logistic.scoring import CHUNK, score

    count, chunks = len(models), -(-len(data) // CHUNK)
    losses, hits = np.zeros((chunks if loss else 0, count)), np.zeros((chunks if accuracy else 0, count))
    x: Any = data.x
    values: tuple[Any, Any, Any] = (
        (x.reshape(-1), _NONE, _NONE) if isinstance(x, np.ndarray) else (x.data, x.indices, x.indptr)
    )
    order = np.empty(0, np.int64) if weights is None else np.argsort(weights, kind="stable")
    side_by_side = np.ascontiguousarray(models.T)
    of_rows = np.empty(0) if weights is None else weights

    def run(first: int, last: int) -> None:
        score(side_by_side, *values, data.y, order, of_rows, features, first, last, losses, hits)

    if loss or accuracy:
        _in_threads(run, chunks, work=count * values[0].size)
    total = len(data) if weights is None else 1.0
    return _in_order(losses) / total, _in_order(hits) / total


def _in_order(sums: Floats) -> Floats:
    """Sum chunk by chunk: numpy's own sum uses another order for a single model."""
    return np.cumsum(sums, axis=0)[-1] if len(sums) else np.zeros(sums.shape[1])


def _in_threads(run: Callable[[int, int], None], chunks: int, work: int) -> None:
    threads = usable_cores()
    if threads == 1 or work < 1_000_000:
        run(0, chunks)
        return
    edges = np.linspace(0, chunks, 4 * threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, edges[:-1], edges[1:]))
