"""Entries of the server's journal, as frozen data and as bytes. No pickle: fixed fields, JSON, raw floats.

A vector is stored as it came over the wire, with its offset in the model, so that a replay needs no other input.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.core.arrays import Vector
from crescendo.core.messages import Pair
from crescendo.core.vectors import WIRES, Raw, decode, item_bytes
from crescendo.errors import DataError


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """The first entry: the terms, the model at the start, and the clients that rounds wait for from the start."""

    terms: str
    digest: str
    model: Vector
    present: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """Client ``client`` joined for the first time, as this instance; no other instance may use its name."""

    client: int
    instance: str


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """The update of a round: ``data`` is its delta on the wire, to be subtracted from the model from ``low`` on."""

    round: int
    client: int
    wire: str
    data: Raw
    low: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """The sum of several updates, from an aggregator."""

    pairs: tuple[Pair, ...]
    wire: str
    data: Raw
    low: int = 0


@dataclass(frozen=True, slots=True)
class Voided:
    """The update of a round will never come, or was refused permanently for ``reason``."""

    round: int
    client: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """The client has been silent for too long; rounds no longer wait for it."""

    client: int


@dataclass(frozen=True, slots=True)
class Back:
    """The client has joined or returned; ``last`` is the last round that it sent, -1 for none."""

    client: int
    last: int


@dataclass(frozen=True, slots=True)
class Left:
    """The client is gone for good."""

    client: int


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """The server was opened from a state older than it had published; ``why`` is the evidence."""

    epoch: int
    why: str = ""


Entry = Opened | Registered | Received | Summed | Voided | Absent | Back | Left | NewEpoch

_PLAIN: dict[int, type[Any]] = {2: Registered, 4: Voided, 5: Absent, 6: Back, 7: Left, 8: NewEpoch}
_OPENED, _RECEIVED, _SUMMED = 1, 3, 9
_KINDS: dict[type[Any], int] = {kind: number for number, kind in _PLAIN.items()}
_UPDATE = struct.Struct("<QIIQ")  # round, client, wire, low
_SUM = struct.Struct("<IIQ")  # pairs, wire, low
_PAIR = struct.Struct("<QI")


def to_bytes(entry: Entry) -> tuple[int, list[bytes | memoryview]]:
    """Return the kind of a journal record and its body in pieces, without copying large bytes."""
    match entry:
        case Received(round, client, wire, data, low):
            return _RECEIVED, [_UPDATE.pack(round, client, WIRES.index(wire), low), data]
        case Summed(pairs, wire, data, low):
            head = _SUM.pack(len(pairs), WIRES.index(wire), low)
            return _SUMMED, [head, b"".join(_PAIR.pack(*pair) for pair in pairs), data]
        case Opened(terms, digest, model, present):
            text = _json({"terms": terms, "digest": digest, "present": present})
            return _OPENED, [len(text).to_bytes(4, "little"), text, np.asarray(model, dtype="<f8").tobytes()]
        case _:
            return _KINDS[type(entry)], [_json({name: getattr(entry, name) for name in entry.__slots__})]


def from_bytes(kind: int, body: bytes) -> Entry:
    """Decode the entry in a journal record."""
    try:
        return _read(kind, memoryview(body))
    except (KeyError, IndexError, TypeError, ValueError, struct.error) as error:
        raise DataError(
            f"the journal has an entry of kind {kind} that cannot be read; use the version of Crescendo that wrote it"
        ) from error


def _read(kind: int, body: memoryview) -> Entry:
    if kind == _RECEIVED:
        round, client, wire, low = _UPDATE.unpack_from(body)
        return Received(round, client, WIRES[wire], bytes(body[_UPDATE.size :]), low)
    if kind == _SUMMED:
        count, wire, low = _SUM.unpack_from(body)
        end = _SUM.size + count * _PAIR.size
        pairs = tuple((i, c) for i, c in _PAIR.iter_unpack(body[_SUM.size : end]))
        return Summed(pairs, WIRES[wire], bytes(body[end:]), low)
    if kind == _OPENED:
        end = 4 + int.from_bytes(body[:4], "little")
        fields = json.loads(bytes(body[4:end]))
        model = np.frombuffer(body[end:], dtype="<f8")
        return Opened(fields["terms"], fields["digest"], model, tuple(fields["present"]))
    entry: Entry = _PLAIN[kind](**json.loads(bytes(body)))
    return entry


def delta_of(entry: Received | Summed) -> Vector:
    """Decode the numbers of an update or sum."""
    return decode(entry.data, entry.wire, len(entry.data) // item_bytes(entry.wire))


def _json(fields: dict[str, Any] | Sequence[Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
