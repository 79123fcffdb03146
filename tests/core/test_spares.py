"""Memory is given again once nobody looks at it, and never before."""

from __future__ import annotations

import ctypes
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from crescendo.core.buffer_pool import BufferPool
from crescendo.core.messages import Update
from crescendo.core.server import Server
from crescendo.core.terms import Terms
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps

FLOATS = np.dtype(np.float64)
COUNT = sys.getrefcount
HOLDERS: dict[str, Callable[[Any], object]] = {
    "slice of a slice": lambda array: array[1:][1:],
    "transposed": lambda array: array.T,
    "reshaped": lambda array: array.reshape(10, 10)[2:],
    "other type": lambda array: array.view(np.uint8)[3:],
    "other class": lambda array: array.view(np.recarray)[1:],
    "strided": lambda array: np.lib.stride_tricks.as_strided(array, (4,), (16,)),
    "broadcast": lambda array: np.broadcast_to(array, (2, 100)),
    "iterator": iter,
    "pointer": lambda array: array.ctypes.data_as(ctypes.c_void_p),
    "bytes": lambda array: array.data.cast("B")[5:].toreadonly(),
    "floats in the bytes": lambda array: np.frombuffer(array.data.cast("B"), np.float32)[1:],
    "buffer to be pickled": pickle.PickleBuffer,
    "lent to another library": lambda array: np.from_dlpack(array)[1:],
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS.keys())
def test_memory_that_somebody_looks_at_is_not_given_again(hold: Callable[[Any], object]) -> None:
    buffers = BufferPool()
    array = buffers.room(100, FLOATS)
    where, holder = array.ctypes.data, hold(array)
    del array
    assert buffers.room(100, FLOATS).ctypes.data != where
    del holder
    assert where in (buffers.room(100, FLOATS).ctypes.data, buffers.room(100, FLOATS).ctypes.data)


def test_room_is_of_the_size_and_type_that_was_asked_for_and_can_be_written() -> None:
    buffers = BufferPool()
    buffers.room(8, FLOATS).flags.writeable = False
    for size, dtype in ((8, "<f8"), (16, "<f4"), (4, "<f8"), (0, "<f8"), (64, "u1")):
        array = buffers.room(size, np.dtype(dtype))
        array[:] = 1
        assert array.shape == (size,) and array.dtype == dtype and array.flags.aligned


def test_a_broadcast_stays_true_however_python_counts_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.14 counts one less than 3.13: an argument is no longer a reference of its own."""
    monkeypatch.setattr(sys, "getrefcount", lambda thing: COUNT(thing) - 2)
    terms = Terms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=9, ahead=9)
    server = Server(terms, np.zeros(2))
    made = []
    for i in range(9):
        server.receive(Update(i, 0, np.ones(2)))
        made.append(server.broadcast(0).model)
    assert [model.tolist() for model in made] == [[-1.0 - i] * 2 for i in range(9)]
