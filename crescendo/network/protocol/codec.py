"""Codec: converts messages to protobuf and back, as their fields declare.

A message is a frozen dataclass with the fields of its protobuf message. The annotation of a field is its `FieldKind`: how to
write the field, and how to check it when a peer has sent it. `Codec.decode` raises `PeerError` for any message that a sound peer
would not send, before other code sees it. A codec keeps no state between calls.
"""

import itertools
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple, Self, get_args, get_type_hints

from crescendo.core.messages import Settled
from crescendo.errors import PeerError, UsageError
from crescendo.federation.agreement import MOST_TEXT
from crescendo.logs.peer_text import cleaned

LARGEST = 2**53  # rounds, k, epochs, lengths: exact in every language's numbers
LONGEST_NAME = 128  # characters of a name, federation or token
TEXT = 1000  # characters of a reason
TERMS = MOST_TEXT  # characters of the terms, so that every agreement fits into a message
RANGES = 1 << 12  # ranges of rounds in a set
BEYOND = 1 << 20  # rounds in a list from a peer that knows no ranges: a run has no more
LISTED = 1 << 10  # rounds in a list to such a peer; it takes the others for open, and resends them to no effect


class FieldKind(NamedTuple):
    """How to read a field (`PeerError` if it is invalid) and how to write it; None leaves the value unchanged.

    ``label`` is the field's name in error messages and ``proto`` its name in protobuf; empty means the name of the field.
    """

    read: Callable[[str, Any], Any] | None = None
    write: Callable[[Any], Any] | None = None
    label: str = ""
    proto: str = ""


class _Field(NamedTuple):
    """One field of a message: ``write`` gets the protobuf value from a message, ``read`` the value from a protobuf message."""

    proto: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]

    @classmethod
    def of(cls, name: str, kind: FieldKind, optional: bool) -> Self:
        proto, label = kind.proto or name, kind.label or name
        ours, theirs = attrgetter(name), attrgetter(proto)

        def write(message: Any) -> Any:
            value = ours(message)
            return value if value is None or kind.write is None else kind.write(value)

        def read(message: Any) -> Any:
            if optional and not message.HasField(proto):
                return None
            return theirs(message) if kind.read is None else kind.read(label, theirs(message))

        return cls(proto, write if kind.write else ours, read if kind.read or optional else theirs)


class MessageType:
    """Converts messages of one class to one type of protobuf message, and back."""

    def __init__(self, made: type[Any], descriptor: Any) -> None:
        from google.protobuf.message_factory import GetMessageClass

        self._made, self._proto = made, GetMessageClass(descriptor)
        hints = get_type_hints(made, include_extras=True)
        self._fields = [self._field(one.name, hints[one.name]) for one in fields(made)]
        self._check = getattr(made, "check", None)  # rules that involve several fields

    def _field(self, name: str, hint: Any) -> _Field:
        kind = FieldKind()
        if hasattr(hint, "__metadata__"):
            hint, kind = get_args(hint)
        elif (made := next(filter(is_dataclass, (hint, *get_args(hint))), None)) is not None:
            inner = MessageType(made, self._proto.DESCRIPTOR.fields_by_name[name].message_type)  # type: ignore[arg-type]
            kind = FieldKind(lambda _, message: inner.read(message), inner.write)
        return _Field.of(name, kind, NoneType in get_args(hint))

    def write(self, message: Any) -> Any:
        """Return the protobuf message; fields that are None are left out."""
        return self._proto(**{one.proto: one.write(message) for one in self._fields})

    def read(self, message: Any) -> Any:
        """Return the message, or raise `PeerError` if a field is invalid."""
        made = self._made(*[one.read(message) for one in self._fields])
        if self._check is not None:
            self._check(made)
        return made


