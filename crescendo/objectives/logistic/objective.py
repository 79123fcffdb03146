"""Logistic regression, plain (l2 = 0) or strongly convex, over dense or CSR records.

    F(w) = sum_i p_i log(1 + exp(-y_i z_i)) + l2/2 |w|^2,     z_i = w . (x_i, 1)

with labels y in {-1, +1}. The intercept is the last coordinate, and L2 covers it: else F would not be l2-strongly
convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints, Vector
from crescendo.core.machine import usable_cores
from crescendo.errors import DataError, UsageError
from crescendo.objectives.base import Block, Stepper, Traits
from crescendo.objectives.weighting import shares

if TYPE_CHECKING:
    from crescendo.data.records import Records

METRICS = ("loss", "accuracy", "auc")
_admitted: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # data whose labels and indices were checked
_NONE = np.empty(0, dtype=np.int32)


@dataclass(frozen=True)
class Logistic:
    """Logistic regression on ``features`` features.

    >>> Logistic(features=3, l2=0.01).size, Logistic(3, intercept=False).size
    (4, 3)
    """

    features: int
    l2: float = 0.0
    intercept: bool = True
    dtype: Any = "float64"  # of the local model while it moves; models come and go as float64

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        if self.features < 1:
            raise UsageError(f"logistic regression needs at least one feature, got {self.features}")
        if not 0 <= self.l2 < math.inf:
            raise UsageError(f"l2 must be 0 or a positive number, got {self.l2}")
        if self.dtype not in (np.float32, np.float64):
            raise UsageError(f"dtype must be float32 or float64, got {self.dtype}")

    @property
    def size(self) -> int:
        return self.features + self.intercept

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

    def initial(self, rng: np.random.Generator) -> Floats:
        return np.zeros(self.size)

    def gradient(
        self,
        w: Vector,
        data: Records,
        rows: Ints,
        clip: float | None = None,
        block: Block | None = None,
        unit: float | None = None,
    ) -> Floats:
        """Sum of the gradients of ``rows`` without the L2 part, each clipped over (x, 1) if asked; the block's if given.

        With ``unit``, a power of two, each record's gradient is rounded to multiples of it, so that the sum is exact.
        """
        from crescendo.objectives.logistic.kernels import sum_dense, sum_sparse

        self.admit(data)
        x: Any = data.x
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(data):
            raise UsageError(f"a record outside 0..{len(data) - 1} was asked for")
        total, model, limits = np.zeros(self.size), np.array(w, dtype=np.float64), (clip or 0.0, unit or 0.0)
        if isinstance(x, np.ndarray):
            sum_dense(total, model, x, self.features, data.y, rows, *limits)
        else:
            sum_sparse(total, model, x.data, x.indices, x.indptr, self.features, data.y, rows, *limits)
        return total[slice(*(block or (0, self.size)))]

    def mean_gradient(self, w: Vector, data: Records, weighted: npt.ArrayLike | None = None) -> Floats:
        """The gradient of F, L2 included."""
        self.admit(data)
        weights = shares(weighted, len(data))
        slopes = _slopes(self.margins(w, data.x), data.y)
        return self.pulled(data.x, slopes / len(data) if weights is None else slopes * weights) + self.l2 * w

    def decide(self, w: Vector, data: Records) -> Ints:
        """The place among the two classes that each record's margin speaks for: a margin of 0 for the second.

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
        """Scores of one model, or of a stack of models (2-d, one a row) in one pass: then arrays, the same bits as one by one.

        ``weighted``: row weights (see `weights_of_rows`), uniform if None. A margin of 0 counts as +1; one that is not
        a number counts as wrong. "auc" is nan where the labels are all equal or a margin is not a number.

        >>> from crescendo.data.records import Records
        >>> data = Records(np.array([[1.0], [2.0]]), np.array([-1.0, 1.0]))
        >>> Logistic(1).evaluate(np.zeros(2), data)["accuracy"], Logistic(1).evaluate(np.zeros((3, 2)), data)["accuracy"]
        (0.5, array([0.5, 0.5, 0.5]))
        """
        if unknown := set(metrics) - set(METRICS):
            raise UsageError(f"no metric {sorted(unknown)[0]!r}; choose from {', '.join(METRICS)}")
        self.admit(data)
        weights = shares(weighted, len(data))
        models = np.atleast_2d(np.asarray(w, dtype=np.float64))
        if models.ndim != 2 or models.shape[1] != self.size:
            raise UsageError(f"a model of {self.size} coordinates was due, got an array of shape {np.shape(w)}")
        scores: dict[str, Any] = {}
        losses, hits = _score(models, data, weights, self.features, "loss" in metrics, "accuracy" in metrics)
        if "loss" in metrics:
            scores["loss"] = losses + self.l2 / 2 * np.sum(models * models, axis=1) if self.l2 else losses
        if "accuracy" in metrics:
            scores["accuracy"] = hits
        if "auc" in metrics:
            scores["auc"] = np.array([_auc(self.margins(model, data.x), data.y, weights) for model in models])
        return scores if np.ndim(w) == 2 else {name: float(values[0]) for name, values in scores.items()}

    def stepper(self, data: Records) -> Stepper:
        from crescendo.objectives.logistic.stepper import LogisticStepper

        self.admit(data)
        return LogisticStepper(self, data)

    def admit(self, data: Records) -> None:
        """Refuse data the compiled loops would misread; looked at once."""
        if _admitted.get(data) == self.features:
            return
        if data.x.shape[1] != self.features:
            raise DataError(f"the model has {self.features} features and the data {data.x.shape[1]}; make them equal")
        if not np.all(np.abs(data.y) == 1.0):
            raise DataError("logistic regression needs labels -1 and +1; choose two classes with data.classes")
        if not isinstance(data.x, np.ndarray):
            indices = data.x.indices
            if indices.size and not 0 <= indices.min() <= indices.max() < self.features:
                raise DataError(f"the sparse data have a column outside 0..{self.features - 1}; parse the file again")
            if not data.x.has_canonical_format:
                raise DataError("the sparse data have unsorted or repeated columns; call x.sum_duplicates() first")
        _admitted[data] = self.features

    def margins_and_slopes(self, w: Vector, data: Records) -> tuple[Floats, Floats]:
        """z and d/dz log(1 + exp(-y z)) of every record."""
        z = self.margins(w, data.x)
        return z, _slopes(z, data.y)

    def margins(self, w: Vector, x: Any) -> Floats:
        """w . (x, 1) for every row of a matrix."""
        with np.errstate(all="ignore"):  # a model that diverged shows in what comes out
            margins: Floats = x @ np.asarray(w[: self.features], dtype=np.float64)
        return np.asarray(margins + w[self.features]) if self.intercept else margins

    def pulled(self, x: Any, slopes: Floats) -> Floats:
        """The sum of slope * (x, 1) over the rows of a matrix."""
        gradient = np.asarray(x.T @ slopes)
        return np.append(gradient, slopes.sum()) if self.intercept else gradient


def _slopes(margins: Floats, y: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(-y * expit(-y * margins))


def _clipped_smoothness(norm_bound: float, clip: float) -> float:
    """How smooth one record's clipped loss is: the largest slope' r^2 over records of length r <= R that are not clipped.

    With p the sigmoid, slope' = p (1 - p), and a record is not clipped while p r <= C: at r = R that is C (R - C)
    for R >= 2C, and R^2/4 below, where nothing is clipped at the steepest point.

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
    """Mean losses (without L2) and hit rates of all models, over threads where there is enough to do."""
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
    """Chunk after chunk: numpy's own sum takes another order when there is one model only."""
    return np.cumsum(sums, axis=0)[-1] if len(sums) else np.zeros(sums.shape[1])


def _in_threads(run: Callable[[int, int], None], chunks: int, work: int) -> None:
    threads = usable_cores()
    if threads == 1 or work < 1_000_000:
        run(0, chunks)
        return
    edges = np.linspace(0, chunks, 4 * threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, edges[:-1], edges[1:]))
