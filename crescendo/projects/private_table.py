"""Private run of a table project: its terms, from a person's statements or, with marks, from the table.

Every number is made from the statements and the header line, or is read off the table and marked as looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from crescendo.config.draft_marks import ASKS
from crescendo.config.loading import read
from crescendo.config.schema_file import in_round_numbers, schema_text
from crescendo.config.short_toml import toml_text
from crescendo.data import Dataset
from crescendo.data.tables.drafting import Draft
from crescendo.data.tables.feature_schema import Schema
from crescendo.data.tables.stated_columns import PublicRange
from crescendo.errors import ConfigError
from crescendo.projects.stated import Stated

EPOCHS = 5
_ROUNDS, _CLIENTS = 100, 2
_NOISE = {"mechanism": "minibatch"}
EPSILON = 2.0  # for a run whose budget is not known


@dataclass(frozen=True)
class Labels:
    """The labels as a run file states them: classes, or a range of numbers."""

    classes: tuple[Any, ...] = ()
    span: tuple[float, float] = (0.0, 0.0)  # the range, for numbers

    @classmethod
    def seen(cls, data: Dataset) -> Self:
        """Read a table's labels: its classes, or a range of round numbers around its numbers."""
        if data.classes:
            return cls(classes=tuple(data.classes))
        return cls(span=outward(float(data.train.y.min()), float(data.train.y.max())))

    @property
    def objective(self) -> str:
        return {0: "least-squares", 2: "logistic"}.get(len(self.classes), "softmax")

    @property
    def words(self) -> str:
        low, high = self.span
        return ", ".join(map(str, self.classes[:12])) or f"a number from {low:g} to {high:g}"

    @property
    def clip(self) -> float:
        """The clip: a gradient's length is the error times the features', and the first errors are as large as the labels."""
        low, high = self.span
        return 1.0 if self.classes else float(f"{max((high - low) / 2, -low / 4, high / 4):.2g}")


@dataclass(frozen=True)
class PrivateTable:
    """The terms of the private run. ``drafted`` has the values that were read off the table, by their keys.

    ``epsilon`` and ``most_delta`` limit the run's cost.
    """

    label: str
    labels: Labels
    schema: Schema
    each: int  # records that a client declares
    drafted: Mapping[str, Any]
    epsilon: float = EPSILON
    most_delta: float = 1.0

    @classmethod
    def of(cls, stated: Stated, label: str, seen: Draft, data: Dataset) -> Self:
        """Make the terms from the statements. Read unstated parts off the table, with marks."""
        schema, said = stated.schema_but(label), stated.labels(label)
        rough = in_round_numbers(seen).schema if schema is None else schema
        rough = replace(rough, label=label)
        labels = (
            Labels(span=said)
            if isinstance(said, PublicRange)
            else Labels(said)
            if said is not None
            else Labels.seen(data)
        )
        total = len(data.train) + (0 if data.test is None else len(data.test))
        each = _rounded(total / _CLIENTS) if stated.records is None else math.ceil(stated.records / _CLIENTS)
        made = cls(label, labels, rough, each, {})
        return replace(made, drafted=made._drafted(said is None, stated.records is None))

    def _drafted(self, labels: bool, records: bool) -> dict[str, Any]:
        """Return the entries that were read off the labels, the number of records and the columns."""
        numbers, keys = not self.labels.classes, list[str]()
        if labels:
            keys += ["objective.label_range", "privacy.clip"] if numbers else ["data.classes"]
        if records:
            keys += ["schedule.sizes", "privacy.delta", "privacy.records"]
        if numbers and self.schema.looked_at:
            keys += ["privacy.norm_bound"]
        return {key: self._entries[key] for key in keys}

    @property
    def _entries(self) -> dict[str, Any]:
        gradients = EPOCHS * _CLIENTS * self.each
        return {
            "data.classes": list(self.labels.classes),
            "objective.label_range": list(self.labels.span),
            "schedule.sizes": {"kind": "power", "scale": scale_of(gradients, _ROUNDS)},
            "privacy.clip": self.labels.clip,
            "privacy.norm_bound": math.ceil(self.schema.norm_bound() * 1000) / 1000,
            "privacy.delta": float(f"1e-{math.ceil(math.log10(max(100 * self.each, 1 / self.most_delta)))}"),
            "privacy.records": self.each,
        }

    @property
    def looked_at(self) -> tuple[str, ...]:
        """The keys of the run file and columns of the schema that a person has yet to state."""
        return (*self.drafted, *(one.where for one in self.schema.looked_at))

    def values(self, draft: Draft, source: str) -> dict[str, str]:
        """Return the values for the templates."""
        numbers = not self.labels.classes
        left_out = draft if self.schema.looked_at else None
        lines = {
            "classes_line": "" if numbers else self._line("data.classes", "all possible labels"),
            "range_line": self._line("objective.label_range", "labels beyond count as the nearer end")
            if numbers
            else "",
            "bound_line": self._line("privacy.norm_bound", "no record of schema.toml is longer") if numbers else "",
            "sizes_line": self._line("schedule.sizes", "five passes over the records, in rounds that grow"),
            "delta_line": self._line("privacy.delta", "well below 1 / records"),
            "clip_line": self._line("privacy.clip", "the length that each record's gradient is cut to"),
            "records_line": self._line("privacy.records", "the number that each client declares"),
        }
        return {
            **lines,
            "private_objective": toml_text(self.labels.objective),
            "epsilon": toml_text(self.epsilon),
            "schema": schema_text(self.schema, left_out, source),
            "provenance": _UNSTATED if self.looked_at else _STATED,
            "private_words": _WITHHELD if self.looked_at else "explains its\nepsilon",
            "marks": self._marks(),
        }

    def _line(self, key: str, says: str) -> str:
        comment = f"{says}; LOOKED AT: {ASKS[key]}" if key in self.drafted else says
        return f"{key.partition('.')[2]} = {toml_text(self._entries[key])}  # {comment}\n"

    def _digests(self) -> dict[str, str]:
        """Return the digests of the drafted values, in the form that a complete run file has."""
        raw: dict[str, Any] = {
            "data": {"source": "table"},
            "clients": {"count": _CLIENTS},
            "privacy": {**_NOISE, "epsilon": self.epsilon},
        }
        raw |= {"objective": {"kind": self.labels.objective}, "schedule": {"rounds": _ROUNDS, "steps": "auto"}}
        numbers = not self.labels.classes
        for key, value in self._entries.items():
            if key not in (("data.classes",) if numbers else ("objective.label_range", "privacy.norm_bound")):
                section, _, name = key.partition(".")
                raw[section][name] = value
        found = read({**raw, "draft": {"looked_at": list(self.drafted)}}).draft
        return {} if found is None else found.digests

    def _marks(self) -> str:
        if not self.drafted:
            return ""
        keys = "".join(f"    {toml_text(key)},\n" for key in self.drafted)
        digests = "".join(f"{toml_text(key)} = {toml_text(digest)}\n" for key, digest in self._digests().items())
        return f"{_MARKS}[draft]\nlooked_at = [\n{keys}]\ndeclared = []\n\n[draft.digests]\n{digests}"


