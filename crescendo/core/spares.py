"""Large arrays that are written again once nobody holds them: at ten million numbers, new memory costs more than sums."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

HELD = 3  # references to an array that is only here: the list's, the loop's and the question's own


class Spares:
    """Gives room for an array. What was given and is held by nobody else, not even by a view, may be given again.

    The newest ``most`` are remembered.

    >>> spares = Spares()
    >>> first = spares.room(1000, np.dtype(np.float64))
    >>> second = spares.room(1000, np.dtype(np.float64))
    >>> first is second
    False
    >>> where, view = id(first), first.data
    >>> del first
    >>> id(spares.room(1000, np.dtype(np.float64))) == where  # the view still looks at it
    False
    >>> del view
    >>> id(spares.room(1000, np.dtype(np.float64))) == where
    True
    """

    def __init__(self, most: int = 3) -> None:
        self._most, self._given = most, list[npt.NDArray[Any]]()

    def room(self, size: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """An array of that size and type, with whatever numbers happen to be in it."""
        for given in self._given:
            if sys.getrefcount(given) == HELD and given.size == size and given.dtype == dtype:
                given.flags.writeable = True
                return given
        made = np.empty(size, dtype)
        self._given = [*self._given, made][-self._most :]
        return made
