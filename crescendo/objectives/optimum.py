"""The minimiser of F, the ideal end of a run, found to the last digits by Newton's method and cached on disk.

    w* = argmin F,     F = sum_c p_c F_c + l2/2 |w|^2,     G = 2 E |grad f(w*)|^2

G is N in Paper [thmsc2]; its bounds on E|w - w*|^2 are in `schedules.convergence`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats
from crescendo.errors import ConfigError, UsageError
from crescendo.objectives.base import Objective
from crescendo.objectives.linear.margin_model import MarginModel
from crescendo.objectives.weighting import mean_gradient, shares

if TYPE_CHECKING:
    from crescendo.data.records import Records

FORM = b"optimum 1"  # change it when the computation of w* changes
ENOUGH = 1e-10  # gradient norm to reach, times the largest |(x, 1)| if that is above 1
_DESCENT = {"maxiter": 200, "maxfun": 300}
LARGEST_HESSIAN = 3000  # coordinates; above this the Newton equations are solved by conjugate gradients


@dataclass(frozen=True, eq=False)
class Optimum:
    """The minimiser ``model``, its ``loss`` F*, G, and the remaining gradient norm."""

    model: Floats
    loss: float
    G: float
    gradient_norm: float

    @classmethod
    def of(
        cls,
        objective: Objective,
        data: Records,
        row_weights: npt.ArrayLike | None = None,
        folder: Path | None = None,
    ) -> Optimum:
        """Return w*, F* and G of a single-margin loss on these records, from the cache in ``folder`` if present.

        >>> from crescendo.data.records import Records
        >>> data = Records(np.array([[1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 1.0]))
        >>> from crescendo.objectives.logistic.objective import Logistic
        >>> best = Optimum.of(Logistic(1, l2=0.1), data)
        >>> best.model.round(3), best.gradient_norm < 1e-12
        (array([ 0.904, -0.67 ]), True)
        """
        if not isinstance(objective, MarginModel):
            raise ConfigError(
                'evaluate.optimum needs objective.kind = "logistic"; remove it from [evaluate] for other models'
            )
        objective.admit(data)
        weights = shares(row_weights, len(data))
        path = None if folder is None else folder / f"optimum-{_key(objective, data, weights)}.npz"
        if path is not None and (kept := _kept(path, objective, data, weights)):
            return kept
        model = _minimiser(objective, data, weights)
        found = _at(objective, data, weights, model)
        if path is not None:
            _keep(path, found)
        return found


def near_optimum(objective: Objective, data: Records, row_weights: npt.ArrayLike | None, gap: float = 1e-4) -> Floats:
    """Return a model with a loss within about ``gap`` of the minimum, by a few steps of Newton's method.

    Half of the Newton decrement estimates the loss above the minimum. It also falls to zero for separable classes,
    which have no minimum, so a model is always found.

    >>> from crescendo.data.records import Records
    >>> data = Records(np.array([[1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 1.0]))
    >>> from crescendo.objectives.logistic.objective import Logistic
    >>> w = near_optimum(Logistic(1, l2=0.1), data, None)
    >>> bool(np.abs(w - Optimum.of(Logistic(1, l2=0.1), data).model).max() < 0.1)
    True
    """
    if not isinstance(objective, MarginModel):
        raise ConfigError(
            f"{objective.traits.name} is not a single-margin loss, the only kind that Newton's method supports here"
        )
    objective.admit(data)
    weights, w = shares(row_weights, len(data)), np.zeros(objective.size)
    for _ in range(30):
        gradient = objective.mean_gradient(w, data, weights)
        direction = _newton(objective, data, weights, w, gradient)
        if -float(gradient @ direction) / 2 <= gap:
            break
        w = _halved(objective, data, weights, w, direction, gradient)
    return w


def descended(objective: Objective, data: Records, row_weights: npt.ArrayLike | None, gap: float = 1e-4) -> Floats:
    """Return a model of low loss by L-BFGS, at most 200 steps, for objectives that Newton's method does not support.

    Separable classes have no minimum, but the gradient still falls below ``gap``.
    """
    from scipy.optimize import minimize

    weights = shares(row_weights, len(data))

    def loss_and_gradient(w: Floats) -> tuple[float, Floats]:
        loss = objective.evaluate(w, data, weights, metrics=("loss",))["loss"]
        return float(loss), mean_gradient(objective, w, data, weights)

    found = minimize(
        loss_and_gradient, np.zeros(objective.size), jac=True, method="L-BFGS-B", options=_DESCENT | {"gtol": gap}
    )
    return np.asarray(found.x, dtype=np.float64)


def _at(objective: MarginModel, data: Records, weights: Floats | None, w: Floats) -> Optimum:
    """Compute G by |g (x, 1) + l2 w|^2 = g^2 |(x, 1)|^2 + 2 g l2 z + l2^2 |w|^2, z the margin, without the gradients."""
    z, g = objective.margins_and_slopes(w, data)
    squares = (
        g * g * data.squared_lengths(objective.intercept) + 2 * objective.l2 * g * z + objective.l2**2 * float(w @ w)
    )
    loss = objective.evaluate(w, data, weights, metrics=("loss",))["loss"]
    mean = float(np.average(squares, weights=weights))
    return Optimum(w, loss, 2 * mean, float(np.linalg.norm(objective.mean_gradient(w, data, weights))))


def _minimiser(objective: MarginModel, data: Records, weights: Floats | None) -> Floats:
    """Run Newton's method with step halving until the gradient no longer falls."""
    enough = ENOUGH * max(1.0, float(np.sqrt(data.squared_lengths(objective.intercept).max())))
    w = best = np.zeros(objective.size)
    least, length, stalled = np.inf, 0.0, 0
    for _ in range(200):
        gradient = objective.mean_gradient(w, data, weights)
        norm = float(np.linalg.norm(gradient))
        stalled = stalled + 1 if norm >= 0.5 * least else 0
        if norm < least:
            best, least = w, norm
        if least <= enough and (stalled or least == 0.0):
            break
        direction = _newton(objective, data, weights, w, gradient)
        length = float(np.linalg.norm(direction))
        if least <= enough and length > 1e-3 * (1 + float(np.linalg.norm(w))):
            break  # zero gradient far from any minimum: there is none
        w = _halved(objective, data, weights, w, direction, gradient)
    if not least <= enough or length > 1e-3 * (1 + float(np.linalg.norm(best))):
        raise UsageError(
            f"no minimum was found (the gradient's norm is still {least:.2g}): without L2 there is none "
            "if a plane separates the classes, even on some of the records only; set objective.l2 above 0 or leave "
            "evaluate.optimum out"
        )
    return best


def _halved(
    objective: MarginModel,
    data: Records,
    weights: Floats | None,
    w: Floats,
    direction: Floats,
    gradient: Floats,
) -> Floats:
    """Return the first of w + d, w + d/2, w + d/4, ... at which F falls by Armijo's rule, up to rounding of F."""

    def loss(model: Floats) -> float:
        return float(objective.evaluate(model, data, weights, metrics=("loss",))["loss"])

    start, slope, step = loss(w), float(gradient @ direction), 1.0
    while step > 1e-10 and not loss(w + step * direction) <= start + 1e-4 * step * slope + 1e-14 * (1 + abs(start)):
        step /= 2
    return w + step * direction


def _newton(objective: MarginModel, data: Records, weights: Floats | None, w: Floats, gradient: Floats) -> Floats:
    """Solve H d = -gradient. Without L2 the Hessian may be singular: flat directions are skipped."""
    _, g = objective.margins_and_slopes(w, data)
    curvature = objective.curvatures(g) * (1 / len(data) if weights is None else weights)
    if objective.size > LARGEST_HESSIAN:
        return _by_conjugate_gradients(objective, data, curvature, gradient)
    hessian = _hessian(objective, data, curvature)
    if objective.l2:
        return np.asarray(np.linalg.solve(hessian, -gradient))
    values, vectors = np.linalg.eigh(hessian)
    steep = values > values[-1] * len(values) * np.finfo(float).eps
    along = vectors[:, steep]
    return np.asarray(-along @ ((along.T @ gradient) / values[steep]))


def _hessian(objective: MarginModel, data: Records, curvature: Floats) -> Floats:
    size, features, x = objective.size, objective.features, data.x
    hessian = np.zeros((size, size))
    for first in range(0, len(data), 1 << 15):  # in parts, to avoid a full copy of dense records
        part, c = x[first : first + (1 << 15)].astype(np.float64), curvature[first : first + (1 << 15)]
        if isinstance(part, np.ndarray):
            hessian[:features, :features] += part.T @ (part * c[:, None])
        else:
            hessian[:features, :features] += (part.T @ part.multiply(c[:, None]).tocsr()).toarray()
    if objective.intercept:
        hessian[features, :features] = hessian[:features, features] = x.T @ curvature
        hessian[features, features] = curvature.sum()
    return hessian + objective.l2 * np.eye(size)


def _by_conjugate_gradients(objective: MarginModel, data: Records, curvature: Floats, gradient: Floats) -> Floats:
    from scipy.sparse.linalg import LinearOperator, cg

    def times(v: Floats) -> Floats:
        v = np.ravel(v)
        return objective.pulled(data.x, curvature * objective.margins(v, data.x)) + objective.l2 * v

    operator = LinearOperator((objective.size, objective.size), matvec=times, dtype=np.float64)
    direction, _ = cg(operator, -gradient, rtol=min(0.1, float(np.linalg.norm(gradient)) ** 0.5), maxiter=2000)
    return np.asarray(direction)


def _key(objective: MarginModel, data: Records, weights: Floats | None) -> str:
    x: Any = data.x
    digest = hashlib.sha256(FORM)
    digest.update(repr((objective.features, float(objective.l2), bool(objective.intercept), x.shape)).encode())
    parts = [x] if isinstance(x, np.ndarray) else [x.data, x.indices, x.indptr]
    for array in [*parts, data.y, np.empty(0) if weights is None else weights]:
        digest.update(repr((array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:40]


def _keep(path: Path, found: Optimum) -> None:
    """Write the cache file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, model=found.model, numbers=np.array([found.loss, found.G, found.gradient_norm]))
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def _kept(path: Path, objective: MarginModel, data: Records, weights: Floats | None) -> Optimum | None:
    """Read the cache file; None unless it is intact and its model has the stated gradient and loss."""
    try:
        with np.load(path, allow_pickle=False) as file:
            model, numbers = file["model"], file["numbers"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    if model.shape != (objective.size,) or model.dtype != np.float64 or numbers.shape != (3,):
        return None
    claimed, true = Optimum(model, *numbers.tolist()), _at(objective, data, weights, model)
    same = np.allclose([claimed.loss, claimed.G], [true.loss, true.G], rtol=1e-9, atol=0)
    return claimed if same and true.gradient_norm <= 2 * claimed.gradient_norm + 1e-14 else None
