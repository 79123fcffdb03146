"""Where the numbers, lists and names of a private run's terms come from.

Terms are seen by everybody, so each of their entries is *public* or *declared*, by a person who did not look, or it was
*looked at*: read off the records by a program. Of an entry that was looked at no epsilon says anything: one record can move it.

A draft marks what it looked at, and the mark goes wherever the entry goes. It also keeps a digest of every marked entry. A
person who changes an entry takes its mark out, and it is declared; where marks alone were taken out, the digests still match, and
the entries count as looked at. To declare an entry just as it was drafted, say so: ``looked_at = false`` behind a column of a
schema, or its name in ``declared`` of a run file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LETTERS = 16
_NAMED = 6  # entries of a sentence


def digest_of(value: Any) -> str:
    """A short digest of what a value says, however a file writes it.

    >>> digest_of({"low": 0, "high": 1.0}) == digest_of({"high": 1, "low": 0.0}), digest_of(["b", "a"]) == digest_of(["a", "b"])
    (True, True)
    >>> digest_of(0.0) == digest_of(1.0)
    False
    """
    text = json.dumps(_plain(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_LETTERS]


def _plain(value: Any) -> Any:
    """Numbers as floats, and lists in one order, which carries no meaning in a list of categories or classes."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return sorted((_plain(inner) for inner in value), key=json.dumps)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(float(value)) if abs(value) < 2**53 else str(value)
    return value


@dataclass(frozen=True)
class LookedAt:
    """An entry of terms that was read off the records: its name, and what a person is asked in its place.

    ``where`` is the place in the file, as ``privacy.records`` or ``data.schema.columns.age``.
    """

    where: str
    asks: str


def withheld_sentence(entries: Sequence[LookedAt]) -> str:
    """Which entries were looked at, and what to do about it.

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
