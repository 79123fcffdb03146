"""Request for a draft: statements about a table before any of its records is read, and the open questions.

Everything here is public: the header line and the flags. A column that is stated costs nothing.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

from crescendo.data.records import Label
from crescendo.data.tables.drafting import INDEX
from crescendo.data.tables.feature_schema import MOST_COLUMNS, CategoryColumn, NumberColumn, Schema, is_text
from crescendo.data.tables.stated_columns import PublicRange, Statement, check_records, column_of, labels_of
from crescendo.data.tables.written_numbers import PLAIN, Written
from crescendo.errors import ConfigError

Kind: TypeAlias = Literal["number", "category", "unknown"]

_VERSION = 1  # of the answer to a request; a new version buys a new draft


@dataclass(frozen=True)
class DraftRequest:
    """The budget of a draft, and everything known without a look at the records.

    ``columns`` states whole columns, the label among them. ``numbers`` and ``categories`` give a column's kind, and
    may be patterns such as ``lab_*``; ``kinds`` gives the notation of numbers, such as money. ``records`` is the
    public number of records.
    """

    epsilon: float
    delta: float
    label: str | None = None
    columns: Mapping[str, Statement] = field(default_factory=dict)
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    records: int | None = None
    kinds: Mapping[str, Written] = field(default_factory=dict)  # the notation of a column's numbers

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise ConfigError(f"--epsilon is a number above 0, 0.5 say, not {self.epsilon:g}")
        if not 0 < self.delta < 1:
            raise ConfigError(f"--delta is a number between 0 and 1, 1e-7 say, not {self.delta:g}")
        check_records(self.records)

    def questions(self, header: Sequence[str], name: str, dates: frozenset[str] = frozenset()) -> Questions:
        """Return the open questions for a table with these columns; raise ConfigError for an unknown column."""
        label = self._label(header)
        self._check_columns(header, name, label)
        if len(header) > MOST_COLUMNS:
            raise ConfigError(f"{name} has {len(header):,} columns, and a schema has at most {MOST_COLUMNS:,}")
        said = self.columns.get(label)
        found = Questions(label, None if said is None else labels_of(said), self.records is None)
        for column in header:
            if column == label:
                continue
            reason = self._left_out(column, column in dates)
            if column in self.columns and column not in self.drop:
                found.stated.append(column_of(column, self.columns[column], self.kinds.get(column, PLAIN)))
            elif reason is not None:
                found.left_out[column] = reason
            else:
                found.asked[column] = self._kind(column)
        names = [*(column.name for column in found.stated), *found.asked]
        if not names:
            raise ConfigError(f"{name} has no column left for a feature beside the label '{label[:60]}'")
        Schema.of(
            {"label": label, "columns": {column: {"low": 0, "high": 1} for column in names}}
        )  # names that a schema accepts
        return found

    def digest(self, header: Sequence[str], name: str) -> str:
        """Return the SHA-256 of the request and of the file's public side, equal for equal requests."""
        label = self._label(header)
        asked = asdict(self)
        if not self.kinds:  # as before kinds existed, so that an old request is not bought again
            del asked["kinds"]
        body = {"version": _VERSION, "header": list(header), "file": name, **asked, "label": label}
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

    def _label(self, header: Sequence[str]) -> str:
        return header[-1] if self.label is None else self.label

    def _check_columns(self, header: Sequence[str], name: str, label: str) -> None:
        named = {"--label": (label,), "--range or --values": self.columns, "--drop": self.drop, "--kind": self.kinds}
        for flag, columns in named.items():
            absent = [column for column in columns if column not in header]
            if absent:
                raise ConfigError(f"{flag} names '{absent[0]:.60}', and the columns of {name} are {_listed(header)}")
        for flag, patterns in (("--numbers", self.numbers), ("--categories", self.categories)):
            unused = [one for one in patterns if not fnmatch.filter(header, one)]
            if unused:
                raise ConfigError(f"{flag} has '{unused[0]:.60}', and the columns of {name} are {_listed(header)}")

    def _left_out(self, column: str, dates: bool) -> str | None:
        if column in self.drop:
            return "dropped"
        if not is_text(column):
            return "a name that cannot be printed"
        if dates:
            return "dates"
        if INDEX.fullmatch(column) is not None and self._kind(column) == "unknown":
            return "an index by its name; --numbers or --categories uses it"
        return None

    def _kind(self, column: str) -> Kind:
        if any(fnmatch.fnmatchcase(column, pattern) for pattern in self.categories):
            return "category"
        return (
            "number"
            if column in self.kinds or any(fnmatch.fnmatchcase(column, pattern) for pattern in self.numbers)
            else "unknown"
        )


@dataclass
class Questions:
    """The counts of a draft: ``asked`` columns by kind, and the label and the number of records if not stated."""

    label: str
    labels: PublicRange | tuple[Label, ...] | None  # as stated
    asks_records: bool
    asked: dict[str, Kind] = field(default_factory=dict)
    stated: list[NumberColumn | CategoryColumn] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # column -> reason

    @property
    def asks_label(self) -> bool:
        return self.labels is None

    @property
    def histograms(self) -> int:
        """The number of histograms in which a record is counted, at most once in each."""
        return self.asks_records + sum(self._of_a_column()) + 3 * self.asks_label

    @property
    def texts(self) -> int:
        """The number of them that count texts, so that one record may add a new place to each."""
        return sum(kind != "number" for kind in self.asked.values()) + self.asks_label

    def _of_a_column(self) -> Iterator[int]:
        yield from (1 if kind == "category" else 2 for kind in self.asked.values())


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(name[:60] for name in names[:most]) + (", ..." if len(names) > most else "")
