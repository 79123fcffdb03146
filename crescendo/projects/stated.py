"""What a person states about a table without looking at its records: ranges, values, how many records there are.

From this alone, and from the table's header line, the terms of a private run can be made, and no record has a part in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from crescendo.data.labels import Classes
from crescendo.data.records import Label
from crescendo.data.tables.feature_schema import CategoryColumn, NumberColumn, Schema
from crescendo.errors import ConfigError
from crescendo.tables import read_toml

MOST_RECORDS = 10**12


class PublicRange(NamedTuple):
    """Between which numbers a column lies."""

    low: float
    high: float


@dataclass(frozen=True)
class Stated:
    """``columns`` by their names, the label's among them: a range of numbers, or the values that there can be.

    ``records`` is about how many the table has; ``schema`` says of all features at once what each becomes.
    """

    columns: Mapping[str, PublicRange | tuple[str, ...]] = field(default_factory=dict)
    records: int | None = None
    schema: Schema | None = None

    @classmethod
    def of(
        cls,
        header: Sequence[str],
        ranges: Iterable[str] = (),
        values: Iterable[str] = (),
        records: int | None = None,
        schema: Path | None = None,
    ) -> Self:
        """From options as they were typed; ConfigError for one that says nothing, or is about no column of the header."""
        found: dict[str, PublicRange | tuple[str, ...]] = {}
        for option, texts in (("--range", ranges), ("--values", values)):
            for text in texts:
                name, said = _named(option, text, header)
                if name in found:
                    raise ConfigError(f"the column '{name:.60}' is stated twice; state it once")
                found[name] = _range(text, said) if option == "--range" else _values(text, said)
        if records is not None and not 2 <= records <= MOST_RECORDS:
            raise ConfigError(f"--records is about how many records the table has, from 2 on, not {records}")
        if schema is None:
            return cls(found, records)
        read = Schema.of(read_toml(schema, "schema file", "--schema names it; `crescendo data schema` drafts one"))
        return cls(found, records, read)

    @classmethod
    def asked(cls, header: Sequence[str], label: str, ask: Callable[[str], str]) -> Self:
        """From a person's answers, column by column; an empty answer leaves a column out of the private run."""
        found: dict[str, PublicRange | tuple[str, ...]] = {}
        for name in [*(one for one in header if one != label), label]:
            said = ask(f"{name:.60}, as LOW:HIGH or as a list of values").strip()
            if said:
                found[name] = _either(name, said)
        count = ask("about how many records are there").strip()
        if count and not count.isdecimal():
            raise ConfigError(f"{count!r:.40} is no number of records; answer with a whole number, such as 1000")
        return cls.of(header, records=int(count) if count else None)._with(found)

    def _with(self, columns: Mapping[str, PublicRange | tuple[str, ...]]) -> Self:
        return type(self)(columns, self.records, self.schema)

    def schema_but(self, label: str) -> Schema | None:
        """What the stated columns become, the label apart; None where none is stated. A cell may always be missing."""
        features = {name: said for name, said in self.columns.items() if name != label}
        if self.schema is not None:
            if features:
                raise ConfigError(
                    f"--schema says what all columns become; leave out what says it of '{next(iter(features))}'"
                )
            return self.schema
        if not features:
            return None
        columns = tuple(_column(name, said) for name, said in sorted(features.items()))
        return Schema.of(Schema(columns).plain())

    def labels(self, label: str) -> PublicRange | tuple[Label, ...] | None:
        """The range of labels that are numbers, or the classes; None where neither is stated."""
        said = self.columns.get(label)
        if said is None:
            return None
        return said if isinstance(said, PublicRange) else tuple(Classes.stated(said))


def _column(name: str, said: PublicRange | tuple[str, ...]) -> NumberColumn | CategoryColumn:
    if not isinstance(said, PublicRange):
        return CategoryColumn(name, said, other=True, indicator=True)
    return NumberColumn(name, *said, missing=said.low + (said.high - said.low) / 2, indicator=True)


def _named(option: str, text: str, header: Sequence[str]) -> tuple[str, str]:
    """The column and what is said of it; names may have equals signs too."""
    for place in (at for at, letter in enumerate(text) if letter == "="):
        if text[:place].strip() in header:
            return text[:place].strip(), text[place + 1 :]
    raise ConfigError(
        f"{option} {text!r:.60} names no column of the table; write COLUMN={'LOW:HIGH' if option == '--range' else 'a,b,c'}, "
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


def _either(name: str, said: str) -> PublicRange | tuple[str, ...]:
    """A range where the answer reads as one, else values."""
    try:
        return _range(f"{name}={said}", said)
    except ConfigError:
        if "," in said:
            return _values(f"{name}={said}", said)
        raise
