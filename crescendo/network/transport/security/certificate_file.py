"""Certificates: the uses and the lifetime of a file's certificate, its key, and the certificate that a server shows."""

import datetime
import socket
import ssl
from pathlib import Path

from crescendo.errors import DataError
from crescendo.network.transport.security.address import Address
from crescendo.network.transport.security.party_files import read


def belongs(key: bytes, certificate: bytes) -> bool:
    """True if this private key (PEM) belongs to the certificate (PEM)."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
        return serialization.load_pem_private_key(key, None).public_key() == public
    except (ValueError, TypeError):
        return False


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def read_certificate(path: Path) -> tuple[set[str] | None, datetime.datetime, datetime.datetime]:
    """Return the uses that a certificate allows (None: all), and the beginning and end of its lifetime."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID as Use

    try:
        found = x509.load_pem_x509_certificate(read(path))
        allowed = set(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return None, found.not_valid_before_utc, found.not_valid_after_utc
    except ValueError:
        raise DataError(f"{path} is not a certificate; make it with `crescendo certs`") from None
    uses = {word for word, use in (("serve", Use.SERVER_AUTH), ("ask", Use.CLIENT_AUTH)) if use in allowed}
    return uses, found.not_valid_before_utc, found.not_valid_after_utc


def shown_certificate(address: str, timeout: float = 10.0) -> bytes:
    """Return the certificate (DER) that a server shows, unchecked: compare it with a fingerprint, then pin it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    host, port = Address(address).host_and_port()
    with (
        socket.create_connection((host, port), timeout) as raw,
        context.wrap_socket(raw, server_hostname=host) as secured,
    ):
        return secured.getpeercert(binary_form=True) or b""
