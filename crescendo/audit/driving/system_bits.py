"""Interception of the operating system's random bits: records them, or replaces them by the auditor's choice."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from crescendo.core.arrays import Uints

Reader = Callable[[int], bytes]


@dataclass
class Taken:
    """The bytes read from the operating system, read by read."""

    parts: list[bytes] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return sum(map(len, self.parts))

    @property
    def words(self) -> Uints:
        """The 64-bit words that each read consists of."""
        return np.concatenate([np.frombuffer(part, np.uint64, len(part) // 8) for part in [b"", *self.parts]])


@contextmanager
def tapped(chosen: Reader | None = None) -> Iterator[Taken]:
    """Remember all reads through ``os.urandom``, ``os.getrandom`` and ``random``; with ``chosen``, hand out its bytes.

    ``secrets`` and numpy's seeds are made of ``random``'s. Other threads' reads are remembered as well, so that a count is never
    too small.
    """
    taken = Taken()
    before = os.urandom

    def read(size: int, flags: int = 0) -> bytes:
        taken.parts.append(before(size) if chosen is None else chosen(size))
        return taken.parts[-1]

    places = [(os, "urandom"), (random, "_urandom"), (os, "getrandom")]
    kept = [(place, name, getattr(place, name)) for place, name in places if hasattr(place, name)]
    try:
        for place, name, _ in kept:
            setattr(place, name, read)
        yield taken
    finally:
        for place, name, original in kept:
            setattr(place, name, original)
