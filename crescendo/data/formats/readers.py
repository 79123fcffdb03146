"""Readers of record files: each format's matrix, raw labels, and training and test part."""

import io
import math
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Array
from crescendo.data import cache
from crescendo.data.formats import csv as csv_table
from crescendo.data.formats import libsvm
from crescendo.data.formats.files import DataFile, sha256
from crescendo.data.records import Raw, csr
from crescendo.data.sets.known import SETS
from crescendo.data.tables import table_files, table_records
from crescendo.data.tables.cells import Table
from crescendo.data.tables.doctor.codes import hold_no_amounts
from crescendo.data.tables.doctor.number_writing import hides_thousands
from crescendo.data.tables.drafting import TableKeys
from crescendo.data.tables.feature_schema import Schema
from crescendo.errors import ConfigError, DataError

_VERSION = 1  # of the parsed form in the cache
_KINDS = (  # common kinds of files that are not read
    "npy feather arrow orc avro json jsonl yaml toml xml html md pkl pickle zip 7z rar tar tgz zst arff h5 hdf5 xls "
    "xlsx ods doc docx pdf mat rds dta sav sas7bdat db sqlite sqlite3 pt pth onnx safetensors jpg jpeg png gif tif tiff bmp webp "
    "mp3 mp4 wav py so dll exe bin"
)
_TABLES = {".csv": "csv", ".tsv": "csv", ".tab": "csv", ".parquet": "parquet", ".pq": "parquet", ".npz": "npz"}
_THREE = re.compile(rb'(?:^|[;\t\r\n" -])[0-9]{1,3}\.[0-9]{3}(?:[;\t\r\n".]|$)')  # 1.234 next to a semicolon or a tab
_ZERO_FIRST = re.compile(rb'(?:^|[,;\t\r\n"])0[0-9]')  # in a cell such as 007
_OTHERS = {f".{kind}" for kind in _KINDS.split()}


