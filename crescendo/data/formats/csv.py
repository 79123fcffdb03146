"""Reader of csv files of numbers with a header line. Each record is one line, read without regard to the other records.

So a cell cannot hold a line break, and an unclosed quotation mark spoils only its line. The header line shows the separator:
comma, semicolon or tab. If it is not the comma, a number may have a decimal comma. Every kind of line end ends a line, and a line
that repeats the header is not a record.
"""

import codecs
import csv
import difflib
import io
import re
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data.records import Column, Raw
from crescendo.data.tables.cells import as_name, objects
from crescendo.data.tables.table_cautions import about_numbers
from crescendo.errors import ConfigError, DataError

_LONGEST_HEADER = 1 << 20
_SHOWN = 12  # names of columns
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*", re.ASCII)
_NO_TEXT = {
    b"PK\x03\x04": 'an Excel workbook or another zip file; save the sheet as "CSV UTF-8"',
    b"\xd0\xcf\x11\xe0": 'an old Excel workbook; save the sheet as "CSV UTF-8"',
    b"\x1f\x8b": "compressed by gzip; let its name end in .csv.gz",
    b"PAR1": "a Parquet file; let its name end in .parquet",
}
_OTHER_FORMATS = {
    "{": "JSON; write it as csv, with pandas.read_json(file, lines=True).to_csv",
    "[": "JSON; write it as csv, with pandas.read_json(file).to_csv",
    "<": "HTML or XML; write its table as csv, with pandas.read_html(file)[0].to_csv",
    "#": "a comment; remove the lines above the line of names",
}
_OTHER_SEPARATORS = {"|": "a bar", "\x1f": "a unit separator", " ": "a space", ":": "a colon"}
SEPARATORS = (",", ";", "\t")
_SAYS_SEPARATOR = re.compile(rb'\s*"?sep=([,;\t|:^~])"?\s*', re.IGNORECASE)  # the first line of some Excel files


@dataclass(frozen=True)
class Header:
    """The names of the columns, and the separator of cells."""

    names: list[str]
    separator: str = ","

    @property
    def decimal_comma(self) -> bool:
        """True if a comma in a number is the decimal comma."""
        return self.separator != ","


def read_csv(
    content: bytes, name: str, label: str | None, column: str | None, leave_out: bool = False, may_look: bool = False
) -> Raw:
    """Read a csv with a header line. The label is the column ``label``, or the last one; ``column`` is set aside for the split.

    With ``leave_out`` a line that is not a record is left out and counted, and labels stay text: no single record can show that
    all labels are numbers. Otherwise such a line is refused.

    >>> raw = read_csv(b"size,airline,late\\n1.5,UA,yes\\n2.5,AA,no\\n", "two flights", None, "airline")
    >>> raw.x.tolist(), raw.y.tolist(), raw.columns["airline"].tolist()
    ([[1.5], [2.5]], ['yes', 'no'], ['UA', 'AA'])
    >>> read_csv(b"size,late\\n1.5,yes\\nlong,no\\n", "two flights", None, None, leave_out=True).unreadable
    1
    """
    content = with_line_feeds(content)
    lines = io.BytesIO(content)
    layout = _layout(header(lines, name), label, column, name)
    found = _read(lines, layout, leave_out, name, content)
    x = found.matrix(len(layout.features))
    if leave_out:
        texts = {} if column is None else {column: objects(found.owners)}
        notes = (*about_numbers(x, layout.features, may_look), *about_headers(found.headers))
        told = Raw(x, objects(found.labels), columns=texts, unreadable=found.unreadable, notes=notes)
        return replace(told, names=tuple(layout.features))
    if not len(x):
        raise no_records(name)
    _check_finite(x, layout, content, name)
    owners = {} if column is None else {column: as_written(found.owners)}
    notes = (*about_numbers(x, layout.features, may_look), *about_headers(found.headers))
    return Raw(x, as_written(found.labels), columns=owners, names=tuple(layout.features), notes=notes)


def with_line_feeds(content: bytes) -> bytes:
    """Return the same lines, each ending in a line feed: some programs end them in a carriage return, or in both.

    >>> with_line_feeds(b"a,b\\r1,2\\r\\n3,4\\n")
    b'a,b\\n1,2\\n3,4\\n'
    """
    return content.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in content else content


