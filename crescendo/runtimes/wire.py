"""Vectors on the wire: floats to bytes and back, whole or in parts, and what a message costs.

Nothing here needs the network's libraries; the messages themselves are in `crescendo.runtimes.wire_messages`.

A vector is the raw little-endian bytes of its floats. One that is longer than `PART` bytes travels in parts, each `PART` bytes
long but for the last, in order. A part 0 begins a vector and drops one that was not finished: a newer broadcast supersedes an
older one half way. So a receiver holds at most one unfinished vector per peer, of a length that it knows beforehand, and of
that only what has come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.core.messages import Vector
from crescendo.core.spares import Spares
from crescendo.errors import PeerError, UsageError

OVERHEAD = 32  # bytes of a message that are not its vector: round, client, k, hash of the terms
PIECE = 1 << 18  # numbers that are looked at together
PART = 1 << 20  # bytes of a vector in one message; gRPC's limit is 4 MiB

# Name -> how the bytes are stored. NumPy has no bfloat16: it is the upper half of a float32, kept as an integer.
_STORED: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),
}
WIRES = tuple(_STORED)

Raw = bytes | memoryview  # what is large is passed on as a view of where it lies: copies cost more than sums


def item_bytes(wire: str) -> int:
    """Bytes of one number.

    >>> [item_bytes(wire) for wire in WIRES]
    [4, 8, 2, 2]
    """
    if wire not in _STORED:
        raise UsageError(f"the wire carries {', '.join(WIRES)}, not {wire!r}; choose one of them")
    return _STORED[wire].itemsize


def message_bytes(numbers: int, wire: str) -> int:
    """Bytes of a message whose vector has ``numbers`` floats of type ``wire``.

    >>> message_bytes(124, "float32")
    528
    """
    return numbers * item_bytes(wire) + OVERHEAD


# -- floats to bytes and back ------------------------------------------------------------------------------------------


def encode(vector: Vector, wire: str = "float32") -> bytes:
    """The bytes of a vector, each number rounded to the nearest that ``wire`` has (ties to even).

    >>> encode(np.array([1.0, -2.0]), "bfloat16").hex()
    '803f00c0'
    """
    return bytes(encoded(vector, wire))


def encoded(vector: Vector, wire: str = "float32", spares: Spares | None = None) -> memoryview:
    """The same as a view of the rounded numbers, in memory that ``spares`` has if it is given."""
    item_bytes(wire)
    if wire == "bfloat16":
        return _to_bfloat16(np.asarray(vector)).data.cast("B")
    narrow = (spares or Spares()).room(len(vector), _STORED[wire])
    with np.errstate(all="ignore"):
        np.copyto(narrow, vector, casting="same_kind")
    if not _finite(narrow):
        raise _does_not_fit(wire)
    return narrow.data.cast("B")


def decode(data: Raw, wire: str, numbers: int, finite: bool = True) -> Vector:
    """The vector of exactly ``numbers`` finite floats in ``data``; read-only, and a view of ``data`` where it can be.

    bfloat16 comes out as float32, which has all its values. Without ``finite`` it is left to the caller to look at them.

    >>> decode(bytes.fromhex("803f00c0"), "bfloat16", 2)
    array([ 1., -2.], dtype=float32)
    """
    if wire not in _STORED:
        raise PeerError(f"a vector came as {str(wire)[:20]!r}, which is none of {', '.join(WIRES)}; dropped")
    if len(data) != numbers * _STORED[wire].itemsize:
        raise PeerError(f"a vector came with {len(data)} bytes, expected {numbers} numbers of {wire}; dropped")
    stored: npt.NDArray[Any] = np.frombuffer(data, dtype=_STORED[wire])
    vector: Vector = (stored.astype(np.uint32) << 16).view(np.float32) if wire == "bfloat16" else stored
    if finite and not _finite(vector):
        raise PeerError(
            "a vector came with numbers that are not finite; dropped, check the sender's data and step size"
        )
    vector.flags.writeable = False
    return vector


def rounded(vector: Vector, wire: str, saturate: bool = False) -> Vector:
    """What the other side will decode: a client moves by this. With ``saturate`` what is too large is cut to the largest.

    >>> rounded(np.array([1e6, 0.5]), "float16", saturate=True).tolist()
    [65504.0, 0.5]
    """
    if saturate:
        vector = np.clip(vector, -largest(wire), largest(wire))
    if wire == "bfloat16":
        return decode(encode(vector, wire), wire, len(vector))
    item_bytes(wire)
    with np.errstate(all="ignore"):  # whatever a model of somebody's own has set
        narrow: Vector = np.array(vector, dtype=_STORED[wire])
    if not _finite(narrow):
        raise _does_not_fit(wire)
    narrow.flags.writeable = False
    return narrow


def largest(wire: str) -> float:
    """The largest number that ``wire`` can carry."""
    if wire == "bfloat16":
        return float.fromhex("0x1.fep127")
    return float(np.finfo(_STORED[wire]).max)


def _to_bfloat16(vector: Vector) -> npt.NDArray[np.uint16]:
    """Round once: to a float32 that remembers by its last bit that something was cut, then to its upper half."""
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
    """Are all numbers finite? In pieces that fit the cache."""
    return all(np.isfinite(vector[low : low + PIECE]).all() for low in range(0, len(vector), PIECE))


def _does_not_fit(wire: str) -> UsageError:
    return UsageError(
        f"a vector has numbers that are not finite in {wire}: the run diverged or does not fit the wire's floats; "
        f"lower the step size or widen the wire"
    )


# -- parts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A piece of a vector of ``numbers`` floats; ``about`` is the round of an update, or the k of a broadcast."""

    about: int
    part: int
    parts: int
    wire: str
    numbers: int
    data: Raw