class RecordFile(DataFile):
    """A file of records, read according to the suffix of its name; LIBSVM text if the suffix is unknown."""

    @property
    def kind(self) -> str:
        """The format of the file, by its name alone.

        >>> [RecordFile(Path(name)).kind for name in ("mine.CSV.gz", "train-images-idx3-ubyte", "a9a.t")]
        ['csv', 'idx', 'libsvm']
        """
        suffix = Path(self.name).suffix.lower()
        if self.path.is_dir():
            raise DataError(
                f"{self.path} is a folder; give a file, or a name such as a9a with this folder as data.folder"
            )
        if suffix in _OTHERS:
            raise DataError(
                f"{self.path} cannot be read: data files are LIBSVM text, .csv, .tsv, .parquet, .npz or IDX; save it as one"
            )
        if suffix in _TABLES:
            return _TABLES[suffix]
        return "idx" if "idx3-ubyte" in self.name else "libsvm"

    @property
    def is_table(self) -> bool:
        """True if the file has columns with names."""
        return self.kind in ("csv", "parquet")

    def columns(self) -> list[str] | None:
        """Return the names in a csv's header line; None for another format, and for a pipe, which can be read only once."""
        if not self.path.is_file() or self.kind != "csv":
            return None
        with self.opened() as content:
            return csv_table.header(content, str(self.path), unnamed=True).names

    def names(self) -> list[str]:
        """Return the names of a table's columns, csv or Parquet."""
        return self.columns() or list(self.table().columns)

    def table(self, wanted: Sequence[str] | None = None, *, alone: bool = False, least: int = 2) -> Table:
        """Return the cells of a table; with ``alone`` read each record by itself. A csv needs at least ``least`` columns."""
        if self.kind == "parquet":
            return table_files.parquet_table(self.content, str(self.path), wanted)
        return table_files.csv_table(self.content, str(self.path), wanted, alone=alone, least=least)

    def read(
        self,
        label: str | None,
        column: str | None,
        features: int | None,
        *,
        leave_out: bool = False,
        test: bool = True,
        schema: Schema | None = None,
        keys: TableKeys | None = None,
    ) -> Raw:
        """Read the records of a user's file.

        With ``leave_out`` each record is judged alone, by the file's name, its header and the options: a record that does not fit
        is left out and counted. Without ``test`` the file's folder is not searched for a test part. A table becomes features by
        ``schema``; with ``keys`` a schema may be drafted from the cells; without both all cells must be numbers.
        """
        kind, path = self.kind, self.path
        if not self.is_table:
            _only_for_tables(label, schema, keys, path)
        if features is not None and kind != "libsvm":
            raise ConfigError(
                f"data.features is for LIBSVM files; the columns of {path} already say it, so leave it out"
            )
        if self.is_table:
            return self._table(label, column, schema, keys, leave_out)
        if kind == "npz":
            return _read_npz(self.content, str(path), leave_out)
        return self._idx(test) if kind == "idx" else self._libsvm(features, leave_out, test)

    def _table(
        self, label: str | None, column: str | None, schema: Schema | None, keys: TableKeys | None, leave_out: bool
    ) -> Raw:
        """Read a table. Numbers alone are used as written, unless the user sets options for the columns."""
        assert not (leave_out and keys is not None), "a private run never looks at its records"
        if schema is not None:
            return table_records.by_schema(self.table(alone=leave_out), schema, label, column, leave_out)
        if self.kind == "parquet":
            if leave_out:
                raise ConfigError(
                    f"{self.path} is a Parquet file; in a private run data.schema says what its columns become"
                )
            return table_records.by_types(self.table(), keys, label, column)
        if keys is None or keys == TableKeys():
            try:
                may_look = keys is not None
                raw = csv_table.read_csv(self.content, str(self.path), label, column, leave_out, may_look)
                if keys is None:
                    return raw
                if not self._holds_no_amounts(raw):
                    return table_records.with_findings(raw)
            except DataError:
                if keys is None:
                    raise
        return table_records.by_looking(self.table(), keys, label, column)

    def _holds_no_amounts(self, raw: Raw) -> bool:
        """Return True if some features are codes or dates, or have points between thousands, which only the cells show."""
        if hold_no_amounts({name: raw.x[:, at] for at, name in enumerate(raw.names)}):
            return True
        if _ZERO_FIRST.search(self.content) is None and _THREE.search(self.content) is None:
            return False
        table = self.table(raw.names)
        return hold_no_amounts(table.columns) or hides_thousands(table)

    def libsvm(self, features: int | None, verified: str | None = None) -> Raw:
        """Read LIBSVM text through the cache; ``verified`` is the sha256 that its content was checked against."""

        def build() -> cache.Arrays:
            x, y = libsvm.parse(self.content, str(self.path), features or _features_of(sha256(self.content)))
            arrays = {"values": x.data, "indices": x.indices, "ends": x.indptr}
            return {**arrays, "labels": y, "features": np.array(x.shape[1])}

        made = cache.cached("libsvm", (_VERSION, sha256(self.raw), self.path.suffix, features, verified), build)
        shape = len(made["labels"]), int(made["features"])
        return Raw(csr(made["values"], made["indices"], made["ends"], shape), made["labels"])

    def pictures(self, labels: DataFile) -> Raw:
        """Return images with their labels, pixels scaled to 0..1."""
        pixels, numbers = _parse_idx(self.content, str(self.path), 3), _parse_idx(labels.content, str(labels.path), 1)
        if len(pixels) != len(numbers):
            raise DataError(
                f"{self.path} has {len(pixels)} images and {labels.path} {len(numbers)} labels; they are no pair"
            )
        return Raw(pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255), numbers)

    def _libsvm(self, features: int | None, leave_out: bool, test: bool) -> Raw:
        """Read any LIBSVM file; its test part is the file with ``.t`` added to the name in the same folder, if there is one.

        With ``leave_out`` the file is not cached: the cache is no place for private records.
        """

        def part(file: RecordFile) -> Raw:
            if not leave_out:
                return file.libsvm(features)
            assert features is not None
            x, y, unreadable = libsvm.parse_each(file.content, features)
            return Raw(x, y, unreadable=unreadable)

        if leave_out and features is None:
            raise ConfigError(
                f"data.features is missing; {self.path} is a LIBSVM file, and in a private run no record may decide how many "
                "there are"
            )
        train, beside = part(self), self.beside(f"{self.name}.t") if test else None
        if beside is None:
            return train
        held_out = part(beside)
        width = max(train.x.shape[1], held_out.x.shape[1])
        for one in (train, held_out):
            one.x.resize((len(one), width))
        return replace(train, test=held_out)

    def _idx(self, test: bool) -> Raw:
        """Read images in the layout of MNIST; find labels and a t10k test part by name in the same folder."""

        def part(images: RecordFile) -> Raw:
            named = images.path.name.replace("images", "labels").replace("idx3", "idx1")
            labels = images.beside(named)
            if labels is None:
                raise DataError(f"{images.path} has no labels beside it; put {named} into the same folder")
            return images.pictures(labels)

        beside = self.beside(self.path.name.replace("train", "t10k")) if test else None
        return replace(part(self), test=part(beside) if beside is not None and beside.path != self.path else None)


