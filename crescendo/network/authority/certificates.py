"""Certificates for a trial: an authority, and for each party a folder with a certificate or token to copy to its machine."""

import datetime
import fcntl
import ipaddress
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID as Use
from cryptography.x509.oid import NameOID

from crescendo.errors import DataError
from crescendo.network.authority.certificate_checks import THIS_MACHINE, CertificateRequest
from crescendo.network.transport.security.identity import Identity, Role
from crescendo.network.transport.security.party_files import CA, CERTIFICATE, KEY, TOKEN, TOKENS
from crescendo.network.transport.security.tokens import TokenBook
from crescendo.whole_files import whole_file

ISSUED = "issued.jsonl"  # in the authority's folder: a line for each certificate


@dataclass
class _Made:
    """Folders that are new, and folders that existed and stay as they are."""

    made: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)


def make_certificates(
    folder: Path,
    *,
    hosts: Sequence[str] = THIS_MACHINE,
    clients: Iterable[str] = (),
    aggregators: Iterable[str] = (),
    tokens: bool = False,
    days: int = 90,
) -> _Made:
    """Make an authority in ``folder``, unless it has one, and a folder for each party that has none yet.

    ``hosts`` are the names and addresses under which the server and the aggregators are reached. With ``tokens`` clients
    get tokens instead of certificates.
    """
    request = CertificateRequest(folder, hosts, list(clients), list(aggregators), tokens, days)
    request.check()
    folder.mkdir(parents=True, exist_ok=True)
    with alone_in(folder):
        return _make(request)


def _make(request: CertificateRequest) -> _Made:
    folder, hosts, tokens, days = request.folder, request.hosts, request.tokens, request.days
    book, authority, made = (
        request.server / TOKENS,
        Authority(folder / "authority", lifetime(days)),
        _Made(),
    )
    listening = [(Identity("server", "server"), request.server)]
    listening += [(Identity("aggregator", name), request.place("aggregators", name)) for name in request.aggregators]
    for identity, place in listening:
        if _begin(place, made):
            authority.certify(place, identity, hosts)
    if tokens and not book.exists():
        write_secret(book, b"[]")
    for name in request.clients:
        if _begin(place := request.place("clients", name), made):
            if book.exists():
                _give_token(place, Identity("client", name), book)
                authority.introduce(place)
            else:
                authority.certify(place, Identity("client", name))
    if book.exists():
        _arm_aggregators(request, book)
    return made


