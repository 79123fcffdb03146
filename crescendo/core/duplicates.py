"""Fingerprints of recent updates, to distinguish a repeated update from a conflicting one for the same round."""

from typing import Any

import numpy as np
import xxhash

from crescendo.core.arrays import Vector

REMEMBERED_ROUNDS = 64  # rounds for which an update's fingerprint is kept


class Duplicates:
    """Fingerprints of the updates of the last rounds.

    >>> duplicates = Duplicates()
    >>> duplicates.note(0, 7, np.ones(2))
    >>> duplicates.conflict(0, 7, np.ones(2)), duplicates.conflict(0, 7, np.zeros(2)), duplicates.conflict(0, 8, np.zeros(2))
    (False, True, False)
    """

    def __init__(self) -> None:
        self._marks: dict[int, dict[int, bytes]] = {}  # round -> client -> fingerprint of the applied update

    def note(self, i: int, c: int, delta: Vector) -> None:
        """Remember the update applied for round i of client c."""
        self._marks.setdefault(i, {})[c] = _fingerprint(delta)

    def conflict(self, i: int, c: int, delta: Vector) -> bool:
        """Return True if a different update was applied for this pair; False also for old and void rounds."""
        known = self._marks.get(i, {}).get(c)
        return known is not None and known != _fingerprint(delta)

    def forget_before(self, k: int) -> None:
        """Forget the fingerprints of rounds far before k."""
        self._marks.pop(k - REMEMBERED_ROUNDS, None)

    def export(self) -> list[list[Any]]:
        return sorted([i, c, mark.hex()] for i, row in self._marks.items() for c, mark in row.items())

    def restore(self, exported: list[list[Any]]) -> None:
        for i, c, mark in exported:
            self._marks.setdefault(int(i), {})[int(c)] = bytes.fromhex(mark)


def _fingerprint(delta: Vector) -> bytes:
    """Hash an update, to detect accidents, copied clients and blind forgeries; not for secrets."""
    mark = xxhash.xxh3_128(delta.dtype.str.encode())
    mark.update(np.ascontiguousarray(delta).data)
    return mark.digest()
