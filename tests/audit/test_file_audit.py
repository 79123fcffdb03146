"""The audit of how files are read finds the ways in which it was once wrong, and some in which it never was."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from crescendo.audit import Finding
from crescendo.audit.worst_cases import table_reading
from crescendo.audit.worst_cases.file_reading import Reader, _read_privately, leaks
from crescendo.audit.worst_cases.table_reading import table_leaks
from crescendo.config.loading import read
from crescendo.data import Records, as_records, load
from crescendo.data.formats.readers import RecordFile
from crescendo.data.labels import Classes
from crescendo.data.records import Label, Raw
from crescendo.data.sound import Sound
from crescendo.data.tables.feature_schema import Schema
from crescendo.runs import auditing
from crescendo.runs.auditing import attack
from tests.config.small import SMALL


def raw_of(path: Path, features: int) -> Raw:
    width = features if RecordFile(path).kind == "libsvm" else None
    return RecordFile(path).read(None, None, width, leave_out=True, test=False)


def counted_labels(path: Path, classes: tuple[Label, ...], features: int) -> Records:
    raw = raw_of(path, features)
    return as_records(raw.x, Classes.of(raw.y.astype(str), "all", None).encode(raw.y, "all"))


def refusing(path: Path, classes: tuple[Label, ...], features: int) -> Records:
    width = features if RecordFile(path).kind == "libsvm" else None
    return load(str(path), test=0, classes=classes, features=width).train


def scaled(path: Path, classes: tuple[Label, ...], features: int) -> Records:
    found = Sound.of(raw_of(path, features), classes)[0].records
    x = found.x if isinstance(found.x, np.ndarray) else found.x.toarray()
    return as_records(x / np.abs(x).max(initial=1e-9), found.y)


def constant_columns_dropped(path: Path, classes: tuple[Label, ...], features: int) -> Records:
    found = Sound.of(raw_of(path, features), classes)[0].records
    x = found.x if isinstance(found.x, np.ndarray) else found.x.toarray()
    return as_records(x[:, np.ptp(x, axis=0) < 1e3], found.y)


def gaps_filled(path: Path, classes: tuple[Label, ...], features: int) -> Records:
    if RecordFile(path).kind == "libsvm":
        return scaled(path, classes, features)  # LIBSVM text has no gaps
    raw = raw_of(path, features)
    gaps = ~np.isfinite(raw.x)
    means = np.where(gaps, 0.0, raw.x).sum(axis=0) / np.maximum((~gaps).sum(axis=0), 1)
    return Sound.of(Raw(np.where(gaps, means, raw.x), raw.y), classes)[0].records


@pytest.mark.slow
@pytest.mark.parametrize(
    ("classes", "features"), [((0, 1), 3), ((1, 2), 1), ((0, 1, 2, 3), 300), (("no", "yes, late"), 2), ((0, "late"), 2)]
)
def test_files_are_read_record_by_record(classes: tuple[Label, ...], features: int) -> None:
    assert leaks(classes, features) == []


@pytest.mark.slow
@pytest.mark.parametrize("planted", [counted_labels, refusing, scaled, constant_columns_dropped, gaps_filled])
def test_a_reader_that_looks_at_other_records_is_found(planted: Reader) -> None:
    found = leaks((0, 1), 3, read=planted)
    assert len(found) == 3 and all("a record of a ." in says for says in found), found


@pytest.mark.slow
def test_one_bad_kind_of_file_is_named() -> None:
    def planted(path: Path, classes: tuple[Label, ...], features: int) -> Records:
        return (refusing if path.suffix == ".npz" else _read_privately)(path, classes, features)

    (says,) = leaks((0, 1), 3, read=planted)
    assert "a record of a .npz file" in says and says.isprintable()


@dataclass(frozen=True)
class Empty:
    """What the attacks on releases found: nothing."""

    findings: tuple[Finding, ...] = ()
    name: str | None = None


@pytest.mark.slow
def test_the_audit_of_a_run_fails_if_files_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    privacy = {"mechanism": "minibatch", "delta": 1e-5, "sigma": 2.0, "clip": 1.0, "records": 100}
    run = read({**SMALL, "privacy": privacy})
    monkeypatch.setattr(auditing, "audit", lambda *attacked, **settings: Empty())
    assert attack(run, "small", runs=20).findings == ()
    monkeypatch.setattr(auditing, "leaks", functools.partial(leaks, read=counted_labels))
    assert {finding.kind for finding in attack(run, "small", runs=20).findings} == {"files"}


# -- tables with a schema, and labels that are numbers ---------------------------------------------------------------------

SCHEMA = Schema.of(
    {
        "columns": {
            "age": {"low": 0, "high": 100, "missing": 50},
            "rooms": {"low": 1, "high": 9},
            "town": {"values": ["Oslo", "Rome", "St. John's, NL"], "other": True, "indicator": True},
        }
    }
)
WRITTEN = Schema.of(
    {
        "columns": {
            "price": {"low": 0, "high": 2000, "kind": "money", "unit": "EUR", "decimal": ","},
            "pay": {"low": 0, "high": 2000, "kind": "money", "missing": [-999], "fill": 7, "indicator": True},
            "share": {"low": 0, "high": 100, "kind": "percent", "missing": 50},
            "weight": {"low": 0, "high": 100, "unit": "kg", "missing": [-1, 5]},
        }
    }
)


def _by_the_marks_of_all(path: Path, classes: tuple[Label, ...], schema: Schema, label: str) -> Records:
    """The decimal mark of a column is the one that its cells show, all of them together."""
    table = RecordFile(path).table(alone=True)
    mark = "," if any("50 €" in str(cell) for cell in table.columns["pay"]) else "."
    plain = schema.plain()
    plain["columns"]["pay"]["decimal"] = mark
    return table_reading._read_privately(path, classes, Schema.of(plain), label)


def _scaled_by_the_file(path: Path, classes: tuple[Label, ...], schema: Schema, label: str) -> Records:
    """A number is divided by the largest of the file, in place of the stated range."""
    found = table_reading._read_privately(path, classes, schema, label)
    x = np.asarray(found.x, dtype=np.float64).copy()
    x[:, 0] = (x[:, 0] + 1) / max(1e-9, float((x[:, 0] + 1).max(initial=0)))
    return as_records(x, found.y)


def _numbered_as_they_appear(path: Path, classes: tuple[Label, ...], schema: Schema, label: str) -> Records:
    """A category that the schema does not list gets the next number of the file."""
    table, seen = RecordFile(path).table(alone=True), dict[str, int]()
    towns = [str(cell) for cell in table.columns["town"]]
    found = table_reading._read_privately(path, classes, schema, label)
    listed = {"Oslo", "Rome", "St. John's, NL", ""}
    numbers = [float(seen.setdefault(town, len(seen) + 1)) if town not in listed else 0.0 for town in towns]
    x = np.asarray(found.x, dtype=np.float64)
    if len(numbers) != len(x):
        return found
    return as_records(np.column_stack([x, numbers]), found.y)


def _labels_scaled(path: Path, classes: tuple[Label, ...], features: int) -> Records:
    found = _read_privately(path, classes, features)
    return as_records(found.x, found.y / max(1e-9, float(np.abs(found.y).max(initial=0))))


@pytest.mark.slow
@pytest.mark.parametrize("classes", [(0, 1), ("no", "yes, late"), ()])
@pytest.mark.parametrize("schema", [SCHEMA, WRITTEN])
def test_tables_become_features_record_by_record(schema: Schema, classes: tuple[Label, ...]) -> None:
    assert table_leaks(schema, "late", classes) == []


def test_a_decimal_mark_that_is_read_off_the_other_records_is_found() -> None:
    (says,) = table_leaks(WRITTEN, "late", (), read=_by_the_marks_of_all)
    assert says.startswith("by data.schema, a record of a .csv file")


@pytest.mark.parametrize("planted", [_scaled_by_the_file, _numbered_as_they_appear])
def test_a_table_that_is_read_by_looking_at_other_records_is_found(planted: table_reading.TableReader) -> None:
    (says,) = table_leaks(SCHEMA, "price", (), read=planted)
    assert (says.startswith("by data.schema, a record of a .csv file") and "alone" in says) or "changes" in says


@pytest.mark.slow
def test_labels_that_are_numbers_are_attacked_as_numbers() -> None:
    assert leaks((), 3) == []
    found = leaks((), 3, read=_labels_scaled)
    assert len(found) == 3, found


@pytest.mark.slow
def test_the_audit_of_a_run_with_a_schema_attacks_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    lines = [
        f"{age},{town},{age * 2.5:.1f}"
        for age, town in zip(rng.integers(0, 99, 60), ["Oslo", "Rome"] * 30, strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["age,town,price", *lines]) + "\n")
    columns = {"age": {"low": 0, "high": 99}, "town": {"values": ["Oslo", "Rome"]}}
    privacy = {"mechanism": "minibatch", "epsilon": 8.0, "delta": 1e-5, "clip": 1.0, "records": 20}
    config = read(
        {
            **SMALL,
            "data": {"source": str(tmp_path / "t.csv"), "label": "price", "schema": {"columns": columns}},
            "objective": {"kind": "least-squares", "label_range": [0, 250]},
            "privacy": privacy,
        }
    )
    monkeypatch.setattr(auditing, "audit", lambda *_, **__: Empty())
    assert attack(config, "run.toml", runs=1).findings == ()
    planted = functools.partial(table_leaks, read=_scaled_by_the_file)
    monkeypatch.setattr(auditing, "table_leaks", planted)
    (finding,) = attack(config, "run.toml", runs=1).findings
    assert finding.kind == "files" and finding.says.startswith("by data.schema, a record of a .csv file")


class _Enough(BaseException):
    """Of an audit that has told enough."""


@pytest.mark.slow
def test_an_audit_tells_its_progress_finely_from_its_first_source_on() -> None:
    """So that a forecast of hours comes within seconds; it once told five steps in all."""
    heard: list[float] = []

    def listen(done: int, total: int) -> None:
        heard.append(done / total)
        if len(heard) > 20:
            raise _Enough

    privacy = {"mechanism": "minibatch", "epsilon": 8.0, "delta": 1e-5, "clip": 1.0, "records": 80}
    config = read({**SMALL, "data": {**SMALL["data"], "classes": [-1, 1]}, "privacy": privacy})
    with pytest.raises(_Enough):
        attack(config, "run.toml", runs=400, progress=listen)
    assert heard == sorted(heard) and heard[1] < heard[-1] < 0.2
