"""Versions: the program that each side runs, and the protocol that the two speak.

The first message of each side gives its lowest and highest protocol. The two speak the highest that both know. If they have none
in common, each refuses the other with an error that names the side to upgrade. A side that sends no version is older than this
message and speaks protocol 1.

The server has a say in the protocol number, so no protection of a client may depend on it: terms, policy, noise, ledger and the
facts sent are the same under every protocol. The number may only choose how to write the same facts.

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
UNKNOWN = "unknown"  # the version of a program that does not send it
_PROGRAM = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,63}")  # as PEP 440 writes versions


def _read_program(what: str, text: str) -> str:
    """Return a peer's version; refuse any other text, because versions go to logs and terminals."""
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
    """The version of a program, and the protocols that it speaks.

    >>> newer = PeerVersion("0.9.0", 2, 4)
    >>> print(newer, "-", OURS.common(None), newer.common(PeerVersion("0.5.0", 1, 3)), newer.common(OURS))
    Crescendo 0.9.0, which speaks protocol 2 to 4 - 1 3 None
    """

    program: Annotated[str, FieldKind(_read_program)] = __version__
    lowest: int = LOWEST
    highest: int = HIGHEST
    build: Annotated[str, FieldKind(_read_build)] = ""

    def check(self) -> None:
        """Raise `PeerError` for an empty range of protocols."""
        if not 1 <= self.lowest <= self.highest:
            raise PeerError("a message came with a range of protocols that holds none; dropped, check the sender")

    def __str__(self) -> str:
        which = self.lowest if self.lowest == self.highest else f"{self.lowest} to {self.highest}"
        program = "of an unknown version" if self.program == UNKNOWN else self.program
        return f"Crescendo {program}, which speaks protocol {which}"

    def common(self, other: PeerVersion | None) -> int | None:
        """Return the highest protocol that both speak; None if they have none in common."""
        theirs = other or OLD
        found = min(self.highest, theirs.highest)
        return found if found >= max(self.lowest, theirs.lowest) else None

    def narrowed(self, by: PeerVersion) -> PeerVersion:
        """Return this version with only the protocols that ``by``, an aggregator in between, speaks too."""
        return replace(self, lowest=max(self.lowest, by.lowest), highest=min(self.highest, by.highest))

    def speak_with(self, other: PeerVersion | None, me: str, them: str) -> int:
        """Return the protocol to speak; without one, raise a `PeerError` that names both versions and the side to upgrade."""
        found, theirs = self.common(other), other or OLD
        if found is None:
            (older, _), (_, newer) = sorted([(me, self), (them, theirs)], key=lambda side: side[1].highest)
            wanted = f"one that speaks protocol {newer.lowest}"
            to = wanted if newer.program == UNKNOWN else f"{newer.program}, or {wanted}"
            raise PeerError(f"{them} runs {theirs}, and {me} runs {self}; upgrade {older} to {to}")
        return found


OLD = PeerVersion(UNKNOWN, 1, 1)  # a peer that sends no version
OURS = PeerVersion(build=build_id())


def program_of(version: PeerVersion | None) -> str:
    """Return the version of a peer's program, for people to read."""
    return UNKNOWN if version is None else version.program
