"""The date that a page shows. It is in no other file of a run, so that one seed gives the same bytes in all of them."""

from __future__ import annotations

import os
from datetime import UTC, datetime

EPOCH = "SOURCE_DATE_EPOCH"  # reproducible-builds.org: seconds since 1970 that stand in for the clock


def made_now() -> datetime:
    """The clock's time, or what SOURCE_DATE_EPOCH says it is, for pages that are to come out the same again."""
    stated = os.environ.get(EPOCH, "")
    if stated.isdecimal() and len(stated) <= 11:
        return datetime.fromtimestamp(int(stated), UTC)
    return datetime.now(UTC)


def in_words(date: datetime | None) -> str:
    """
    >>> in_words(datetime(2026, 11, 8, 9, 5, tzinfo=UTC)), in_words(None)
    ('8 November 2026, 09:05 UTC', '')
    """
    return "" if date is None else f"{date.day} {date:%B %Y, %H:%M} UTC"
