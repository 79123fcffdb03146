"""Wire types: rounding of a vector's floats for sending, their bytes, and the size of messages.

A vector is sent as the raw little-endian bytes of its floats. Both sides compute with the rounded numbers, so
rounding is part of the algorithm; the transport belongs to `crescendo.network`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Array, Vector
from crescendo.core.buffer_pool import BufferPool
from crescendo.errors import Diverged, PeerError, UsageError

OVERHEAD = 32  # bytes of a message besides its vector: round, client, k, hash of the terms
PIECE = 1 << 18  # numbers processed together

# Name -> storage type. NumPy has no bfloat16: it is the upper half of a float32, stored as an integer.
_STORED: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),
}
WIRES = tuple(_STORED)

Raw = bytes | memoryview  # large data are passed on as views: copies cost more than sums


def item_bytes(wire: str) -> int:
    """Return the bytes of one number.

    >>> [item_bytes(wire) for wire in WIRES]
    [4, 8, 2, 2]
    """
    if wire not in _STORED:
        raise UsageError(f"the wire carries {', '.join(WIRES)}, not {wire!r}; choose one of them")
    return _STORED[wire].itemsize


def message_bytes(numbers: int, wire: str) -> int:
    """Return the bytes of a message whose vector has ``numbers`` floats of type ``wire``.

    >>> message_bytes(124, "float32")
    528
    """
    return numbers * item_bytes(wire) + OVERHEAD


def encode(vector: Vector, wire: str = "float32") -> bytes:
    """Return the bytes of a vector, each number rounded to the nearest of type ``wire`` (ties to even).

    >>> encode(np.array([1.0, -2.0]), "bfloat16").hex()
    '803f00c0'
    """
    return bytes(encoded(vector, wire))


def encoded(vector: Vector, wire: str = "float32", buffers: BufferPool | None = None) -> memoryview:
    """Return the same bytes as a view of the rounded numbers, in memory from ``buffers`` if given."""
    item_bytes(wire)
    if wire == "bfloat16":
        return _to_bfloat16(np.asarray(vector)).data.cast("B")
    narrow = (buffers or BufferPool()).room(len(vector), _STORED[wire])
    with np.errstate(all="ignore"):
        np.copyto(narrow, vector, casting="same_kind")
    if not _finite(narrow):
        raise _does_not_fit(wire)
    return narrow.data.cast("B")


def decode(data: Raw, wire: str, numbers: int, finite: bool = True) -> Vector:
    """Return the vector of exactly ``numbers`` finite floats in ``data``, read-only, and a view of ``data`` if
    possible.

    bfloat16 is returned as float32, which has all its values. With ``finite`` False the caller must check for finite
    numbers.

    >>> decode(bytes.fromhex("803f00c0"), "bfloat16", 2)
    array([ 1., -2.], dtype=float32)
    """
    if wire not in _STORED:
        raise PeerError(f"a vector came as {str(wire)[:20]!r}, which is none of {', '.join(WIRES)}; dropped")
    if len(data) != numbers * _STORED[wire].itemsize:
        raise PeerError(f"a vector came with {len(data)} bytes, expected {numbers} numbers of {wire}; dropped")
    stored: Array = np.frombuffer(data, dtype=_STORED[wire])
    vector: Vector = (stored.astype(np.uint32) << 16).view(np.float32) if wire == "bfloat16" else stored
    if finite and not _finite(vector):
        raise PeerError(
            "a vector came with numbers that are not finite; dropped, check the sender's data and step size"
        )
    vector.flags.writeable = False
    return vector


def rounded(vector: Vector, wire: str, saturate: bool = False) -> Vector:
    """Return the vector as the other side will decode it; ``saturate`` cuts numbers that are too large to the largest.

    >>> rounded(np.array([1e6, 0.5]), "float16", saturate=True).tolist()
    [65504.0, 0.5]
    """
    if saturate:
        most = largest(wire)
        vector = np.maximum(np.minimum(vector, most), -most)  # np.clip takes five times as long
    if wire == "bfloat16":
        return decode(encode(vector, wire), wire, len(vector))
    item_bytes(wire)
    with np.errstate(all="ignore"):
        narrow: Vector = np.array(vector, dtype=_STORED[wire])
    if not _finite(narrow):
        raise _does_not_fit(wire)
    narrow.flags.writeable = False
    return narrow


def largest(wire: str) -> float:
    """Return the largest number of type ``wire``."""
    if wire == "bfloat16":
        return float.fromhex("0x1.fep127")
    return float(np.finfo(_STORED[wire]).max)


def _to_bfloat16(vector: Vector) -> npt.NDArray[np.uint16]:
    """Round once: to a float32 whose last bit marks a truncation, then to its upper half."""
    with np.errstate(all="ignore"):
        single = vector.astype(np.float32)
    back = single.astype(vector.dtype)
    bits = single.view(np.uint32)
    bits = bits - (np.abs(back) > np.abs(vector)).astype(
        np.uint32
    )  # towards zero; an infinity becomes the largest float
    bits |= (back != vector).astype(np.uint32)
    upper = ((bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16).astype("<u2")
    if not np.isfinite(vector).all() or ((upper & 0x7F80) == 0x7F80).any():
        raise _does_not_fit("bfloat16")
    return upper


def _finite(vector: Vector) -> bool:
    """Return True if all numbers are finite; checked in pieces that fit the cache."""
    return all(np.isfinite(vector[low : low + PIECE]).all() for low in range(0, len(vector), PIECE))


def _does_not_fit(wire: str) -> Diverged:
    return Diverged(
        f"a vector has numbers that are not finite in {wire}: the run diverged or does not fit the wire's floats; "
        f"lower the step size or widen the wire"
    )
