"""A client's own records, as the terms want them. Read only after the terms were accepted, and never counted for anybody."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crescendo.apps.terms import Agreed
from crescendo.data import Records, as_records, load, readers, split
from crescendo.data import labels as classes_and_labels
from crescendo.data.partition import RULES
from crescendo.data.sources import check_here
from crescendo.errors import DataError, UsageError
from crescendo.privacy.admission import admitted


@dataclass(frozen=True)
class Source:
    """Where a client's records are. ``part`` is for trials: the part that a simulation would give to this client."""

    name: str
    folder: str | None = None
    label: str | None = None
    part: str | None = None
    test: float = 0.0


def check_source(source: Source) -> None:
    """Refuse a mistake in how the records are named, before anybody is asked for terms; no record is read."""
    if not source.name.strip():
        raise UsageError("the records have no name; give a file, or a name of `crescendo data list`, with --data")
    rule = source.part
    if rule is not None and rule not in RULES and not rule.startswith("column:"):
        raise UsageError(f"--part {rule!r} is unknown; it is one of {', '.join(RULES)}")
    if rule == "column:":
        raise UsageError("--part column: names no column; write for example column:carrier")
    if not 0 <= source.test < 1:
        raise UsageError(f"--test must be a share from 0 to less than 1, got {source.test:g}")
    if source.test and rule is None:
        raise UsageError("--test goes with --part; without it all the records are worked on, so leave it out")
    check_here(source.name, source.folder)


def own_records(source: Source, agreed: Agreed, me: int) -> Records:
    """The records that client ``me`` works on: of the agreed classes, and under privacy shortened to the norm bound.

    Under privacy a record that does not fit is left out by a rule on that record alone; it never stops the run.
    """
    records = (
        _labelled(source, agreed) if agreed.classes is not None and _is_file(source) else _loaded(source, agreed, me)
    )
    if records.features != agreed.features:
        raise DataError(
            f"{source.name} has {records.features} features and the terms say {agreed.features}; use the agreed ones"
        )
    if agreed.certificate is not None:
        intercept = bool(getattr(agreed.objective, "intercept", False))
        labels = classes_and_labels.values_of(2 if agreed.classes is None else len(agreed.classes))
        shortened, sound = admitted(records, agreed.certificate.norm_bound, intercept, labels)
        records = shortened.take(np.flatnonzero(sound))
    if not len(records):
        raise DataError(f"{source.name} has no record that can be used; check that it is the file that was meant")
    return records


def _is_file(source: Source) -> bool:
    return source.part is None and Path(source.name).expanduser().exists()


def _labelled(source: Source, agreed: Agreed) -> Records:
    """A file whose labels are read by the agreed classes: one client may well have records of one class only."""
    assert agreed.classes is not None
    path = Path(source.name).expanduser()
    plain = path.with_suffix("") if path.suffix in (".gz", ".xz", ".bz2") else path
    features = agreed.features if plain.suffix not in (".csv", ".npz") else None
    raw = readers.path(path, source.label, None, features)
    classes = tuple(sorted(agreed.classes, key=lambda label: (isinstance(label, str), label)))
    keep = classes_and_labels.kept(raw.y, classes)
    if not keep.any():
        raise DataError(f"{source.name} has no record of the agreed classes {list(classes)}; check its labels")
    return as_records(raw.x[keep], classes_and_labels.encode(raw.y[keep], classes, source.name))


def _loaded(source: Source, agreed: Agreed, me: int) -> Records:
    by = source.part or ""
    dataset = load(
        source.name,
        folder=source.folder,
        test=source.test,
        seed=agreed.seed,
        classes=agreed.classes,
        label=source.label,
        column=by.removeprefix("column:") if by.startswith("column:") else None,
    )
    if source.part is None:
        return dataset.train
    return dataset.train.take(split(dataset, len(agreed.names), source.part, seed=agreed.seed)[me])
