"""Expiry: when the certificate of a peer, or a party's own, ends."""

import math
from pathlib import Path
from typing import Any


def expiry_of(context: Any) -> float:
    """Return when the certificate of a call's peer expires, in seconds since 1970; infinite if it showed none."""
    shown = context.auth_context().get("x509_pem_cert", ())
    return min((_end_of(pem) for pem in shown), default=math.inf)


def expiry_in(path: Path) -> float:
    """Return when the certificate in a file expires; infinite if it cannot be read."""
    try:
        return _end_of(path.read_bytes())
    except OSError:
        return math.inf


def _end_of(pem: bytes) -> float:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
    except ValueError:
        return math.inf
