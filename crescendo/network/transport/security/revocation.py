"""Revocation: a list, signed by the authority, of certificates that are refused although they have not expired.

The list is an X.509 CRL in ``revoked.pem``, made by `crescendo certs revoke`. A server or aggregator checks it before it accepts
a certificate, and again when the file changes. gRPC for Python has no hook for CRLs in its handshake, so the check compares the
serial number of the peer's certificate.
"""

from collections.abc import Iterable
from pathlib import Path

from crescendo.errors import DataError
from crescendo.network.transport.security.reloaded_files import ReloadedFiles

REVOKED = "revoked.pem"


class Revocations:
    """The list at ``path``, signed by one of the authorities in ``authorities``. Revoked certificates stay revoked, even if the
    list is removed, damaged or replaced by an older one."""

    def __init__(self, path: Path, authorities: Path) -> None:
        self._path, self._authorities, self._known = path, authorities, frozenset[int]()
        self._files = ReloadedFiles((path, authorities), self._read)

    def covers(self, shown: Iterable[bytes]) -> bool:
        """True if one of these certificates (PEM) is on the list. An unreadable certificate counts as revoked."""
        from cryptography import x509

        self._files()
        try:
            known = self._known
            return any(x509.load_pem_x509_certificate(pem).serial_number in known for pem in shown) if known else False
        except ValueError:
            return True

    def refresh(self) -> None:
        """Read the list if it has changed; DataError if it is not usable."""
        self._files.refresh()

    def _read(self) -> None:
        there = self._path.exists()
        found = revoked_serials(self._path, self._authorities) if there else frozenset()
        missing, self._known = self._known - found, self._known | found
        if missing:
            what = f"lacks {len(missing)} certificates that were revoked before" if there else "is gone"
            raise DataError(
                f"{self._path} {what}; those stay revoked until a restart, so copy the newest list of `crescendo certs revoke`"
            )


def revoked_serials(path: Path, authorities: Path) -> frozenset[int]:
    """Return the serial numbers on a list; DataError if none of the authorities has signed it."""
    from cryptography import x509

    try:
        found = x509.load_pem_x509_crl(path.read_bytes())
        signers = x509.load_pem_x509_certificates(authorities.read_bytes())
    except (OSError, ValueError):
        raise DataError(
            f"{path} is not a list of revoked certificates; make it with `crescendo certs revoke`"
        ) from None
    if not any(found.is_signature_valid(signer.public_key()) for signer in signers):  # type: ignore[arg-type]
        raise DataError(
            f"{path} is not signed by the authority in {authorities}; copy the list that `crescendo certs revoke` has made"
        )
    return frozenset(one.serial_number for one in found)
