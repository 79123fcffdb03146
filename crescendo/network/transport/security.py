"""Who is who on the network: TLS, mutual TLS, and tokens that belong to one name.

Each party has a folder of its own, made by `crescendo certs` or by hand:

    ca.pem       the authority that this federation trusts, and no other
    cert.pem     this party's certificate, and key.pem its key (a client that shows a token needs neither)
    next-key.pem the key of a certificate that was asked for and has not come yet (`crescendo certs request`)
    revoked.pem  at the server: certificates that are no longer accepted, signed by the authority
    token        a client's secret (instead of a certificate)
    tokens.json  at the server: who has which token, as SHA-256. If it is there clients show tokens, else certificates

A certificate says what its owner is and how it is called in a URI, ``urn:crescendo:client:NAME``, and what it may be used for:
a client's can not stand in for the server. Tokens are 256 random bits, so their plain SHA-256 gives nothing away; they are
compared in constant time. No secret is ever part of an error or a log.

A running process takes up files that have changed: a server for every new connection, a client when it connects again.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
import json
import re
import socket
import ssl
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args
from urllib.parse import quote, unquote

import grpc

from crescendo.errors import DataError, PeerError, UsageError
from crescendo.network.transport.reloaded_files import ReloadedFiles, Stamp, stamp_of
from crescendo.network.transport.revocation import REVOKED, Revocations

Role = Literal["server", "client", "aggregator"]
Purpose = Literal["serve", "ask"]
Admit = Callable[[str, str, Any], None]  # takes a name, a token and the gRPC call; PeerError for a stranger
URN = "urn:crescendo:"
CA, CERTIFICATE, KEY, TOKEN, TOKENS = "ca.pem", "cert.pem", "key.pem", "token", "tokens.json"
NEXT_KEY = "next-key.pem"
_HASH = re.compile("[0-9a-f]{64}")


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


# -- addresses ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Address:
    """``HOST:PORT``, or the path of a socket: ``unix:PATH``."""

    text: str

    def host_and_port(self) -> tuple[str, int]:
        """The two parts of ``HOST:PORT``.

        >>> Address("[::1]:7077").host_and_port(), Address("example.org:0").host_and_port()
        (('::1', 7077), ('example.org', 0))
        """
        host, _, port = self.text.rpartition(":")
        inside = host.removeprefix("[").removesuffix("]")
        if ":" in inside and host != f"[{inside}]":  # it may as well be an address without a port
            raise UsageError(
                f"{self.text} is not HOST:PORT; an IPv6 address stands in brackets, for example [::1]:7077"
            )
        if not _is_host(inside, bracketed=host != inside) or not (port.isascii() and port.isdecimal()):
            raise UsageError(f"{self.text} is not HOST:PORT; write for example 127.0.0.1:7077")
        if len(port) > 5 or int(port) > 65535:
            raise UsageError(f"{self.text} is not HOST:PORT: a port is at most 65535; write for example 127.0.0.1:7077")
        return inside, int(port)

    @property
    def is_loopback(self) -> bool:
        """Does it never leave this machine? Names other than localhost are not looked up: an answer can be forged.

        >>> texts = ("127.0.0.1:7077", "[::1]:7077", "localhost:7077", "0.0.0.0:7077", "example.org:7077")
        >>> [Address(text).is_loopback for text in texts]
        [True, True, True, False, False]
        """
        host = self.text.rpartition(":")[0].strip("[]").partition("%")[0]
        if self.text.startswith("unix:") or host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def check(self, folder: Path | None) -> None:
        """Refuse what is no address, and to speak in the clear to, or listen in the clear on, anything but this machine."""
        if not self.text.startswith("unix:"):
            self.host_and_port()
        if folder is None and not self.is_loopback:
            raise UsageError(
                f"{self.text} is not a loopback address, such as 127.0.0.1, so TLS is needed; make certificates with "
                f"`crescendo certs` and name the folder of this party with --certs"
            )


def _is_host(text: str, bracketed: bool) -> bool:
    """Could this be a host's name or address? Brackets are for IPv6 alone."""
    if not bracketed:
        return bool(text) and not any(letter.isspace() or letter in "[]" for letter in text)
    try:
        return bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False


