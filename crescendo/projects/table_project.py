"""A new project around a table of one's own: its run file says what each column becomes, and a private one waits to be edited."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.config.short_toml import short_toml, toml_text
from crescendo.data import Dataset
from crescendo.data.formats.readers import RecordFile
from crescendo.data.labels import NUMBERS, as_numbers
from crescendo.data.reading import file_of, load
from crescendo.data.records import Column
from crescendo.data.tables.drafting import Draft, TableKeys, drafted
from crescendo.data.tables.feature_schema import NumberColumn
from crescendo.data.tables.table_records import label_of
from crescendo.errors import ConfigError
from crescendo.projects.project import Project, check_name, made_project

_EPOCHS = 5
_ROUNDS, _PRIVATE_ROUNDS = 20, 100
_MOST_CLASSES = 100  # more numbers than that are amounts
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
    classes = NUMBERS if _to_be_predicted(found.columns[named]) else None
    data = load(str(path), label=named, classes=classes, keys=TableKeys(drop=tuple(draft.left_out), scale=True))
    seen = os.path.relpath(path.resolve(), folder.resolve())
    join = f"--data {shlex.quote(seen)} --part iid --test 0.2"
    made = made_project(folder, "csv", join, _SCHEMA, **_values(path.name, seen, named, draft, data))
    return replace(made, notes=tuple(_notes(draft, data)))


def _notes(draft: Draft, data: Dataset) -> Iterator[str]:
    """What a person should see before the first run: columns that are not used and why, and cautions about the table."""
    yield from (note for note in data.notes if not note.startswith("columns of "))  # which the run prints
    for name, why in draft.left_out.items():
        yield f"the column {name!r:.62} is left out: it is {why}"


def _values(source: str, seen: str, label: str, draft: Draft, data: Dataset) -> dict[str, str]:
    each, told = _rounded(len(data.train) / 2), _Labels.of(data)
    gradients, private = _EPOCHS * len(data.train), _EPOCHS * 2 * each
    words: dict[str, Any] = {
        "path": seen,
        "label": label,
        "drop": list(draft.left_out),
        "objective": told.objective,
        "clip": told.clip,
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
        "labels_words": _in_a_line(told.words),
        "classes_line": told.classes_line,
        "range_line": told.range_line,
        "bound_line": told.bound_line(draft.schema.norm_bound()),
        "dropped": _in_a_line("; ".join(f"{name} is {why}" for name, why in draft.left_out.items()))
        or "none stand out",
        "columns": "\n".join(_columns(draft)),
        "schema": short_toml({"columns": plain["columns"]}),
    }


@dataclass(frozen=True)
class _Labels:
    """What the run files say about labels: classes to tell apart, or numbers to predict."""

    objective: str
    words: str
    clip: float
    classes_line: str = ""
    range_line: str = ""

    @classmethod
    def of(cls, data: Dataset) -> _Labels:
        return cls._of_classes(list(data.classes)) if data.classes else cls._of_numbers(data.train.y)

    @classmethod
    def _of_classes(cls, names: list[Any]) -> _Labels:
        words, line = ", ".join(map(str, names[:12])), f"classes = {toml_text(names)}\n"
        return cls("logistic" if len(names) == 2 else "softmax", words, 1.0, classes_line=line)

    @classmethod
    def _of_numbers(cls, labels: Column) -> _Labels:
        low, high = _outward(float(labels.min()), float(labels.max()))
        # a gradient is as long as the error times the features, and the first errors are the labels: so is the clip
        clip = float(f"{max((high - low) / 2, -low / 4, high / 4):.2g}")
        says = "labels beyond count as the nearest of the two; EDIT to what is public"
        line = f"label_range = {toml_text([low, high])}  # {says}\n"
        return cls("least-squares", f"a number from {low:g} to {high:g}", clip, range_line=line)

    def bound_line(self, longest: float) -> str:
        """The norm bound that automatic steps need in regression, where a clip has the unit of the labels: the schema's own."""
        if self.objective != "least-squares":
            return ""
        bound = math.ceil(longest * 1000) / 1000
        return f"norm_bound = {toml_text(bound)}  # no record that schema.toml makes is longer; steps follow from it\n"


def _to_be_predicted(cells: Column) -> bool:
    """Whether labels are numbers that no objective for classes takes: more than two with fractions, or very many.

    >>> _to_be_predicted(np.array([0.5, 1.5, 2.5])), _to_be_predicted(np.array([0, 1, 2])), _to_be_predicted(np.array(["a", "b"]))
    (True, False, False)
    """
    values = as_numbers(cells)
    if np.isnan(values).any():
        return False
    known = np.unique(values)
    return len(known) > _MOST_CLASSES or (len(known) > 2 and bool((known != np.rint(known)).any()))


def _outward(low: float, high: float) -> tuple[float, float]:
    """A range of round numbers around one that was seen.

    >>> _outward(0.127, 9.13), _outward(-51234.5, 199.9), _outward(0.0, 1.0)
    ((0.1, 9.2), (-52000.0, 1000.0), (0.0, 1.0))
    """
    if not 1e-100 < high - low < 1e100:
        raise ConfigError(f"labels from {low:g} to {high:g} make no scale to learn on; write them in another unit")
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    down, up = math.floor(low / step) * step, math.ceil(high / step) * step
    return float(f"{down:.12g}"), float(f"{up:.12g}")


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
