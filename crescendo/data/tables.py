"""Tables of a user's own: csv with a header line, and npz."""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from crescendo.data.records import Column, FloatArray
from crescendo.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class Raw:
    """What a reader found, before labels become classes: ``y`` holds labels as written (numbers or text)."""

    x: Any
    y: Column
    test: tuple[Any, Column] | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    in_test: npt.NDArray[np.bool_] | None = None  # which records a rule of the source's own puts in the test part


def read_csv(content: bytes, name: str, label: str | None, column: str | None) -> Raw:
    """A csv with a header line. The label is the column ``label``, or the last one; ``column`` is set aside to split by.

    >>> raw = read_csv(b"size,airline,late\\n1.5,UA,yes\\n2.5,AA,no\\n", "two flights", None, "airline")
    >>> raw.x.tolist(), raw.y.tolist(), raw.columns["airline"].tolist()
    ([[1.5], [2.5]], ['yes', 'no'], ['UA', 'AA'])
    """
    header, rows, lines = _csv_rows(content, name)
    label = header[-1] if label is None else label
    for key, wanted in (("data.label", label), ("clients.split", column)):
        if wanted is not None and wanted not in header:
            raise ConfigError(f"{key} asks for column '{wanted}', but the columns of {name} are {', '.join(header)}")
    if label == column:
        raise ConfigError(f"'{label}' is the label of {name} and cannot split it by column; use split = 'label'")
    by_name = dict(zip(header, zip(*rows, strict=True), strict=True))
    features = [h for h in header if h not in (label, column)]
    if not features:
        raise DataError(f"{name} has no column left for a feature beside {label}")
    x = np.column_stack([_numbers(by_name[h], h, name, lines) for h in features])
    columns = {column: _labels(by_name[column], column, name, lines)} if column is not None else {}
    return Raw(x, _labels(by_name[label], label, name, lines), columns=columns)


def header(content: BinaryIO, name: str) -> list[str]:
    """The names of the columns; no more of the file is looked at.

    >>> header(io.BytesIO(b"size, airline,late\\n1.5,UA,yes\\n"), "flights")
    ['size', 'airline', 'late']
    """
    reader = csv.reader(io.TextIOWrapper(content, "utf-8-sig", newline=""), strict=True)
    try:
        found = next(([cell.strip() for cell in row] for row in reader if row), [""])
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8 text; save it as UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num}: {error}; correct that line") from error
    _check_header(found, name)
    return found


def _csv_rows(content: bytes, name: str) -> tuple[list[str], list[list[str]], list[int]]:
    rows, lines = [], []
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        for row in reader:
            if row:
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num}: {error}; correct that line") from error
    if len(rows) < 2:
        raise DataError(f"{name} has no records; it needs a header line and a line for each record")
    header = rows[0]
    _check_header(header, name)
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise DataError(
                f"{name}, line {line}: {len(row)} cells where the header has {len(header)}; correct that line"
            )
    return header, rows[1:], lines[1:]


def _check_header(header: list[str], name: str) -> None:
    if len(header) < 2:
        raise DataError(f"{name} has one column, '{header[0][:40]}'; a csv here has commas between its cells")
    if all(_is_number(cell) for cell in header):
        raise DataError(f"{name} has no header line: its first line is all numbers; put the names of the columns there")
    if repeated := next((cell for cell in header if header.count(cell) > 1), None):
        raise DataError(f"{name} has two columns called '{repeated}'; rename one")
    if "" in header:
        raise DataError(f"{name} has a column without a name, the {header.index('') + 1}th; name it in the header line")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _numbers(cells: tuple[str, ...], column: str, name: str, lines: list[int]) -> FloatArray:
    try:
        numbers = np.array([float(cell) for cell in cells])
    except ValueError:
        numbers = np.array([float(cell) if _is_number(cell) else np.nan for cell in cells])
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        cell = cells[bad[0]]
        what = f"is '{cell[:40]}', not a finite number" if cell else "is empty"
        raise DataError(
            f"{name}, line {lines[bad[0]]}: column '{column}' {what}; fill it in, turn the column into numbers or leave it out"
        )
    return numbers


def _labels(cells: tuple[str, ...], column: str, name: str, lines: list[int]) -> Column:
    """Numbers if every cell is one, else the text itself."""
    if "" in cells:
        raise DataError(
            f"{name}, line {lines[cells.index('')]}: column '{column}' is empty; fill it in or drop the line"
        )
    if all(_is_number(cell) for cell in cells):
        return _numbers(cells, column, name, lines)
    return np.array(cells)


def read_npz(content: bytes, name: str) -> Raw:
    """An npz with ``x`` and ``y`` (or ``x_train`` and ``y_train``), perhaps ``x_test`` and ``y_test``.

    Every other array with one value per record is a column to split by. Images are flattened to a row each.
    """
    arrays = _npz_arrays(content, name)
    x, y = (_array(arrays, key, name) for key in ("x", "y"))
    test = (arrays.pop("x_test"), arrays.pop("y_test")) if {"x_test", "y_test"} <= set(arrays) else None
    _check_pair(x, y, name, "x", "y")
    if test is not None:
        _check_pair(*test, name, "x_test", "y_test")
        test = _flat(test[0]), test[1]
    columns = {key: column for key, column in arrays.items() if column.shape == y.shape}
    return Raw(_flat(x), y, test, columns)


def _npz_arrays(content: bytes, name: str) -> dict[str, npt.NDArray[Any]]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as entry:
            if not hasattr(entry, "files"):
                raise DataError(f"{name} holds one array; a data set needs an npz with x and y")
            return {key: entry[key] for key in entry.files}
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise DataError(
                f"{name} holds Python objects, which are not loaded; save plain arrays of numbers"
            ) from error
        raise DataError(f"{name} is damaged: {error}; replace it by a whole copy") from error
    except (OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{name} is not a whole npz file ({error}); save it anew with numpy.savez") from error


def _array(arrays: dict[str, npt.NDArray[Any]], key: str, name: str) -> npt.NDArray[Any]:
    for alias in (key, f"{key}_train", key.upper()):
        if alias in arrays:
            return arrays.pop(alias)
    raise DataError(f"{name} has no array '{key}' (it has {', '.join(arrays) or 'none'}); save it with x=..., y=...")


def _check_pair(x: npt.NDArray[Any], y: npt.NDArray[Any], name: str, *keys: str) -> None:
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y):
        raise DataError(
            f"{name} has {keys[0]} of shape {x.shape} and {keys[1]} of shape {y.shape}; one row and one label each"
        )
    if x.dtype.kind not in "biuf" or not np.isfinite(x).all():
        raise DataError(f"{keys[0]} in {name} must be finite numbers throughout")


def _flat(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return x.reshape(len(x), -1)
