"""Certificate checks: validates the arguments of `crescendo certs` before it writes any file."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from cryptography import x509

from crescendo.errors import DataError, UsageError
from crescendo.network.transport.security.identity import Identity
from crescendo.network.transport.security.party_files import CA, CERTIFICATE, TOKENS
from crescendo.network.transport.security.tokens import TokenBook

LONGEST_NAME = 128  # as on the wire
LONGEST_FILE = 255  # bytes, of a folder's name
LONGEST_HOST = 253  # letters, in the DNS
LONGEST_DAYS = 3650
THIS_MACHINE = ("localhost", "127.0.0.1")
DNS_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?")


@dataclass(frozen=True)
class CertificateRequest:
    """The parties that need folders in ``folder``, and the ``hosts`` under which server and aggregators are reached."""

    folder: Path
    hosts: Sequence[str]
    clients: Sequence[str]
    aggregators: Sequence[str]
    tokens: bool
    days: int

    @property
    def server(self) -> Path:
        return self.folder / "server"

    def place(self, kind: str, name: str) -> Path:
        """Return the folder of a party; characters that a file name may not have are escaped.

        >>> request = CertificateRequest(Path("keys"), (), (), (), False, 90)
        >>> print(request.place("clients", "Blue Airways"), request.place("clients", "../a/b"))
        keys/clients/Blue Airways keys/clients/%2E%2E%2Fa%2Fb
        """
        return self.folder / kind / _file_name(name)

    def check(self) -> None:
        """Refuse invalid arguments, and arguments that contradict the existing folders."""
        for name in [*self.clients, *self.aggregators]:
            check_party_name(name)
        self.check_numbers()
        book = self.server / TOKENS
        if self.tokens and (self.server / CA).exists() and not book.exists():
            raise UsageError(
                f"{self.folder} was made for certificates; use another folder for a federation with tokens"
            )
        if book.exists():
            TokenBook.read(book)
        self._check_kept([self.place("aggregators", name) for name in self.aggregators])

    def check_numbers(self) -> None:
        """Refuse invalid hosts, and a lifetime that is too short or too long."""
        for host in self.hosts:
            check_host(host)
        if not 1 <= self.days <= LONGEST_DAYS:
            raise UsageError(
                f"certificates must last at least a day and at most {LONGEST_DAYS}, got {self.days}; choose --days in between"
            )

    def _check_kept(self, aggregators: list[Path]) -> None:
        listening = [self.server, *aggregators]
        kept = [place for place in listening if (place / CA).exists()]
        if kept and not (self.folder / "authority" / CA).exists():
            raise DataError(
                f"the authority that signed {kept[0]} is not in {self.folder}; put it back or use a new folder"
            )
        if len(kept) < len(listening):
            return  # the new certificates get the hosts
        about = aggregators or [self.server]  # the parties that the hosts of this command belong to
        for host in self.hosts:
            if host not in THIS_MACHINE and not any(host in _hosts_of(place) for place in about):
                place, known = about[0], ", ".join(sorted(_hosts_of(about[0]) - set(THIS_MACHINE))) or "this machine"
                raise UsageError(
                    f"{place} has a certificate already, for {known} and not {host}; to replace it, remove {place / CA} and name "
                    f"all of its hosts with --host"
                )


def _file_name(name: str) -> str:
    quoted = quote(name, safe=" ")
    return quoted.replace(".", "%2E") if name.startswith(".") else quoted


def check_party_name(name: str) -> None:
    """Refuse a name that is empty, too long or not printable."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(f"{name!r} cannot be a name; use up to {LONGEST_NAME} printable characters")
    if len(_file_name(name)) > LONGEST_FILE:
        raise UsageError(
            f"{name!r} is too long for a folder's name with its special characters escaped; use a shorter one"
        )


def check_host(host: str) -> None:
    """Refuse any host that is not one IP address or one DNS name, such as a URL or a host with a port."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not DNS_NAME.fullmatch(host) or len(host) > LONGEST_HOST:
            raise UsageError(
                f"{host!r} is not a host's name or address; write for example server.example.org with --host"
            ) from None


def serial_and_owner(place: Path) -> tuple[int, Identity]:
    """Return serial number and owner of the certificate in a party's folder."""
    certificate, names = _certificate_in(place)
    found = [Identity.of(uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)]
    if not found or found[0] is None:
        raise DataError(f"the certificate in {place} names no party of a federation; put it back or use a new folder")
    return certificate.serial_number, found[0]


def _certificate_in(place: Path) -> tuple[x509.Certificate, x509.SubjectAlternativeName]:
    try:
        certificate = x509.load_pem_x509_certificate((place / CERTIFICATE).read_bytes())
        return certificate, certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        raise DataError(f"the certificate in {place} cannot be read; put it back or use a new folder") from None


def _hosts_of(place: Path) -> set[str]:
    """Return the names and addresses in a party's certificate."""
    _, names = _certificate_in(place)
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    return addresses | set(names.get_values_for_type(x509.DNSName))
