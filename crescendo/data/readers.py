"""Files to matrices and raw labels: what each format means by a training and a test part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.data import cache, files, idx, libsvm, tables
from crescendo.data.known import MNIST, KnownFile, KnownSet, features_of
from crescendo.data.records import FloatArray, csr
from crescendo.data.tables import Raw
from crescendo.errors import ConfigError, DataError

_VERSION = 1  # of the parsed form in the cache
_OTHERS = {
    ".npy",
    ".parquet",
    ".json",
    ".jsonl",
    ".pkl",
    ".pickle",
    ".zip",
    ".tar",
    ".tsv",
    ".arff",
    ".h5",
    ".xlsx",
    ".mat",
}


def known_set(chosen: KnownSet, folder: Path | None) -> Raw:
    """A LIBSVM set by its name: checked against its checksum, with the number of features that it is known to have."""
    x, y = _known_file(chosen, chosen.train, folder)
    return Raw(x, y, None if chosen.test is None else _known_file(chosen, chosen.test, folder))


def _known_file(chosen: KnownSet, file: KnownFile, folder: Path | None) -> tuple[Any, FloatArray]:
    path = files.must_find(chosen.name, [file.name], folder)
    raw = files.read(path)
    return _libsvm(raw, path, files.verified(raw, path, file), chosen.features, file.content)


def _libsvm(
    raw: bytes, path: Path, content: Callable[[], bytes], features: int | None, verified: str | None
) -> tuple[Any, FloatArray]:
    def build() -> cache.Arrays:
        text = content()
        x, y = libsvm.parse(text, str(path), features or features_of(files.sha256(text)))
        return {"values": x.data, "indices": x.indices, "ends": x.indptr, "labels": y, "features": np.array(x.shape[1])}

    made = cache.cached("libsvm", (_VERSION, files.sha256(raw), path.suffix, features, verified), build)
    shape = len(made["labels"]), int(made["features"])
    return csr(made["values"], made["indices"], made["ends"], shape), made["labels"]


def libsvm_file(path: Path, features: int | None) -> Raw:
    """Any LIBSVM file; its test part is the file of the same name with ``.t`` added, if there is one beside it."""

    def part(at: Path) -> tuple[Any, FloatArray]:
        raw = files.read(at)
        return _libsvm(raw, at, lambda: files.unpack(raw, at), features, None)

    x, y = part(path)
    stem = path.name.removesuffix(path.suffix) if path.suffix in files.PACKED else path.name
    beside = files.find([f"{stem}.t"], path.parent)
    if beside is None:
        return Raw(x, y)
    x_test, y_test = part(beside)
    width = max(x.shape[1], x_test.shape[1])
    x.resize((x.shape[0], width))
    x_test.resize((x_test.shape[0], width))
    return Raw(x, y, (x_test, y_test))


def mnist(folder: Path | None) -> Raw:
    """MNIST by name, each file checked against its checksum."""

    def part(which: str) -> tuple[Any, Any]:
        contents = []
        for file in MNIST[which]:
            path = files.must_find("mnist", _spellings(file), folder)
            contents.append((path, files.verified(files.read(path), path, file)()))
        return _images(*contents)

    x, y = part("train")
    return Raw(x, y, part("test"))


def has_mnist(folder: Path | None) -> bool:
    return all(files.find(_spellings(file), folder) for pair in MNIST.values() for file in pair)


def _spellings(file: KnownFile) -> list[str]:
    return [file.name, file.name.replace("-idx", ".idx")]


def idx_file(path: Path) -> Raw:
    """Images in the layout of MNIST; labels, and a t10k test part, are found beside them by name."""

    def part(images: Path) -> tuple[Any, Any]:
        named = images.name.replace("images", "labels").replace("idx3", "idx1")
        labels = next((p for p in _packings(images.with_name(named)) if p.is_file()), None)
        if labels is None:
            raise DataError(f"{images} has no labels beside it; put {named} into the same folder")
        return _images(*((p, files.unpack(files.read(p), p)) for p in (images, labels)))

    test = next((p for p in _packings(path.with_name(path.name.replace("train", "t10k"))) if p.is_file()), None)
    return Raw(*part(path), part(test) if test is not None and test != path else None)


def _packings(path: Path) -> list[Path]:
    stem = path.name.removesuffix(path.suffix) if path.suffix in files.PACKED else path.name
    return [path, *(path.with_name(stem + suffix) for suffix in ("", *files.PACKED))]


def _images(images: tuple[Path, bytes], labels: tuple[Path, bytes]) -> tuple[Any, Any]:
    pixels, numbers = idx.parse(images[1], str(images[0]), 3), idx.parse(labels[1], str(labels[0]), 1)
    if len(pixels) != len(numbers):
        raise DataError(f"{images[0]} has {len(pixels)} images and {labels[0]} {len(numbers)} labels; they are no pair")
    return pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255), numbers


def columns(source: Path) -> list[str] | None:
    """The names in the header line of a csv; None for a file of another kind, and for a pipe, which can be read once only."""
    plain = source.with_suffix("") if source.suffix in files.PACKED else source
    if plain.suffix != ".csv" or not source.is_file():
        return None
    with files.opened(source) as content:
        return tables.header(content, str(source))


def path(source: Path, label: str | None, column: str | None, features: int | None) -> Raw:
    """A file of the user's own, read as the end of its name says; LIBSVM text if it says nothing."""
    plain = source.with_suffix("") if source.suffix in files.PACKED else source
    if source.is_dir():
        raise DataError(f"{source} is a folder; give a file, or a name such as a9a with this folder as data.folder")
    if plain.suffix in _OTHERS:
        raise DataError(
            f"{source} cannot be read: data files are LIBSVM text, .csv, .npz or IDX; save it as one of these"
        )
    if label is not None and plain.suffix != ".csv":
        raise ConfigError(f"data.label names the label column of a .csv, which {source} is not; leave it out")
    if features is not None and plain.suffix in (".csv", ".npz"):
        raise ConfigError(f"data.features is for LIBSVM files; the columns of {source} already say it, so leave it out")
    if plain.suffix == ".csv":
        return tables.read_csv(files.unpack(files.read(source), source), str(source), label, column)
    if plain.suffix == ".npz":
        return tables.read_npz(files.unpack(files.read(source), source), str(source))
    if "idx3-ubyte" in plain.name:
        return idx_file(source)
    return libsvm_file(source, features)
