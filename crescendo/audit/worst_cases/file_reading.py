"""Attack on how a client's file is read: may one record change another, or keep the client from taking part?

Small files of every kind are written with and without one record that is sound, broken or strange, in three places. Whatever that
record holds, the others must come out bit for bit the same. Chance has no part in it.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from crescendo.core.random import Purpose, stream
from crescendo.data.formats.readers import RecordFile
from crescendo.data.records import Label, Records
from crescendo.data.sound import Sound

Reader: TypeAlias = Callable[[Path, tuple[Label, ...], int], Records]
Row: TypeAlias = tuple[list[Any], Any]  # the features of a record, and its label
OTHERS = 6  # records beside the one in question
WIDEST = 8  # features of a file that is made up: the code is the same for more
CELLS = (
    "nan",
    "inf",
    "1e999",
    "1e308",
    "",
    " ",
    "text",
    "0x10",
    '"',
    '"1',
    "1\r",
    "\x00",
    "\udcff",
    "\u2028",
    "9" * 200_000,
)
LABELS = ("-7", "0.123456789", "-1e6", "a class of its own")
_LINES = (
    "1 2:1 2:1",
    "1 2:1 1:1",
    "1 0:1",
    "1 99:1",
    "1 99999999999999999999:1",
    "1 1:1:1",
    "1 1",
    "1 #",
    "#",
    "qid:1",
    "PK\x03\x04",
)
_NUMBERS = (np.nan, np.inf, -np.inf, 1e308, 2**60)


def _read_privately(path: Path, classes: tuple[Label, ...], features: int) -> Records:
    """As a private client reads its file."""
    file = RecordFile(path)
    width = features if file.kind == "libsvm" else None
    found, _ = Sound.of(file.read(None, None, width, leave_out=True, test=False), classes)
    return found.records


def leaks(classes: tuple[Label, ...], features: int, seed: int = 0, read: Reader = _read_privately) -> list[str]:
    """One sentence for each kind of file in which a record changes another, or whether the client goes on.

    With no ``classes`` labels are numbers. Tables that a schema makes features of are attacked by `table_reading`.

    >>> leaks((0, 1), 3)
    []
    """
    rng, features = stream(seed, Purpose.SPLIT), min(features, WIDEST)
    labels = some_labels(classes, rng)
    rows: list[Row] = [(rng.normal(size=features).tolist(), label) for label in labels]
    rows.append(([*rows[0][0][1:], np.nan], labels[0]))  # a gap, for a reader that fills gaps
    kinds = [_csv(rows), _npz(rows)]
    if not any(isinstance(label, str) for label in classes):
        kinds.append(_libsvm(rows))
    with tempfile.TemporaryDirectory() as folder:
        found = [leak(Path(folder) / f"records{kind.suffix}", kind, classes, features, read) for kind in kinds]
    return [says for says in found if says is not None]


def some_labels(classes: tuple[Label, ...], rng: np.random.Generator) -> list[Any]:
    """Of each record: one of the classes or, where there are none, a number."""
    if not classes:
        return [round(float(value), 6) for value in rng.normal(scale=10.0, size=OTHERS + 1)]
    return [classes[at % len(classes)] for at in range(OTHERS + 1)]


@dataclass(frozen=True)
class FileKind:
    """A kind of file: records as it has them, those to add one of, and how a file is made of some."""

    suffix: str
    records: list[Any]
    strange: list[Any]
    write: Callable[[Iterable[Any]], bytes]


def leak(path: Path, kind: FileKind, classes: tuple[Label, ...], features: int, read: Reader) -> str | None:
    def read_rows(records: list[Any]) -> list[bytes]:
        path.write_bytes(kind.write(records))
        found = read(path, classes, features)
        x = found.x if isinstance(found.x, np.ndarray) else found.x.toarray()
        return [row.tobytes() + label.tobytes() for row, label in zip(x, found.y, strict=True)]

    sound_one, *others = kind.records
    one = others[-1]
    try:
        before = read_rows(others)
        for one in others:
            if [row for row in read_rows([one]) if row not in before]:
                return f"a record of a {path.suffix} file, {one!r:.80}, is read otherwise alone than in company"
        for one in [sound_one, *kind.strange]:
            for at in (0, len(others) // 2, len(others)):
                after = read_rows([*others[:at], one, *others[at:]])
                if after != before and before not in [after[:k] + after[k + 1 :] for k in range(len(after))]:
                    return f"a record of a {path.suffix} file, {one!r:.80}, changes what is read of the others"
    except Exception as error:  # whatever it is, the record has caused it
        return f"a record of a {path.suffix} file, {one!r:.80}, stops the client with {type(error).__name__}"
    return None


def _csv(rows: list[Row]) -> FileKind:
    def line(cells: list[Any]) -> str:
        return ",".join(f'"{cell}"' if "," in str(cell) else str(cell) for cell in cells)

    values, label = rows[0]
    strange = [line([cell, *values[1:], label]) for cell in CELLS] + [line([*values, cell]) for cell in CELLS + LABELS]
    strange += [
        line(cells) for cells in ([label], [*values[1:], label], [*values, 1.0, label], [*values, *values, label])
    ]
    header = line([*(f"f{at}" for at in range(len(values))), "label"])
    return FileKind(".csv", [line([*x, y]) for x, y in rows], strange, lambda lines: text_file([header, *lines]))


def _libsvm(rows: list[Row]) -> FileKind:
    def line(label: Any, cells: list[Any]) -> str:
        return " ".join([str(label), *(f"{at}:{cell}" for at, cell in enumerate(cells, 1))])

    values, label = rows[0]
    strange = [line(label, [*values[:-1], cell]) for cell in CELLS] + [line(cell, values) for cell in CELLS + LABELS]
    return FileKind(
        ".txt", [line(y, x) for x, y in rows], [*strange, *_LINES, line(label, [*values, *values])], text_file
    )


def text_file(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _npz(rows: list[Row]) -> FileKind:
    def write(some: Iterable[Row]) -> bytes:
        file, (x, y) = io.BytesIO(), zip(*some, strict=True)
        np.savez(file, x=np.array(x), y=np.array(y))
        return file.getvalue()

    values, label = rows[0]
    strange: list[Row] = [([*values[:-1], number], label) for number in _NUMBERS]
    strange += [(values, other) for other in (*_NUMBERS, *LABELS)]
    return FileKind(".npz", rows, strange, write)
