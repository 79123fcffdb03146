"""Table project: a new project for a user's table, with a run file made from the records and a private one from public facts.

The private files are made from a person's statements and the header line. Parts that are not stated are bought by a charged
draft, or read off the records and marked: no epsilon is stated while a mark is left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crescendo.config.short_toml import toml_text
from crescendo.data import Dataset
from crescendo.data.formats.readers import RecordFile
from crescendo.data.labels import NUMBERS, to_be_predicted
from crescendo.data.reading import file_of, load
from crescendo.data.tables.drafting import Draft, TableKeys, with_codes_missing
from crescendo.data.tables.feature_schema import NumberColumn
from crescendo.data.tables.stated_columns import PublicRange
from crescendo.data.tables.table_records import label_of, looked_at
from crescendo.errors import ConfigError
from crescendo.projects.bought_table import BoughtTable
from crescendo.projects.dealing import dealing, own_file
from crescendo.projects.private_table import EPOCHS, Labels, PrivateTable, scale_of
from crescendo.projects.project import Project, check_name, made_project
from crescendo.projects.stated import Stated

_ROUNDS = 20
_SHOWN = 40  # columns listed in a run file
_SCHEMA = "| `schema.toml` | the features of each column in the private run |\n"

if TYPE_CHECKING:
    from crescendo.drafter.payment import Payment

Stating = Callable[[list[str], str], Stated]
"""Returns a person's statements, for the header line and the label's column."""


def table_project(
    folder: Path,
    table: Path,
    label: str | None = None,
    state: Stating | None = None,
    payment: Payment | None = None,
) -> Project:
    """Look at a csv, tsv or Parquet file and make a project for it. Refuse a table that no model can learn from.

    With a ``payment`` the private run buys the parts that are not stated; only `run.toml` is made by looking at the records.
    """
    check_name(folder)
    path = file_of(str(table))
    if path is None or not RecordFile(path).is_table:
        raise ConfigError(f"{table} is not a table; --csv takes a csv, tsv or Parquet file with a line of column names")
    found = RecordFile(path).table()
    named = label_of(found, None, label, None)
    stated = Stated() if state is None else state(list(found.columns), named)
    named = label_of(found, stated.schema, label, None)
    raw, draft, kept = looked_at(found, TableKeys(scale=True), named, None)
    said = stated.labels(named)
    numbers = to_be_predicted(raw.y) if said is None else isinstance(said, PublicRange)
    keys = TableKeys(drop=tuple(draft.left_out), scale=True)
    data = load(str(path), label=named, classes=NUMBERS if numbers else None, keys=keys)
    bought = None if payment is None else BoughtTable.of(path, named, stated, payment, folder.name)
    coded = with_codes_missing(draft, kept)
    private = PrivateTable.of(stated if bought is None else bought.stated, named, coded, data)
    private = private if bought is None else bought.within_budget(private)
    private.schema.check_table(found.columns, path.name)
    seen = os.path.relpath(path.resolve(), folder.resolve())
    joins = {name: f"--state {name} --policy policy.toml --data {own_file(name, seen)}" for name in ("alice", "bob")}
    if bought is not None:
        joins = {"alice": bought.join(folder, seen)}
    values = {
        **_values(path.name, seen, named, draft, data),
        **private.values(coded, path.name),
        "dealing": dealing(seen),
        "count_says": "so that three terminals can run it for real: README.md has the commands",
        **({} if bought is None else bought.values(folder)),
    }
    made = made_project(folder, "csv", joins, _SCHEMA, **values)
    if bought is not None:
        named_already = bought.made.found.draft.left_out
        rest = {name: why for name, why in draft.left_out.items() if name not in named_already}
        return replace(made, notes=tuple(_notes(replace(draft, left_out=rest), data)), bought=bought.made)
    notes = (*_notes(draft, data), *_unstated(private, list(found.columns)))
    return replace(made, notes=notes, looked_at=private.looked_at)


def _unstated(private: PrivateTable, header: list[str]) -> Iterator[str]:
    """Yield a note on the columns that the private run never reads, since no person stated their contents."""
    if not private.schema.looked_at and (rest := [name for name in header if name not in private.schema.names()]):
        more = f" and {len(rest) - 6} more" if len(rest) > 6 else ""
        yield (
            f"the private run leaves out {', '.join(f'{name!r:.62}' for name in rest[:6])}{more}, for which nothing was stated; "
            "--range or --values adds a column"
        )


def _notes(draft: Draft, data: Dataset) -> Iterator[str]:
    """Yield notes for before the first run: on columns that are not used, with reasons, and cautions about the table."""
    yield from (note for note in data.notes if not note.startswith("columns of "))  # the run prints those
    yield from (one.in_schema for one in draft.findings if one.mended)
    for name, why in draft.left_out.items():
        yield f"the column {name!r:.62} is left out: it is {why}"


def _values(source: str, seen: str, label: str, draft: Draft, data: Dataset) -> dict[str, str]:
    """Return the values for run.toml, for which the records may be looked at."""
    labels, gradients = Labels.seen(data), EPOCHS * len(data.train)
    words: dict[str, Any] = {
        "path": seen,
        "label": label,
        "drop": list(draft.left_out),
        "objective": labels.objective,
        "gradients": gradients,
        "scale": scale_of(gradients, _ROUNDS),
    }
    dropped = "; ".join(f"{name} is {why}" for name, why in draft.left_out.items())
    return {
        **{name: toml_text(value) for name, value in words.items()},
        "source": _in_a_line(source),
        "labels_words": _in_a_line(labels.words),
        "dropped": _in_a_line(dropped) or "none",
        "columns": "\n".join(_columns(draft)),
    }


def _columns(draft: Draft) -> list[str]:
    lines = [
        f"#   {one.name}: a number from {one.low:g} to {one.high:g}"
        if isinstance(one, NumberColumn)
        else f"#   {one.name}: one of {', '.join(one.values[:8])}{', ..' if len(one.values) > 8 else ''}"
        for one in draft.schema.columns
    ]
    more = [f"#   and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return [*map(_in_a_line, lines[:_SHOWN]), *more]


def _in_a_line(text: str) -> str:
    """Return the text on one line, for a comment: a name from the table must not end it."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:300]
