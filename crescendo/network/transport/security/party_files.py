"""Files of a party's folder: what they are called, and reading them; a secret that others may read is refused."""

import stat
from pathlib import Path

from crescendo.errors import DataError

CA, CERTIFICATE, KEY, TOKEN, TOKENS = "ca.pem", "cert.pem", "key.pem", "token", "tokens.json"
NEXT_KEY = "next-key.pem"


def read(path: Path) -> bytes:
    """A file of the folder, or DataError."""
    try:
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(
            f"{path} cannot be read ({reason}); name the folder that was made for this party by `crescendo certs` with --certs"
        ) from None


def read_secret(path: Path) -> bytes:
    """A file that no one else on this machine may read, or DataError."""
    content = read(path)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise DataError(f"{path} is a secret and others on this machine may read it; run: chmod 600 {path}")
    return content
