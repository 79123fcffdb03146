"""Admission of records to a private mechanism: a rule on each record alone, so neighbouring datasets stay neighbours."""

import math
from dataclasses import replace

import numpy as np

from crescendo.core.arrays import Bools, Floats, Ints
from crescendo.data.records import Records, finite_rows
from crescendo.errors import UsageError
from crescendo.privacy.mechanisms.rounding import LEAST, MOST, UNDECLARED

LABELS = (0.0, 1.0)


def most_records(declared: int) -> int:
    """Return the most records that a client may hold if its terms declare this many: the power of two at or below twice it.

    The bounds on rounding and on draws allow twice the declared records. The server writes that number: if a client refused
    terms by it, a server could find the exact number of records by making offer after offer. With powers of two it finds
    the number of binary digits and no more. The declared number of records is always allowed.

    >>> most_records(1000), most_records(1024), most_records(1)
    (1024, 2048, 2)
    """
    return 1 << ((UNDECLARED * declared).bit_length() - 1)


def enough_declared(records: int) -> int:
    """Return the least number to declare for this many records.

    >>> enough_declared(1024), enough_declared(1025)
    (512, 1024)
    """
    return max(1, (1 << (records - 1).bit_length()) // UNDECLARED)


def check_norm_bound(norm_bound: float | None, intercept: bool) -> None:
    """Refuse a bound that no record could be held to.

    >>> check_norm_bound(2.0, intercept=True)
    """
    if norm_bound is None:
        return
    if not LEAST <= norm_bound <= MOST:
        raise UsageError(f"privacy.norm_bound must lie between {LEAST:g} and {MOST:g}, got {norm_bound:g}")
    if intercept and norm_bound <= 1:
        raise UsageError(
            f"privacy.norm_bound is the length of (x, 1) and must be above 1, got {norm_bound:g}; 2 would pass"
        )


def admitted(
    records: Records, norm_bound: float | None, intercept: bool, labels: tuple[float, ...] = LABELS
) -> tuple[Records, Bools]:
    """Scale the records' features down to the bound; return them and a mask of the sound ones, which alone may be used.

    A record is sound if its features are finite and its label is one of ``labels`` (any finite number if ``labels`` is empty).
    Leave the others out silently: an error would reveal that such a record is there. A record whose (x, 1) is longer than
    ``norm_bound`` (x alone without an intercept) keeps its direction and gets shorter.

    >>> some = Records(np.array([[3.0, 4.0], [0.3, 0.4], [np.nan, 0.0], [0.0, 1.0]]), np.array([1.0, 0.0, 1.0, 7.0]))
    >>> bounded, sound = admitted(some, norm_bound=1.0, intercept=False)
    >>> bounded.x[:2], sound
    (array([[0.6, 0.8],
           [0.3, 0.4]]), array([ True,  True, False, False]))
    """
    check_norm_bound(norm_bound, intercept)
    x = records.x
    values = x if isinstance(x, np.ndarray) else x.data
    finite = np.where(np.isfinite(values), values, 0.0).astype(np.float64)
    if isinstance(x, np.ndarray):
        lengths = _lengths(finite)
    else:
        rows = np.repeat(np.arange(len(records)), np.diff(x.indptr))
        lengths = _sparse_lengths(finite, rows, len(records))
    sound = finite_rows(x) & (np.isin(records.y, labels) if labels else np.isfinite(records.y))
    if norm_bound is None:
        return records, sound
    room = math.sqrt(norm_bound**2 - 1.0) if intercept else norm_bound
    # a little lower, so that no rounding below lifts a record over the bound again
    room *= 1 - (1e-12 if values.dtype == np.float64 else 1e-6)
    with np.errstate(over="ignore"):
        factors = np.where(lengths > room, room / np.where(lengths > 0, lengths, 1.0), 1.0)
    if isinstance(x, np.ndarray):
        return replace(records, x=(finite * factors[:, None]).astype(x.dtype)), sound
    shorter = x.copy()
    shorter.data = (finite * factors[rows]).astype(values.dtype)
    return replace(records, x=shorter), sound


def _sparse_lengths(values: Floats, rows: Ints, count: int) -> Floats:
    largest = np.zeros(count)
    np.maximum.at(largest, rows, np.abs(values))
    unit = np.where(largest > 0, largest, 1.0)
    with np.errstate(over="ignore"):  # a length that overflows is infinite: the record becomes 0
        lengths: Floats = unit * np.sqrt(np.bincount(rows, (values / unit[rows]) ** 2, minlength=count))
    return lengths


def _lengths(x: Floats) -> Floats:
    """Return row lengths without overflow in the squares."""
    largest = np.abs(x).max(axis=1, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    with np.errstate(over="ignore"):
        lengths: Floats = unit * np.sqrt(((x / unit[:, None]) ** 2).sum(axis=1))
    return lengths