# -- a party's folder --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartyFolder:
    """The folder of one party: what it connects or listens with."""

    path: Path

    def server_credentials(self) -> Any:
        """What a server (or aggregator) listens with: its certificate; clients must show one of the same authority, or tokens.

        gRPC asks before each handshake whether there is anything new.
        """
        mutual, files = not (self.path / TOKENS).exists(), ReloadedFiles(self._files, self._for_serving)
        used = [files()]

        def changed() -> Any:
            found = files()
            if found == used[0]:
                return None
            used[0] = found
            return _configuration(*found)

        return grpc.dynamic_ssl_server_credentials(_configuration(*used[0]), changed, mutual)

    def client_credentials(self, pinned: bytes | None = None) -> Callable[[], Any]:
        """What a client (or aggregator) connects with, each time. No server certificate but ``pinned`` (DER) will do."""

        def read() -> Any:
            roots = self._authorities() if pinned is None else ssl.DER_cert_to_PEM_cert(pinned).encode()
            own = (self.path / CERTIFICATE).exists()
            return grpc.ssl_channel_credentials(roots, *(self._pair() if own else (None, None)))

        return ReloadedFiles(self._files, read)

    def token(self) -> Callable[[], str]:
        """The party's token as it is now; empty if it has none."""
        path = self.path / TOKEN
        return ReloadedFiles((path,), lambda: _secret(path).decode().strip() if path.exists() else "")

    @property
    def _files(self) -> list[Path]:
        return [self.path / name for name in (CA, CERTIFICATE, KEY, NEXT_KEY)]

    def _for_serving(self) -> tuple[bytes, bytes, bytes]:
        return *self._pair(), self._authorities()

    def _authorities(self) -> bytes:
        """One or, while an authority is replaced by another, several."""
        from cryptography import x509

        pem = _read(self.path / CA)
        try:
            x509.load_pem_x509_certificates(pem)
        except ValueError:
            raise DataError(f"{self.path / CA} is not a certificate; make it with `crescendo certs`") from None
        return pem

    def _pair(self) -> tuple[bytes, bytes]:
        """The certificate and its key: the next one as soon as the certificate that was asked for has come."""
        key, following = _secret(self.path / KEY), self.path / NEXT_KEY
        certificate = _read(self.path / CERTIFICATE)
        for one in (key, *([_secret(following)] if following.exists() else ())):
            if belongs(one, certificate):
                return one, certificate
        raise DataError(
            f"{self.path} has no key that belongs to its {CERTIFICATE}; put the key back, or ask for a certificate with "
            f"`crescendo certs request`"
        )

    def check(self, purpose: Purpose) -> None:
        """Refuse a folder that will not do, before anybody is asked: a failed handshake tells neither side why."""
        folder = self.path
        if not (folder / CA).exists() and (inside := self._parties(purpose)):
            some = ", ".join(map(str, inside[:4])) + (", .." if len(inside) > 4 else "")
            raise UsageError(f"{folder} holds the folders of several parties; name yours with --certs: {some}")
        if purpose == "ask" and (folder / CA).exists() and not self._uses():
            raise UsageError(
                f"{folder} has neither a certificate nor a token, so no client could connect; name your own folder with --certs"
            )
        if not (folder / CERTIFICATE).exists():
            return  # a token's folder, or one that is found to be incomplete when it is read
        uses, since, until = _read_certificate(folder / CERTIFICATE)
        if uses is not None and purpose not in uses:
            raise UsageError(
                f"the certificate in {folder} is a server's; use a client's or an aggregator's folder with --certs, "
                f"for example one made by `crescendo certs DIR --client operator`"
                if purpose == "ask"
                else f"the certificate in {folder} is a client's; use the folder of the server, or of the aggregator that "
                f"listens, with --certs"
            )
        now = _now()
        if not since <= now <= until:
            raise DataError(
                f"the certificate in {folder} is valid from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC and it is "
                f"{now:%Y-%m-%d %H:%M}; to renew it, remove {CA} beside it where it was made and run `crescendo certs` again"
            )

    def check_name(self, name: str) -> None:
        """Refuse another's certificate; of one that was made elsewhere and names nobody, the server judges."""
        owner = self._owner() if (self.path / CERTIFICATE).exists() else None
        if owner is not None and owner.name != name:
            raise UsageError(
                f"the certificate in {self.path} is {owner.name}'s, and --as says {name}; name the folder of {name} with "
                f"--certs, or say --as {owner.name}"
            )

    def _owner(self) -> Identity | None:
        from cryptography import x509

        found = x509.load_pem_x509_certificate(_read(self.path / CERTIFICATE))
        try:
            names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return None
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        return next((owner for uri in uris if (owner := Identity.of(uri)) is not None), None)

    def _parties(self, purpose: Purpose) -> list[Path]:
        """Folders of parties inside: all that `crescendo certs` made, or a copy that went a level too deep."""
        found = sorted(file.parent for depth in ("*", "*/*") for file in self.path.glob(f"{depth}/{CA}"))
        return [place for place in found if purpose in PartyFolder(place)._uses()]

    def _uses(self) -> set[str]:
        """What the folder may be used for; of the authority's, nothing."""
        if not (self.path / CERTIFICATE).exists():
            return {"ask"} if (self.path / TOKEN).exists() else set()
        uses, _, _ = _read_certificate(self.path / CERTIFICATE)
        return {"serve", "ask"} if uses is None else uses


def _configuration(key: bytes, certificate: bytes, authorities: bytes) -> Any:
    return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)


