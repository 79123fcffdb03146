"""Identity: the role and the name that a peer has proved, and their form in a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import quote, unquote

Role = Literal["server", "client", "aggregator"]
URN = "urn:crescendo:"


@dataclass(frozen=True)
class Identity:
    """The role and name that a peer has proved."""

    role: Role
    name: str

    @property
    def uri(self) -> str:
        """The URI of this identity in a certificate."""
        return f"{URN}{self.role}:{quote(self.name, safe='')}"

    @staticmethod
    def of(uri: str) -> Identity | None:
        """Return the identity in a certificate's URI, or None if there is none.

        >>> Identity.of(Identity("client", "Blue Airways").uri)
        Identity(role='client', name='Blue Airways')
        """
        role, colon, name = uri.removeprefix(URN).partition(":")
        if not uri.startswith(URN) or not colon or role not in get_args(Role):
            return None
        return Identity(role, unquote(name))  # type: ignore[arg-type]  # checked above
