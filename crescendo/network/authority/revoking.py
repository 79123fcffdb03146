"""Revoking: puts a party's certificates on a signed list, and deletes its tokens from the lists."""

import json
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from crescendo.errors import DataError, UsageError
from crescendo.network.authority.certificate_checks import serial_and_owner
from crescendo.network.authority.certificates import ISSUED, Authority, alone_in, lifetime, write_secret
from crescendo.network.transport.security.identity import Identity
from crescendo.network.transport.security.party_files import CA, CERTIFICATE, TOKENS
from crescendo.network.transport.security.revocation import REVOKED, revoked_serials
from crescendo.network.transport.security.tokens import TokenBook


@dataclass(frozen=True)
class Revoked:
    """The revoked certificates and tokens, and the files to copy to the machines of the server and the aggregators."""

    serials: list[str]
    tokens: list[str]
    files: list[Path]


def revoke(keys: Path, what: str) -> Revoked:
    """Revoke every certificate and token of the party named ``what``, or the certificate with that serial number."""
    if not (keys / "authority" / CA).exists():
        raise DataError(f"there is no authority in {keys}; name the folder that `crescendo certs` made with --keys")
    with alone_in(keys):
        return _revoke(keys, what)


def _revoke(keys: Path, what: str) -> Revoked:
    authority, serials, struck = keys / "authority", _serials(keys, what), _struck_off(keys, what)
    if not serials and not struck:
        raise UsageError(
            f"{what!r} is neither a party nor the serial number of a certificate of {authority}; nothing is revoked"
        )
    listening = [keys / "server", *sorted((keys / "aggregators").glob("*"))]
    files = [place / TOKENS for place in listening] if struck else []
    if serials:
        files += [place / REVOKED for place in listening]
        _write_list(authority, serials, [authority / REVOKED, *(place / REVOKED for place in listening)])
    return Revoked(sorted(f"{serial:x}" for serial in serials), struck, files)


def _write_list(authority: Path, serials: set[int], files: list[Path]) -> None:
    signed = Authority(authority, lifetime(1)).revocation_list({*serials, *_revoked_before(authority, files)})
    for file in files:
        if file.parent.is_dir():
            write_secret(file, signed)


def _revoked_before(authority: Path, files: list[Path]) -> Iterator[int]:
    """Yield the serial numbers on all lists, as the authority's own may be lost; copies that are not valid are skipped."""
    for file in files:
        with nullcontext() if file.parent == authority else suppress(DataError):
            yield from revoked_serials(file, authority / CA) if file.exists() else ()


def _serials(keys: Path, what: str) -> set[int]:
    issued = set(_issued(keys))
    named = {serial for serial, identity in issued if identity.name == what and identity.role != "server"}
    return named or {serial for serial, _ in issued if f"{serial:x}" == what.lower().replace(":", "").lstrip("0")}


def _issued(keys: Path) -> Iterator[tuple[int, Identity]]:
    """Yield every certificate of the authority: those it has recorded, and those in folders that older versions made."""
    noted = keys / "authority" / ISSUED
    try:
        for line in noted.read_text().splitlines() if noted.exists() else ():
            found = json.loads(line)
            if (identity := Identity.of(found["uri"])) is not None:
                yield int(found["serial"], 16), identity
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{noted} is damaged; repair the line that is not valid JSON, or the certificate on it stays valid"
        ) from None
    yield from (serial_and_owner(path.parent) for path in keys.glob(f"*/*/{CERTIFICATE}"))


def _struck_off(keys: Path, name: str) -> list[str]:
    """Delete the tokens of that name from every list; return their hashes."""
    book = keys / "server" / TOKENS
    if not book.exists():
        return []
    owners = TokenBook.read(book).owners
    gone = sorted(known for known, identity in owners.items() if identity.name == name)
    if gone:
        kept = [entry for entry in json.loads(book.read_bytes()) if entry["sha256"] not in gone]
        for file in (book, *(place / TOKENS for place in (keys / "aggregators").glob("*"))):
            write_secret(file, json.dumps(kept, indent=1).encode())
    return gone
