"""Loading of records from a source, by name or path; `crescendo.data.registry` lists the named sources."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from crescendo.core.arrays import Bools
from crescendo.core.random import Purpose, stream
from crescendo.data.formats.files import data_folder
from crescendo.data.formats.readers import RecordFile
from crescendo.data.labels import NUMBERS, Classes, as_numbers
from crescendo.data.left_out import about_classes, nothing_left
from crescendo.data.records import Dataset, Label, Raw, Records, as_records
from crescendo.data.registry import SOURCES, SYNTHETIC, catalogue, is_public, stated_classes
from crescendo.data.sets.synthetic import Synthetic
from crescendo.data.sound import Sound
from crescendo.data.tables.doctor.classes_seen import about_labels
from crescendo.data.tables.doctor.far_labels import about_coded_labels, about_far_labels
from crescendo.data.tables.drafting import TableKeys
from crescendo.data.tables.feature_schema import Schema
from crescendo.data.tables.table_cautions import about_header, about_spelling, about_unknown
from crescendo.errors import ConfigError, DataError

_MANY_CLASSES, _FEW_EACH = 20, 20  # classes, and records of each: beyond these, whole numbers look like counts
IN_MEMORY = "arrays"  # the name of records that a program passes without a name
_TEST_PART = 1  # as the round of the stream: 0 is the split over clients, 2 the synthetic draw


def load(
    source: str,
    *,
    folder: Path | str | None = None,
    test: float = 0.2,
    seed: int = 0,
    classes: Sequence[Label] | None = None,
    label: str | None = None,
    column: str | None = None,
    features: int | None = None,
    private: bool = False,
    schema: Schema | None = None,
    keys: TableKeys | None = None,
) -> Dataset:
    """Load the records of a source: a name of `catalogue`, or the path of a LIBSVM, csv, tsv, Parquet, npz or IDX file.

    ``folder`` holds the named files (by default ``CRESCENDO_DATA``). ``test`` is the share of records to hold out if the source
    has no test part. ``classes`` keeps only these labels; an empty tuple, (), means that labels are numbers. For a csv, ``label``
    names the label column (by default the last), and ``column`` the column by which the clients will be split, which is then not
    a feature. ``features`` is the number of features of a LIBSVM file given by path (by default its largest index).

    The columns of a table become features by ``schema``. With ``keys`` a schema may be drafted from the table's cells; without
    both, all cells must be numbers.

    With ``private`` nothing is counted from the records: classes and features must be stated or known, and a record that does
    not fit is left out by a rule on that record alone.

    >>> digits = load("digits", classes=(3, 8), seed=1)
    >>> digits.train.x.shape, len(digits.test), digits.classes, sorted(set(digits.train.y.tolist()))
    ((286, 64), 71, (3, 8), [0.0, 1.0])
    """
    if isinstance(test, bool) or not 0 <= test < 1:
        raise ConfigError(f"data.test must be a share from 0 to less than 1, got {test}")
    if features is not None and features < 1:
        raise ConfigError(f"data.features must be 1 or more, got {features}")
    name, _, rest = source.partition(":")
    if name == SYNTHETIC:
        _only_for_files(source, label=label, features=features, schema=schema)
        if classes:
            stated_classes(source, classes)
        return Synthetic.of(rest).load(test, seed)
    numbers = classes is not None and tuple(classes) == NUMBERS
    names = NUMBERS if private and numbers else stated_classes(source, classes) if private else None
    path = file_of(source, folder)
    if path is not None:
        looks = None if private else keys
        raw = RecordFile(path).read(label, column, features, leave_out=private, schema=schema, keys=looks)
    else:
        _only_for_files(source, label=label, features=features, schema=schema)
        raw = SOURCES[source].read(data_folder(folder), test)
    if names is None:
        return from_raw(source, raw, test, seed, classes)
    return judged(source, raw, test, seed, names)


def file_of(source: str, folder: Path | str | None = None) -> Path | None:
    """Return the file of a source, None for a named source; refuse any other text. The file is not read.

    >>> file_of("wine"), file_of("synthetic:rows=500")
    (None, None)
    """
    name, _, options = source.partition(":")
    if name == SYNTHETIC:
        Synthetic.of(options)
        return None
    return None if source in SOURCES else _path(source, data_folder(folder))


def _only_for_files(source: str, **options: object) -> None:
    for key, value in options.items():
        if value is not None:
            raise ConfigError(f"data.{key} does not apply to the source {source}, where it is fixed; remove data.{key}")


def _path(source: str, folder: Path | None) -> Path:
    path = Path(source).expanduser()
    if path.exists():
        return path
    if folder is not None and (folder / source).exists():
        return folder / source
    if "://" in source:
        raise DataError(f"{source:.200} is an address, and a source is a file or a name; download it and name the file")
    if "/" in source or "\\" in source or path.suffix:
        beside = "" if folder is None or path.is_absolute() else f" nor in {folder}"
        raise DataError(f"there is no file {source}{beside}; check the path")
    if source == IN_MEMORY:
        raise DataError(
            "the records of this run file were in a program's memory; give them again, crescendo.simulate(file, data=(x, y)), or "
            "name their file as data.source"
        )
    names = [info.name for info in catalogue()]
    near = difflib.get_close_matches(source, names, n=1, cutoff=0.5)
    guess = f"did you mean '{near[0]}'? " if near else ""
    raise DataError(f"there is no data source and no file '{source}'; {guess}the names are {', '.join(names)}")


def from_raw(name: str, raw: Raw, test: float, seed: int, wanted: Sequence[Label] | None) -> Dataset:
    """Return a data set: turn labels into classes, and hold out the share ``test`` if there is no test part."""
    if wanted is not None and tuple(wanted) == NUMBERS:
        return _with_numbers(name, raw, test, seed)
    classes, found = Classes.of(raw.y, name, wanted), len(raw)
    if wanted is not None:
        raw = _with_classes(raw, classes)
    train, part = as_records(raw.x, classes.encode(raw.y, name)), None
    if raw.test is not None:
        part = as_records(raw.test.x, classes.encode(raw.test.y, f"the test part of {name}"))
    made = _parted(name, raw, train, part, classes, test, seed, found - len(raw) + raw.unreadable)
    if wanted is None:
        made = replace(
            made, notes=(*made.notes, *about_spelling(classes), *about_unknown(classes), *_about_many(classes, found))
        )
    columns = raw.names if raw.schema is None else [column.name for column in raw.schema.columns]
    held_out = None if made.test is None else made.test.y
    made = replace(made, notes=(*made.notes, *about_header(columns), *about_labels(made.train.y, held_out, classes)))
    return replace(made, counted=wanted is None and not is_public(name, classes))


def _about_many(classes: Classes, records: int) -> Iterator[str]:
    """Warn of labels that look like counts or measurements: many whole numbers, with few records each."""
    if (
        len(classes) > _MANY_CLASSES
        and records < _FEW_EACH * len(classes)
        and not any(isinstance(one, str) for one in classes)
    ):
        yield (
            f"the labels are {len(classes)} different whole numbers, and each is taken for a class; to predict numbers, write "
            'objective.kind = "least-squares"'
        )


def _with_numbers(name: str, raw: Raw, test: float, seed: int) -> Dataset:
    """Return a data set whose labels are numbers to be predicted."""

    def records(part: Raw) -> Records:
        labels = as_numbers(part.y)
        strange = np.flatnonzero(np.isnan(labels))
        if len(strange):
            raise DataError(
                f"{name} has the label {str(part.y[strange[0]])[:40]!r}, which is no finite number; least squares predicts "
                "numbers, so leave such records out or choose an objective for classes"
            )
        return as_records(part.x, labels)

    part, train = None if raw.test is None else records(raw.test), records(raw)
    made = _parted(name, raw, train, part, NUMBERS, test, seed, raw.unreadable)
    return replace(made, notes=(*made.notes, *about_coded_labels(train.y), *about_far_labels(train.y)))


def judged(name: str, raw: Raw, test: float, seed: int, classes: tuple[Label, ...]) -> Dataset:
    """Return a data set for a private run, with the stated classes whatever the records hold."""
    found, rest = Sound.of(raw, classes)
    if not len(found.records):
        raise nothing_left(name, raw, found, classes)
    rest = replace(rest, notes=(*rest.notes, *about_classes(found, classes)))
    part = None if raw.test is None else Sound.of(raw.test, classes)[0].records
    return _parted(name, rest, found.records, part, classes, test, seed, found.left_out)


def _parted(
    name: str,
    raw: Raw,
    train: Records,
    part: Records | None,
    classes: tuple[Label, ...],
    test: float,
    seed: int,
    left_out: int,
) -> Dataset:
    """Return a data set whose test part is ``part`` or, without one, a share of ``train``."""
    columns = dict(raw.columns)
    if part is None and test > 0:
        mask = _held_out(len(train), test, seed, name) if raw.in_test is None else raw.in_test
        train, part = train.take(~mask), train.take(mask)
        columns = {key: values[~mask] for key, values in columns.items()}
    bound = SOURCES[name].norm_bound if name in SOURCES else None
    made = Dataset(name, train, part, classes, columns, norm_bound=bound, left_out=left_out)
    return replace(made, schema=raw.schema, looked=raw.looked, names=raw.names, notes=raw.notes)


def _with_classes(raw: Raw, classes: Classes) -> Raw:
    """Keep only the records of these classes, in the training and in the test part."""
    kept = raw.take(classes.places(raw.y) >= 0)
    return kept if raw.test is None else replace(kept, test=_with_classes(raw.test, classes))


def _held_out(rows: int, test: float, seed: int, name: str) -> Bools:
    """Return a seeded choice of the share ``test`` of the records, at least one."""
    many = max(1, round(test * rows))
    if many >= rows:
        raise ConfigError(
            f"data.test = {test} leaves none of the {rows} records of {name} for training; make it smaller"
        )
    mask = np.zeros(rows, dtype=bool)
    mask[stream(seed, Purpose.SPLIT, round=_TEST_PART).permutation(rows)[:many]] = True
    return mask
