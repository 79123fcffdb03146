"""Buffer pool: reuses the memory of large arrays; at ten million numbers, allocation costs more than addition."""

import weakref
from typing import Any

import numpy as np

from crescendo.core.arrays import Array


class BufferPool:
    """Provides memory for arrays, and reuses it once an array and all its views are gone.

    Each array is made over a buffer of the pool. Any view of the array keeps it alive, so the buffer is free once the
    array is gone. The pool uses weak references and no reference counts, which differ between Python versions. It
    remembers the newest ``most`` arrays. Not thread-safe.

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
        """Return an uninitialised array of that size and type."""
        memory = self._free(size * dtype.itemsize)
        array: Array = np.frombuffer(
            memory, dtype
        )  # not np.ndarray, whose views refer to the memory instead of the array
        self._given = [*self._given, (memory, weakref.ref(array))][-self._most :]
        return array

    def _free(self, length: int) -> memoryview:
        for at, (memory, array) in enumerate(self._given):
            if array() is None and len(memory) == length:
                del self._given[at]
                return memory
        return np.empty(length, np.uint8).data