_STATED = """\
# This file and schema.toml are public. A person stated their contents, or they follow from the statements: nothing in them
# depends on the records."""
_UNSTATED = """\
# This file and schema.toml are public, and some of their lines were read off the table: those marked LOOKED AT here, and
# looked_at in schema.toml. While there is one, no epsilon is stated and nothing is served. Answer the question on each line from
# public knowledge, or as you would have answered without looking, and remove its mark; or make the project again with --range,
# --values and --records."""
_MARKS = """\

# The marks. State a value above, then remove its key from looked_at. If a drafted value is right as it is, move its key from
# looked_at to declared; the digests detect a key that was only removed. When no key is left, remove this section.
"""
_WITHHELD = (
    "states an epsilon\nonce you have stated the public facts in `private.toml` and `schema.toml`: each line that was read off "
    "the table asks for one"
)


def outward(low: float, high: float) -> tuple[float, float]:
    """Return a range of round numbers around a range that was seen.

    >>> outward(0.127, 9.13), outward(-51234.5, 199.9), outward(0.0, 1.0)
    ((0.1, 9.2), (-52000.0, 1000.0), (0.0, 1.0))
    """
    if not 1e-100 < high - low < 1e100:
        raise ConfigError(f"labels from {low:g} to {high:g} have no usable scale; write them in another unit")
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    down, up = math.floor(low / step) * step, math.ceil(high / step) * step
    return float(f"{down:.12g}"), float(f"{up:.12g}")


def scale_of(gradients: int, rounds: int) -> float:
    """Return the scale of sizes scale (i + 1) that reach ``gradients`` in about ``rounds`` rounds."""
    return float(f"{2 * gradients / (rounds * (rounds + 1)):.3g}")


def _rounded(records: float) -> int:
    """Return the number rounded up to two figures, as a person would state it.

    >>> _rounded(718.5), _rounded(12), _rounded(3)
    (720, 12, 3)
    """
    step = int(10 ** max(0, math.floor(math.log10(max(records, 1))) - 1))
    return step * math.ceil(records / step)
