"""Scaling of features: a shift and a width for each column of numbers, so that one step size suits all of them.

Gradient steps that suit a column of tenths diverge on a column of thousands, and steps that suit both learn nothing from the
first. A simulation without privacy therefore standardises such columns. It looks at all training records to do so, which a
private run must not: there, public ranges in a schema do the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from crescendo.core.arrays import Bools, Floats
from crescendo.data.records import Dataset, Records, as_records
from crescendo.data.tables.table_cautions import UNSCALED

_SPREADS = (0.25, 4.0)  # standard deviations that are left as they are, with a mean that is not far from 0
_FAR = 0.5  # standard deviations: a column further from 0 resembles the intercept, and least squares tells them apart slowly
_REACH = 0.25  # of numbers within [-1, 1], such as pixels and truth values, which are left as they are
_FAR_WITHIN = (
    4.0  # standard deviations: further from 0, numbers such as shares from 0.9 to 1 vary too little to learn from
)
_USABLE = (1e-305, 1e305)  # the largest number of a column whose differences and quotients are floats


@dataclass(frozen=True, eq=False)
class Scaling:
    """Every feature x becomes (x - centre) / width.

    >>> scaling = Scaling(np.array([10.0, 0.0]), np.array([5.0, 1.0]))
    >>> scaling.apply(np.array([[20.0, 3.0]]))
    array([[2., 3.]])
    >>> scaling.unscaled(np.array([[1.0, 1.0, 0.0]]))  # weights and an intercept: the same answers for features as they were
    array([[ 0.2,  1. , -2. ]])
    """

    centre: Floats
    width: Floats

    @classmethod
    def of(cls, records: Records) -> Self | None:
        """Return the scaling of the columns that need it, or None if no column does. Sparse columns keep their zeros."""
        mean, spread, largest = _moments(records)
        usable = (spread > 1e-12 * np.abs(mean)) & (_USABLE[0] <= largest) & (largest <= _USABLE[1])
        needs = usable & ~_fine(np.zeros_like(mean) if records.sparse else mean, spread, largest)
        if not needs.any():
            return None
        centre = np.zeros_like(mean) if records.sparse else np.where(needs, mean, 0.0)
        return cls(centre, np.where(needs, spread, 1.0))

    def apply(self, x: Any) -> Any:
        """Scale a dense or sparse matrix; a sparse one becomes dense if its zeros shift."""
        if not isinstance(x, np.ndarray) and self.centre.any():
            x = x.toarray()
        if isinstance(x, np.ndarray):
            return ((x - self.centre) / self.width).astype(x.dtype if x.dtype == np.float32 else np.float64)
        made = x.tocsr(copy=True)
        made.data = (made.data / self.width[made.indices]).astype(made.data.dtype)
        return made

    def records(self, found: Records) -> Records:
        """Return the records with scaled features."""
        return replace(as_records(self.apply(found.x), found.y), shape=found.shape)

    def unscaled(self, rows: Floats, intercept: bool = True) -> Floats:
        """Return weights for unscaled features with the margins of ``rows`` on scaled ones; the last column is the intercept."""
        weights = (rows[:, :-1] if intercept else rows) / self.width
        offsets = (rows[:, -1] if intercept else 0.0) - weights @ self.centre
        return np.column_stack([weights, offsets])

    def plain(self) -> dict[str, list[float]]:
        """Return plain data for `from_plain`."""
        return {"centre": self.centre.tolist(), "width": self.width.tolist()}

    @classmethod
    def from_plain(cls, raw: Any, features: int) -> Self:
        """Read the scaling of so many features from plain data; raise ValueError for anything else."""
        centre, width = (np.asarray(raw[name], dtype=np.float64) for name in ("centre", "width"))
        sound = centre.shape == width.shape == (features,) and np.isfinite([centre, width]).all() and (width > 0).all()
        if not sound:
            raise ValueError("this is no scaling of the features")
        return cls(centre, width)


def scaled(data: Dataset) -> Dataset:
    """Standardise the columns that need it, by the training records, and add a note about it."""
    if data.train.shape or data.schema is not None:  # images, and features that a schema has brought to [-1, 1]
        return data
    scaling = Scaling.of(data.train)
    if scaling is None:
        return data
    many = int(np.count_nonzero(scaling.width != 1.0))
    what = "divided by their standard deviations" if data.train.sparse else "standardised (mean 0, deviation 1)"
    note = f"{many:,} of {data.features:,} features were {what} for training; scale=False uses all of them as they are"
    notes = (*(one for one in data.notes if UNSCALED not in one), note)
    test = None if data.test is None else scaling.records(data.test)
    return replace(data, train=scaling.records(data.train), test=test, scaling=scaling, optimum=None, notes=notes)


def _moments(records: Records) -> tuple[Floats, Floats, Floats]:
    """Return the mean, the standard deviation and the largest absolute value of each column."""
    x: Any = records.x
    sparse = records.sparse
    largest = np.asarray(abs(x).max(axis=0).toarray() if sparse else np.abs(x).max(axis=0), dtype=np.float64).ravel()
    unit = np.where((_USABLE[0] <= largest) & (largest <= _USABLE[1]), largest, np.inf)  # no square leaves the floats
    if not sparse:
        wide = np.asarray(x, dtype=np.float64) / unit
        return wide.mean(axis=0) * largest, wide.std(axis=0) * largest, largest
    count, wide = len(records), x.tocsr().astype(np.float64)
    wide.data = wide.data / unit[wide.indices]
    mean = np.asarray(wide.sum(axis=0)).ravel() / count
    squares = np.asarray(wide.multiply(wide).sum(axis=0)).ravel() / count
    return mean * largest, np.sqrt(np.maximum(squares - mean**2, 0.0)) * largest, largest


def _fine(mean: Floats, spread: Floats, largest: Floats) -> Bools:
    """Return which columns have a usual size already."""
    near = (np.abs(mean) <= _FAR * spread) & (_SPREADS[0] <= spread) & (spread <= _SPREADS[1])
    within = (largest >= _REACH) & (largest <= 1.0)
    part, square = np.clip(mean, 0.0, 1.0), np.minimum(spread, 1.0) ** 2
    truth = np.abs(part * (1.0 - part) - square) <= 1e-9  # x - x^2 has the mean 0: only zeros and ones
    return np.asarray(near | (within & (truth | (np.abs(mean) <= _FAR_WITHIN * spread))))
