"""Files to matrices and raw labels: what each format means by a training and a test part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data import cache
from crescendo.data.formats import csv as csv_table
from crescendo.data.formats import files, idx, libsvm
from crescendo.data.formats import npz as npz_file
from crescendo.data.records import Raw, csr
from crescendo.data.sets.known import features_of
from crescendo.errors import ConfigError, DataError

_VERSION = 1  # of the parsed form in the cache
_KINDS = (  # of files that people have and that are none of ours
    "npy parquet feather arrow orc avro json jsonl yaml toml xml html md pkl pickle zip 7z rar tar tgz zst tsv arff h5 hdf5 xls "
    "xlsx ods doc docx pdf mat rds dta sav sas7bdat db sqlite sqlite3 pt pth onnx safetensors jpg jpeg png gif tif tiff bmp webp "
    "mp3 mp4 wav py so dll exe bin"
)
_OTHERS = {f".{kind}" for kind in _KINDS.split()}


def cached_libsvm(
    raw: bytes, path: Path, content: Callable[[], bytes], features: int | None, verified: str | None
) -> tuple[Any, Floats]:
    def build() -> cache.Arrays:
        text = content()
        x, y = libsvm.parse(text, str(path), features or features_of(files.sha256(text)))
        return {"values": x.data, "indices": x.indices, "ends": x.indptr, "labels": y, "features": np.array(x.shape[1])}

    made = cache.cached("libsvm", (_VERSION, files.sha256(raw), path.suffix, features, verified), build)
    shape = len(made["labels"]), int(made["features"])
    return csr(made["values"], made["indices"], made["ends"], shape), made["labels"]


def _libsvm_file(path: Path, features: int | None, leave_out: bool = False, test: bool = True) -> Raw:
    """Any LIBSVM file; its test part is the file of the same name with ``.t`` added, if there is one beside it.

    With ``leave_out`` nothing of it is kept in the cache, which is no place for somebody's records.
    """

    def part(at: Path) -> tuple[Any, Floats, int]:
        raw = files.read(at)
        if not leave_out:
            return *cached_libsvm(raw, at, lambda: files.unpack(raw, at), features, None), 0
        assert features is not None
        return libsvm.parse_each(files.unpack(raw, at), features)

    if leave_out and features is None:
        raise ConfigError(
            f"data.features is missing; {path} is a LIBSVM file, and in a private run no record may decide how many there are"
        )
    x, y, unreadable = part(path)
    stem = path.name.removesuffix(path.suffix) if path.suffix in files.PACKED else path.name
    beside = files.find([f"{stem}.t"], path.parent) if test else None
    if beside is None:
        return Raw(x, y, unreadable=unreadable)
    x_test, y_test, _ = part(beside)
    width = max(x.shape[1], x_test.shape[1])
    x.resize((x.shape[0], width))
    x_test.resize((x_test.shape[0], width))
    return Raw(x, y, (x_test, y_test), unreadable=unreadable)


def _idx_file(path: Path, test: bool = True) -> Raw:
    """Images in the layout of MNIST; labels, and a t10k test part, are found beside them by name."""

    def part(images: Path) -> tuple[Any, Any]:
        named = images.name.replace("images", "labels").replace("idx3", "idx1")
        labels = next((p for p in _packings(images.with_name(named)) if p.is_file()), None)
        if labels is None:
            raise DataError(f"{images} has no labels beside it; put {named} into the same folder")
        return pictures(*((p, files.unpack(files.read(p), p)) for p in (images, labels)))

    beside = next((p for p in _packings(path.with_name(path.name.replace("train", "t10k"))) if p.is_file()), None)
    return Raw(*part(path), part(beside) if test and beside is not None and beside != path else None)


def _packings(path: Path) -> list[Path]:
    stem = path.name.removesuffix(path.suffix) if path.suffix in files.PACKED else path.name
    return [path, *(path.with_name(stem + suffix) for suffix in ("", *files.PACKED))]


def pictures(images: tuple[Path, bytes], labels: tuple[Path, bytes]) -> tuple[Any, Any]:
    pixels, numbers = idx.parse(images[1], str(images[0]), 3), idx.parse(labels[1], str(labels[0]), 1)
    if len(pixels) != len(numbers):
        raise DataError(f"{images[0]} has {len(pixels)} images and {labels[0]} {len(numbers)} labels; they are no pair")
    return pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255), numbers


def kind_of(source: Path) -> str:
    """What a file is read as, by its name alone.

    >>> kind_of(Path("mine.CSV.gz")), kind_of(Path("train-images-idx3-ubyte")), kind_of(Path("a9a.t"))
    ('csv', 'idx', 'libsvm')
    """
    plain = source.with_suffix("") if source.suffix in files.PACKED else source
    suffix = plain.suffix.lower()
    if source.is_dir():
        raise DataError(f"{source} is a folder; give a file, or a name such as a9a with this folder as data.folder")
    if suffix in _OTHERS:
        raise DataError(
            f"{source} cannot be read: data files are LIBSVM text, .csv, .npz or IDX; save it as one of these"
        )
    if suffix in (".csv", ".npz"):
        return suffix[1:]
    return "idx" if "idx3-ubyte" in plain.name else "libsvm"


def columns(source: Path) -> list[str] | None:
    """The names in the header line of a csv; None for a file of another kind, and for a pipe, which can be read once only."""
    if not source.is_file() or kind_of(source) != "csv":
        return None
    with files.opened(source) as content:
        return csv_table.header(content, str(source))


def path(
    source: Path,
    label: str | None,
    column: str | None,
    features: int | None,
    *,
    leave_out: bool = False,
    test: bool = True,
) -> Raw:
    """A file of the user's own, read as the end of its name says; LIBSVM text if it says nothing.

    With ``leave_out`` each record is judged alone, by what the file's name, its header and the options say: one that does not
    fit is left out and counted. Without ``test`` no test part is looked for beside the file.
    """
    kind = kind_of(source)
    if label is not None and kind != "csv":
        raise ConfigError(f"data.label names the label column of a .csv, which {source} is not; leave it out")
    if features is not None and kind != "libsvm":
        raise ConfigError(f"data.features is for LIBSVM files; the columns of {source} already say it, so leave it out")
    if kind == "csv":
        return csv_table.read_csv(files.unpack(files.read(source), source), str(source), label, column, leave_out)
    if kind == "npz":
        return npz_file.read_npz(files.unpack(files.read(source), source), str(source), leave_out)
    return _idx_file(source, test) if kind == "idx" else _libsvm_file(source, features, leave_out, test)
