"""Authenticator: admits a peer under its own name only, by its token or its certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crescendo.errors import PeerError
from crescendo.network.transport.security.identity import Identity
from crescendo.network.transport.security.party_files import CA, CERTIFICATE, KEY, NEXT_KEY, TOKENS
from crescendo.network.transport.security.party_folder import PartyFolder
from crescendo.network.transport.security.reloaded_files import Stamp, stamp_of
from crescendo.network.transport.security.revocation import REVOKED, Revocations
from crescendo.network.transport.security.tokens import TokenBook

Admit = Callable[[str, str, Any], None]  # takes a name, a token and the gRPC call; PeerError for a stranger


def everybody(name: str, token: str, context: Any) -> None:
    """Admit every peer: without TLS all peers are on this machine."""


@dataclass(frozen=True)
class Authenticator:
    """Admits a peer under its own name only. It reads the token list each time, so that an operator can remove a name."""

    tokens: Path | None = None
    folder: Path | None = None
    revocations: Revocations | None = None

    @staticmethod
    def of(folder: Path) -> Authenticator:
        """The authenticator of a server's folder."""
        tokens = folder / TOKENS
        if tokens.exists():
            TokenBook.read(tokens)
        revocations = Revocations(folder / REVOKED, folder / CA)
        return Authenticator(tokens if tokens.exists() else None, folder, revocations)

    def stamp(self) -> Stamp:
        """Return a stamp that changes with any file that decides which peers are admitted, or what the server shows."""
        names = (TOKENS, REVOKED, CA, CERTIFICATE, KEY, NEXT_KEY)
        listed = [self.tokens] if self.folder is None else [self.folder / name for name in names]
        return stamp_of(path for path in listed if path is not None)

    def refresh(self) -> None:
        """Read changed files; DataError if one is not usable."""
        if self.tokens is not None:
            TokenBook.read(self.tokens)
        if self.revocations is not None:
            self.revocations.refresh()
        if self.folder is not None:
            PartyFolder(self.folder).for_serving()

    def __call__(self, name: str, token: str, context: Any) -> None:
        """Admit the peer if it is ``name`` or, with an empty ``name``, any known party; PeerError otherwise."""
        identity = self.identify(token, context)
        if identity is None or (name and identity != Identity("client", name)):
            raise PeerError(refusal(name))

    def aggregator(self, name: str, token: str, context: Any) -> None:
        """Admit an aggregator. The server then trusts it for the names of the clients below it."""
        if self.identify(token, context) != Identity("aggregator", name):
            raise PeerError(refusal(name))

    def identify(self, token: str, context: Any) -> Identity | None:
        """Return the identity that a peer has proved, by its token or its certificate; None for an unknown peer."""
        if self.tokens is not None:
            return TokenBook.read(self.tokens).owner(token)
        shown = context.auth_context()
        if self.revocations is not None and self.revocations.covers(shown.get("x509_pem_cert", ())):
            raise PeerError(
                "the certificate that was shown is revoked; refused, ask the server's operator for a new one"
            )
        for uri in shown.get("peer_uri", ()):
            identity = Identity.of(uri.decode(errors="replace"))
            if identity is not None:
                return identity
        return None


def refusal(name: str) -> str:
    """Return one text for a wrong secret, another party's secret and an unknown name, so that a peer cannot tell them apart."""
    if not name:
        return "no certificate or token that this server knows was shown; check --certs, or ask the server's operator for one"
    return (
        f"no certificate or token of {name} was shown; check that --certs is the folder that was made for {name}, or ask the "
        "server's operator for one"
    )
