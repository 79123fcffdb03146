"""Checks of single fields: each returns what a peer sent, or raises `PeerError` for what a sound peer would not send."""

from __future__ import annotations

import re

from crescendo.errors import PeerError
from crescendo.federation.peer_text import cleaned

LARGEST = 2**53  # rounds, k, epochs, lengths: exact in every language's numbers
NAME = 128  # characters of a name, federation or token
TEXT = 1000  # characters of a reason
TERMS = 2 << 20  # characters of the terms


def checked_number(what: str, number: int) -> int:
    """A round, k, epoch or length."""
    if number >= LARGEST:
        raise PeerError(f"a message came with {what} {number}, which is beyond any run; dropped")
    return number


def checked_text(what: str, text: str, longest: int) -> str:
    """A text of bounded length."""
    if len(text) > longest:
        raise PeerError(f"a message came with a {what} of {len(text)} characters, at most {longest} can be; dropped")
    return text


def checked_reason(text: str) -> str:
    """A text for people to read: whatever it holds, it steers no terminal."""
    return cleaned(checked_text("reason", text, TEXT))


def checked_name(what: str, text: str, required: bool = False) -> str:
    """A name, federation or token."""
    if not checked_text(what, text, NAME).isprintable():
        raise PeerError(f"a message came with a {what} of characters that cannot be printed; dropped")
    if required and not text:
        raise PeerError(f"a message came without a {what}; dropped, check the sender")
    return text


def checked_digest(text: str, required: bool = True) -> str:
    """The digest of terms."""
    if re.fullmatch("[0-9a-f]{64}", text) or not (text or required):
        return text
    raise PeerError("a message came with a digest of terms that is not 64 hex digits; dropped, check the sender")
