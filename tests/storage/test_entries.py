"""The entries of a journal come back from their bytes, and bytes that are none are refused."""

from __future__ import annotations

import pytest

from crescendo.errors import DataError
from crescendo.storage.journal.journal_entries import (
    Absent,
    Back,
    Entry,
    Left,
    NewEpoch,
    Opened,
    Received,
    Registered,
    Summed,
    Voided,
    from_bytes,
    to_bytes,
)
from tests.storage.durable_play import INSTANCE, START, TERMS


def test_every_kind_of_entry_comes_back_from_its_bytes() -> None:
    entries: list[Entry] = [
        Registered(1, INSTANCE),
        Voided(2**40, 1, "a “reason”"),
        Absent(1),
        Back(1, -1),
        Left(1),
        NewEpoch(3, "why"),
        Received(2**40, 2**20, "bfloat16", b"1234", 7),
        Summed(((1, 2), (3, 4)), "float16", b"1234", 7),
        Opened(TERMS, "ab", START, (0, 2)),
    ]
    for entry in entries:
        kind, body = to_bytes(entry)
        again = from_bytes(kind, b"".join(body))
        assert {n: str(getattr(again, n)) for n in again.__slots__} == {
            n: str(getattr(entry, n)) for n in entry.__slots__
        }
        assert type(again) is type(entry)
    for kind, bad in ((77, b"{}"), (2, b"{}"), (2, b"\xff"), (3, b"short"), (1, b"")):
        with pytest.raises(DataError, match="cannot be read"):
            from_bytes(kind, bad)