def header(lines: BinaryIO, name: str, unnamed: bool = False, least: int = 2) -> Header:
    """Read the header from the first line that is not blank, and nothing after it.

    Excel may write a line before it that sets the separator, such as sep=;

    With ``unnamed`` a column without a name, often an index, is named by its position. A table has at least ``least`` columns.

    >>> header(io.BytesIO(b"size; airline;late\\n1,5;UA;yes\\n"), "flights")
    Header(names=['size', 'airline', 'late'], separator=';')
    """
    line, separators = _first_line(lines).removeprefix(codecs.BOM_UTF8), tuple[str, ...](SEPARATORS)
    if said := _SAYS_SEPARATOR.fullmatch(line):
        line, separators = _first_line(lines), (said[1].decode("latin-1"),)
    if not line:
        raise no_records(name)
    for begins, what in _NO_TEXT.items():
        if line.startswith(begins):
            raise DataError(f"{name} is {what}")
    if len(line) == _LONGEST_HEADER:
        raise DataError(f"{name} has a first line of more than {_LONGEST_HEADER - 1} bytes; check that it is a csv")
    try:
        found = _header_of(line.decode(), separators)
    except UnicodeDecodeError as error:
        raise not_utf8(name, line, error) from error
    except csv.Error as error:
        raise DataError(f"{name}, header line: {error}; correct that line") from error
    names = [cell or f"column {at}" if unnamed else cell for at, cell in enumerate(found.names, 1)]
    if not any(found.names):
        raise no_records(name)
    _check_header(names, name, least)
    return replace(found, names=names)


def _first_line(lines: BinaryIO) -> bytes:
    """Return the next line that is not blank, leaving the stream after it; nothing at the end."""
    while True:
        start = lines.tell()
        line = lines.readline(_LONGEST_HEADER)
        end = line.rstrip(b"\r\n").find(b"\r") + 1  # files of old Macs have carriage returns only
        if end:
            line = line[:end]
            lines.seek(start + end)
        if not line or line.strip():
            return line


