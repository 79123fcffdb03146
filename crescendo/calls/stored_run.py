"""A run's folder as data, read whole and checked.

A folder may come from anyone. Nothing in it is unpickled, unpacked beyond its size or run as code, no link is followed out of it,
and its files must be consistent with each other.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from crescendo.config.loading import read
from crescendo.config.schema import Config
from crescendo.core.arrays import Floats
from crescendo.data.records import Label
from crescendo.data.scaling import Scaling
from crescendo.data.tables.feature_schema import Schema
from crescendo.errors import ConfigError, DataError
from crescendo.objectives.objective_kinds import OBJECTIVES
from crescendo.report.references import References
from crescendo.runs.folder import require_run
from crescendo.runs.models.answers import LearnedRecords
from crescendo.runs.models.stored_model import MODEL, StoredModel, damage_named, schema_digest
from crescendo.tables import read_toml

Row = dict[str, Any]
_CONFIG, _METRICS, _PRIVACY, _SCHEMA = "config.toml", "metrics.jsonl", "privacy.json", "schema.toml"
_REFERENCES = "references.json"  # missing in folders of early versions
_COUNTS = ("k", "gradients", "bytes_up", "bytes_down")
_MEASURES = ("loss", "accuracy", "rmse", "r2")
_MOST_FEATURES = 10_000_000
_LONGEST_TEXT = 1 << 28  # bytes: more than the metrics of a million rounds take
_NO_VALUES = (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError)


@dataclass(frozen=True, eq=False, repr=False)
class StoredRun:
    """The content of a complete run's folder. Folders of early versions have no ``classes`` and no ``records``."""

    folder: Path
    config: Config
    metrics: list[Row]
    privacy: Row | None
    model: Floats
    trained: str
    intercept: bool
    classes: tuple[Label, ...] | None
    records: LearnedRecords | None
    references: References

    @classmethod
    def of(cls, folder: Path) -> StoredRun:
        """Read a folder; raise DataError or ConfigError if it is not a run or its files are inconsistent."""
        _check_files(folder)
        require_run(folder, (_CONFIG, _METRICS, _PRIVACY, MODEL), "load")
        config, stored = _config(folder), StoredModel.of(folder)
        model, trained = stored.arrays["model"], stored.trained
        if trained not in (*OBJECTIVES, "torch", "own"):
            trained = "own"  # an early version's name of a file
        if model.dtype.kind != "f" or not model.size:
            _damaged(folder / MODEL, "its model is no vector of numbers")
        with damage_named(folder):
            classes = json.loads(str(stored.arrays["classes"])) if "classes" in stored.arrays else None
            said = json.loads(str(stored.arrays["records"])) if "records" in stored.arrays else None
        made = cls(
            folder,
            config,
            _metrics(folder / _METRICS),
            _privacy(folder / _PRIVACY),
            model.astype(np.float64),
            trained,
            stored.intercept,
            None if classes is None else _classes(folder / MODEL, classes),
            None if said is None else _records(folder, said, config.data.label),
            _references(folder / _REFERENCES),
        )
        made._check()
        return made

    def _check(self) -> None:
        """Refuse a model whose size does not fit its features and classes."""
        kind = OBJECTIVES.get(self.trained)
        if kind is None or self.classes is None:
            return
        if not kind.fits(len(self.classes)):
            _damaged(self.folder / MODEL, f"{kind.about} does not tell {len(self.classes)} classes apart")
        if self.records is not None:
            due = kind.make(self.records.features, len(self.classes), 0.0, self.intercept, "float64").size
            if due != len(self.model):
                _damaged(
                    self.folder / MODEL,
                    f"its model has {len(self.model):,} numbers, and {self.records.features:,} features need {due:,}",
                )


def _check_files(folder: Path) -> None:
    """Refuse files that no run writes, before reading any: a link, a pipe, a device, a text of gigabytes."""
    for path in (folder / name for name in ("format.json", _CONFIG, _METRICS, _PRIVACY, MODEL, _SCHEMA, _REFERENCES)):
        if path.is_symlink():
            raise DataError(f"{path} is a link, and a run writes none; copy the file itself there")
        if path.exists() and not path.is_file():
            raise DataError(f"{path} is no file; name a folder of `crescendo run`")
        if path.exists() and path.name != MODEL and path.stat().st_size > _LONGEST_TEXT:
            _damaged(path, f"it is longer than {_LONGEST_TEXT:,} bytes")


