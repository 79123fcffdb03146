"""Public sets read from a folder of data files: LIBSVM sets and MNIST, each file verified by its checksum."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from crescendo.data.formats.readers import RecordFile
from crescendo.data.records import Raw
from crescendo.data.sets.known import MNIST, SETS, KnownFile, KnownSet
from crescendo.data.sets.named_source import NamedSource


def _read_libsvm(chosen: KnownSet, folder: Path | None, test: float) -> Raw:
    """Read a LIBSVM set with its known number of features."""

    def part(known: KnownFile) -> Raw:
        file = RecordFile.must_find(chosen.name, [known.name], folder)
        file.check(known)
        return file.libsvm(chosen.features, known.content)

    return replace(part(chosen.train), test=None if chosen.test is None else part(chosen.test))


def _has_libsvm(chosen: KnownSet, folder: Path | None) -> bool:
    return all(RecordFile.find([file.name], folder) for file in (chosen.train, chosen.test) if file is not None)


def _read_mnist(folder: Path | None, test: float) -> Raw:
    def part(which: str) -> Raw:
        images, labels = (RecordFile.must_find("mnist", _spellings(known), folder) for known in MNIST[which])
        for file, known in zip((images, labels), MNIST[which], strict=True):
            file.check(known)
        return images.pictures(labels)

    return replace(part("train"), test=part("test"))


def _has_mnist(folder: Path | None) -> bool:
    return all(RecordFile.find(_spellings(file), folder) for pair in MNIST.values() for file in pair)


def _spellings(file: KnownFile) -> list[str]:
    return [file.name, file.name.replace("-idx", ".idx")]


def _how(name: str) -> str:
    return f"crescendo data get {name}"


def _libsvm_source(chosen: KnownSet) -> NamedSource:
    """Return the source of a known LIBSVM set."""
    return NamedSource(
        chosen.name,
        chosen.about,
        chosen.rows,
        chosen.features,
        chosen.classes,
        _how(chosen.name),
        partial(_read_libsvm, chosen),
        own_test=chosen.test is not None,
        here=partial(_has_libsvm, chosen),
    )


_MNIST = NamedSource(
    "mnist",
    "handwritten digits",
    60_000,
    784,
    tuple(range(10)),
    _how("mnist"),
    _read_mnist,
    own_test=True,
    here=_has_mnist,
)
SOURCES = (*map(_libsvm_source, SETS.values()), _MNIST)
