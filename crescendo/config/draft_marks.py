"""The marks of a drafted run file: which of its entries were read off the records, until a person states them.

They stand in ``[draft]``: ``looked_at`` lists the entries, and ``digests`` tells a mark that was taken out behind a new value
from one that alone was taken out. An entry that a person sets, by ``--set`` or a keyword, is declared.
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
    "data.classes": "which labels can there be?",
    "objective.kind": "what is to be predicted, a class or a number?",
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
    """What a draft looked at; a file that was written by hand has none."""

    looked_at: _Keys = key(
        (),
        "a list of keys",
        "keys of this file that were read off the records, such as `privacy.records`: no epsilon is stated while there is one. "
        "State what is public, then take the key out",
    )
    declared: _Keys = key(
        (),
        "a list of keys",
        "keys that keep their drafted value because a person knows it to be public, without having looked",
    )
    digests: dict[str, str] = key(
        {},
        "a table of texts",
        "written by a draft: a key whose value is still the drafted one counts as looked at, whether it is listed or not",
    )


def check_names(marks: DraftMarks, sections: Mapping[str, Iterable[str]]) -> None:
    """ValueError for a mark on a key that no run file has: a misspelt mark would mark nothing."""
    for name in (*marks.looked_at, *marks.declared, *marks.digests):
        section, _, inner = name.partition(".")
        if inner not in sections.get(section, ()):
            raise ValueError(
                f"draft names {name!r:.60}, which is no key of a run file; write for example privacy.records"
            )


def settled(marks: DraftMarks | None, plain: Mapping[str, Any], *more: str) -> DraftMarks | None:
    """What is looked at now, of a complete run file as plain data: nothing of entries that a person stated, and ``more``.

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
    """Whether it has the shape of marks; a config refuses what has not."""
    if not set(marks) <= set(DraftMarks.model_fields):
        return False
    lists = (marks.get("looked_at", []), marks.get("declared", []))
    texts = all(isinstance(one, list | tuple) and all(isinstance(name, str) for name in one) for one in lists)
    return texts and isinstance(marks.get("digests", {}), dict)


def declare(raw: Raw, path: str) -> None:
    """Take the marks of what a person sets: of ``path``, of what is in it, and of a table of which it is the only number.

    Who sets one number of several says nothing of the others.

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
    """What else than a part is in a table, truth values apart; nothing of a value that is no table, or without a part."""
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
    """A raw run file with a mark on ``name``, which was computed from ``sources``, if one of these counts as looked at."""
    marks = raw.get(SECTION)
    if not isinstance(marks, dict) or not _sound(marks):
        return dict(raw)
    listed, digests, stated = (marks.get(one, ()) for one in ("looked_at", "digests", "declared"))
    if not any(one in listed or (one in digests and one not in stated) for one in sources):
        return dict(raw)
    return {**raw, SECTION: {**marks, "looked_at": [*listed, *({name} - set(listed))]}}


def refuse_override(names: list[str]) -> None:
    """ConfigError for an option that would take marks off: a mark goes where a value is stated, and that is in the file."""
    if names[0] == SECTION:
        raise ConfigError(
            "--set does not take the marks of a draft; set the marked key itself, for example --set privacy.records=1000, "
            "or edit the file"
        )


def entries(marks: DraftMarks | None) -> tuple[LookedAt, ...]:
    """The marked entries, and what a person is asked in their place."""
    return tuple(LookedAt(name, ASKS.get(name, _ELSE)) for name in (() if marks is None else marks.looked_at))


def _digest(raw: Mapping[str, Any], name: str) -> str | None:
    value = _value(raw, name)
    return None if value is None else digest_of(value)


def _value(raw: Mapping[str, Any], name: str) -> Any:
    section, _, inner = name.partition(".")
    table = raw.get(section)
    return table.get(inner) if isinstance(table, Mapping) else None
