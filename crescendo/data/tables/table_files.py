"""Tables in files and in memory: csv and tsv as texts, Parquet by pyarrow, data frames.

A private run reads a csv line by line (``alone``), so that a record depends only on its line and the header. Any other run allows
line breaks in quoted cells, and refuses a line that is not a record with its number.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crescendo.core.arrays import Array
from crescendo.data.formats.csv import (
    Header,
    cells_of,
    decimal_point,
    header,
    is_header,
    no_records,
    not_utf8,
    with_line_feeds,
)
from crescendo.data.memory.frame_labels import joined_name
from crescendo.data.tables.cells import Table, as_name, objects, texts
from crescendo.errors import DataError


def csv_table(
    content: bytes, name: str, wanted: Sequence[str] | None = None, *, alone: bool = False, least: int = 2
) -> Table:
    """Return the columns ``wanted`` of a csv, or all of them, as texts. It needs ``least`` columns: two if one is the label.

    >>> csv_table(b"size;city\\n1,5;Oslo\\n2;\\n", "two").columns["size"].tolist()
    ['1.5', '2']
    >>> csv_table(b'a,b\\n1,"2\\n3,4\\n', "two", alone=True).unreadable
    1
    """
    lines = io.BytesIO(with_line_feeds(content) if alone else content)
    found = header(lines, name, unnamed=True, least=least)
    names = found.names if wanted is None else [one for one in found.names if one in set(wanted)]
    places = [found.names.index(one) for one in names]
    every, unreadable = _each_line(lines, found) if alone else (list(_every_line(lines, found, name)), 0)
    rows = [[row[place] for place in places] for row in every if not is_header(row, found)]
    headers = len(every) - len(rows)
    if not rows and not alone:
        raise no_records(name)
    raw = {one: objects(row[at].strip() for row in rows) for at, one in enumerate(names)}
    made = Table(name, raw, len(rows), unreadable + headers, headers=headers)
    if not found.decimal_comma:
        return made
    columns = {one: objects(map(decimal_point, cells)) for one, cells in raw.items()}
    return replace(made, columns=columns, decimal_comma=True, raw=raw)


def _each_line(lines: io.BytesIO, found: Header) -> tuple[list[list[str]], int]:
    """Return the cells of every line that is a record, judged by itself, and the number of other lines."""
    rows, unreadable, width = list[list[str]](), 0, len(found.names)
    for line in lines:
        try:
            text = line.decode()
            plain = '"' not in text
            cells = text.rstrip("\r\n").split(found.separator) if plain else cells_of(text, found.separator)
        except (UnicodeDecodeError, csv.Error, StopIteration):
            cells = []
        if len(cells) == width:
            rows.append(cells)
        elif not line.isspace():
            unreadable += 1
    return rows, unreadable


def _every_line(lines: io.BytesIO, found: Header, name: str) -> Iterator[list[str]]:
    before = with_line_feeds(lines.getvalue()[: lines.tell()]).count(b"\n")
    content = lines.read()
    try:
        text = content.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise not_utf8(name, content, error) from error
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=found.separator, strict=True)
    return _checked(reader, len(found.names), name, before)


def _checked(reader: Any, width: int, name: str, before: int) -> Iterator[list[str]]:
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{name}, line {before + reader.line_num}: {error}; correct that line") from error
        if cells is None:
            return
        if len(cells) == width:
            yield cells
        elif any(cell.strip() for cell in cells):
            says = f"{len(cells)} cells where the header has {width}; correct that line"
            raise DataError(f"{name}, line {before + reader.line_num}: {says}")


# -- Parquet and data frames ----------------------------------------------------------------------------------------------


def parquet_table(content: bytes, name: str, wanted: Sequence[str] | None = None) -> Table:
    """Return the columns ``wanted`` of a Parquet file, or all of them.

    The file's schema gives the type of each column: numbers, truth values and texts are read, and a column of another type, such
    as dates, is empty. So no record affects how the others are read.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise DataError(
            f"{name} is a Parquet file, which needs the package pyarrow; install it with pip install 'crescendo-fl[parquet]'"
        ) from None
    try:
        found = pyarrow.parquet.read_table(pyarrow.BufferReader(content))
    except Exception as error:  # pyarrow raises dozens of types about bytes in memory, and each of them means damage
        raise DataError(f"{name} is damaged or not a Parquet file; save it again") from error
    named = _distinct([as_name(one) for one in found.column_names], name)
    kept = {one: at for at, one in enumerate(named) if wanted is None or one in set(wanted)}
    dates = frozenset(one for one, at in kept.items() if pyarrow.types.is_temporal(found.schema.types[at]))
    kinds = {one: found.schema.types[at] for one, at in kept.items()}
    other = {one: str(kind) for one, kind in kinds.items() if one not in dates and not _is_read(kind)}
    columns = {one: _arrow_cells(found.column(at)) for one, at in kept.items()}
    return Table(name, columns, found.num_rows, dates=dates, other=other)


