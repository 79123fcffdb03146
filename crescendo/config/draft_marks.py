"""Draft marks: the entries of a drafted run file that were read off the records and that no person has stated yet.

``[draft]`` holds them. ``looked_at`` lists the entries; ``digests`` holds a digest of each drafted value, so removing a mark
counts only if the value was changed or declared too. An entry that a person sets, by ``--set`` or a keyword, loses its mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from crescendo.data.provenance import LookedAt, digest_of
from crescendo.errors import ConfigError
from crescendo.tables import AS_TUPLE, Section, key

Raw = dict[str, Any]
SECTION = "draft"
ASKS = {
    "clients.count": "how many clients are there?",
    "data.classes": "which labels are possible?",
    "objective.kind": "is a class or a number to be predicted?",
    "objective.label_range": "between which two numbers do labels lie?",
    "privacy.records": "how many records does each client declare?",
    "privacy.delta": "which delta, well below 1 / records?",
    "privacy.clip": "how long may a record's gradient be, by the range of the labels?",
    "privacy.norm_bound": "how long may a record be, by the schema?",
    "schedule.gradients": "how many gradients, by the records declared?",
    "schedule.sizes": "how large are rounds, by the records declared?",
    "schedule.steps": 'which steps, with nothing of the records in them? "auto" chooses them by what is public',
}
_ELSE = "what is public in its place?"
_Keys = Annotated[tuple[str, ...], AS_TUPLE]


class DraftMarks(Section):
    """The ``[draft]`` section: entries read off the records. A run file written by hand has no such section."""

    looked_at: _Keys = key(
        (),
        "a list of keys",
        "keys of this file that were read off the records, such as `privacy.records`; no epsilon is stated while one is listed. "
        "State the public value, then remove the key",
    )
    declared: _Keys = key(
        (),
        "a list of keys",
        "keys that keep their drafted value because a person knows it from public sources, without having looked",
    )
    digests: dict[str, str] = key(
        {},
        "a table of texts",
        "written by a draft: a key that still has its drafted value counts as looked at, listed or not",
    )


def check_names(marks: DraftMarks, sections: Mapping[str, Iterable[str]]) -> None:
    """Refuse a mark on a key that no run file has: a misspelt mark would mark nothing."""
    for name in (*marks.looked_at, *marks.declared, *marks.digests):
        section, _, inner = name.partition(".")
        if inner not in sections.get(section, ()):
            raise ValueError(
                f"draft names {name!r:.60}, which is not a key of a run file; write for example privacy.records"
            )


def settled(marks: DraftMarks | None, plain: Mapping[str, Any], *more: str) -> DraftMarks | None:
    """Return the marks that still hold for a complete run file, given as plain data, and marks on the keys ``more``.

    A key whose value has its drafted digest is marked unless it is declared.

    >>> values = {"privacy": {"records": 7, "delta": 0.1}}
    >>> drafted = {"privacy.records": digest_of(7), "privacy.delta": digest_of(0.2)}
    >>> settled(DraftMarks(digests=drafted), values).looked_at
    ('privacy.records',)
    """
    known = DraftMarks() if marks is None else marks
    untouched = (name for name, digest in known.digests.items() if digest == _digest(plain, name))
    names = dict.fromkeys((*known.looked_at, *(name for name in untouched if name not in known.declared), *more))
    digests = {name: digest for name in names if (digest := _digest(plain, name)) is not None}
    return DraftMarks(looked_at=tuple(digests), digests=digests) if digests else None


def _sound(marks: Raw) -> bool:
    """Return whether ``marks`` has the shape of a ``[draft]`` section; the config check reports any other shape."""
    if not set(marks) <= set(DraftMarks.model_fields):
        return False
    lists = (marks.get("looked_at", []), marks.get("declared", []))
    texts = all(isinstance(one, list | tuple) and all(isinstance(name, str) for name in one) for one in lists)
    return texts and isinstance(marks.get("digests", {}), dict)


def declare(raw: Raw, path: str) -> None:
    """Remove the marks of ``path``, of every key inside it, and of a table whose only number it is.

    A person who sets one number of a table has not stated its other numbers.

    >>> raw = {"schedule": {"sizes": {"kind": "power", "scale": 16}}, "draft": {"looked_at": ["schedule.sizes"]}}
    >>> declare(raw, "schedule.sizes.power"), raw["draft"]["looked_at"]
    (None, ['schedule.sizes'])
    >>> declare(raw, "schedule.sizes.scale"), raw["draft"]["looked_at"]
    (None, [])
    """
    marks = raw.get(SECTION)
    if not isinstance(marks, dict) or not _sound(marks):
        return

    def kept(name: str) -> bool:
        if f"{path}.".startswith(f"{name}."):
            return any(isinstance(one, int | float | list) for one in _others(_value(raw, name), path[len(name) + 1 :]))
        return not f"{name}.".startswith(f"{path}.")

    marks["looked_at"] = [name for name in marks.get("looked_at", []) if kept(name)]
    marks["digests"] = {name: digest for name, digest in marks.get("digests", {}).items() if kept(name)}


def _others(value: Any, part: str) -> Iterator[Any]:
    """Yield the values of a table outside ``part``, booleans excepted. Yield nothing if ``value`` is not a table."""
    if not isinstance(value, Mapping) or not part:
        return
    first, _, rest = part.partition(".")
    for name, inner in value.items():
        if name == first:
            yield from _others(inner, rest)
        elif isinstance(inner, Mapping):
            yield from (one for one in inner.values() if not isinstance(one, bool))
        elif not isinstance(inner, bool):
            yield inner


def marked_with(raw: Mapping[str, Any], name: str, sources: Iterable[str]) -> Raw:
    """Return the raw run file, with ``name`` marked if one of the ``sources`` it was computed from is looked at."""
    marks = raw.get(SECTION)
    if not isinstance(marks, dict) or not _sound(marks):
        return dict(raw)
    listed, digests, stated = (marks.get(one, ()) for one in ("looked_at", "digests", "declared"))
    if not any(one in listed or (one in digests and one not in stated) for one in sources):
        return dict(raw)
    return {**raw, SECTION: {**marks, "looked_at": [*listed, *({name} - set(listed))]}}


def refuse_override(names: list[str]) -> None:
    """Refuse an option that sets ``[draft]``: a mark is removed by stating the value, not by an override."""
    if names[0] == SECTION:
        raise ConfigError(
            "--set cannot change the marks of a draft; set the marked key itself, for example --set privacy.records=1000, "
            "or edit the file"
        )


def entries(marks: DraftMarks | None) -> tuple[LookedAt, ...]:
    """Return the marked entries, each with the question that a person has to answer."""
    return tuple(LookedAt(name, ASKS.get(name, _ELSE)) for name in (() if marks is None else marks.looked_at))


def _digest(raw: Mapping[str, Any], name: str) -> str | None:
    value = _value(raw, name)
    return None if value is None else digest_of(value)


def _value(raw: Mapping[str, Any], name: str) -> Any:
    section, _, inner = name.partition(".")
    table = raw.get(section)
    return table.get(inner) if isinstance(table, Mapping) else None