def not_utf8(name: str, content: bytes, error: UnicodeDecodeError) -> DataError:
    """Return the error for text in another encoding, naming the encoding if the first bytes show it.

    >>> print(not_utf8("a.csv", b"\\xff\\xfea", UnicodeDecodeError("utf-8", b"\\xff", 0, 1, "invalid")))
    a.csv is UTF-16 text; save it as UTF-8 (in Excel: "CSV UTF-8")
    """
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return DataError(f'{name} is UTF-16 text; save it as UTF-8 (in Excel: "CSV UTF-8")')
    return DataError(f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8")


def _header_of(line: str, separators: Sequence[str] = SEPARATORS) -> Header:
    """Split the header line by the separator that gives the most cells."""
    found, faults = list[Header](), list[csv.Error]()
    for separator in separators:
        try:
            found.append(Header([as_name(cell) for cell in cells_of(line, separator)], separator))
        except csv.Error as error:  # quotation marks that match only under another separator
            faults.append(error)
    if not found:
        raise faults[0]
    return max(found, key=lambda header: len(header.names))


def cells_of(line: str, separator: str) -> list[str]:
    """Return the cells of one line; raise csv.Error if its quotation marks do not match."""
    return next(csv.reader([line.rstrip("\r\n")], delimiter=separator, strict=True))


def is_header(cells: Sequence[str], found: Header) -> bool:
    """Return True if a line repeats the header, as in a file joined from several; the line alone decides."""
    first = as_name(cells[0].removeprefix("\ufeff"))  # the mark of a file that was appended to another
    said = (as_name(cell) or f"column {at}" for at, cell in enumerate(cells[1:], 2))
    return (first or "column 1") == found.names[0] and [*said] == found.names[1:]


def repeats(found: Header, line: bytes) -> bool:
    """Return True if a line, as read from the file, repeats the header."""
    try:
        return is_header(cells_of(line.decode(), found.separator), found)
    except (UnicodeDecodeError, csv.Error, StopIteration):
        return False


def about_headers(headers: int) -> tuple[str, ...]:
    """Return a sentence for the user if lines repeat the header."""
    if not headers:
        return ()
    return (
        f"{headers:,} lines repeat the header and are left out"
        if headers > 1
        else "a line repeats the header and is left out",
    )


def decimal_point(cell: str) -> str:
    """Replace a number's decimal comma by a point; return any other text unchanged.

    >>> decimal_point("-1,5"), decimal_point("1,2,3"), decimal_point("Oslo, Norway")
    ('-1.5', '1,2,3', 'Oslo, Norway')
    """
    return cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell


def _check_header(header: list[str], name: str, least: int) -> None:
    if len(header) < least or header[0].startswith('{"'):
        raise DataError(_about_one_column(header[0], name))
    if all(_is_number(cell) for cell in header):
        raise DataError(f"{name} has no header line: its first line is all numbers; put the names of the columns there")
    (often, times), *_ = Counter(header).most_common(1)
    if times > 1 and (fractions := [cell for cell in header if _is_number(cell) and float(cell) % 1]):
        raise DataError(
            f"{name} has no line of names: its first line says '{often}' twice and the number {fractions[0]}; put the names of "
            "the columns there"
        )
    if times > 1:
        raise DataError(f"{name} has two columns called '{often}'; rename one")
    if "" in header:
        raise DataError(f"{name} has a column without a name, the {header.index('') + 1}th; name it in the header line")


def _about_one_column(said: str, name: str) -> str:
    """Describe a first line that has only one cell.

    >>> _about_one_column("age|city|died", "a.csv")
    "a.csv has one column, 'age|city|died'; between cells stands a comma, a semicolon or a tab, and here perhaps a bar"
    >>> _about_one_column("# exported in 2024", "a.csv")
    'a.csv begins with a comment; remove the lines above the line of names'
    """
    if said[:1] in _OTHER_FORMATS:
        return f"{name} begins with {_OTHER_FORMATS[said[0]]}"
    perhaps = next((f", and here perhaps {what}" for mark, what in _OTHER_SEPARATORS.items() if mark in said), "")
    return f"{name} has one column, '{said[:40]}'; between cells stands a comma, a semicolon or a tab{perhaps}"


def no_records(name: str) -> DataError:
    return DataError(f"{name} has no records; it needs a header line and a line for each record")


@dataclass(frozen=True)
class _Layout:
    """The role of each column, from the header line and the options."""

    read: Header
    label: int
    owner: int | None  # the column to split by

    @property
    def header(self) -> list[str]:
        return self.read.names

    @property
    def features(self) -> list[str]:
        return [cell for at, cell in enumerate(self.header) if at not in (self.label, self.owner)]


def named(header: list[str], label: str | None, column: str | None, name: str) -> str:
    """Return the label column; refuse it if it or the column to split by is absent, or both are the same."""
    label = header[-1] if label is None else label
    for key, wanted in (("data.label", label), ("clients.split", column)):
        if wanted is not None and wanted not in header:
            raise ConfigError(
                f"{key} asks for column '{wanted}', but the columns of {name} are {_listed(header, wanted)}"
            )
    if label == column:
        raise ConfigError(f"'{label}' is the label of {name} and cannot split it by column; use split = 'label'")
    return label


def _listed(header: list[str], wanted: str) -> str:
    """List the columns, with a guess at the one that was meant."""
    listed = ", ".join(header[:_SHOWN]) + (f" and {len(header) - _SHOWN} more" if len(header) > _SHOWN else "")
    near = difflib.get_close_matches(wanted, header, n=1)
    if near:
        return f"{listed}; did you mean '{near[0]}'?"
    if any(name == f"column {at}" for at, name in enumerate(header[1:], 2)):
        return f"{listed}; where a title stands above the line of names, remove the lines above it"
    return listed


def _layout(read: Header, label: str | None, column: str | None, name: str) -> _Layout:
    header, label = read.names, named(read.names, label, column, name)
    layout = _Layout(read, header.index(label), None if column is None else header.index(column))
    if not layout.features:
        raise DataError(f"{name} has no column left for a feature beside {label}")
    return layout


class _Found:
    """The records of a csv so far. ``values`` holds the features of all records, one after the other."""

    def __init__(self) -> None:
        self.values, self.labels, self.owners = array("d"), list[str](), list[str]()
        self.unreadable, self.headers = 0, 0

    def matrix(self, features: int) -> Floats:
        flat = np.frombuffer(self.values) if self.values else np.empty(0)  # without records there is no buffer to view
        return flat.reshape(len(self.labels), features)


def _read(lines: io.BytesIO, layout: _Layout, leave_out: bool, name: str, content: bytes) -> _Found:
    found, width, features = _Found(), len(layout.header), len(layout.features)
    values, labels, owners = found.values, found.labels, found.owners
    label, owner = layout.label, layout.owner
    separator, decimal = layout.read.separator.encode(), layout.read.decimal_comma
    known: dict[bytes, str] = {}  # usually a few texts occur many times
    for line in lines:
        try:
            cells = line.split(separator) if b'"' not in line else _quoted(line, layout.read.separator)
            if len(cells) != width:
                raise ValueError
            said = _text(cells[label], known)
            said = decimal_point(said) if decimal else said
            if owner is not None:
                whose = _text(cells[owner], known)
                del cells[max(label, owner)], cells[min(label, owner)]
            else:
                del cells[label]
            values.extend(map(float, (cell.replace(b",", b".") for cell in cells) if decimal else cells))
            if said == layout.header[label] and repeats(layout.read, line):
                raise ValueError
        except ValueError:
            del values[len(labels) * features :]
            if line.isspace():
                continue
            if repeats(layout.read, line):
                found.unreadable, found.headers = found.unreadable + 1, found.headers + 1
                continue
            if not leave_out:
                raise DataError(f"{name}, line {_number(content, lines, line)}: {_fault(line, layout)}") from None
            found.unreadable += 1
            continue
        labels.append(said)
        if owner is not None:
            owners.append(whose)
    return found


def _quoted(line: bytes, separator: str) -> list[bytes]:
    """Return the cells of a line with quotation marks; raise ValueError if they do not match."""
    try:
        cells = cells_of(line.decode("utf-8", "surrogateescape"), separator)
        return [cell.encode("utf-8", "surrogateescape") for cell in cells]
    except csv.Error as error:
        raise ValueError(str(error)) from error


def _text(cell: bytes, known: dict[bytes, str]) -> str:
    """Return a label or an owner; raise ValueError if it is empty or not UTF-8."""
    found = known.get(cell)
    if found is None:
        found = known[cell] = cell.decode().strip()
    if not found:
        raise ValueError
    return found


def _number(content: bytes, lines: io.BytesIO, line: bytes) -> int:
    """Return the number of the line that was read last."""
    return content.count(b"\n", 0, lines.tell() - len(line)) + 1


def _fault(line: bytes, layout: _Layout) -> str:
    """Describe the fault of a line, and the remedy."""
    try:
        cells = [cell.strip() for cell in cells_of(line.decode("utf-8", "backslashreplace"), layout.read.separator)]
    except csv.Error as error:
        return f"{error}; correct that line"
    if len(cells) != len(layout.header):
        return f"{len(cells)} cells where the header has {len(layout.header)}; correct that line"
    for column, cell in zip(layout.header, cells, strict=True):
        if column in layout.features and not _is_number(cell):
            return _not_finite(column, cell)
        if not cell:
            return f"column '{column}' is empty; fill it in or drop the line"
    return "it is not UTF-8 text; save the file as UTF-8"


def _not_finite(column: str, cell: str) -> str:
    what = f"is '{cell[:40]}', not a finite number" if cell else "is empty"
    return f"column '{column}' {what}; fill it in, turn the column into numbers or leave it out"


def _check_finite(x: Floats, layout: _Layout, content: bytes, name: str) -> None:
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        record, feature = bad[0].tolist()
        said = [(at, line) for at, line in enumerate(content.split(b"\n"), 1) if line.strip()]
        first = 1 if _SAYS_SEPARATOR.fullmatch(said[0][1].removeprefix(codecs.BOM_UTF8)) else 0
        number, line = [(at, line) for at, line in said[first:] if not repeats(layout.read, line)][record]
        column = layout.features[feature]
        cells = cells_of(line.decode("utf-8", "backslashreplace"), layout.read.separator)
        cell = cells[layout.header.index(column)].strip()
        raise DataError(f"{name}, line {number}: {_not_finite(column, cell)}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def as_written(cells: list[str]) -> Column:
    """Return numbers if every cell is one, and otherwise the texts."""
    return np.array([float(cell) for cell in cells]) if all(map(_is_number, cells)) else np.array(cells)
