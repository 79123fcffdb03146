"""A party's folder: the credentials to connect or listen with, and checks that refuse a wrong folder early."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import grpc

from crescendo.errors import DataError, UsageError
from crescendo.network.transport.security import certificate_file
from crescendo.network.transport.security.certificate_file import belongs, read_certificate
from crescendo.network.transport.security.identity import Identity
from crescendo.network.transport.security.party_files import (
    CA,
    CERTIFICATE,
    KEY,
    NEXT_KEY,
    TOKEN,
    TOKENS,
    read,
    read_secret,
)
from crescendo.network.transport.security.reloaded_files import ReloadedFiles

Purpose = Literal["serve", "ask"]


@dataclass(frozen=True)
class PartyFolder:
    """The folder of one party, with the credentials to connect or listen with."""

    path: Path

    def server_credentials(self) -> Any:
        """Return the credentials of a server or aggregator. Clients must show a certificate of the same authority, or tokens.

        gRPC calls ``changed`` before each handshake to get new credentials.
        """
        mutual, files = not (self.path / TOKENS).exists(), ReloadedFiles(self._files, self.for_serving)
        used = [files()]

        def changed() -> Any:
            found = files()
            if found == used[0]:
                return None
            used[0] = found
            return _configuration(*found)

        return grpc.dynamic_ssl_server_credentials(_configuration(*used[0]), changed, mutual)

    def client_credentials(self, pinned: bytes | None = None) -> Callable[[], Any]:
        """Return a function that makes a client's credentials. With ``pinned`` (DER) it accepts only that server certificate."""

        def read() -> Any:
            roots = self._authorities() if pinned is None else ssl.DER_cert_to_PEM_cert(pinned).encode()
            own = (self.path / CERTIFICATE).exists()
            return grpc.ssl_channel_credentials(roots, *(self._pair() if own else (None, None)))

        return ReloadedFiles(self._files, read)

    def token(self) -> Callable[[], str]:
        """Return a function that returns the party's current token, or an empty string."""
        path = self.path / TOKEN
        return ReloadedFiles((path,), lambda: read_secret(path).decode().strip() if path.exists() else "")

    @property
    def _files(self) -> list[Path]:
        return [self.path / name for name in (CA, CERTIFICATE, KEY, NEXT_KEY)]

    def for_serving(self) -> tuple[bytes, bytes, bytes]:
        return *self._pair(), self._authorities()

    def _authorities(self) -> bytes:
        """Return the trusted authorities: one or, while a new one replaces it, several."""
        from cryptography import x509

        pem = read(self.path / CA)
        try:
            x509.load_pem_x509_certificates(pem)
        except ValueError:
            raise DataError(f"{self.path / CA} is not a certificate; make it with `crescendo certs`") from None
        return pem

    def _pair(self) -> tuple[bytes, bytes]:
        """Return the key and its certificate: the next key as soon as the requested certificate is there."""
        key, following = read_secret(self.path / KEY), self.path / NEXT_KEY
        certificate = read(self.path / CERTIFICATE)
        for one in (key, *([read_secret(following)] if following.exists() else ())):
            if belongs(one, certificate):
                return one, certificate
        raise DataError(
            f"{self.path} has no key that belongs to its {CERTIFICATE}; put the key back, or ask for a certificate with "
            f"`crescendo certs request`"
        )

    def check(self, purpose: Purpose) -> None:
        """Refuse an unsuitable folder before connecting: a failed handshake gives neither side the reason."""
        folder = self.path
        if not (folder / CA).exists() and (inside := self._parties(purpose)):
            some = ", ".join(map(str, inside[:4])) + (", .." if len(inside) > 4 else "")
            raise UsageError(f"{folder} holds the folders of several parties; name yours with --certs: {some}")
        if purpose == "ask" and (folder / CA).exists() and not self._uses():
            raise UsageError(
                f"{folder} has neither a certificate nor a token, so no client could connect; name your own folder with --certs"
            )
        if not (folder / CERTIFICATE).exists():
            return  # a folder with a token; an incomplete folder is refused when it is read
        uses, since, until = read_certificate(folder / CERTIFICATE)
        if uses is not None and purpose not in uses:
            raise UsageError(
                f"the certificate in {folder} is a server's; use a client's or an aggregator's folder with --certs, "
                f"for example one made by `crescendo certs DIR --client operator`"
                if purpose == "ask"
                else f"the certificate in {folder} is a client's; use the folder of the server, or of the aggregator that "
                f"listens, with --certs"
            )
        now = certificate_file.now()
        if not since <= now <= until:
            raise DataError(
                f"the certificate in {folder} is valid from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC and it is "
                f"{now:%Y-%m-%d %H:%M}; to renew it, remove {CA} beside it where it was made and run `crescendo certs` again"
            )

    def check_name(self, name: str) -> None:
        """Refuse another party's certificate. One made elsewhere may have no name; the server then decides."""
        owner = self._owner() if (self.path / CERTIFICATE).exists() else None
        if owner is not None and owner.name != name:
            raise UsageError(
                f"the certificate in {self.path} is {owner.name}'s, and --as says {name}; name the folder of {name} with "
                f"--certs, or say --as {owner.name}"
            )

    def _owner(self) -> Identity | None:
        from cryptography import x509

        found = x509.load_pem_x509_certificate(read(self.path / CERTIFICATE))
        try:
            names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return None
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        return next((owner for uri in uris if (owner := Identity.of(uri)) is not None), None)

    def _parties(self, purpose: Purpose) -> list[Path]:
        """Return party folders inside this one: those that `crescendo certs` made, or a copy one level too deep."""
        found = sorted(file.parent for depth in ("*", "*/*") for file in self.path.glob(f"{depth}/{CA}"))
        return [place for place in found if purpose in PartyFolder(place)._uses()]

    def _uses(self) -> set[str]:
        """Return the uses of the folder; none for the authority's folder."""
        if not (self.path / CERTIFICATE).exists():
            return {"ask"} if (self.path / TOKEN).exists() else set()
        uses, _, _ = read_certificate(self.path / CERTIFICATE)
        return {"serve", "ask"} if uses is None else uses


def _configuration(key: bytes, certificate: bytes, authorities: bytes) -> Any:
    return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)