def _is_read(kind: Any) -> bool:
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    return bool(numbers or types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind))


def _arrow_cells(column: Any) -> Array:
    import pyarrow

    kind, of = column.type, pyarrow.types
    if of.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if of.is_integer(kind) or of.is_floating(kind) or of.is_boolean(kind):
        if of.is_boolean(kind):
            return objects("" if cell is None else str(cell) for cell in column.to_pylist())
        return np.array([np.nan if cell is None else float(cell) for cell in column.to_pylist()], dtype=np.float64)
    if of.is_decimal(kind):
        return objects("" if cell is None else str(cell) for cell in column.to_pylist())
    if of.is_string(kind) or of.is_large_string(kind):
        cells = column.cast(pyarrow.large_binary()).to_pylist()  # one that is not UTF-8 must not spoil the others
        return objects("" if cell is None else cell.decode("utf-8", "replace").strip() for cell in cells)
    return objects("" for _ in range(len(column)))


def is_frame(values: Any) -> bool:
    """Return True for a pandas data frame, without loading pandas."""
    return hasattr(values, "iloc") and hasattr(values, "columns") and hasattr(values, "dtypes")


def frame_table(frame: Any, name: str, wanted: Sequence[str] | None = None) -> Table:
    """Return the columns ``wanted`` of a data frame, or all of them, without its index."""
    said = [as_name(str(joined_name(column))) for column in frame.columns]
    named = _distinct([one or f"column {at}" for at, one in enumerate(said, 1)], name)
    kept = [at for at, one in enumerate(named) if wanted is None or one in set(wanted)]
    columns = {named[at]: _cells(frame.iloc[:, at]) for at in kept}
    dates = frozenset(named[at] for at in kept if frame.dtypes.iloc[at].kind in "mM")
    return _without_headers(Table(name, columns, len(frame), dates=dates))


def _without_headers(table: Table) -> Table:
    """Drop rows that repeat the column names; each row is judged by itself."""
    if not table.columns or any(cells.dtype != object for cells in table.columns.values()):
        return table
    repeats = np.ones(table.rows, dtype=np.bool_)
    for name, cells in table.columns.items():
        repeats &= cells == name
    many = int(np.count_nonzero(repeats))
    return replace(table.take(~repeats), headers=many, unreadable=many) if many else table


def _distinct(named: list[str], name: str) -> list[str]:
    if len(set(named)) < len(named):
        twice = next(one for one in named if named.count(one) > 1)
        raise DataError(f"{name} has two columns called '{twice[:60]}'; rename one")
    return named


def _cells(column: Any) -> Array:
    """Return a column as numbers, or as texts with "" for a missing cell."""
    kind = getattr(column.dtype, "kind", "O")
    whole = isinstance(column.dtype, np.dtype)
    if whole and kind in "biuf":
        return np.asarray(column.to_numpy())
    if kind in "iuf":  # the nullable types of pandas, in which a whole number may be missing
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    absent = column.isna().to_numpy()
    found = column.astype(object).to_numpy()
    return objects("" if gone else _text(cell) for cell, gone in zip(found, absent, strict=True))


def _text(cell: Any) -> str:
    """Return one cell as text, the same for every type that its neighbours may give the column."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell))
    if isinstance(cell, int | float | np.integer | np.floating):
        try:
            return texts(np.array([float(cell)]))[0]
        except OverflowError:  # a whole number beyond all floats
            return "inf" if cell > 0 else "-inf"
    return str(cell).strip()
