"""Neighbouring data sets: the same records with and without one, chosen to make a mechanism show it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from crescendo_dp.arrays import Array

Neighbours: TypeAlias = Literal["add", "replace"]
_FAR = 1000.0  # how much longer than the others a canary is, at least


@dataclass(frozen=True, eq=False)
class Pair:
    """Two data sets that differ in one record."""

    says: str
    without: Array
    with_it: Array


def _canaries(records: Array) -> dict[str, Array]:
    """Records that a sound mechanism hides and a careless one does not, of the shape of the others, by name.

    A long record outweighs all others together, so that it turns a sum of them around if nothing holds it. The last number of a
    record may be its label, so that there are long records with either sign of it.

    >>> len(_canaries(np.ones((4, 1)))), len(_canaries(np.ones((4, 2))))
    (7, 13)
    """
    one, total = records[0], records.astype(float).sum(axis=0)
    size = float(np.abs(records.astype(float)).max(initial=0.0)) or 1.0
    far = max(_FAR, 10.0 * len(records)) * size
    direction = total / (np.abs(total).max() or 1.0) if np.any(total) else np.ones_like(total)
    random = np.random.Generator(np.random.Philox(0)).standard_normal(total.shape)
    found = {
        "zero": np.zeros_like(total),
        "long": far * direction,
        "long and against the others": -far * direction,
        "long in a random direction": far * random,
        "long and against a random direction": -far * random,
        "a copy": one,
        "a negative": -one.astype(float),
    }
    if one.ndim == 1 and one.size > 1:
        for name in [name for name in found if name.startswith("long")]:
            found[f"{name}, other label"] = np.append(found[name][:-1], -found[name][-1])
        for name, label in (("a high label", far), ("a low label", -far)):
            found[name] = np.append(one[:-1].astype(float), label)
    return {name: np.asarray(canary).astype(records.dtype) for name, canary in found.items()}


def pairs(records: Array, neighbours: Neighbours, own: Iterable[Array] | None = None) -> list[Pair]:
    """Return the pairs to attack: each canary after all records, one before them, and some after a single record.

    ``own`` are a user's canaries, used in place of the built-in ones where the mechanism's domain is not all numbers.
    """
    chosen = _canaries(records) if own is None else {f"canary {i}": canary for i, canary in enumerate(own)}
    if neighbours == "replace":
        return _replaced(records, chosen)
    found = []
    for name, canary in chosen.items():
        found.append(Pair(f"{_many(len(records))} and one more: {name}", records, _joined(records, canary)))
    last = list(chosen.items())[2 if own is None else -1]
    found.append(Pair(f"{_many(len(records))} and one more before them: {last[0]}", records, _joined(last[1], records)))
    if len(records) > 1:
        for name in list(chosen)[:3]:
            found.append(Pair(f"1 record and one more: {name}", records[:1], _joined(records[:1], chosen[name])))
    return found


def _replaced(records: Array, chosen: dict[str, Array]) -> list[Pair]:
    """The last record is itself or a canary, or one canary or the next; how many records there are is public."""
    sets = {"itself": records, **{name: _joined(records[:-1], canary) for name, canary in chosen.items()}}
    tried = [("itself", name) for name in chosen] + list(pairwise(chosen))
    says = f"{_many(len(records))}, the last one being: "
    found = [Pair(f"{says}{one}, or: {other}", sets[one], sets[other]) for one, other in tried]
    return [pair for pair in found if not np.array_equal(pair.without, pair.with_it)]


def _joined(first: Array, then: Array) -> Array:
    """Records and one record, in either order."""
    if first.ndim == then.ndim:
        return np.concatenate([first, then])
    return np.concatenate([first, then[None]] if first.ndim > then.ndim else [first[None], then])


def _many(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"
