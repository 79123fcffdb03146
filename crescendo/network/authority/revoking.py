"""Revoking: what lets a party in is taken back, its certificates by a signed list and its tokens by striking them off."""

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
    """What was taken back, and the files to be copied to the server's and the aggregators' machines."""

    serials: list[str]
    tokens: list[str]
    files: list[Path]


def revoke(keys: Path, what: str) -> Revoked:
    """Take back every certificate and token of the party called ``what``, or the certificate with that serial number."""
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
    """What is on any of the lists: the authority's own may be lost, and copies be of another authority or damaged."""
    for file in files:
        with nullcontext() if file.parent == authority else suppress(DataError):
            yield from revoked_serials(file, authority / CA) if file.exists() else ()


def _serials(keys: Path, what: str) -> set[int]:
    issued = set(_issued(keys))
    named = {serial for serial, identity in issued if identity.name == what and identity.role != "server"}
    return named or {serial for serial, _ in issued if f"{serial:x}" == what.lower().replace(":", "").lstrip("0")}


def _issued(keys: Path) -> Iterator[tuple[int, Identity]]:
    """Every certificate of the authority: those that it has noted, and those that lie in folders of older versions."""
    noted = keys / "authority" / ISSUED
    try:
        for line in noted.read_text().splitlines() if noted.exists() else ():
            found = json.loads(line)
            if (identity := Identity.of(found["uri"])) is not None:
                yield int(found["serial"], 16), identity
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{noted} is damaged; mend the line that is no JSON, or the certificate on it stays valid"
        ) from None
    yield from (serial_and_owner(path.parent) for path in keys.glob(f"*/*/{CERTIFICATE}"))


def _struck_off(keys: Path, name: str) -> list[str]:
    """Strike the tokens of that name off every list; the hashes that went."""
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
