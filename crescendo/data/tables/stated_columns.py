"""Statements about columns, made without a look at the records: a range of numbers, or a list of values.

``--range COLUMN=LOW:HIGH`` and ``--values COLUMN=A,B`` mean the same in every command; the label is a column like any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from crescendo.data.labels import Classes
from crescendo.data.records import Label
from crescendo.data.tables.feature_schema import CategoryColumn, NumberColumn
from crescendo.data.tables.written_numbers import PLAIN, Written
from crescendo.errors import ConfigError

MOST_RECORDS = 10**12
_EXAMPLES = {"--range": "LOW:HIGH", "--values": "a,b,c", "--kind": "money"}


class PublicRange(NamedTuple):
    """The least and the largest number of a column."""

    low: float
    high: float


Statement: TypeAlias = PublicRange | tuple[str, ...]
"""A range of numbers, or the possible values."""


def stated_columns(header: Sequence[str], ranges: Iterable[str], values: Iterable[str]) -> dict[str, Statement]:
    """Read options as they were typed; refuse an invalid one, and one for a column that the header does not have.

    >>> stated_columns(["age", "a=b"], ["age=0:110"], ["a=b=x, y"])
    {'age': PublicRange(low=0.0, high=110.0), 'a=b': ('x', 'y')}
    """
    found = dict[str, Statement]()
    for option, texts in (("--range", ranges), ("--values", values)):
        for text in texts:
            name, said = _named(option, text, header)
            if name in found:
                raise ConfigError(f"the column '{name:.60}' is stated twice; state it once")
            found[name] = _range(text, said) if option == "--range" else _values(text, said)
    return found


def answered(name: str, answer: str) -> Statement:
    """Read an answer to a question about a column: a range if it reads as one, otherwise values."""
    try:
        return _range(f"{name}={answer}", answer)
    except ConfigError:
        if "," in answer:
            return _values(f"{name}={answer}", answer)
        raise


def check_records(records: int | None) -> None:
    """Refuse an impossible number of records."""
    if records is not None and not 2 <= records <= MOST_RECORDS:
        raise ConfigError(f"--records is about how many records the table has, from 2 on, not {records}")


def stated_kinds(header: Sequence[str], kinds: Iterable[str]) -> dict[str, Written]:
    """Read the options ``--kind COLUMN=money``: how the numbers of a column are written.

    >>> stated_kinds(["price", "weight"], ["price=money:EUR", "weight=unit:kg"])
    {'price': Written(kind='money', unit='EUR', decimal=None), 'weight': Written(kind='number', unit='kg', decimal=None)}
    """
    found = dict[str, Written]()
    for text in kinds:
        name, said = _named("--kind", text, header)
        if name in found:
            raise ConfigError(f"the kind of the column '{name:.60}' is stated twice; state it once")
        kind, _, unit = said.strip().partition(":")
        words = {**({} if kind == "unit" else {"kind": kind}), **({"unit": unit.strip()} if unit else {})}
        if kind == "unit" and not unit:
            raise ConfigError(f"--kind {text!r:.60} names no unit; write for example {name:.40}=unit:kg")
        found[name] = NumberColumn.of(name, {"low": 0, "high": 1, **words}).written
    return found


def column_of(name: str, said: Statement, written: Written = PLAIN) -> NumberColumn | CategoryColumn:
    """Return the column of a schema. A cell may be missing: its indicator is free, since the middle of a range becomes 0."""
    if written != PLAIN and not isinstance(said, PublicRange):
        raise ConfigError(f"--kind is about numbers, and --values lists what '{name:.60}' says; leave one of them out")
    if not isinstance(said, PublicRange):
        return CategoryColumn.of(name, {"values": list(said), "other": True, "indicator": True})
    low, high = said
    return NumberColumn.of(
        name, {"low": low, "high": high, "missing": low / 2 + high / 2, "indicator": True, **written.plain()}
    )


def labels_of(said: Statement) -> PublicRange | tuple[Label, ...]:
    """Return the range of labels that are numbers, or the classes."""
    return said if isinstance(said, PublicRange) else tuple(Classes.stated(said))


def _named(option: str, text: str, header: Sequence[str]) -> tuple[str, str]:
    """Split an option into its column and the statement; names may contain equals signs too."""
    for place in (at for at, letter in enumerate(text) if letter == "="):
        if text[:place].strip() in header:
            return text[:place].strip(), text[place + 1 :]
    raise ConfigError(
        f"{option} {text!r:.60} names no column of the table; write COLUMN={_EXAMPLES[option]}, "
        f"where the columns are {', '.join(header):.300}"
    )


def _range(text: str, said: str) -> PublicRange:
    low, _, high = said.partition(":")
    try:
        ends = PublicRange(float(low), float(high))
    except ValueError:
        raise ConfigError(f"{text!r:.60} has no range; write two numbers as LOW:HIGH, for example 0:120") from None
    if not ends[0] < ends[1] or not math.isfinite(ends[1] - ends[0]):
        raise ConfigError(f"{text!r:.60} is no range; the lower number comes first, and both are finite")
    return ends


def _values(text: str, said: str) -> tuple[str, ...]:
    found = tuple(one.strip() for one in said.split(","))
    if not all(found):
        raise ConfigError(f"{text!r:.60} names an empty value; write them with commas between, for example a,b,c")
    return found