@contextmanager
def alone_in(keys: Path) -> Iterator[None]:
    """Lock ``keys`` against other commands: of two at once, one would overwrite the entries that the other has added."""
    handle = os.open(keys, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_secret(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, readable by its owner only from the first byte on."""
    with whole_file(path) as out:
        out.write(content)


def _write_public(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, readable by all users."""
    write_secret(path, content)
    path.chmod(0o644)


def _begin(place: Path, made: _Made) -> bool:
    known = (place / CA).exists()
    (made.kept if known else made.made).append(place)
    place.mkdir(parents=True, exist_ok=True)
    return not known


def _arm_aggregators(request: CertificateRequest, book: Path) -> None:
    """Give each aggregator a token, and copy the list of tokens from the server to all existing aggregators."""
    for name in request.aggregators:
        if not ((place := request.place("aggregators", name)) / TOKEN).exists():
            _give_token(place, Identity("aggregator", name), book)
    for place in (request.folder / "aggregators").glob("*"):
        write_secret(place / TOKENS, book.read_bytes())


def _give_token(place: Path, identity: Identity, book: Path) -> None:
    token = secrets.token_urlsafe(32)  # 256 random bits
    entries: list[dict[str, str]] = json.loads(book.read_bytes())
    entries = [entry for entry in entries if (entry["role"], entry["name"]) != (identity.role, identity.name)]
    entries.append({"name": identity.name, "role": identity.role, "sha256": TokenBook.hash(token)})
    write_secret(place / TOKEN, token.encode())
    write_secret(book, json.dumps(entries, indent=1).encode())


def lifetime(days: int) -> datetime.timedelta:
    return datetime.timedelta(days=days)


class Authority:
    """Signs certificates and revocation lists with a key that stays in its folder; records every certificate."""

    def __init__(self, folder: Path, lasts: datetime.timedelta) -> None:
        self._lasts, self._folder = lasts, folder
        if (folder / CA).exists():
            try:
                self._certificate = x509.load_pem_x509_certificate((folder / CA).read_bytes())
                key = serialization.load_pem_private_key((folder / KEY).read_bytes(), None)
            except (OSError, ValueError, TypeError):
                raise DataError(f"the authority in {folder} cannot be read; put it back or use a new folder") from None
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            self._key = key
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._key = new_key()
        # A unique name: TLS looks up an issuer by name, and while one authority replaces another both are trusted.
        name = common_name(f"Crescendo trial authority {secrets.token_hex(4)}")
        self._certificate = self._signed(name, name, self._key.public_key(), [], None, 10 * lasts)
        write_secret(folder / KEY, pem_of(self._key))
        _write_public(
            folder / CA, self._certificate.public_bytes(serialization.Encoding.PEM)
        )  # last: this file makes the folder an authority

    def introduce(self, place: Path) -> None:
        """Give a party the certificate of this authority, which it then trusts."""
        _write_public(place / CA, (self._folder / CA).read_bytes())

    def certify(self, place: Path, identity: Identity, hosts: Sequence[str] = ()) -> None:
        """Make a key and a certificate for one party. The authority's certificate comes last: it marks the folder as complete."""
        key = new_key()
        made = self.certificate(identity, key.public_key(), hosts)
        write_secret(place / KEY, pem_of(key))
        _write_public(place / CERTIFICATE, made.public_bytes(serialization.Encoding.PEM))
        self.introduce(place)

    def certificate(self, identity: Identity, key: Any, hosts: Sequence[str] = ()) -> x509.Certificate:
        """Return a certificate for a party's public key, and record it, so that it can be revoked."""
        names: list[x509.GeneralName] = [_host(host) for host in hosts]
        names.append(x509.UniformResourceIdentifier(identity.uri))
        subject = common_name(f"{identity.role} {identity.name}")
        made = self._signed(subject, self._certificate.subject, key, names, identity.role, self._lasts)
        notes = self._folder / ISSUED
        noted = notes.read_bytes() if notes.exists() else b""
        write_secret(
            notes, noted + json.dumps({"serial": f"{made.serial_number:x}", "uri": identity.uri}).encode() + b"\n"
        )
        return made

    def revocation_list(self, serials: Iterable[int]) -> bytes:
        """Return a signed list (PEM) of these certificates. It never expires: an old list is better than no list."""
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._certificate.subject).last_update(now)
        builder = builder.next_update(datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC))
        for serial in sorted(serials):
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
            builder = builder.add_revoked_certificate(entry)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _signed(
        self, subject: Any, issuer: Any, key: Any, names: list[Any], role: Role | None, lasts: datetime.timedelta
    ) -> x509.Certificate:

        uses = {"server": [Use.SERVER_AUTH], "client": [Use.CLIENT_AUTH], None: []}
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + lasts)
            .add_extension(x509.BasicConstraints(role is None, 0 if role is None else None), critical=True)
        )
        if role is not None:
            chosen = uses.get(role, [Use.SERVER_AUTH, Use.CLIENT_AUTH])
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            builder = builder.add_extension(x509.ExtendedKeyUsage(chosen), critical=True)
        return builder.sign(self._key, hashes.SHA256())


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def common_name(text: str) -> x509.Name:
    """Return the name that a certificate shows to people, cut to 64 characters. No decision depends on it."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def pem_of(key: Any) -> bytes:
    """Return a private key as PEM, unencrypted: write it with `write_secret`."""
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem
