"""Outbox: where the bytes of a client's charged rounds are, until the server has them."""

from collections import defaultdict
from typing import NamedTuple

from crescendo.core.messages import Settled
from crescendo.storage.ledger.ledger_file import LedgerFile


class Release(NamedTuple):
    """The bytes of a charged round, as they were or will be sent. Without any the server is told that the round is void."""

    round: int
    data: bytes | None = None


class _Place(NamedTuple):
    seq: int  # of the charge
    sha256: str | None  # None for a round that was charged without bytes


class Outbox:
    """The bytes that belong to the charges of a ledger's file. Its caller takes care of threads."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self._places: defaultdict[str, dict[int, _Place]] = defaultdict(
            dict
        )  # federation -> round -> where its bytes are

    def add(self, federation: str, round: int, seq: int, sha256: str | None) -> None:
        """A round was charged by entry ``seq``."""
        self._places[federation][round] = _Place(seq, sha256)

    def knows(self, federation: str, round: int) -> bool:
        """Was the round charged?"""
        return round in self._places[federation]

    def bytes_of(self, federation: str, round: int) -> bytes | None:
        """The bytes of a charged round; None if they are gone, or there never were any."""
        seq, sha256 = self._places[federation][round]
        return None if sha256 is None else self._file.bytes_of(seq, sha256)

    def releases(self, federation: str) -> list[Release]:
        """What is here and intact, oldest round first."""
        kept = self._file.kept()
        there = [i for i, place in self._places[federation].items() if place.seq in kept]
        return [Release(i, data) for i in there if (data := self.bytes_of(federation, i)) is not None]

    def drop(self, federation: str, settled: Settled) -> None:
        """Forget the bytes of these rounds."""
        kept = self._file.kept()
        done = [at.seq for i, at in self._places[federation].items() if i in settled and at.seq in kept]
        if done:
            self._file.drop(done)
