"""Held-out records: a share of one owner's records, kept from training to measure the model.

A record is held out if the hash of its features and label falls into the lowest share of all hashes, a rule on that record alone.
So adding or removing a record does not affect the others, as privacy demands, and a client that restarts holds out the same
records. Equal records stay on one side, so the model is never measured on a copy of a training record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import xxhash

from crescendo.core.arrays import Bools
from crescendo.data.records import Records

_SEED = 0x68656C64  # any other use of such hashes needs a different seed
_ALL = 1 << 64


def held_out(records: Records, share: float) -> Bools:
    """Return which records are held out, about ``share`` of them.

    >>> x = np.arange(2000.0).reshape(1000, 2)
    >>> some = held_out(Records(x, np.zeros(1000)), 0.2)
    >>> 150 < int(some.sum()) < 250, bool((held_out(Records(x[:10], np.zeros(10)), 0.2) == some[:10]).all())
    (True, True)
    """
    least = int(share * _ALL)
    return np.fromiter((one < least for one in _hashes(records)), np.bool_, len(records))


def _hashes(records: Records) -> Iterator[int]:
    """Yield a hash of each record. Negative zero is zero, and a sparse record lists its nonzero features."""
    x: Any = records.x
    labels = (records.y + 0.0).astype("<f8")
    if isinstance(x, np.ndarray):
        for row, label in zip(x, labels, strict=True):
            values = row.astype("<f8") + 0.0
            yield xxhash.xxh3_64_intdigest(values.tobytes() + label.tobytes(), _SEED)
        return
    for at, label in enumerate(labels):
        low, high = x.indptr[at], x.indptr[at + 1]
        values, places = x.data[low:high].astype("<f8"), x.indices[low:high].astype("<i8")
        there = values != 0
        order = np.argsort(places[there], kind="stable")
        listed = places[there][order].tobytes() + values[there][order].tobytes()
        yield xxhash.xxh3_64_intdigest(listed + label.tobytes(), _SEED)
