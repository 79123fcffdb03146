"""Download addresses of the known sets: the collection's own, or mirrors of a set that is no longer served."""

from dataclasses import dataclass

from crescendo.data.sets.known import MNIST, SETS, KnownFile

_LIBSVM = ("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/",)
_MNIST = ("https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/")
_PACKED_THERE = {".bz2": ("ijcnn1", "ijcnn1.t", "covtype.libsvm.binary.scale", "real-sim")}  # the others are plain text

_BYTES = {
    "a9a": 2_329_875,
    "a9a.t": 1_164_628,
    "w8a": 3_478_238,
    "w8a.t": 1_045_870,
    "phishing": 3_620_168,
    "ijcnn1": 7_744_897,
    "ijcnn1.t": 14_213_968,
    "covtype.libsvm.binary.scale": 71_183_474,
    "real-sim": 90_377_515,
    "train-images-idx3-ubyte": 47_040_016,
    "train-labels-idx1-ubyte": 60_008,
    "t10k-images-idx3-ubyte": 7_840_016,
    "t10k-labels-idx1-ubyte": 10_008,
}  # of each file, unpacked


@dataclass(frozen=True)
class Download:
    """A known file as it is served: its name there, its unpacked size in bytes, and the folders that have it."""

    file: KnownFile
    served_as: str
    size: int
    folders: tuple[str, ...]

    @property
    def transferred(self) -> str | None:
        """The sha256 of the bytes on the wire; None if only that of the unpacked content is known."""
        if self.served_as == self.file.name:
            return self.file.content
        return self.file.packed if self.served_as.endswith(".gz") and self.file.packed else None


def _libsvm(file: KnownFile) -> Download:
    ending = next((suffix for suffix, names in _PACKED_THERE.items() if file.name in names), "")
    return Download(file, file.name + ending, _BYTES[file.name], _LIBSVM)


def _mnist(file: KnownFile) -> Download:
    return Download(file, f"{file.name}.gz", _BYTES[file.name], _MNIST)


DOWNLOADS: dict[str, tuple[Download, ...]] = {
    **{
        name: tuple(_libsvm(file) for file in (known.train, known.test) if file is not None)
        for name, known in SETS.items()
    },
    "mnist": tuple(_mnist(file) for pair in MNIST.values() for file in pair),
}
"""The files of every set that `crescendo data get` knows, by the set's name."""