def parts_of(size: int) -> int:
    """How many parts a vector of ``size`` bytes has."""
    return max(1, -(-size // PART))


def split(about: int, data: Raw, wire: str) -> Iterator[Part]:
    """The parts of a vector; they are views, the bytes are not copied."""
    numbers, parts, view = len(data) // item_bytes(wire), parts_of(len(data)), memoryview(data)
    for part in range(parts):
        yield Part(about, part, parts, wire, numbers, view[part * PART : (part + 1) * PART])


class Assembly:
    """Puts the parts that one peer sends together again, one vector at a time.

    ``longest`` is the most numbers a vector may have; ``wires`` are the types that are agreed on; ``spares``, which several may
    share, has the room for whole ones. What breaks the rules is refused and ends the vector in hand; a part 0 begins the next.
    """

    def __init__(self, longest: int, wires: tuple[str, ...] = WIRES, spares: Spares | None = None) -> None:
        self._longest, self._wires, self._spares = longest, wires, spares
        self._first: Part | None = None
        self._next = self.held = 0  # the part that is due, and the bytes of the unfinished vector that are held now
        self._whole = memoryview(b"")

    def add(self, part: Part) -> Raw | None:
        """The bytes of the whole vector, once its last part is there; else None."""
        try:
            return self._add(part)
        except PeerError:
            self.drop()
            raise

    def drop(self) -> None:
        """Forget the unfinished vector."""
        self._first, self._next, self.held, self._whole = None, 0, 0, memoryview(b"")

    def _add(self, part: Part) -> Raw | None:
        if part.part == 0:
            self.drop()
            self._check_first(part)
            self._first = part
        first = self._first
        if first is None or part.part != self._next or _header(part) != _header(first):
            raise PeerError(
                f"part {part.part} of {part.parts} about {part.about} came out of turn; dropped, begin again with part 0"
            )
        size = part.numbers * item_bytes(part.wire)
        if len(part.data) != min(PART, size - part.part * PART):
            raise PeerError(
                f"part {part.part} of {part.parts} about {part.about} came with {len(part.data)} bytes, which is not its "
                f"length; dropped, send parts of {PART} bytes and a shorter last one"
            )
        if part.parts == 1:
            self.drop()
            return part.data
        if part.part == 0:  # room for all of it; the system gives memory only for what is written there
            self._whole = (self._spares or Spares()).room(size, np.dtype(np.uint8)).data
        self._whole[self.held : self.held + len(part.data)] = part.data
        self._next, self.held = part.part + 1, self.held + len(part.data)
        if self._next < part.parts:
            return None
        whole = self._whole.toreadonly()
        self.drop()
        return whole

    def _check_first(self, part: Part) -> None:
        if part.wire not in self._wires:
            raise PeerError(f"a vector comes as {str(part.wire)[:20]!r}, agreed is {' or '.join(self._wires)}; dropped")
        if not 1 <= part.numbers <= self._longest:
            raise PeerError(
                f"a vector of {part.numbers} numbers is announced, at most {self._longest} are agreed; dropped"
            )
        if part.parts != parts_of(part.numbers * item_bytes(part.wire)):
            raise PeerError(
                f"{part.parts} parts are announced for {part.numbers} numbers of {part.wire}; dropped, use parts of {PART} bytes"
            )


def _header(part: Part) -> tuple[int, int, str, int]:
    return part.about, part.parts, part.wire, part.numbers