def _damaged(path: Path, why: str) -> NoReturn:
    raise DataError(f"{path} is damaged or was changed after the run: {why}; run it again")


def _config(folder: Path) -> Config:
    """Read the run file. Refuse one that names a schema in another file, since the path could lead anywhere."""
    raw = read_toml(folder / _CONFIG, "run file", "name a folder of `crescendo run`")
    data = raw.get("data")
    if isinstance(data, dict) and isinstance(data.get("schema"), str):
        _damaged(folder / _CONFIG, "its data.schema names another file, and a run writes the schema itself")
    try:
        return read(raw)
    except ConfigError as error:
        raise DataError(
            f"{folder / _CONFIG} is no run file that this version of Crescendo reads ({error}); use the version that made the run"
        ) from error


def _plain_json(text: str) -> Any:
    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is no number")

    return json.loads(text, parse_constant=refuse)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _metrics(path: Path) -> list[Row]:
    """Read a row for each measured model, at least one."""
    try:
        rows = [_plain_json(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        for row in rows:
            counted = all(_is_number(row[name]) and row[name] == int(row[name]) >= 0 for name in _COUNTS)
            measured = all(row.get(name) is None or _is_number(row[name]) for name in _MEASURES)
            if not (counted and measured and _is_number(row["seconds"]) and "loss" in row):
                raise ValueError("a row lacks a number")
    except _NO_VALUES:
        _damaged(path, "not every line of it is a measured model")
    if not rows:
        _damaged(path, "it is empty")
    return rows


def _privacy(path: Path) -> Row | None:
    try:
        found = _plain_json(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and isinstance(found.get("withheld"), str) and found["epsilon"] is None:
            return found if _is_number(found["delta"]) else _damaged(path, "it has no delta")
        if found is not None and not all(_is_number(found[name]) for name in ("epsilon", "delta")):
            raise ValueError("no epsilon")
        if found is not None and not (found["epsilon"] >= 0 and 0 <= found["delta"] < 1):
            raise ValueError("these are no epsilon and delta")
    except _NO_VALUES:
        _damaged(path, "it does not say what the run spent")
    return None if found is None else dict(found)


def _references(path: Path) -> References:
    if not path.exists():
        return References()
    try:
        return References.from_plain(_plain_json(path.read_text(encoding="utf-8")))
    except _NO_VALUES:
        _damaged(path, "it does not say what the scores are held against")


def _classes(path: Path, found: object) -> tuple[Label, ...]:
    listed = found if isinstance(found, list) else [None]
    sound = all(isinstance(one, str) or _is_number(one) for one in listed)
    if not sound or len(set(listed)) < len(listed):
        _damaged(path, "its classes are no labels, or one is there twice")
    return tuple(listed)


def _records(folder: Path, said: Any, label: str | None) -> LearnedRecords:
    """Read the form of the records from the model's file; a table's schema must be the one that was applied."""
    path = folder / MODEL
    try:
        features, shape, names = said["features"], tuple(said["shape"]), tuple(said["names"])
        whole = all(type(one) is int and 1 <= one <= _MOST_FEATURES for one in (features, *shape))
        sound = whole and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
        if not sound or (shape and math.prod(shape) != features) or len(names) not in (0, features):
            raise ValueError("these are no records")
        digest, plain = said["schema"], said.get("scaling")
        scaling = None if plain is None else Scaling.from_plain(plain, features)
    except _NO_VALUES:
        _damaged(path, "what it says of the records does not fit together")
    if digest is None:
        return LearnedRecords(features, shape, names, scaling=scaling, label=label)
    if not (folder / _SCHEMA).is_file():
        raise DataError(f"{folder} has no {_SCHEMA}, by which its columns became features; copy the whole folder")
    schema = Schema.of(read_toml(folder / _SCHEMA, "schema file", "copy the whole folder"))
    if schema_digest(schema) != digest or schema.width != features:
        _damaged(folder / _SCHEMA, "it is not the schema that the model was trained with")
    return LearnedRecords(features, shape, names, schema, label=schema.label or label)
