"""What a record must be before a private mechanism touches it: a rule on that record alone, so neighbours stay neighbours."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from crescendo.data.records import Records


def admitted(records: Records, norm_bound: float | None, intercept: bool) -> tuple[Records, npt.NDArray[np.bool_]]:
    """The records with their features scaled down to the bound, and which of them are sound.

    A record is sound if its label and features are finite; the others are left out, silently: to stop for one would
    tell that it is there. A record whose (x, 1) is longer than ``norm_bound`` (x alone, without an intercept) keeps its
    direction and gets shorter.

    >>> sound = Records(np.array([[3.0, 4.0], [0.3, 0.4], [np.nan, 0.0]]), np.array([1.0, -1.0, 1.0]))
    >>> bounded, keep = admitted(sound, norm_bound=1.0, intercept=False)
    >>> bounded.x[:2], keep
    (array([[0.6, 0.8],
           [0.3, 0.4]]), array([ True,  True, False]))
    """
    x = records.x
    values = x if isinstance(x, np.ndarray) else x.data
    finite_values = np.where(np.isfinite(values), values, 0.0)
    if isinstance(x, np.ndarray):
        sound = np.isfinite(x).all(axis=1)
        lengths = _lengths(finite_values)
    else:
        rows = np.repeat(np.arange(len(records)), np.diff(x.indptr))
        sound = np.bincount(rows, ~np.isfinite(values), minlength=len(records)) == 0
        largest = np.zeros(len(records))
        np.maximum.at(largest, rows, np.abs(finite_values))
        unit = np.where(largest > 0, largest, 1.0)
        lengths = unit * np.sqrt(np.bincount(rows, (finite_values / unit[rows]) ** 2, minlength=len(records)))
    sound &= np.isfinite(records.y)
    if norm_bound is None:
        return records, sound
    room = math.sqrt(norm_bound**2 - 1.0) if intercept else norm_bound
    # rounded down a little, so that no rounding below lifts a record over the bound again
    factors = np.where(lengths > room, room / np.where(lengths > 0, lengths, 1.0) * (1 - 1e-12), 1.0)
    if isinstance(x, np.ndarray):
        return Records(finite_values * factors[:, None], records.y), sound
    shorter = x.copy()
    shorter.data = finite_values * factors[rows]
    return Records(shorter, records.y), sound


def _lengths(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Row lengths without overflow."""
    largest = np.abs(x).max(axis=1, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    lengths: npt.NDArray[np.float64] = unit * np.sqrt(((x / unit[:, None]) ** 2).sum(axis=1))
    return lengths
