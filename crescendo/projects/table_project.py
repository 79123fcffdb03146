"""A new project around a table of one's own: its run file says what each column becomes, and a private one waits to be edited."""

from __future__ import annotations

import math
import os
import shlex
from pathlib import Path
from typing import Any

from crescendo.config.short_toml import short_toml, toml_text
from crescendo.data import Dataset
from crescendo.data.formats.readers import RecordFile
from crescendo.data.reading import file_of, load
from crescendo.data.tables.drafting import Draft, TableKeys, drafted
from crescendo.data.tables.feature_schema import NumberColumn
from crescendo.data.tables.table_records import label_of
from crescendo.errors import ConfigError
from crescendo.projects.project import Project, check_name, made_project

_EPOCHS = 5
_ROUNDS, _PRIVATE_ROUNDS = 20, 100
_SHOWN = 40  # columns that a run file says something about
_SCHEMA = "| `schema.toml` | what each column becomes in the private run: a draft, to be edited |\n"


def table_project(folder: Path, table: Path, label: str | None = None) -> Project:
    """Look at a csv, tsv or Parquet file and make a project for it. Nothing is made of a table that cannot be learned from."""
    check_name(folder)
    path = file_of(str(table))
    if path is None or not RecordFile(path).is_table:
        raise ConfigError(f"{table} is no table; --csv takes a csv, tsv or Parquet file with a line of column names")
    found = RecordFile(path).table()
    named = label_of(found, None, label, None)
    draft = drafted(found, [named], TableKeys(scale=True))
    data = load(str(path), label=named, keys=TableKeys(drop=tuple(draft.left_out), scale=True))
    seen = os.path.relpath(path.resolve(), folder.resolve())
    join = f"--data {shlex.quote(seen)} --part iid --test 0.2"
    return made_project(folder, "csv", join, _SCHEMA, **_values(path.name, seen, named, draft, data))


def _values(source: str, seen: str, label: str, draft: Draft, data: Dataset) -> dict[str, str]:
    each, kind = _rounded(len(data.train) / 2), "logistic" if len(data.classes) == 2 else "softmax"
    gradients, private = _EPOCHS * len(data.train), _EPOCHS * 2 * each
    words: dict[str, Any] = {
        "path": seen,
        "label": label,
        "drop": list(draft.left_out),
        "objective": kind,
        "classes": list(data.classes),
        "gradients": gradients,
        "scale": _scale(gradients, _ROUNDS),
        "private_gradients": private,
        "private_scale": _scale(private, _PRIVATE_ROUNDS),
        "records": each,
        "delta": float(f"1e-{math.ceil(math.log10(100 * each))}"),
        "features": draft.schema.width,
    }
    plain = draft.schema.plain()
    return {
        **{name: toml_text(value) for name, value in words.items()},
        "source": _in_a_line(source),
        "classes_words": _in_a_line(", ".join(map(str, data.classes[:12]))),
        "dropped": _in_a_line("; ".join(f"{name} is {why}" for name, why in draft.left_out.items()))
        or "none stand out",
        "columns": "\n".join(_columns(draft)),
        "schema": short_toml({"columns": plain["columns"]}),
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
    """What may stand in a comment: a name from the table must not end it."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:300]


def _scale(gradients: int, rounds: int) -> float:
    """Of sizes scale (i + 1) that reach so many gradients in about so many rounds."""
    return float(f"{2 * gradients / (rounds * (rounds + 1)):.3g}")


def _rounded(records: float) -> int:
    """Up to two figures: a number that a person would say.

    >>> _rounded(718.5), _rounded(12), _rounded(3)
    (720, 12, 3)
    """
    step = int(10 ** max(0, math.floor(math.log10(max(records, 1))) - 1))
    return step * math.ceil(records / step)