class Codec:
    """The messages of one direction: ``whole`` holds one of ``types`` under its name; ``sender`` names the side that sends."""

    def __init__(self, whole: Any, sender: str, **types: type[Any]) -> None:
        self.whole, self._sender, described = whole, sender, whole.DESCRIPTOR.fields_by_name
        self._readers = {name: MessageType(made, described[name].message_type) for name, made in types.items()}
        self._writers = {made: (name, self._readers[name]) for name, made in types.items()}

    def encode(self, message: Any) -> Any:
        """Return the protobuf message that carries ``message``."""
        name, found = self._writers[type(message)]
        return self.whole(**{name: found.write(message)})

    def decode(self, message: Any) -> Any:
        """Return the message inside ``message``, or raise `PeerError` if it is invalid."""
        name = message.WhichOneof("message")
        if name is None:
            raise PeerError(f"{self._sender} sent a message of an unknown kind; dropped, check its version")
        return self._readers[name].read(getattr(message, name))


# -- kinds of fields ---------------------------------------------------------------------------------------------------


def _number(what: str, number: int) -> int:
    if number >= LARGEST:
        raise PeerError(f"a message came with {what} {number}, which is beyond any run; dropped")
    return number


def _text(what: str, text: str, longest: int) -> str:
    if len(text) > longest:
        raise PeerError(f"a message came with a {what} of {len(text)} characters, at most {longest} can be; dropped")
    return text


def _name(what: str, text: str) -> str:
    if not _text(what, text, LONGEST_NAME).isprintable():
        raise PeerError(f"a message came with a {what} of characters that cannot be printed; dropped")
    return text


def _required_name(what: str, text: str) -> str:
    if not text:
        raise PeerError(f"a message came without a {what}; dropped, check the sender")
    return _name(what, text)


_SHA256 = re.compile("[0-9a-f]{64}")


def _digest(what: str, text: str) -> str:
    if not _SHA256.fullmatch(text):
        raise PeerError("a message came with a digest of terms that is not 64 hex digits; dropped, check the sender")
    return text


def _sent_terms(text: str) -> str:
    if len(text) > TERMS:
        raise UsageError(f"the terms are {len(text)} characters long, at most {TERMS} can be sent")
    return text


def _read_settled(what: str, settled: Any) -> Settled:
    below, ranges, beyond = _number("round", settled.below), settled.ranges, settled.beyond
    if len(ranges) > 2 * RANGES or len(beyond) > BEYOND:
        many = f"{max(len(ranges) // 2, len(beyond)):,}"
        raise PeerError(f"a set of rounds came with {many} that overtook, at most {RANGES:,} ranges can be; dropped")
    if len(ranges) % 2:
        raise PeerError("a set of rounds came with half a range; dropped, check the sender")
    before = below  # the round `below` itself is open, or `below` would be larger
    for round in ranges or beyond:
        if not before < round < LARGEST:
            raise PeerError("a set of rounds came that is not in rising order; dropped, check the sender")
        before = round
    if not ranges:
        return Settled(below).joined((i, i + 1) for i in beyond)
    return Settled(below, tuple(zip(ranges[::2], ranges[1::2], strict=True)))


def write_settled(settled: Settled) -> dict[str, Any]:
    """Return the fields of a set of rounds: its ranges, and a list of single rounds for a peer that knows no ranges."""
    listed = (i for first, stop in settled.beyond for i in range(first, stop))
    ranges = [bound for pair in settled.beyond[:RANGES] for bound in pair]
    return {"below": settled.below, "beyond": list(itertools.islice(listed, LISTED)), "ranges": ranges}


NUMBER = FieldKind(_number)
ROUND = NUMBER._replace(label="round")
NAME, REQUIRED_NAME = FieldKind(_name), FieldKind(_required_name)
DIGEST = FieldKind(_digest)  # of the terms
DIGEST_IF_ANY = FieldKind(lambda what, text: text and _digest(what, text))
AGREED_TERMS = FieldKind(lambda what, text: _text(what, text, TERMS), _sent_terms)
REASON = FieldKind(  # for people to read: control characters are removed, so that it cannot steer a terminal
    lambda what, text: cleaned(_text(what, text, TEXT)), lambda text: text[:TEXT]
)
SETTLED = FieldKind(_read_settled, write_settled)
