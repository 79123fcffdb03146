"""Identity: the role and the name that a peer has proved, as its certificate spells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import quote, unquote

Role = Literal["server", "client", "aggregator"]
URN = "urn:crescendo:"


@dataclass(frozen=True)
class Identity:
    """What a peer has proved to be."""

    role: Role
    name: str

    @property
    def uri(self) -> str:
        """As it stands in a certificate."""
        return f"{URN}{self.role}:{quote(self.name, safe='')}"

    @staticmethod
    def of(uri: str) -> Identity | None:
        """
        >>> Identity.of(Identity("client", "Blue Airways").uri)
        Identity(role='client', name='Blue Airways')
        """
        role, colon, name = uri.removeprefix(URN).partition(":")
        if not uri.startswith(URN) or not colon or role not in get_args(Role):
            return None
        return Identity(role, unquote(name))  # type: ignore[arg-type]  # checked above
