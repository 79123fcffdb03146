"""Codec: messages to protobuf and back, by what their fields declare.

A message is a frozen dataclass with the fields of its protobuf message. A field is annotated with its `FieldKind`, which says how
it is written and how it is checked when a peer has sent it. `Codec.decode` raises `PeerError` for whatever a sound peer would
not send, before anything uses it. Nothing is kept between calls.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

from crescendo.core.messages import Settled
from crescendo.errors import PeerError, UsageError
from crescendo.federation.peer_text import cleaned

LARGEST = 2**53  # rounds, k, epochs, lengths: exact in every language's numbers
LONGEST_NAME = 128  # characters of a name, federation or token
TEXT = 1000  # characters of a reason
TERMS = 2 << 20  # characters of the terms
BEYOND = 1 << 16  # rounds that may have overtaken


class FieldKind(NamedTuple):
    """How a field is read, or `PeerError`, and written. ``label`` is what sentences call it, ``proto`` its name in protobuf."""

    read: Callable[[str, Any], Any]
    write: Callable[[Any], Any] = lambda value: value
    label: str = ""
    proto: str = ""


class _Field(NamedTuple):
    name: str
    proto: str
    label: str
    optional: bool
    kind: FieldKind


class MessageType:
    """How the messages of one class are written as one type of protobuf's messages, and read."""

    def __init__(self, made: type[Any], descriptor: Any) -> None:
        from google.protobuf.message_factory import GetMessageClass

        self._made, self._proto = made, GetMessageClass(descriptor)
        self._fields = list(self._declared(get_type_hints(made, include_extras=True)))
        self._check = getattr(made, "check", lambda message: None)  # of what its fields say together

    def _declared(self, hints: dict[str, Any]) -> Iterator[_Field]:
        for one in fields(self._made):
            hint, *more = get_args(hints[one.name]) if hasattr(hints[one.name], "__metadata__") else (hints[one.name],)
            if is_dataclass(hint) and not more:
                inner = MessageType(hint, self._proto.DESCRIPTOR.fields_by_name[one.name].message_type)  # type: ignore[arg-type]
                kind = FieldKind(lambda _, value, inner=inner: inner.read(value), inner.write)  # type: ignore[misc]
            else:
                kind = more[0] if more else FieldKind(lambda _, value: value)
            yield _Field(one.name, kind.proto or one.name, kind.label or one.name, NoneType in get_args(hint), kind)

    def write(self, message: Any) -> Any:
        """The protobuf message; a field that is None is left out."""
        values = [(one, getattr(message, one.name)) for one in self._fields]
        return self._proto(**{one.proto: one.kind.write(value) for one, value in values if value is not None})

    def read(self, message: Any) -> Any:
        """The message, or `PeerError`."""
        found = []
        for _, proto, label, optional, kind in self._fields:
            missing = optional and not message.HasField(proto)
            found.append(None if missing else kind.read(label, getattr(message, proto)))
        made = self._made(*found)
        self._check(made)
        return made


class Codec:
    """The messages of one direction: ``whole`` holds one of ``types``, under its name; ``sender`` is who sends them."""

    def __init__(self, whole: Any, sender: str, **types: type[Any]) -> None:
        self.whole, self._sender, described = whole, sender, whole.DESCRIPTOR.fields_by_name
        self._readers = {name: MessageType(made, described[name].message_type) for name, made in types.items()}
        self._writers = {made: (name, self._readers[name]) for name, made in types.items()}

    def encode(self, message: Any) -> Any:
        """The protobuf message that carries a message."""
        name, found = self._writers[type(message)]
        return self.whole(**{name: found.write(message)})

    def decode(self, message: Any) -> Any:
        """What the other side said, or `PeerError`."""
        name = message.WhichOneof("message")
        if name is None:
            raise PeerError(f"{self._sender} sent a message of no kind that is known here; dropped, check its version")
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


def _digest(what: str, text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise PeerError("a message came with a digest of terms that is not 64 hex digits; dropped, check the sender")
    return text


def _sent_terms(text: str) -> str:
    if len(text) > TERMS:
        raise UsageError(f"the terms are {len(text)} characters long, at most {TERMS} can be sent")
    return text


def _read_settled(what: str, settled: Any) -> Settled:
    below, beyond = _number("round", settled.below), settled.beyond
    if len(beyond) > BEYOND:
        raise PeerError(f"a set of rounds came with {len(beyond)} that overtook, at most {BEYOND} can be; dropped")
    before = below  # the round `below` itself is not settled, or `below` would be larger
    for round in beyond:
        if not before < round < LARGEST:
            raise PeerError("a set of rounds came that is not in rising order; dropped, check the sender")
        before = round
    return Settled(below, frozenset(beyond))


NUMBER, ROUND = FieldKind(_number), FieldKind(_number, label="round")
NAME, REQUIRED_NAME = FieldKind(_name), FieldKind(_required_name)
DIGEST = FieldKind(_digest)  # of the terms
DIGEST_IF_ANY = FieldKind(lambda what, text: text and _digest(what, text))
AGREED_TERMS = FieldKind(lambda what, text: _text(what, text, TERMS), _sent_terms)
REASON = FieldKind(  # for people to read: whatever it holds, it steers no terminal
    lambda what, text: cleaned(_text(what, text, TEXT)), lambda text: text[:TEXT]
)
SETTLED = FieldKind(_read_settled, lambda settled: {"below": settled.below, "beyond": sorted(settled.beyond)})
