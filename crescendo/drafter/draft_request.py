"""A request for a draft: statements about a table before any of its records is read, and the questions they leave open.

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

from crescendo.data.labels import Classes
from crescendo.data.records import Label
from crescendo.data.tables.drafting import INDEX
from crescendo.data.tables.feature_schema import MOST_COLUMNS, CategoryColumn, NumberColumn, Schema, is_text
from crescendo.errors import ConfigError

Kind: TypeAlias = Literal["number", "category", "unknown"]

_VERSION = 1  # of how a request is answered: another one buys another draft


@dataclass(frozen=True)
class DraftRequest:
    """The budget of a draft, and everything known without looking.

    ``bounds`` and ``values`` state whole columns. ``numbers`` and ``categories`` say of which kind a column is, and may be
    patterns such as ``lab_*``. ``records`` is the public number of records.
    """

    epsilon: float
    delta: float
    label: str | None = None
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    classes: tuple[Label, ...] | None = None
    label_range: tuple[float, float] | None = None
    records: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise ConfigError(f"--epsilon is a number above 0, 0.5 say, not {self.epsilon:g}")
        if not 0 < self.delta < 1:
            raise ConfigError(f"--delta is a number between 0 and 1, 1e-7 say, not {self.delta:g}")
        if self.classes is not None and self.label_range is not None:
            raise ConfigError("--classes are for labels to tell apart and --label-range is for labels that are numbers")
        if self.classes is not None:
            object.__setattr__(self, "classes", tuple(Classes.stated(self.classes)))
        if self.label_range is not None:
            _check_range("--label-range", self.label_range)
        if self.records is not None and self.records < 1:
            raise ConfigError(f"--records is a whole number from 1, not {self.records}")

    def questions(self, header: Sequence[str], name: str, dates: frozenset[str] = frozenset()) -> Questions:
        """Return the questions left open for a table with these columns; ConfigError for a column that is not there."""
        label = header[-1] if self.label is None else self.label
        self._check_columns(header, name, label)
        if len(header) > MOST_COLUMNS:
            raise ConfigError(f"{name} has {len(header):,} columns, and a schema has at most {MOST_COLUMNS:,}")
        found = Questions(label, self.classes is None and self.label_range is None, self.records is None)
        for column in header:
            if column == label:
                continue
            stated = self._stated(column)
            reason = self._left_out(column, column in dates)
            if stated is not None and column not in self.drop:
                found.stated.append(stated)
            elif reason is not None:
                found.left_out[column] = reason
            else:
                found.asked[column] = self._kind(column)
        names = [*(column.name for column in found.stated), *found.asked]
        if not names:
            raise ConfigError(f"{name} has no column left for a feature beside the label '{label[:60]}'")
        Schema.of(
            {"label": label, "columns": {column: {"low": 0, "high": 1} for column in names}}
        )  # names that a schema takes
        return found

    def digest(self, header: Sequence[str], name: str) -> str:
        """The SHA-256 of the request and of the public side of the file; the same request has the same."""
        body = {"version": _VERSION, "header": list(header), "file": name, **asdict(self)}
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

    def _check_columns(self, header: Sequence[str], name: str, label: str) -> None:
        named = {"--label": (label,), "--bounds": self.bounds, "--values": self.values, "--drop": self.drop}
        for flag, columns in named.items():
            absent = [column for column in columns if column not in header]
            if absent:
                raise ConfigError(f"{flag} names '{absent[0]:.60}', and the columns of {name} are {_listed(header)}")
        for flag, patterns in (("--numbers", self.numbers), ("--categories", self.categories)):
            unused = [one for one in patterns if not fnmatch.filter(header, one)]
            if unused:
                raise ConfigError(f"{flag} has '{unused[0]:.60}', and the columns of {name} are {_listed(header)}")
        twice = [column for column in header if (column in self.bounds) + (column in self.values) > 1]
        if twice:
            raise ConfigError(f"'{twice[0]:.60}' has --bounds and --values; a column is of numbers or of categories")
        if label in self.bounds or label in self.values:
            raise ConfigError(f"'{label:.60}' is the label; state it by --classes or --label-range")

    def _stated(self, column: str) -> NumberColumn | CategoryColumn | None:
        if column in self.bounds:
            low, high = _check_range(f"--bounds of '{column:.60}'", self.bounds[column])
            # An indicator costs nothing in the norm bound, since the middle of the range becomes 0.
            middle = low / 2 + high / 2
            return NumberColumn.of(column, {"low": low, "high": high, "missing": middle, "indicator": True})
        if column in self.values:
            return CategoryColumn.of(column, {"values": list(self.values[column]), "other": True, "indicator": True})
        return None

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
        return "number" if any(fnmatch.fnmatchcase(column, pattern) for pattern in self.numbers) else "unknown"


@dataclass
class Questions:
    """The counts of a draft: ``asked`` columns by their kind, the label and the number of records, where they are not stated."""

    label: str
    asks_label: bool
    asks_records: bool
    asked: dict[str, Kind] = field(default_factory=dict)
    stated: list[NumberColumn | CategoryColumn] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # column -> why

    @property
    def histograms(self) -> int:
        """How many histograms a record is counted in, at most once in each."""
        return self.asks_records + sum(self._of_a_column()) + 3 * self.asks_label

    @property
    def texts(self) -> int:
        """How many of them count cells by their text, so that one record may bring a new place to each."""
        return sum(kind != "number" for kind in self.asked.values()) + self.asks_label

    def _of_a_column(self) -> Iterator[int]:
        yield from (1 if kind == "category" else 2 for kind in self.asked.values())


def _check_range(what: str, found: tuple[float, float]) -> tuple[float, float]:
    low, high = float(found[0]), float(found[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"{what} is {low:g}:{high:g}, and must be two finite numbers, the lower one first")
    return low, high


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(name[:60] for name in names[:most]) + (", ..." if len(names) > most else "")
