"""Statements of a person on a table, made without looking at its records: ranges, values and the number of records.

The terms of a private run can be made from the statements and the header line alone, so no record influences them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from crescendo.data.records import Label
from crescendo.data.tables.feature_schema import Schema
from crescendo.data.tables.stated_columns import (
    PublicRange,
    Statement,
    answered,
    check_records,
    column_of,
    labels_of,
    stated_columns,
    stated_kinds,
)
from crescendo.data.tables.written_numbers import PLAIN, Written
from crescendo.errors import ConfigError
from crescendo.tables import read_toml


@dataclass(frozen=True)
class Stated:
    """Statements on ``columns`` by name, including the label's: a range of numbers, or the possible values.

    ``records`` is the approximate number of records; ``schema`` defines all features at once.
    """

    columns: Mapping[str, Statement] = field(default_factory=dict)
    records: int | None = None
    schema: Schema | None = None
    kinds: Mapping[str, Written] = field(default_factory=dict)  # how numbers are written

    @classmethod
    def of(
        cls,
        header: Sequence[str],
        ranges: Iterable[str] = (),
        values: Iterable[str] = (),
        records: int | None = None,
        schema: Path | None = None,
        kinds: Iterable[str] = (),
    ) -> Self:
        """Read options as typed. Raise ConfigError for an empty one, or for one that names no column of the header."""
        found = stated_columns(header, ranges, values)
        check_records(records)
        written = stated_kinds(header, kinds)
        if schema is None:
            return cls(found, records, kinds=written)
        if written:
            raise ConfigError("--schema also defines how numbers are written; leave --kind out")
        read = Schema.of(read_toml(schema, "schema file", "--schema names it; `crescendo data schema` drafts one"))
        return cls(found, records, read)

    @classmethod
    def asked(cls, header: Sequence[str], label: str, ask: Callable[[str], str]) -> Self:
        """Ask a person about each column; an empty answer leaves a column out of the private run."""
        found = dict[str, Statement]()
        for name in [*(one for one in header if one != label), label]:
            said = ask(f"{name:.60}, as LOW:HIGH or as a list of values").strip()
            if said:
                found[name] = answered(name, said)
        count = ask("about how many records are there").strip()
        if count and not count.isdecimal():
            raise ConfigError(f"{count!r:.40} is not a number of records; answer with a whole number, such as 1000")
        return cls.of(header, records=int(count) if count else None)._with(found)

    def _with(self, columns: Mapping[str, Statement]) -> Self:
        return type(self)(columns, self.records, self.schema, self.kinds)

    def schema_but(self, label: str) -> Schema | None:
        """Return the schema of the stated columns without the label; None if none is stated. It allows missing cells."""
        features = {name: said for name, said in self.columns.items() if name != label}
        if self.schema is not None:
            if features:
                raise ConfigError(f"--schema defines all columns; leave out the option for '{next(iter(features))}'")
            return self.schema
        if not features:
            return None
        columns = tuple(column_of(name, said, self.kinds.get(name, PLAIN)) for name, said in sorted(features.items()))
        return Schema.of(Schema(columns).plain())

    def labels(self, label: str) -> PublicRange | tuple[Label, ...] | None:
        """Return the range of labels that are numbers, or the classes; None if neither is stated."""
        said = self.columns.get(label)
        if said is None:
            return None
        return labels_of(said)
