"""A client's own records, as the terms want them. Read only after the policy allowed the terms, and never counted for anybody."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from crescendo.data import Records, load, split
from crescendo.data.formats.readers import RecordFile
from crescendo.data.labels import Classes
from crescendo.data.partition import RULES
from crescendo.data.reading import file_of
from crescendo.data.sound import Sound
from crescendo.data.tables.table_cautions import about_lengths
from crescendo.errors import CrescendoError, DataError, UsageError
from crescendo.federation.agreement import Agreement
from crescendo.logs import Log
from crescendo.privacy.mechanisms.admission import admitted, enough_declared, most_records


@dataclass(frozen=True)
class RecordSource:
    """Where a client's records are. ``part`` is for trials: the part that a simulation would give to this client.

    ``test`` is the share that is held out: by a rule on each record alone or, with ``part``, as a simulation would.
    """

    name: str
    folder: str | None = None
    label: str | None = None
    part: str | None = None
    test: float = 0.0

    def check(self) -> None:
        """Refuse a mistake in how the records are named, before anybody is asked for terms; no record is read."""
        if not self.name.strip():
            raise UsageError("the records have no name; give a file, or a name of `crescendo data list`, with --data")
        rule = self.part
        if rule is not None and rule not in RULES and not rule.startswith("column:"):
            raise UsageError(f"--part {rule!r} is unknown; it is one of {', '.join(RULES)}")
        if rule == "column:":
            raise UsageError("--part column: names no column; write for example column:carrier")
        if not 0 <= self.test < 1:
            raise UsageError(f"--test must be a share from 0 to less than 1, got {self.test:g}")
        path = self._file()
        if path is not None and path.is_dir():
            raise DataError(f"{self.name} is a folder; name a file, or a name of `crescendo data list`")
        self._check_columns()

    def own_file(self) -> RecordFile | None:
        """The file by which the records are known again; None for a source that has a name, which is nobody's secret."""
        path = self._file()
        return None if path is None else RecordFile(path)

    def _file(self) -> Path | None:
        """The file that has the records; None for a source that has a name."""
        return file_of(self.name, self.folder)

    def _columns(self) -> list[str] | None:
        """The columns of a csv, from its header line; no record is read. None for any other source."""
        path = self._file()
        return None if path is None else RecordFile(path).columns()

    def _check_columns(self) -> None:
        """A mistyped column is found by the header line of the file."""
        columns, by = self._columns(), self.part or ""
        if columns is None:
            if self.label is not None:
                raise UsageError(
                    f"--label names the label column of a csv file, which {self.name} is not; leave --label out"
                )
            return
        asked = {"--label": self.label, "--part": by.removeprefix("column:") if by.startswith("column:") else None}
        for option, column in asked.items():
            if column is not None and column not in columns:
                raise UsageError(
                    f"{option} asks for the column '{column}', and the columns of {self.name} are {', '.join(columns)}"
                )

    def tell(self, found: Sound, log: Log) -> None:
        """Counts only, in the client's own log; nothing of this is sent to anybody."""
        used, why = len(found.records), {"unreadable": found.unreadable, "other_label": found.other_label}
        log("records", used=used, left_out=found.left_out, **why, not_finite=found.not_finite)
        if found.held_out is not None:
            log("held_out", records=len(found.held_out))
        for says in found.notes:
            log("mind_records", says=says)
        whose = self.label_words if found.label is None else f"the column '{found.label}'"
        if found.left_out > used:
            log(
                "most_left_out",
                says=f"{found.left_out} of {used + found.left_out} records are left out; make sure that {self.name} is the file "
                f"that was meant and {whose} the label that was agreed on",
            )

    @property
    def label_words(self) -> str:
        """Which column is read as the label, unless a schema names it."""
        if self.label is not None:
            return f"the column '{self.label}'"
        return "what is read as their label" if self._columns() is None else "the last column"

    def read(self, agreed: Agreement, me: int) -> Sound:
        """The records that client ``me`` works on: of the agreed classes, and under privacy shortened to the norm bound.

        `join` calls this before it signs, so that a file of another shape costs nothing. DataError, never `Refused`: what it
        says is for the client's own log, and never sent. Under privacy the shape of a file (that it is a table, and how many
        columns it has) and how many binary digits the number of its records has are all that can refuse it. A record that does
        not fit is left out by a rule on that record alone, and a client that has none left goes on without.
        """
        try:
            return self._read(agreed, me) if agreed.certificate is None else self._read_private(agreed, me)
        except CrescendoError as error:
            raise DataError(str(error)) from error

    def read_public(self, agreed: Agreement) -> Records:
        """The records of a public set that a server measures its model on: its test part where it has one of its own."""
        if self._file() is not None:
            return self._read(agreed, 0).records
        dataset = load(self.name, folder=self.folder, test=0.0, classes=agreed.classes)
        found = dataset.train if dataset.test is None else dataset.test
        self._check_features(found, agreed)
        return found

    def _read_private(self, agreed: Agreement, me: int) -> Sound:
        assert agreed.certificate is not None and agreed.classes is not None, "private terms name their classes"
        path, declared = self._file(), agreed.certificate.records[me]
        if path is None:
            found = self._part(agreed, me)
            total = len(found.records)
        else:
            if self.part is not None:
                raise UsageError(
                    f"--part is for trials on the sets of `crescendo data list`; in a private federation {self.name} must be "
                    f"this client's own records and no more, so leave --part out"
                )
            raw = RecordFile(path).read(
                self.label, None, _width(path, agreed), leave_out=True, test=False, schema=agreed.schema
            )
            every, _ = Sound.of(raw, agreed.classes)
            found = every.holding_out(self.test)
            total = len(raw) + raw.unreadable - (len(every.records) - len(found.records))  # the others train nothing
        self._check_features(found.records, agreed)
        if total > most_records(declared):
            what = "records" if found.held_out is None else "records to train on"
            raise DataError(
                f"{self.name} has {total} {what}, and terms that declare {declared} for this client are about "
                f"{most_records(declared)} at most; ask the server's operator to declare {enough_declared(total)} or more"
            )
        intercept = agreed.objective.traits.intercept
        shortened, fits = admitted(
            found.records, agreed.certificate.norm_bound, intercept, Classes.values_of(len(agreed.classes))
        )
        squares, bound = found.records.squared_lengths(intercept), agreed.certificate.norm_bound
        notes = (*found.notes, *about_lengths(squares, bound, agreed.schema, intercept))
        return replace(found, records=shortened.take(np.flatnonzero(fits)), notes=notes)

    def _read(self, agreed: Agreement, me: int) -> Sound:
        """Without privacy: a file that has a fault is refused with its line."""
        path = self._file()
        if path is None or agreed.classes is None or self.part is not None:
            found = self._part(agreed, me)
        else:  # labels are read by the agreed classes: one client may well have records of one class only
            raw = RecordFile(path).read(self.label, None, _width(path, agreed), test=False, schema=agreed.schema)
            found, _ = Sound.of(raw, agreed.classes)
            if not len(found.records):
                raise DataError(
                    f"none of the {len(raw)} records of {self.name} has one of the agreed classes "
                    f"{', '.join(map(str, agreed.classes))}; make sure that {self.label_words} is the label that was agreed on"
                )
            found = found.holding_out(self.test)
        if not len(found.records):
            raise DataError(f"--test {self.test:g} holds out all the records of {self.name}; hold out a smaller share")
        self._check_features(found.records, agreed)
        return found

    def _check_features(self, records: Records, agreed: Agreement) -> None:
        if records.features != agreed.features:
            raise DataError(
                f"{self.name} has {records.features} features and the terms say {agreed.features}; use the agreed ones"
            )

    def _part(self, agreed: Agreement, me: int) -> Sound:
        """A source by its name, or, for trials, a part of the records that have one of the agreed classes."""
        by = self.part or ""
        dataset = load(
            self.name,
            folder=self.folder,
            test=self.test if self.part is not None else 0.0,
            seed=agreed.seed,
            classes=agreed.classes,
            label=self.label,
            column=by.removeprefix("column:") if by.startswith("column:") else None,
            private=agreed.certificate is not None,
            schema=agreed.schema,
        )
        if self.part is None:
            made = Sound(dataset.train, other_label=dataset.left_out, notes=dataset.notes)
            return made.holding_out(self.test)
        mine = dataset.train.take(split(dataset, len(agreed.names), self.part, seed=agreed.seed)[me])
        return Sound(mine, held_out=dataset.test if self.test else None)


def _width(path: Path, agreed: Agreement) -> int | None:
    """What a reader has to be told; files of other kinds say themselves how wide they are."""
    return agreed.features if RecordFile(path).kind == "libsvm" else None
