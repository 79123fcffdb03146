"""A client's own records, as the terms want them. Read only after the terms were accepted, and never counted for anybody."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crescendo.apps.terms import Agreed
from crescendo.data import Records, as_records, load, readers, split
from crescendo.data import labels as classes_and_labels
from crescendo.data.partition import RULES
from crescendo.data.sources import check_here, columns_of
from crescendo.errors import DataError, UsageError
from crescendo.privacy.admission import admitted
from crescendo.runtimes.network.logs import Log


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
    _check_columns(source)


def _check_columns(source: Source) -> None:
    """A mistyped column is found by the header line of the file."""
    columns, by = columns_of(source.name, source.folder), source.part or ""
    if columns is None:
        if source.label is not None:
            raise UsageError(f"--label names the label column of a csv file, which {source.name} is not; leave it out")
        return
    asked = {"--label": source.label, "--part": by.removeprefix("column:") if by.startswith("column:") else None}
    for option, column in asked.items():
        if column is not None and column not in columns:
            raise UsageError(
                f"{option} asks for the column '{column}', and the columns of {source.name} are {', '.join(columns)}"
            )


@dataclass(frozen=True, eq=False)
class Own:
    """A client's records that are worked on, and how many others there were: for the client's own eyes."""

    records: Records
    other_label: int  # whose label is none of the agreed classes
    not_finite: int  # that have a feature which is no finite number

    @property
    def left_out(self) -> int:
        return self.other_label + self.not_finite

    def tell(self, source: Source, log: Log) -> None:
        """Counts only, in the client's own log; nothing of this is sent to anybody."""
        used = len(self.records)
        log("records", used=used, left_out=self.left_out, other_label=self.other_label, not_finite=self.not_finite)
        if self.left_out > used:
            log(
                "most_left_out",
                says=f"{self.left_out} of {used + self.left_out} records are left out; make sure that "
                f"{_label_of(source)} is the label that was agreed on",
            )


def _label_of(source: Source) -> str:
    if source.label is not None:
        return f"the column '{source.label}'"
    return "what is read as their label" if columns_of(source.name, source.folder) is None else "the last column"


def own_records(source: Source, agreed: Agreed, me: int) -> Own:
    """The records that client ``me`` works on: of the agreed classes, and under privacy shortened to the norm bound.

    Under privacy a record that does not fit is left out by a rule on that record alone; it never stops the run.
    """
    by_file = agreed.classes is not None and _is_file(source)
    records, other_label = _labelled(source, agreed) if by_file else _loaded(source, agreed, me)
    not_finite = 0
    if records.features != agreed.features:
        raise DataError(
            f"{source.name} has {records.features} features and the terms say {agreed.features}; use the agreed ones"
        )
    if agreed.certificate is not None:
        intercept = bool(getattr(agreed.objective, "intercept", False))
        labels = classes_and_labels.values_of(2 if agreed.classes is None else len(agreed.classes))
        shortened, sound = admitted(records, agreed.certificate.norm_bound, intercept, labels)
        strange = int(np.count_nonzero(~np.isin(records.y, labels)))
        other_label, not_finite = other_label + strange, int(np.count_nonzero(~sound)) - strange
        records = shortened.take(np.flatnonzero(sound))
    if not len(records):
        raise DataError(f"{source.name} has no record that can be used; check that it is the file that was meant")
    return Own(records, other_label, not_finite)


def _is_file(source: Source) -> bool:
    return source.part is None and Path(source.name).expanduser().exists()


def _labelled(source: Source, agreed: Agreed) -> tuple[Records, int]:
    """A file whose labels are read by the agreed classes: one client may well have records of one class only."""
    assert agreed.classes is not None
    path = Path(source.name).expanduser()
    plain = path.with_suffix("") if path.suffix in (".gz", ".xz", ".bz2") else path
    features = agreed.features if plain.suffix not in (".csv", ".npz") else None
    raw = readers.path(path, source.label, None, features)
    classes = tuple(sorted(agreed.classes, key=lambda label: (isinstance(label, str), label)))
    keep = classes_and_labels.kept(raw.y, classes)
    if not keep.any():
        raise DataError(
            f"none of the {len(keep)} records of {source.name} has one of the agreed classes "
            f"{', '.join(map(str, classes))}; make sure that {_label_of(source)} is the label that was agreed on"
        )
    used = as_records(raw.x[keep], classes_and_labels.encode(raw.y[keep], classes, source.name))
    return used, len(keep) - len(used)


def _loaded(source: Source, agreed: Agreed, me: int) -> tuple[Records, int]:
    """A source by its name, or, for trials, a part of the records that have one of the agreed classes."""
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
        return dataset.train, dataset.left_out
    return dataset.train.take(split(dataset, len(agreed.names), source.part, seed=agreed.seed)[me]), 0