def _only_for_tables(label: str | None, schema: Schema | None, keys: TableKeys | None, path: Path) -> None:
    said = {
        "label": label is not None,
        "schema": schema is not None,
        "drop, categories, missing or scale": keys not in (None, TableKeys()),
    }
    for key, given in said.items():
        if given:
            raise ConfigError(
                f"data.{key} is about the columns of a table (.csv, .tsv or .parquet), which {path} is not; leave it out"
            )


def _features_of(content: str) -> int | None:
    """Return the feature count of a LIBSVM file given by path, if its sha256 is a known one."""
    for known in SETS.values():
        if content in (known.train.content, known.test and known.test.content):
            return known.features
    return None


# -- IDX, the format of MNIST --------------------------------------------------------------------------------------------


def _parse_idx(content: bytes, name: str, dimensions: int) -> npt.NDArray[np.uint8]:
    """Return the array of bytes in an IDX file; refuse one without ``dimensions`` dimensions: 3 for images, 1 for labels.

    A big-endian header (type, number of dimensions, sizes) comes first, and then the bytes.

    >>> _parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "labels", dimensions=1)
    array([7, 9], dtype=uint8)
    """
    start = 4 + 4 * dimensions
    if len(content) < start or content[:3] != b"\0\0\x08" or content[3] != dimensions:
        raise DataError(f"{name} is not an IDX file of bytes in {dimensions} dimension(s); check which file this is")
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    wanted = start + math.prod(shape)
    if len(content) != wanted:
        raise DataError(
            f"{name} has {len(content):,} bytes, but its header announces {wanted:,}; replace it by a whole copy"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


# -- a user's npz files: arrays x and y ----------------------------------------------------------------------------------


def _read_npz(content: bytes, name: str, leave_out: bool = False) -> Raw:
    """Read an npz with ``x`` and ``y`` (or ``x_train`` and ``y_train``), perhaps ``x_test`` and ``y_test``.

    Every other array with one value per record is a column to split by. Images are flattened to a row each. With ``leave_out``
    records that are not finite are accepted, for the caller to leave out, and every number becomes a float64.
    """
    arrays = npz_arrays(content, name)
    x, y = (_array(arrays, key, name) for key in ("x", "y"))
    test = (arrays.pop("x_test"), arrays.pop("y_test")) if {"x_test", "y_test"} <= set(arrays) else None
    columns = {key: column for key, column in arrays.items() if column.shape == y.shape}
    pair = _pair(x, y, name, ("x", "y"), leave_out)
    part = None if test is None else Raw(*_pair(*test, name, ("x_test", "y_test"), leave_out))
    return Raw(*pair, part, columns)


def npz_arrays(content: bytes, name: str) -> dict[str, Array]:
    """Return the arrays of an npz by name; refuse a file that is damaged or holds Python objects."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as entry:
            if not hasattr(entry, "files"):
                raise DataError(f"{name} holds one array; a data set needs an npz with x and y")
            arrays = {key: entry[key] for key in entry.files}
        return {key: array for key, array in arrays.items() if isinstance(array, np.ndarray)}
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise DataError(
                f"{name} holds Python objects, which are not loaded; save plain arrays of numbers"
            ) from error
        raise DataError(f"{name} is damaged: {error}; replace it by a whole copy") from error
    except (OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{name} is not a whole npz file ({error}); save it again with numpy.savez") from error


def _array(arrays: dict[str, Array], key: str, name: str) -> Array:
    for alias in (key, f"{key}_train", key.upper()):
        if alias in arrays:
            return arrays.pop(alias)
    raise DataError(f"{name} has no array '{key}' (it has {', '.join(arrays) or 'none'}); save it with x=..., y=...")


def _pair(x: Array, y: Array, name: str, keys: tuple[str, str], leave_out: bool) -> tuple[Array, Array]:
    """Return features and labels of equal length, one row of numbers per label."""
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y):
        raise DataError(
            f"{name} has {keys[0]} of shape {x.shape} and {keys[1]} of shape {y.shape}; one row and one label each"
        )
    if x.dtype.kind not in "biuf" or not (leave_out or np.isfinite(x).all()):
        raise DataError(f"{keys[0]} in {name} must be finite numbers throughout")
    if y.dtype.kind not in "biufU":
        raise DataError(f"{keys[1]} in {name} must be numbers or texts, and it is of type {y.dtype}")
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    if not leave_out:
        return flat, y
    with np.errstate(over="ignore"):  # a number too large for float64 is infinite: its record is left out
        return flat.astype(np.float64), y
