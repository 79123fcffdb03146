"""Public sets by name, out of a folder of data files: LIBSVM sets and MNIST, each file checked against its checksum."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from crescendo.core.arrays import Floats
from crescendo.data.formats import files, readers
from crescendo.data.records import Raw
from crescendo.data.sets.known import MNIST, SETS, KnownFile, KnownSet
from crescendo.data.sets.named_source import NamedSource

_FOLDER = "a data folder"


def _read_libsvm(chosen: KnownSet, folder: Path | None, test: float) -> Raw:
    """A LIBSVM set, with the number of features that it is known to have."""
    x, y = _part(chosen, chosen.train, folder)
    return Raw(x, y, None if chosen.test is None else _part(chosen, chosen.test, folder))


def _part(chosen: KnownSet, file: KnownFile, folder: Path | None) -> tuple[Any, Floats]:
    path = files.must_find(chosen.name, [file.name], folder)
    raw = files.read(path)
    return readers.cached_libsvm(raw, path, files.verified(raw, path, file), chosen.features, file.content)


def _has_libsvm(chosen: KnownSet, folder: Path | None) -> bool:
    return all(files.find([file.name], folder) for file in (chosen.train, chosen.test) if file is not None)


def _read_mnist(folder: Path | None, test: float) -> Raw:
    def part(which: str) -> tuple[Any, Any]:
        contents = []
        for file in MNIST[which]:
            path = files.must_find("mnist", _spellings(file), folder)
            contents.append((path, files.verified(files.read(path), path, file)()))
        return readers.pictures(*contents)

    x, y = part("train")
    return Raw(x, y, part("test"))


def _has_mnist(folder: Path | None) -> bool:
    return all(files.find(_spellings(file), folder) for pair in MNIST.values() for file in pair)


def _spellings(file: KnownFile) -> list[str]:
    return [file.name, file.name.replace("-idx", ".idx")]


def libsvm_source(chosen: KnownSet) -> NamedSource:
    """A LIBSVM set whose files are known."""
    return NamedSource(
        chosen.name,
        chosen.about,
        chosen.rows,
        chosen.features,
        chosen.classes,
        _FOLDER,
        partial(_read_libsvm, chosen),
        own_test=chosen.test is not None,
        here=partial(_has_libsvm, chosen),
    )


_MNIST = NamedSource(
    "mnist", "handwritten digits", 60_000, 784, tuple(range(10)), _FOLDER, _read_mnist, own_test=True, here=_has_mnist
)
SOURCES = (*map(libsvm_source, SETS.values()), _MNIST)
