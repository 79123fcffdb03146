"""A client's own records, read as the terms require, after the policy has allowed the terms. No count of them is ever sent."""

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
    """The location of a client's records. ``part`` is for trials: the part that a simulation would give to this client.

    ``test`` is the share held out, by a rule on each record alone or, with ``part``, as in a simulation.
    """

    name: str
    folder: str | None = None
    label: str | None = None
    part: str | None = None
    test: float = 0.0

    def check(self) -> None:
        """Refuse a wrong name or option before the server is asked for terms, without reading a record."""
        if not self.name.strip():
            raise UsageError("the records have no name; give a file, or a name of `crescendo data list`, with --data")
        rule = self.part
        if rule is not None and rule not in RULES and not rule.startswith("column:"):
            raise UsageError(f"--part {rule!r} is unknown; choose one of {', '.join(RULES)}")
        if rule == "column:":
            raise UsageError("--part column: names no column; write, for example, column:carrier")
        if not 0 <= self.test < 1:
            raise UsageError(f"--test must be a share from 0 to less than 1, got {self.test:g}")
        path = self._file()
        if path is not None and path.is_dir():
            raise DataError(f"{self.name} is a folder; name a file, or a name of `crescendo data list`")
        self._check_columns()

    def own_file(self) -> RecordFile | None:
        """Return the file that identifies the records; None for a named source, which is public."""
        path = self._file()
        return None if path is None else RecordFile(path)

    def _file(self) -> Path | None:
        """Return the file with the records; None for a named source."""
        return file_of(self.name, self.folder)

    def _columns(self) -> list[str] | None:
        """Read the columns of a csv from its header line, and no record; None for any other source."""
        path = self._file()
        return None if path is None else RecordFile(path).columns()

    def _check_columns(self) -> None:
        """Refuse a mistyped column, using only the header line of the file."""
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
                    f"{option} asks for the column '{column}', but the columns of {self.name} are {', '.join(columns)}"
                )

    def tell(self, found: Sound, log: Log) -> None:
        """Log counts in the client's own log; none of them is sent."""
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
                says=f"{found.left_out} of {used + found.left_out} records are left out; make sure that {self.name} is the right "
                f"file and {whose} the agreed label",
            )

    @property
    def label_words(self) -> str:
        """The description of the label column, unless a schema names it."""
        if self.label is not None:
            return f"the column '{self.label}'"
        return "their label" if self._columns() is None else "the last column"

    def read(self, agreed: Agreement, me: int) -> Sound:
        """Read the records of client ``me``: those of the agreed classes, under privacy scaled down to the norm bound.

        `join` calls this before it signs off, so a file of the wrong shape costs no budget. It raises DataError,
        never `Refused`: the message goes to the client's own log and is never sent. Under privacy only two facts can
        cause a refusal: the shape of the file (a table with so many columns), and the number of binary digits in its
        record count. A record that does not fit is left out by a rule on that record alone, and a client with no
        records left continues without records.
        """
        try:
            return self._read(agreed, me) if agreed.certificate is None else self._read_private(agreed, me)
        except CrescendoError as error:
            raise DataError(str(error)) from error

    def read_public(self, agreed: Agreement) -> Records:
        """Read the public set on which a server measures its model: its own test part if it has one."""
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
                    f"--part is for trials on the sets of `crescendo data list`; in a private federation {self.name} must hold "
                    f"only this client's own records, so leave --part out"
                )
            raw = RecordFile(path).read(
                self.label, None, _width(path, agreed), leave_out=True, test=False, schema=agreed.schema
            )
            every, _ = Sound.of(raw, agreed.classes)
            found = every.holding_out(self.test)
            total = (
                len(raw) + raw.unreadable - (len(every.records) - len(found.records))
            )  # held-out records are not trained on
        self._check_features(found.records, agreed)
        if total > most_records(declared):
            what = "records" if found.held_out is None else "records to train on"
            raise DataError(
                f"{self.name} has {total} {what}, but terms that declare {declared} for this client allow at most "
                f"{most_records(declared)}; ask the server's operator to declare {enough_declared(total)} or more"
            )
        intercept = agreed.objective.traits.intercept
        shortened, fits = admitted(
            found.records, agreed.certificate.norm_bound, intercept, Classes.values_of(len(agreed.classes))
        )
        squares, bound = found.records.squared_lengths(intercept), agreed.certificate.norm_bound
        notes = (*found.notes, *about_lengths(squares, bound, agreed.schema, intercept))
        return replace(found, records=shortened.take(np.flatnonzero(fits)), notes=notes)

    def _read(self, agreed: Agreement, me: int) -> Sound:
        """Read without privacy: an error in the file is reported with its line."""
        path = self._file()
        if path is None or agreed.classes is None or self.part is not None:
            found = self._part(agreed, me)
        else:  # labels follow the agreed classes: a client may have records of one class only
            raw = RecordFile(path).read(self.label, None, _width(path, agreed), test=False, schema=agreed.schema)
            found, _ = Sound.of(raw, agreed.classes)
            if not len(found.records):
                raise DataError(
                    f"none of the {len(raw)} records of {self.name} has one of the agreed classes "
                    f"{', '.join(map(str, agreed.classes))}; make sure that {self.label_words} is the agreed label"
                )
            found = found.holding_out(self.test)
        if not len(found.records):
            raise DataError(f"--test {self.test:g} holds out all the records of {self.name}; hold out a smaller share")
        self._check_features(found.records, agreed)
        return found

    def _check_features(self, records: Records, agreed: Agreement) -> None:
        if records.features != agreed.features:
            raise DataError(
                f"{self.name} has {records.features} features, but the terms state {agreed.features}; use the agreed ones"
            )

    def _part(self, agreed: Agreement, me: int) -> Sound:
        """Load a named source or, for trials, this client's part of the records that have one of the agreed classes."""
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
    """Return the width that a reader needs; other kinds of file state their own width."""
    return agreed.features if RecordFile(path).kind == "libsvm" else None
