"""Versions of both sides: which program each is, and the protocol that they speak with each other.

Each side says in its first message which protocols it speaks, from the lowest to the highest. They speak the highest that both
know; if there is none, each refuses the other in a sentence that says which of them to upgrade. A side that says nothing is older
than this message and speaks protocol 1.

Nothing that protects a client may depend on the number that is agreed on, for the server has its say in it: terms, policy, noise,
ledger and what is sent are the same under each. It may only choose how the same facts are written.

| protocol | since | what is new |
|---|---|---|
| 1 | 0.1 | |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from crescendo import __version__
from crescendo.build import build_id
from crescendo.errors import PeerError
from crescendo.network.protocol.codec import FieldKind

LOWEST, HIGHEST = 1, 1  # protocols that this program speaks
_BUILD = re.compile(r"[0-9a-f]{4,64}")
UNKNOWN = "unknown"  # the version of a program that sends none
_PROGRAM = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,63}")  # as PEP 440 writes versions


def _read_program(what: str, text: str) -> str:
    """A peer's text goes to logs and terminals, so that nothing but a version gets in."""
    if not _PROGRAM.fullmatch(text):
        raise PeerError("a message came with a version that no program has; dropped, check the sender")
    return text


def _read_build(what: str, text: str) -> str:
    if text and not _BUILD.fullmatch(text):
        raise PeerError("a message came with a build that no program has; dropped, check the sender")
    return text


PROGRAM_IF_ANY = FieldKind(lambda what, text: _read_program(what, text) if text else UNKNOWN)


@dataclass(frozen=True, slots=True)
class PeerVersion:
    """The version of a side's program, and the protocols that it speaks.

    >>> newer = PeerVersion("0.9.0", 2, 4)
    >>> print(newer, "-", OURS.common(None), newer.common(PeerVersion("0.5.0", 1, 3)), newer.common(OURS))
    Crescendo 0.9.0, which speaks protocol 2 to 4 - 1 3 None
    """

    program: Annotated[str, FieldKind(_read_program)] = __version__
    lowest: int = LOWEST
    highest: int = HIGHEST
    build: Annotated[str, FieldKind(_read_build)] = ""

    def check(self) -> None:
        """`PeerError` for a range that holds nothing."""
        if not 1 <= self.lowest <= self.highest:
            raise PeerError("a message came with a range of protocols that holds none; dropped, check the sender")

    def __str__(self) -> str:
        which = self.lowest if self.lowest == self.highest else f"{self.lowest} to {self.highest}"
        program = "of an unknown version" if self.program == UNKNOWN else self.program
        return f"Crescendo {program}, which speaks protocol {which}"

    def common(self, other: PeerVersion | None) -> int | None:
        """The protocol that both speak with each other; None if there is none."""
        theirs = other or OLD
        found = min(self.highest, theirs.highest)
        return found if found >= max(self.lowest, theirs.lowest) else None

    def narrowed(self, by: PeerVersion) -> PeerVersion:
        """What passes a side between these two: their program, and the protocols that it speaks too."""
        return replace(self, lowest=max(self.lowest, by.lowest), highest=min(self.highest, by.highest))

    def speak_with(self, other: PeerVersion | None, me: str, them: str) -> int:
        """The protocol to speak, or `PeerError` that names both versions and whom to upgrade."""
        found, theirs = self.common(other), other or OLD
        if found is None:
            (older, _), (_, newer) = sorted([(me, self), (them, theirs)], key=lambda side: side[1].highest)
            wanted = f"one that speaks protocol {newer.lowest}"
            to = wanted if newer.program == UNKNOWN else f"{newer.program}, or {wanted}"
            raise PeerError(f"{them} runs {theirs}, and {me} runs {self}; upgrade {older} to {to}")
        return found


OLD = PeerVersion(UNKNOWN, 1, 1)  # a peer that says nothing
OURS = PeerVersion(build=build_id())


def program_of(version: PeerVersion | None) -> str:
    """The version of a peer's program, for people to read."""
    return UNKNOWN if version is None else version.program
