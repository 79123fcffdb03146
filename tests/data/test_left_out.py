"""A private run without a usable record says why, and a stated class that no record has is cautioned about."""

from __future__ import annotations

from pathlib import Path

import pytest

from crescendo.data import load
from crescendo.data.tables.feature_schema import Schema
from crescendo.errors import DataError

SCHEMA = Schema.of({"columns": {"age": {"low": 0, "high": 100}}})


def table(folder: Path, line: str) -> str:
    path = folder / "mine.csv"
    path.write_text("age,note,ill\n" + "".join(line.format(i, "yes" if i % 2 else "no") for i in range(20)))
    return str(path)


def test_labels_written_otherwise_are_named_beside_the_stated_classes(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"of 20 left out, 20 have another label.*'no', 'yes'.*data.classes says No, Yes"
    ):
        load(table(tmp_path, "{},a,{}\n"), classes=("Yes", "No"), private=True, schema=SCHEMA)


def test_line_breaks_in_quoted_cells_are_said_to_be_impossible(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"of 40 left out, 40 are no record.*without line breaks"):
        load(table(tmp_path, '{},"a\nb",{}\n'), classes=("yes", "no"), private=True, schema=SCHEMA)


def test_a_class_that_no_record_has_is_cautioned_about_and_others_are_counted(tmp_path: Path) -> None:
    path = table(tmp_path, "{},a,{}\n")
    found = load(path, classes=("yes", "nope"), private=True, schema=SCHEMA)
    assert any("no record has the class 'nope'" in note and "10 records have none" in note for note in found.notes)
    assert not any(
        "no record has" in note for note in load(path, classes=("yes", "no"), private=True, schema=SCHEMA).notes
    )
