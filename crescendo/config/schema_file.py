"""Schema file: a drafted schema as TOML for a person to edit, with comments that explain every line."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from crescendo.config.short_toml import toml_text
from crescendo.data.formats.readers import RecordFile
from crescendo.data.labels import Classes
from crescendo.data.records import Label
from crescendo.data.tables.drafting import Draft, TableKeys, with_codes_missing
from crescendo.data.tables.feature_schema import CategoryColumn, NumberColumn, Schema
from crescendo.data.tables.table_records import looked_at
from crescendo.errors import ConfigError, DataError

_FEW = 20  # labels; more are a number to predict, or a mistake

LEAKS = (
    "low, high, missing and the categories were read off the file, so this schema discloses them to its readers; draft it from "
    "a public or made-up sample, or replace them by what you know without looking at the records to be protected"
)
MARKS = (
    "No epsilon is stated while a line is marked looked_at: answer the question after it from public knowledge, or as you would "
    "have answered without looking, and remove the mark; if the line is right as it is, set looked_at = false."
)
_DRAFT = """\
# Digests of the drafted lines: a line whose mark was removed but whose values were not changed still counts as looked at. Remove
# this section when no line is marked. "left out": the draft left the column out because of its cells. If public knowledge tells
# you too that the column is of no use, remove that line.
[draft]
"""
_HEAD = """\
# How the columns of a table become features, in the same way for every client, whatever its records are.
# In a private run and in a federation this is a part of the terms that every client signs.
"""
_NUMBERS = """\
# Numbers. The range from low to high is scaled to -1 to 1; a number outside it counts as the nearer end.
# missing: the value for a cell that is empty or not a number; without it, such a record is left out.
# indicator = true: one more feature, which is 1 where the cell was missing.
# kind = "money", "percent" or "thousands", unit = "kg", decimal = ",": how the numbers are written.
# missing = [-999] and fill = 55: numbers that stand for a missing cell, and the value that replaces them.
"""
_CATEGORIES = """\
# Categories. Each of values is a feature, which is 1 where the cell equals it; any other cell gives 0 for all of them.
# other = true: one more feature, for values that are not listed. indicator = true: one more for a missing cell.
# as = "category" after low and high: each whole number from low to high is a category. "drop" as the line: never read.
"""


def schema_text(schema: Schema, draft: Draft | None = None, source: str = "") -> str:
    """Return the text of a schema file, with the marks of looked-at lines. A ``draft`` adds its left-out columns and findings."""
    mind = f"Drafted from {_shown(source)}, for you to edit. Note: {LEAKS}. {MARKS}" if schema.looked_at else ""
    said = "".join(f"# {line}\n" for line in textwrap.wrap(mind, 110))
    label = "" if schema.label is None else f"\nlabel = {toml_text(schema.label)}  # the column to predict\n"
    numbers = [one for one in schema.columns if isinstance(one, NumberColumn)]
    categories = [one for one in schema.columns if isinstance(one, CategoryColumn)]
    parts = [_HEAD + said + label + "\n[columns]"]
    parts += [_NUMBERS + "\n".join(map(_line, numbers))] if numbers else []
    parts += [_CATEGORIES + "\n".join(map(_line, categories))] if categories else []
    if draft is not None and draft.left_out:
        left_out = "\n".join(f"#   {_shown(name)}: {why}" for name, why in draft.left_out.items())
        parts.append(f"# Left out; a column that is not named above is never read.\n{left_out}")
    if draft is not None and draft.findings:
        found = "\n".join(f"#   {line}" for one in draft.findings for line in textwrap.wrap(one.in_schema, 110))
        parts.append(
            f"# Findings from the cells; to accept one, put the words at its end into the column's line.\n{found}"
        )
    bound = schema.norm_bound()
    parts.append(
        f"# {schema.width} features. No record (x, 1) is longer than {bound:.6g}: "
        f"privacy.norm_bound = {rounded_up(bound):g} shortens none."
    )
    if schema.looked_at:
        digests = schema.plain()["draft"].items()
        parts.append(_DRAFT + "\n".join(toml_text({name: digest})[1:-1] for name, digest in digests))
    return "\n\n".join(parts) + "\n"


def _line(column: NumberColumn | CategoryColumn) -> str:
    asks = f"  # {column.asks}" if column.looked_at else ""
    return f"{toml_text({column.name: column.plain()})[1:-1]}{asks}"


def _shown(name: str) -> str:
    return name if name.isprintable() else ascii(name)


def rounded_up(bound: float) -> float:
    """Return the bound rounded up to two decimals.

    >>> rounded_up(2.0), rounded_up(3.3166)
    (2.0, 3.32)
    """
    return math.ceil(bound * 100 - 1e-9) / 100


def in_round_numbers(draft: Draft) -> Draft:
    """Return the draft with ranges that a person would write: rounded outwards to two digits of their width.

    >>> (age,) = in_round_numbers(Draft(Schema((NumberColumn("age", 17.3, 88.9, 54.21),)))).schema.columns
    >>> age.plain()
    {'low': 17.0, 'high': 89.0, 'missing': 54.0}
    """
    columns = tuple(_rounded(one) if isinstance(one, NumberColumn) else one for one in draft.schema.columns)
    return replace(draft, schema=Schema.of(replace(draft.schema, columns=columns).plain()))


def _rounded(column: NumberColumn) -> NumberColumn:
    power = math.floor(math.log10(column.high - column.low)) - 1
    if not -300 < power < 290:
        return column
    low = float(f"{math.floor(column.low / 10.0**power)}e{power}")
    high = float(f"{math.ceil(column.high / 10.0**power)}e{power}")
    filled = column.missing
    if filled is not None:
        filled = min(max(float(f"{round(filled / 10.0**power)}e{power}"), low), high)
    usable = math.isfinite(high - low) and low <= column.low < column.high <= high
    return replace(column, low=low, high=high, missing=filled) if usable else column


@dataclass(frozen=True)
class DraftedSchema:
    """A schema drafted from a file that may be looked at, and the lines to paste into a run file.

    Its lines are marked as looked at, unless the file is ``public``: a sample with no record to protect.
    """

    source: Path
    draft: Draft
    classes: tuple[Label, ...] | None  # the labels in the file, if they are few

    @classmethod
    def of(cls, path: Path, label: str | None = None, public: bool = False) -> Self:
        """Draft a schema for the table in a file. Raise DataError if the file is not a table."""
        file = RecordFile(path)
        if not path.exists():
            raise DataError(f"there is no file {path}; name a table with a header line: .csv, .tsv or .parquet")
        if not file.is_table:
            raise DataError(f"{path} has no columns with names; a schema is drafted from a .csv, .tsv or .parquet")
        table = file.table()
        if label is not None and label not in table.columns:
            raise DataError(f"--label names '{label}', and the columns of {path} are {', '.join(table.columns)}")
        raw, draft, kept = looked_at(table, TableKeys(), label, None)
        few = 2 <= len(set(raw.y.tolist())) <= _FEW
        classes = tuple(Classes.of(raw.y, str(path), None)) if few else None
        draft = in_round_numbers(with_codes_missing(draft, kept))
        return cls(path, replace(draft, schema=draft.schema.marked(not public)), classes)

    @property
    def schema(self) -> Schema:
        return self.draft.schema

    @property
    def text(self) -> str:
        return schema_text(self.schema, self.draft, self.source.name)

    def sentences(self, out: Path) -> Iterator[str]:
        """Yield the sentences to print: the file written, the columns left out, the findings and the cautions."""
        columns = len(self.schema.columns)
        yield f"wrote {out}: {self.schema.width} features from {columns} column{'s' if columns > 1 else ''}"
        yield self.draft.says(self.source.name)
        yield from (one.in_schema for one in self.draft.findings)
        if self.schema.looked_at:
            yield f"note: {LEAKS}"
            yield f"note: {MARKS[:1].lower()}{MARKS[1:-1]}"

    def for_a_run_file(self, out: Path) -> str:
        """Return the lines to paste into a run file."""
        classes = "" if self.classes is None else f"classes = {toml_text(list(self.classes))}\n"
        bound = rounded_up(self.schema.norm_bound())
        keys = [*(["data.classes"] if classes else []), "privacy.norm_bound"]
        marks = (
            f"\n[draft]  # read off the file; state public values, then remove the key\nlooked_at = {toml_text(keys)}\n"
        )
        return (
            f"\n[data]\nschema = {toml_text(str(out))}\n{classes}\n[privacy]  # of a private run\nnorm_bound = {bound:g}\n"
            + (marks if self.schema.looked_at else "")
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": self.schema.plain(),
            "features": list(self.schema.features),
            "left_out": self.draft.left_out,
            "findings": [one.to_json() for one in self.draft.findings],
            "classes": None if self.classes is None else list(self.classes),
            "norm_bound": self.schema.norm_bound(),
            "mind": LEAKS if self.schema.looked_at else "",
            "looked_at": [one.where for one in self.schema.looked_at],
        }


def write_schema(path: Path, text: str) -> None:
    """Write a new file, whole or not at all."""
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        raise ConfigError(f"{path} exists already; name another file with --out, or remove it") from None
    except OSError as error:
        raise _refused(path, error) from None
    try:
        with file:
            file.write(text)
    except BaseException as error:  # half a schema would be taken for a schema
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _refused(path, error) from None
        raise


def _refused(path: Path, error: OSError) -> ConfigError:
    reason = (error.strerror or "unknown reason").lower()
    return ConfigError(f"the schema cannot be written to {path}: {reason}; name another file with --out")
