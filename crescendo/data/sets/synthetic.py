"""Synthetic logistic data with an exactly known minimiser.

Labels are drawn at random, and then the features are moved so that the gradient at the chosen w* vanishes. A record is

    x_i = t_i w*/|w*| + z_i,  z_i orthogonal to w*,  with margin t_i |w*|  and  r_i = y_i / (1 + exp(y_i t_i |w*|)),

and w* with intercept 0 minimises the mean logistic loss + l2/2 |w|^2 over the training part when

    mean r_i = 0,      mean r_i t_i = l2 |w*|,      mean r_i z_i = 0.

The first two fix a slope and an offset of the t_i (two unknowns, Newton's method); the third is one linear correction of the
z_i, which leaves the t_i alone. The gradient at w* is then 0 up to rounding (1e-15 or so), and since the loss is strictly
convex no other point will do. With the intercept at 0, the same w* serves objectives without one. Records have a norm of
about 2, w* has entries of about 1 and margins are about 2, whatever the number of features.
"""

import difflib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.core.random import Purpose, stream
from crescendo.data.records import Dataset, as_records
from crescendo.errors import ConfigError

_DRAW = 2  # as the round of the stream: 0 is the split over clients, 1 the test part
_NORM, _SPREAD = 2.0, 2.0  # of a record, and of the margins


@dataclass(frozen=True)
class Synthetic:
    """``rows`` training records; ``l2`` is the regularisation for which w* is the minimiser (``objective.l2`` of the run)."""

    rows: int = 10_000
    features: int = 20
    l2: float = 0.0

    def __post_init__(self) -> None:
        if self.features < 1:
            raise ConfigError(f"synthetic needs features of at least 1, got {self.features}")
        least = max(100, 5 * (self.features + 1))
        if self.rows < least:
            raise ConfigError(
                f"synthetic needs rows of at least {least} to have one clear minimiser in {self.features} features, "
                f"got {self.rows}"
            )
        if not 0 <= self.l2 * self.features <= 0.05:
            raise ConfigError(
                f"synthetic can place its minimiser for l2 from 0 to 0.05 / features = {0.05 / self.features:g}, got {self.l2}"
            )

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse the options after the colon of a source.

        >>> Synthetic.of("rows=500,features=3")
        Synthetic(rows=500, features=3, l2=0.0)
        """
        kinds: dict[str, type[int] | type[float]] = {"rows": int, "features": int, "l2": float}
        given: dict[str, Any] = {}
        for item in filter(None, text.split(",")):
            key, _, value = (part.strip() for part in item.partition("="))
            if key not in kinds:
                near = difflib.get_close_matches(key, kinds, n=1, cutoff=0.0)[0]
                raise ConfigError(
                    f"synthetic has no option '{key}'; did you mean '{near}'? (it has {', '.join(kinds)})"
                )
            try:
                given[key] = kinds[key](value)
            except ValueError:
                kind = "a whole number" if kinds[key] is int else "a number"
                raise ConfigError(f"synthetic option {key} must be {kind}, got '{value}'") from None
        return cls(**given)

    def load(self, test: float, seed: int) -> Dataset:
        """Return the training part with its minimiser, and a test part by the same law, the share ``test`` of all records."""
        rng = stream(seed, Purpose.SPLIT, round=_DRAW)
        direction = rng.normal(size=self.features)
        direction /= np.linalg.norm(direction)
        scale = _NORM / np.sqrt(self.features)  # of a feature
        optimum = direction * (_SPREAD / scale)

        def draw(rows: int) -> tuple[Floats, Floats, Floats]:
            x = rng.normal(scale=scale, size=(rows, self.features))
            along = x @ direction
            across = x - np.outer(along, direction)
            labels = np.where(rng.random(rows) < 1 / (1 + np.exp(-along * (_SPREAD / scale))), 1.0, -1.0)
            return along, across, labels

        along, across, labels = draw(self.rows)
        slope, offset = _calibrate(along, labels, _SPREAD / scale, self.l2)
        along = slope * along + offset
        residual = _residual(along, labels, _SPREAD / scale)
        across -= np.outer(residual, residual @ across) / (residual @ residual)
        across -= np.outer(across @ direction, direction)  # rounding only
        train = as_records(across + np.outer(along, direction), _numbers(labels))
        held_out = None
        if rows := round(self.rows * test / (1 - test)):
            along, across, labels = draw(rows)
            held_out = as_records(across + np.outer(slope * along + offset, direction), _numbers(labels))
        return Dataset("synthetic", train, held_out, (-1, 1), optimum=np.append(optimum, 0.0))


def _numbers(signs: Floats) -> Floats:
    """Return the class numbers of the labels -1 and +1."""
    return np.where(signs > 0, 1.0, 0.0)


def _residual(along: Floats, labels: Floats, norm: float) -> Floats:
    residual: Floats = labels / (1 + np.exp(labels * along * norm))
    return residual


def _calibrate(along: Floats, labels: Floats, norm: float, l2: float) -> tuple[float, float]:
    """Return slope a and offset b such that, for t = a along + b, mean r = 0 and mean r t = l2 norm, where r = residual(t)."""
    a, b = 1.0, 0.0
    for _ in range(60):
        t = a * along + b
        r = _residual(t, labels, norm)
        curved = -norm * np.abs(r) * (1 - np.abs(r))  # dr/dt
        miss = np.array([r.mean(), (r * t).mean() - l2 * norm])
        slopes = np.array(
            [
                [(curved * along).mean(), curved.mean()],
                [((curved * t + r) * along).mean(), (curved * t + r).mean()],
            ]
        )
        if not np.isfinite(slopes).all() or abs(np.linalg.det(slopes)) < 1e-30:
            break  # these labels have no such slope; reported below
        step = np.linalg.solve(slopes, miss)
        a, b = a - step[0], b - step[1]
        if np.abs(step).max() < 1e-15 * max(1.0, abs(a)):
            break
    if not np.abs(miss).max() < 1e-13 or a <= 0:
        raise ConfigError(
            f"synthetic cannot place its minimiser for l2={l2} with this seed; try a smaller l2 or more rows"
        )
    return float(a), float(b)
