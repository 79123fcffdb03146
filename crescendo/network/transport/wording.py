"""Wording: rounds and clients as text for people."""

import re
from collections.abc import Iterable, Mapping

MOST_RANGES = 20


def ranges(rounds: Iterable[int]) -> str:
    """Return a short text for a list of rounds, of which there may be thousands.

    >>> ranges([3, 0, 1, 2, 7, 9, 10]), ranges(range(0, 100, 2))[-20:]
    ('0-3, 7, 9-10', '6, 38, and 30 others')
    """
    found: list[list[int]] = []
    for i in sorted(set(rounds)):
        if found and found[-1][1] == i - 1:
            found[-1][1] = i
        else:
            found.append([i, i])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in found[:MOST_RANGES]]
    more = sum(last - first + 1 for first, last in found[MOST_RANGES:])
    return ", ".join([*shown, f"and {more} others"] if more else shown)


def named(text: str, names: Mapping[int, str]) -> str:
    """Replace client numbers, which the core uses, with the names that people know.

    >>> named("client 1 sent round 0 before with other bytes", {0: "alice", 1: "bob"})
    'bob sent round 0 before with other bytes'
    """
    return re.sub(r"\bclient (\d+)\b", lambda found: names.get(int(found[1]), found[0]), text)