def belongs(key: bytes, certificate: bytes) -> bool:
    """Is this private key (PEM) that of the certificate (PEM)?"""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
        return serialization.load_pem_private_key(key, None).public_key() == public
    except (ValueError, TypeError):
        return False


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _read_certificate(path: Path) -> tuple[set[str] | None, datetime.datetime, datetime.datetime]:
    """What a certificate may be used for (None: anything), and from when to when."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID as Use

    try:
        found = x509.load_pem_x509_certificate(_read(path))
        allowed = set(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return None, found.not_valid_before_utc, found.not_valid_after_utc
    except ValueError:
        raise DataError(f"{path} is not a certificate; make it with `crescendo certs`") from None
    uses = {word for word, use in (("serve", Use.SERVER_AUTH), ("ask", Use.CLIENT_AUTH)) if use in allowed}
    return uses, found.not_valid_before_utc, found.not_valid_after_utc


def shown_certificate(address: str, timeout: float = 10.0) -> bytes:
    """The certificate (DER) that a server shows, unchecked: hold it against a fingerprint, then pin it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    host, port = Address(address).host_and_port()
    with (
        socket.create_connection((host, port), timeout) as raw,
        context.wrap_socket(raw, server_hostname=host) as secured,
    ):
        return secured.getpeercert(binary_form=True) or b""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(
            f"{path} cannot be read ({reason}); name the folder that was made for this party by `crescendo certs` with --certs"
        ) from None


def _secret(path: Path) -> bytes:
    content = _read(path)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise DataError(f"{path} is a secret and others on this machine may read it; run: chmod 600 {path}")
    return content


# -- tokens ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenBook:
    """Who has which token, by the tokens' hashes."""

    owners: Mapping[str, Identity]

    @classmethod
    def read(cls, path: Path) -> Self:
        """tokens.json: a list of ``{"name": .., "role": .., "sha256": ..}``."""
        try:
            entries: list[dict[str, str]] = json.loads(_read(path))
            owners = {entry["sha256"]: Identity(entry["role"], entry["name"]) for entry in entries}  # type: ignore[arg-type]
            if not isinstance(entries, list) or any(known.role not in get_args(Role) for known in owners.values()):
                raise ValueError
            if not all(_HASH.fullmatch(known) and isinstance(owner.name, str) for known, owner in owners.items()):
                raise ValueError
            return cls(owners)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataError(f"{path} is not a list of name, role and sha256; make it with `crescendo certs`") from None

    @staticmethod
    def hash(token: str) -> str:
        """What is stored of a token."""
        return hashlib.sha256(token.encode()).hexdigest()

    def owner(self, token: str) -> Identity | None:
        """Whose token this is. All hashes are compared, in constant time each, whatever is found."""
        shown, found = self.hash(token), None
        for stored, identity in self.owners.items():
            if hmac.compare_digest(shown, stored):
                found = identity
        return found


# -- admission --------------------------------------------------------------------------------------------------------


def everybody(name: str, token: str, context: Any) -> None:
    """On one machine no peer needs to prove who it is."""


@dataclass(frozen=True)
class Authenticator:
    """Lets a peer in under its own name only. The token list is read anew each time, so that a name can be struck off."""

    tokens: Path | None = None
    folder: Path | None = None
    revocations: Revocations | None = None

    @staticmethod
    def of(folder: Path) -> Authenticator:
        """The doorkeeper of a server's folder."""
        tokens = folder / TOKENS
        if tokens.exists():
            TokenBook.read(tokens)
        revocations = Revocations(folder / REVOKED, folder / CA)
        return Authenticator(tokens if tokens.exists() else None, folder, revocations)

    def stamp(self) -> Stamp:
        """What shows that a file has changed which decides who is let in, or what the server shows."""
        names = (TOKENS, REVOKED, CA, CERTIFICATE, KEY, NEXT_KEY)
        listed = [self.tokens] if self.folder is None else [self.folder / name for name in names]
        return stamp_of(path for path in listed if path is not None)

    def refresh(self) -> None:
        """Read files that have changed; DataError for those that cannot be used."""
        if self.tokens is not None:
            TokenBook.read(self.tokens)
        if self.revocations is not None:
            self.revocations.refresh()
        if self.folder is not None:
            PartyFolder(self.folder)._for_serving()

    def __call__(self, name: str, token: str, context: Any) -> None:
        """Admit ``name``, or (if empty) anybody who is known; PeerError otherwise."""
        identity = self.identify(token, context)
        if identity is None or (name and identity != Identity("client", name)):
            raise PeerError(_stranger(name))

    def aggregator(self, name: str, token: str, context: Any) -> None:
        """Admit an aggregator, which is believed about the names of the clients below it."""
        if self.identify(token, context) != Identity("aggregator", name):
            raise PeerError(_stranger(name))

    def identify(self, token: str, context: Any) -> Identity | None:
        """What the other end of a gRPC call has proved to be, by its token or else by its certificate; None for a stranger."""
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


def _stranger(name: str) -> str:
    """The same words for a wrong secret, another's, and a name that does not exist."""
    if not name:
        return "no certificate or token that this server knows was shown; check --certs, or ask the server's operator for one"
    return (
        f"no certificate or token of {name} was shown; check that --certs is the folder that was made for {name}, or ask the "
        "server's operator for one"
    )
