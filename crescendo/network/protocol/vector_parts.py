"""Parts of long vectors: a vector's bytes are cut into messages, and put together again.

A vector that is longer than `PART` bytes travels in parts, each `PART` bytes long but for the last, in order. A part 0 begins a
vector and drops one that was not finished: a newer broadcast supersedes an older one half way. So a receiver holds at most one
unfinished vector per peer, of a length that it knows beforehand, and of that only what has come.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from crescendo.core.buffer_pool import BufferPool
from crescendo.core.vectors import WIRES, Raw, item_bytes
from crescendo.errors import PeerError
from crescendo.network.protocol.codec import NUMBER, ROUND, FieldKind

PART = 1 << 20  # bytes of a vector in one message; gRPC's limit is 4 MiB

_NUMBERS = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4}  # as in wire.proto
assert set(_NUMBERS) == set(WIRES)


_WIRES = {number: wire for wire, number in _NUMBERS.items()}


def _read_floats(what: str, number: int) -> str:
    if number not in _WIRES:
        raise PeerError(f"a vector came with floats of the unknown kind {number}; dropped")
    return _WIRES[number]


_FLOATS = FieldKind(_read_floats, _NUMBERS.__getitem__, proto="floats")
_LENGTH = NUMBER._replace(label="length")
_DATA = FieldKind(write=bytes)


def _parts_of(size: int) -> int:
    """How many parts a vector of ``size`` bytes has."""
    return max(1, -(-size // PART))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A piece of a vector of ``numbers`` floats; ``about`` is the round of an update, or the k of a broadcast."""

    about: Annotated[int, ROUND]
    part: int
    parts: int
    wire: Annotated[str, _FLOATS]
    numbers: Annotated[int, _LENGTH]
    data: Annotated[Raw, _DATA]

    @classmethod
    def split(cls, about: int, data: Raw, wire: str) -> Iterator[Self]:
        """The parts of a vector; they are views, the bytes are not copied."""
        numbers, parts, view = len(data) // item_bytes(wire), _parts_of(len(data)), memoryview(data)
        for part in range(parts):
            yield cls(about, part, parts, wire, numbers, view[part * PART : (part + 1) * PART])

    def check(self) -> None:
        """`PeerError` for what no sound peer sends."""
        if not 0 <= self.part < self.parts:
            raise PeerError(f"a part {self.part} of {self.parts} came, which cannot be; dropped")
        if len(self.data) > PART:
            raise PeerError(f"a part {self.part} of {self.parts} came with {len(self.data)} bytes; dropped")


class Assembly:
    """Puts the parts that one peer sends together again, one vector at a time.

    ``longest`` is the most numbers a vector may have; ``wires`` are the types that are agreed on; ``buffers``, which several may
    share, has the room for whole ones. What breaks the rules is refused and ends the vector in hand; a part 0 begins the next.
    """

    def __init__(self, longest: int, wires: tuple[str, ...] = WIRES, buffers: BufferPool | None = None) -> None:
        self._longest, self._wires, self._buffers = longest, wires, buffers
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
            self._whole = (self._buffers or BufferPool()).room(size, np.dtype(np.uint8)).data
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
        if part.parts != _parts_of(part.numbers * item_bytes(part.wire)):
            raise PeerError(
                f"{part.parts} parts are announced for {part.numbers} numbers of {part.wire}; dropped, use parts of {PART} bytes"
            )


def _header(part: Part) -> tuple[int, int, str, int]:
    return part.about, part.parts, part.wire, part.numbers
