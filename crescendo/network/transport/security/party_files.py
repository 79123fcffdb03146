"""Files of a party's folder: their names, and functions that read them and refuse a secret that others may read."""

import stat
from pathlib import Path

from crescendo.errors import DataError

CA, CERTIFICATE, KEY, TOKEN, TOKENS = "ca.pem", "cert.pem", "key.pem", "token", "tokens.json"
NEXT_KEY = "next-key.pem"


def read(path: Path) -> bytes:
    """Return the content of a file, or raise DataError."""
    try:
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(
            f"{path} cannot be read ({reason}); name the folder that was made for this party by `crescendo certs` with --certs"
        ) from None


def read_secret(path: Path) -> bytes:
    """Return the content of a secret file; DataError if other users of this machine may read it."""
    content = read(path)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise DataError(f"{path} is a secret and others on this machine may read it; run: chmod 600 {path}")
    return content
