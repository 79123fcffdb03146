"""Large arrays whose memory is written again once nobody holds them: at ten million numbers, new memory costs more than sums."""

import weakref
from typing import Any

import numpy as np

from crescendo.core.arrays import Array


class BufferPool:
    """Gives room for an array. What was given and is held by nobody any more, not even by a view, may be given again.

    Each array is made over memory of ours. A view of it, of whatever kind, keeps it alive, so the memory is free when the
    array is gone. References are not counted: what Python says about their number differs from version to version. The newest
    ``most`` are remembered. One thread at a time.

    >>> buffers = BufferPool()
    >>> first, second = buffers.room(1000, np.dtype(np.float64)), buffers.room(1000, np.dtype(np.float64))
    >>> where, view = first.ctypes.data, first.data
    >>> where == second.ctypes.data
    False
    >>> del first
    >>> buffers.room(1000, np.dtype(np.float64)).ctypes.data == where  # the view still looks at it
    False
    >>> del view
    >>> buffers.room(1000, np.dtype(np.float64)).ctypes.data == where
    True
    """

    def __init__(self, most: int = 3) -> None:
        self._most, self._given = most, list[tuple[memoryview, weakref.ref[Array]]]()

    def room(self, size: int, dtype: np.dtype[Any]) -> Array:
        """An array of that size and type, with whatever numbers happen to be in it."""
        memory = self._free(size * dtype.itemsize)
        array: Array = np.frombuffer(memory, dtype)  # not np.ndarray, whose views look past it at the memory
        self._given = [*self._given, (memory, weakref.ref(array))][-self._most :]
        return array

    def _free(self, length: int) -> memoryview:
        for at, (memory, array) in enumerate(self._given):
            if array() is None and len(memory) == length:
                del self._given[at]
                return memory
        return np.empty(length, np.uint8).data
