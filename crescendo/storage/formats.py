"""Stored formats: the format number of each kind of file, and the numbers that this program reads.

Every file that another version may open holds a format number. A program reads numbers from ``oldest`` to its own; it
refuses a newer file without changing it. docs/compatibility.md has the compatibility promise, and the steps for a new
number.
"""

from pathlib import Path
from typing import NamedTuple

from crescendo import __version__
from crescendo.errors import DataError


class OtherFormat(DataError):
    """A file has a format that this program does not read; it was not changed."""


class StoredFormat(NamedTuple):
    """One kind of file: the format written, the oldest format read, the place of the number, and the module that reads it."""

    what: str
    writes: int
    oldest: int
    where: str
    reader: str
    before: str = "one of the two minor versions before"  # the program that reads older formats
    magic: bytes = b""  # first bytes of the file, followed by the number as one digit

    @property
    def opening(self) -> bytes:
        """The first bytes of a file."""
        return self.magic + str(self.writes).encode()

    def check(self, path: Path, found: int) -> None:
        """Raise `OtherFormat` unless this program reads format ``found``."""
        if found > self.writes:
            raise OtherFormat(
                f"{path} has format {found} of a {self.what}, and Crescendo {__version__} knows {self.writes} at most; use the "
                f"version that wrote it, or a newer one"
            )
        if found < self.oldest:
            raise OtherFormat(
                f"{path} has format {found} of a {self.what}, and Crescendo {__version__} reads {self.oldest} and later; use "
                f"{self.before}"
            )

    def reads(self, opening: bytes) -> bool:
        """Return True if these are the first bytes of a file that this program reads."""
        number = self.number_in(opening)
        return number is not None and self.oldest <= number <= self.writes

    def number_in(self, opening: bytes) -> int | None:
        """Return the number in the first bytes of a file; None if it is not of this kind."""
        number = opening.removeprefix(self.magic)[:1]
        return int(number) if opening.startswith(self.magic) and number.isdigit() else None


EARLIER = "the unreleased one that wrote it: there is no way over"
JOURNAL = StoredFormat(
    "journal", 2, 2, "the first 8 bytes of each segment", "crescendo.storage.journal.segments", EARLIER, b"CRSJRNL"
)
SNAPSHOT = StoredFormat(
    "snapshot", 3, 2, "its first 8 bytes", "crescendo.storage.journal.snapshots", EARLIER, b"CRSSNAP"
)
LEDGER = StoredFormat("ledger", 1, 1, "SQLite's `user_version`", "crescendo.storage.ledger.ledger_schema")
RUN = StoredFormat("run's folder", 1, 1, "`format.json`; 1 where it is missing", "crescendo.runs.folder")
CHECKPOINT = StoredFormat(
    "checkpoint of a round", 1, 1, "its first 8 bytes", "crescendo.storage.round_checkpoint", magic=b"CRSROUN"
)
REGISTRY = StoredFormat("registry of ledgers", 1, 1, "`registry.json`", "crescendo.storage.registry.ledger_registry")

FORMATS = (JOURNAL, SNAPSHOT, LEDGER, RUN, CHECKPOINT, REGISTRY)
