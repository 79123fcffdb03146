"""Note of a ledger's head outside the ledger: the number of its entries, and the hash of them all.

A ledger that does not reach a noted head is an older copy, or another ledger. A note is one short line, overwritten
in place. Its check word proves that it is complete and, with a key, authentic.
"""

import hashlib
import hmac
from contextlib import suppress
from pathlib import Path

Head = tuple[int, str]
_LENGTH, _MOST = 120, 200  # bytes written, and at most read


def note(head: Head, key: bytes = b"") -> bytes:
    """Return the line that notes a head.

    >>> noted(note((7, "ab" * 32), b"key"), b"key")[0], noted(note((7, "ab" * 32), b"key"), b"another")
    (7, None)
    """
    line = "{} {}".format(*head)
    return f"{line} {_check_word(line, key)}\n".rjust(_LENGTH).encode()


def noted(data: bytes, key: bytes = b"") -> Head | None:
    """Return the head in a note; None if the note is torn or empty."""
    words = data[:_MOST].decode(errors="replace").split()
    whole = len(words) >= 3 and words[-1] == _check_word(" ".join(words[:-1]), key)
    return (int(words[-3]), words[-2]) if whole else None


def read_note(path: Path, key: bytes = b"") -> Head | None:
    """Return the head noted in a file; None if the file is missing or its note torn."""
    with suppress(OSError), path.open("rb") as file:
        return noted(file.read(_MOST), key)
    return None


def _check_word(line: str, key: bytes) -> str:
    made = hmac.new(key, line.encode(), "sha256") if key else hashlib.sha256(line.encode())
    return made.hexdigest()[:16]
