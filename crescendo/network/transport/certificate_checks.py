"""What `crescendo certs` is asked for, checked before anything is written."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from crescendo.errors import DataError, UsageError
from crescendo.network.transport.security import CA, CERTIFICATE, TOKENS, read_tokens

LONGEST_NAME = 128  # as on the wire
LONGEST_FILE = 255  # bytes, of a folder's name
LONGEST_DAYS = 3650
THIS_MACHINE = ("localhost", "127.0.0.1")
DNS_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?")


def check_name(name: str) -> None:
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(f"{name!r} cannot be a name; use up to {LONGEST_NAME} printable characters")
    if len(file_name(name)) > LONGEST_FILE:
        raise UsageError(f"{name!r} is too long for a folder's name once its signs are written out; use a shorter one")


def check_days(days: int) -> None:
    if not 1 <= days <= LONGEST_DAYS:
        raise UsageError(
            f"certificates must last at least a day and at most {LONGEST_DAYS}, got {days}; choose --days in between"
        )


def check_host(host: str) -> None:
    """An address, or a name as the DNS has it; not a URL, a port or several at once."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not DNS_NAME.fullmatch(host) or len(host) > 253:
            raise UsageError(
                f"{host!r} is not a host's name or address; write for example server.example.org with --host"
            ) from None


def check_folder(folder: Path, aggregators: Sequence[Path], hosts: Sequence[str], tokens: bool) -> None:
    """What is there already must fit what is asked for."""
    server, book = folder / "server", folder / "server" / TOKENS
    if tokens and (server / CA).exists() and not book.exists():
        raise UsageError(f"{folder} was made for certificates; use another folder for a federation with tokens")
    if book.exists():
        read_tokens(book)
    listening = [server, *aggregators]
    kept = [place for place in listening if (place / CA).exists()]
    if kept and not (folder / "authority" / CA).exists():
        raise DataError(f"the authority that signed {kept[0]} is not in {folder}; put it back or use a new folder")
    if len(kept) < len(listening):
        return  # what is made now gets the hosts
    about = list(aggregators) or [server]  # whom the hosts of this command are of
    for host in hosts:
        if host not in THIS_MACHINE and not any(host in _hosts_of(place) for place in about):
            place, known = about[0], ", ".join(sorted(_hosts_of(about[0]) - set(THIS_MACHINE))) or "this machine"
            raise UsageError(
                f"{place} has a certificate already, for {known} and not {host}; to have it made anew, remove {place / CA} and "
                f"name all of its hosts with --host"
            )


def _hosts_of(place: Path) -> set[str]:
    """The names and addresses in a party's certificate."""
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate((place / CERTIFICATE).read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        raise DataError(f"the certificate in {place} cannot be read; put it back or use a new folder") from None
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    return addresses | set(names.get_values_for_type(x509.DNSName))


def file_name(name: str) -> str:
    """A folder's name for any client's name.

    >>> file_name("Blue Airways"), file_name("../a/b")
    ('Blue Airways', '%2E%2E%2Fa%2Fb')
    """
    quoted = quote(name, safe=" ")
    return quoted.replace(".", "%2E") if name.startswith(".") else quoted
