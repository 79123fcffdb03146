"""Provenance of the numbers, lists and names in a private run's terms.

Every party sees the terms. An entry is *public*, or *declared* by a person without a look at the records, or *looked at*: a
program read it off the records. One record can change an entry that was looked at, and no epsilon covers that.

A draft marks the entries that it looked at, and the mark is copied with the entry. The draft also keeps a digest of every marked
entry. A person who changes an entry and removes its mark has declared it. If only the mark was removed, the digest still matches
and the entry counts as looked at. To declare an entry exactly as drafted, write ``looked_at = false`` behind a column of a
schema, or its name in ``declared`` of a run file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LETTERS = 16
_NAMED = 6  # entries per sentence


def digest_of(value: Any) -> str:
    """Return a short digest of a value's meaning, independent of how a file writes it.

    >>> digest_of({"low": 0, "high": 1.0}) == digest_of({"high": 1, "low": 0.0}), digest_of(["b", "a"]) == digest_of(["a", "b"])
    (True, True)
    >>> digest_of(0.0) == digest_of(1.0)
    False
    """
    text = json.dumps(_plain(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_LETTERS]


def _plain(value: Any) -> Any:
    """Return numbers as floats, and lists sorted: the order of categories or classes has no meaning."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return sorted((_plain(inner) for inner in value), key=json.dumps)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(float(value)) if abs(value) < 2**53 else str(value)
    return value


@dataclass(frozen=True)
class LookedAt:
    """An entry of terms that was read off the records: its name, and the question that a person has to answer instead.

    ``where`` is the place in the file, such as ``privacy.records`` or ``data.schema.columns.age``.
    """

    where: str
    asks: str


def withheld_sentence(entries: Sequence[LookedAt]) -> str:
    """Name the entries that were looked at, and the remedy.

    >>> print(withheld_sentence([LookedAt("privacy.records", "how many records does each client declare?")]))
    no epsilon is stated, as terms that were read off the records give those away themselves: privacy.records (how many records \
does each client declare?); put in what is public, or what you would say without having looked, and take the mark looked_at out
    """
    named = ", ".join(f"{one.where} ({one.asks})" for one in entries[:_NAMED])
    more = f" and {len(entries) - _NAMED} more" if len(entries) > _NAMED else ""
    return (
        f"no epsilon is stated, as terms that were read off the records give those away themselves: {named}{more}; put in what "
        "is public, or what you would say without having looked, and take the mark looked_at out"
    )
