"""The head of a ledger, noted outside of it: how many entries there are, and the hash of them all.

A ledger that does not reach a head that was noted once is an older copy, or another one. A note is one short line with a check
word: it is overwritten in place, and a torn one is told from a whole one. With a key nobody else can make one.
"""

import hashlib
import hmac
from contextlib import suppress
from pathlib import Path

Head = tuple[int, str]
_LENGTH, _MOST = 120, 200  # bytes that are written, and that are read


def note(head: Head, key: bytes = b"") -> bytes:
    """What is written of a head.

    >>> noted(note((7, "ab" * 32), b"key"), b"key")[0], noted(note((7, "ab" * 32), b"key"), b"another")
    (7, None)
    """
    line = "{} {}".format(*head)
    return f"{line} {_check_word(line, key)}\n".rjust(_LENGTH).encode()


def noted(data: bytes, key: bytes = b"") -> Head | None:
    """The head in a note; None if it is torn, or there is none yet."""
    words = data[:_MOST].decode(errors="replace").split()
    whole = len(words) >= 3 and words[-1] == _check_word(" ".join(words[:-1]), key)
    return (int(words[-3]), words[-2]) if whole else None


def read_note(path: Path, key: bytes = b"") -> Head | None:
    """The head in a file; None if there is no such file, too."""
    with suppress(OSError), path.open("rb") as file:
        return noted(file.read(_MOST), key)
    return None


def _check_word(line: str, key: bytes) -> str:
    made = hmac.new(key, line.encode(), "sha256") if key else hashlib.sha256(line.encode())
    return made.hexdigest()[:16]
