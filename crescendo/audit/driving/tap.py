"""A source that passes another's numbers on and remembers them; draws and words can be the auditor's choice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crescendo.audit.driving.subject import Draw
from crescendo.core.arrays import Floats, Ints, Uints
from crescendo.privacy.mechanisms.noise import Source


class Tap:
    """Records requests and answers by round; the last request counts, since a round may be restarted."""

    def __init__(
        self, behind: Source, draws: dict[int, Draw] | None = None, words: dict[int, Uints] | None = None
    ) -> None:
        self.simulated = behind.simulated
        self._behind, self._draws, self._words = behind, draws or {}, words or {}
        self.asked: dict[int, tuple[int, float]] = {}
        self.members_of: dict[int, Ints] = {}
        self.tags_of: dict[int, Floats] = {}
        self.words_of: dict[int, Uints] = {}

    def members(self, i: int, records: int, rate: float) -> Ints:
        self.asked[i] = records, rate
        chosen = self._draws.get(i)
        self.members_of[i] = self._behind.members(i, records, rate) if chosen is None else chosen.members
        return self.members_of[i].copy()

    def tags(self, i: int, count: int) -> Floats:
        chosen = self._draws.get(i)
        given = chosen is not None and len(chosen.tags) == count
        self.tags_of[i] = chosen.tags if chosen is not None and given else self._behind.tags(i, count)
        return self.tags_of[i].copy()

    def words(self, i: int, size: int) -> Uints:
        chosen = self._words.get(i)
        self.words_of[i] = self._behind.words(i, size) if chosen is None else np.resize(chosen, size)
        return self.words_of[i].copy()

    def more(self, i: int, number: int) -> Iterator[int]:
        return self._behind.more(i, number)

    def chose(self, i: int) -> bool:
        """Return True if the auditor chose the draw of round i."""
        return i in self._draws

    def drew(self, i: int) -> Draw | None:
        """Return the draw of round i; None if the client did not ask for one."""
        if i not in self.members_of or i not in self.tags_of:
            return None
        return Draw(self.members_of[i], self.tags_of[i]) if len(self.tags_of[i]) == len(self.members_of[i]) else None

    def noise(self, i: int, size: int) -> Uints | None:
        """Return the words of round i's noise; None if the client did not ask for that many."""
        words = self.words_of.get(i)
        return words if words is not None and len(words) == size else None
