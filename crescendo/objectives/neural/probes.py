"""Independence of per-record gradients, on which `minibatch` certificates rest: tried at set-up on made-up records.

A record's gradient must depend only on the model and that record, to the last bit, and a record with large cancelling
terms amplifies a last bit. So records whose numbers span many magnitudes are computed at all positions of a chunk,
and next to others.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Array

Chunk = Callable[[Array, Array], Array]  # records and labels of a full chunk -> a row of gradients for each
_PROBES = 24  # made-up records, whose gradients must be the same at every position
_MAGNITUDES = 12.0  # powers of ten that their numbers span
_COMPANY = (math.nan, 1e30, 0.0)  # numbers of an adjacent record that must not change the others' gradients


def independent(chunk: Chunk, at_once: int, shape: tuple[int, ...], dtype: npt.DTypeLike, draws: bool = False) -> bool:
    """Return True if a record's gradient is the same at every position, next to any other; code that ``draws`` need only run."""
    rng = np.random.Generator(np.random.Philox(0))
    probes = [_probe(shape, rng).astype(dtype) for _ in range(_PROBES)]
    return all(_same_everywhere(chunk, at_once, probe, draws) for probe in probes) and (
        draws or all(_same_beside(number, chunk, at_once, np.stack(probes)) for number in _COMPANY)
    )


def _same_everywhere(chunk: Chunk, at_once: int, probe: Array, draws: bool) -> bool:
    try:
        found = chunk(np.repeat(probe[None], at_once, axis=0), np.zeros(at_once, dtype=np.int64))
    except Exception:  # code that cannot be mapped over records
        return False
    return draws or np.array_equal(found, np.broadcast_to(found[:1], found.shape), equal_nan=True)


def _same_beside(number: float, chunk: Chunk, at_once: int, probes: Array) -> bool:
    """Return True if the gradients are the same next to a record full of ``number`` as next to a copy of the first one."""
    x, y = probes[np.arange(at_once) % len(probes)], np.zeros(at_once, dtype=np.int64)
    other = x.copy()
    other[0] = number
    try:
        found, due = chunk(other, y), chunk(x, y)
    except Exception:  # a record on which the code fails is computed separately, as are its neighbours
        return True
    return np.array_equal(found[1:], due[1:], equal_nan=True)


def _probe(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return rng.uniform(-1, 1, shape) * 10 ** (_MAGNITUDES * (rng.random(shape) - 0.5))
