"""Files to matrices and raw labels: what each format means by a training and a test part."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from crescendo.data import cache
from crescendo.data.formats import csv as csv_table
from crescendo.data.formats import idx, libsvm
from crescendo.data.formats import npz as npz_file
from crescendo.data.formats.files import DataFile, sha256
from crescendo.data.records import Raw, csr
from crescendo.data.sets.known import SETS
from crescendo.errors import ConfigError, DataError

_VERSION = 1  # of the parsed form in the cache
_KINDS = (  # of files that people have and that are none of ours
    "npy parquet feather arrow orc avro json jsonl yaml toml xml html md pkl pickle zip 7z rar tar tgz zst tsv arff h5 hdf5 xls "
    "xlsx ods doc docx pdf mat rds dta sav sas7bdat db sqlite sqlite3 pt pth onnx safetensors jpg jpeg png gif tif tiff bmp webp "
    "mp3 mp4 wav py so dll exe bin"
)
_OTHERS = {f".{kind}" for kind in _KINDS.split()}


class RecordFile(DataFile):
    """A file of records, read as the end of its name says; LIBSVM text if it says nothing."""

    @property
    def kind(self) -> str:
        """What it is read as, by its name alone.

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
                f"{self.path} cannot be read: data files are LIBSVM text, .csv, .npz or IDX; save it as one of these"
            )
        if suffix in (".csv", ".npz"):
            return suffix[1:]
        return "idx" if "idx3-ubyte" in self.name else "libsvm"

    def columns(self) -> list[str] | None:
        """The names in the header line of a csv; None for a file of another kind, and for a pipe, which can be read only once."""
        if not self.path.is_file() or self.kind != "csv":
            return None
        with self.opened() as content:
            return csv_table.header(content, str(self.path))

    def read(
        self,
        label: str | None,
        column: str | None,
        features: int | None,
        *,
        leave_out: bool = False,
        test: bool = True,
    ) -> Raw:
        """The records of a file of the user's own.

        With ``leave_out`` each record is judged alone, by what the file's name, its header and the options say: one that does
        not fit is left out and counted. Without ``test`` no test part is looked for beside the file.
        """
        kind, path = self.kind, self.path
        if label is not None and kind != "csv":
            raise ConfigError(f"data.label names the label column of a .csv, which {path} is not; leave it out")
        if features is not None and kind != "libsvm":
            raise ConfigError(
                f"data.features is for LIBSVM files; the columns of {path} already say it, so leave it out"
            )
        if kind == "csv":
            return csv_table.read_csv(self.content, str(path), label, column, leave_out)
        if kind == "npz":
            return npz_file.read_npz(self.content, str(path), leave_out)
        return self._idx(test) if kind == "idx" else self._libsvm(features, leave_out, test)

    def libsvm(self, features: int | None, verified: str | None = None) -> Raw:
        """The records of LIBSVM text, kept in the cache; ``verified`` is the sha256 that its content was found to have."""

        def build() -> cache.Arrays:
            x, y = libsvm.parse(self.content, str(self.path), features or _features_of(sha256(self.content)))
            arrays = {"values": x.data, "indices": x.indices, "ends": x.indptr}
            return {**arrays, "labels": y, "features": np.array(x.shape[1])}

        made = cache.cached("libsvm", (_VERSION, sha256(self.raw), self.path.suffix, features, verified), build)
        shape = len(made["labels"]), int(made["features"])
        return Raw(csr(made["values"], made["indices"], made["ends"], shape), made["labels"])

    def pictures(self, labels: DataFile) -> Raw:
        """Images with their labels, and pixels from 0 to 1."""
        pixels, numbers = idx.parse(self.content, str(self.path), 3), idx.parse(labels.content, str(labels.path), 1)
        if len(pixels) != len(numbers):
            raise DataError(
                f"{self.path} has {len(pixels)} images and {labels.path} {len(numbers)} labels; they are no pair"
            )
        return Raw(pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255), numbers)

    def _libsvm(self, features: int | None, leave_out: bool, test: bool) -> Raw:
        """Any LIBSVM file; its test part is the file of the same name with ``.t`` added, if there is one beside it.

        With ``leave_out`` nothing of it is kept in the cache, which is no place for somebody's records.
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
        """Images in the layout of MNIST; labels, and a t10k test part, are found beside them by name."""

        def part(images: RecordFile) -> Raw:
            named = images.path.name.replace("images", "labels").replace("idx3", "idx1")
            labels = images.beside(named)
            if labels is None:
                raise DataError(f"{images.path} has no labels beside it; put {named} into the same folder")
            return images.pictures(labels)

        beside = self.beside(self.path.name.replace("train", "t10k")) if test else None
        return replace(part(self), test=part(beside) if beside is not None and beside.path != self.path else None)


def _features_of(content: str) -> int | None:
    """The feature count of a LIBSVM file given by path, if the sha256 of its content is a known one."""
    for known in SETS.values():
        if content in (known.train.content, known.test and known.test.content):
            return known.features
    return None
