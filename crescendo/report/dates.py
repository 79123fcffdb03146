"""Date on a page. No other file of a run has a date, so the same seed gives the same bytes."""

from __future__ import annotations

import os
from datetime import UTC, datetime

EPOCH = "SOURCE_DATE_EPOCH"  # reproducible-builds.org: seconds since 1970 that stand in for the clock


def made_now() -> datetime:
    """Return the time of SOURCE_DATE_EPOCH if it is set, for reproducible pages, or that of the clock."""
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
