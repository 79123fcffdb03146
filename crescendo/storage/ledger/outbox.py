"""Outbox: stores the bytes of a client's charged rounds until the server acknowledges them."""

from collections import defaultdict
from typing import NamedTuple

from crescendo.core.messages import Settled
from crescendo.storage.ledger.ledger_file import LedgerFile


class Release(NamedTuple):
    """The bytes of a charged round, sent or to be sent. Without bytes the client declares the round void."""

    round: int
    data: bytes | None = None


class _Place(NamedTuple):
    seq: int  # of the charge
    sha256: str | None  # None for a round charged without bytes


class Outbox:
    """The bytes of the charges in a ledger's file. Not thread-safe: the caller locks."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self._places: defaultdict[str, dict[int, _Place]] = defaultdict(
            dict
        )  # federation -> round -> place of its bytes

    def add(self, federation: str, round: int, seq: int, sha256: str | None) -> None:
        """Note that entry ``seq`` charged a round."""
        self._places[federation][round] = _Place(seq, sha256)

    def knows(self, federation: str, round: int) -> bool:
        """Return True if the round was charged."""
        return round in self._places[federation]

    def bytes_of(self, federation: str, round: int) -> bytes | None:
        """Return the bytes of a charged round; None if they are gone or never existed."""
        seq, sha256 = self._places[federation][round]
        return None if sha256 is None else self._file.bytes_of(seq, sha256)

    def releases(self, federation: str) -> list[Release]:
        """Return the intact releases, oldest round first."""
        kept = self._file.kept()
        there = [i for i, place in self._places[federation].items() if place.seq in kept]
        return [Release(i, data) for i in there if (data := self.bytes_of(federation, i)) is not None]

    def drop(self, federation: str, settled: Settled) -> None:
        """Delete the bytes of these rounds."""
        kept = self._file.kept()
        done = [at.seq for i, at in self._places[federation].items() if i in settled and at.seq in kept]
        if done:
            self._file.drop(done)
