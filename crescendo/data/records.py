"""Records of numbers with a label each, and the data set that they form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import xxhash

from crescendo.core.arrays import Array, Bools, Floats
from crescendo.errors import DataError

if TYPE_CHECKING:  # scipy is loaded with the first sparse matrix, not by this module
    from scipy.sparse import csr_array

    from crescendo.data.scaling import Scaling
    from crescendo.data.tables.feature_schema import Schema

Column: TypeAlias = Array
Label: TypeAlias = float | int | str


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """Records as rows of ``x`` with one label each in ``y``. Their repr shows how many there are, but no values.

    ``x`` is a C-contiguous float array or a `scipy.sparse.csr_array` with int32 indices, the two layouts that the compiled
    kernels read; `as_records` converts any other matrix.

    >>> data = Records(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([-1.0, 1.0]))
    >>> len(data), data.features, data.take(np.array([1])).y, data
    (2, 2, array([1.]), Records(2 records of 2 features))
    """

    x: Array | csr_array
    y: Floats
    shape: tuple[int, ...] = ()  # of one record, if it is more than a row of features, such as an image

    def __post_init__(self) -> None:
        if self.shape and math.prod(self.shape) != self.x.shape[-1]:
            raise DataError(f"records of shape {self.shape} do not have {self.x.shape[-1]} features")
        if self.x.ndim != 2 or self.y.ndim != 1 or self.x.shape[0] != self.y.shape[0]:
            raise DataError(
                f"x of shape {self.x.shape} and y of shape {self.y.shape} are not records with a label each"
            )
        if self.y.dtype != np.float64 or self.x.dtype not in (np.float64, np.float32):
            raise DataError(f"records need float64 labels and float features, got {self.y.dtype} and {self.x.dtype}")
        if isinstance(self.x, np.ndarray):
            if not self.x.flags.c_contiguous:
                raise DataError("records need x in C order; pass np.ascontiguousarray(x)")
        elif self.x.format != "csr" or self.x.indices.dtype != np.int32:
            raise DataError("sparse records need a csr_array with int32 indices; use crescendo.data.as_records")

    def __repr__(self) -> str:
        return f"Records({len(self):,} records of {self.features:,} features)"

    @property
    def sparse(self) -> bool:
        return not isinstance(self.x, np.ndarray)

    @property
    def features(self) -> int:
        return int(self.x.shape[1])

    def __len__(self) -> int:
        return int(self.y.shape[0])

    def take(self, rows: Array) -> Records:
        """Return a copy of the records of ``rows`` (numbers or a mask), in that order."""
        return replace(as_records(self.x[rows], self.y[rows]), shape=self.shape)

    def fingerprint(self) -> str:
        """Return a hash of all numbers, their positions and the shape of a record: it depends on the records and their order."""
        x: Any = self.x
        arrays = (x, self.y) if isinstance(x, np.ndarray) else (x.data, x.indices, x.indptr, self.y)
        hashed = xxhash.xxh3_128(repr((self.shape, [(array.dtype.str, array.shape) for array in arrays])).encode())
        for array in arrays:
            hashed.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return hashed.hexdigest()

    def squared_lengths(self, intercept: bool) -> Floats:
        """Return |(x, 1)|^2 of every record; |x|^2 without an intercept."""
        x: Any = self.x
        if isinstance(x, np.ndarray):
            return np.asarray(np.einsum("ij,ij->i", x, x, dtype=np.float64)) + float(intercept)
        squares = np.zeros(x.shape[0])
        np.add.at(squares, np.repeat(np.arange(x.shape[0]), np.diff(x.indptr)), x.data.astype(np.float64) ** 2)
        return squares + float(intercept)


def as_records(x: Any, y: npt.ArrayLike) -> Records:
    """Return records from any dense or sparse matrix: float32 stays, every other number becomes float64.

    >>> as_records([[1, 2]], [1]).x.dtype
    dtype('float64')
    """
    labels = np.ascontiguousarray(y, dtype=np.float64)
    if hasattr(x, "tocsr"):
        return Records(_csr(x), labels)
    x = np.asarray(x)
    return Records(np.ascontiguousarray(x, dtype=np.float32 if x.dtype == np.float32 else np.float64), labels)


def csr(values: Array, indices: Array, ends: Array, shape: tuple[int, int]) -> csr_array:
    """Return a sparse matrix from its three arrays, with the int32 indices that the kernels read."""
    from scipy.sparse import csr_array

    if len(values) > np.iinfo(np.int32).max:
        raise DataError(f"a matrix of {len(values):,} numbers is too large for int32 indices; split the file")
    narrow = indices.astype(np.int32, copy=False), ends.astype(np.int32, copy=False)
    return csr_array((values, *narrow), shape=shape)


def _csr(x: Any) -> csr_array:
    x = x.tocsr()
    values = x.data if x.data.dtype in (np.float64, np.float32) else x.data.astype(np.float64)
    return csr(values, x.indices, x.indptr, x.shape)


def finite_rows(x: Array | csr_array) -> Bools:
    """Return a mask of the rows of a dense or sparse matrix that have only finite numbers.

    >>> finite_rows(np.array([[1.0, np.nan], [2.0, 3.0]]))
    array([False,  True])
    """
    if isinstance(x, np.ndarray):
        return np.asarray(np.isfinite(x).all(axis=1))
    finite, rows = np.ones(x.shape[0], dtype=np.bool_), np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    finite[rows[~np.isfinite(x.data)]] = False
    return finite


@dataclass(frozen=True, eq=False, repr=False)
class Raw:
    """Records as a reader found them, before labels become classes: ``y`` holds labels as written (numbers or text).

    ``unreadable`` counts the lines that were left out because they are not records, by a rule on each line alone. ``schema``
    turned a table's columns into features; with ``looked`` it was drafted from these records. ``names`` are columns that are
    features unchanged. ``notes`` are for the user.
    """

    x: Any
    y: Column
    test: Self | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    in_test: Bools | None = None  # records that a rule of the source puts in the test part
    unreadable: int = 0
    schema: Schema | None = None
    looked: bool = False
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Raw({len(self):,} records)"

    def __len__(self) -> int:
        return int(self.y.shape[0])

    def take(self, rows: Bools) -> Self:
        """Return only the records of ``rows``, with the test part unchanged."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        in_test = None if self.in_test is None else self.in_test[rows]
        return replace(self, x=self.x[rows], y=self.y[rows], columns=columns, in_test=in_test)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set ready to be split over clients. Its repr shows no values of its records.

    Labels are class numbers 0, 1, 2, ...: the position of the raw label in ``classes``.
    ``columns`` has one value per training record, for ``split = "column:NAME"``.
    ``optimum`` is the exact minimiser over the training part if the source knows it (intercept last).
    ``norm_bound`` is a bound on the norm of every record without the intercept; the source enforces it.
    ``left_out`` counts training records without a requested class and, in a private run, lines that are not a record.
    ``schema`` turned a table's columns into features; with ``looked`` it was drafted from these records and reveals them, so no
    run on them can be private. ``names`` are a table's columns in the order of the features, if they are features unchanged; a
    new table is read by them. ``scaling`` was applied to the features. With ``counted`` the classes were read off these records.
    ``client_column`` names the column of each record's client, if the records came with one. ``notes`` are for the user.
    """

    name: str
    train: Records
    test: Records | None
    classes: tuple[Label, ...]
    columns: dict[str, Column] = field(default_factory=dict)
    optimum: Floats | None = None
    norm_bound: float | None = None
    left_out: int = 0
    schema: Schema | None = None
    looked: bool = False
    counted: bool = False
    names: tuple[str, ...] = ()
    scaling: Scaling | None = None
    notes: tuple[str, ...] = ()
    client_column: str | None = None

    def __post_init__(self) -> None:
        if not len(self.train):
            raise DataError(f"{self.name} has no training records; ask for a smaller test part or other classes")
        if self.test is not None and self.test.features != self.train.features:
            raise DataError(
                f"{self.name} has {self.train.features} features in its training part and {self.test.features} in its "
                "test part; give the number of features"
            )
        if self.classes and (self.train.y == -1.0).any():
            raise DataError(
                f"the labels of {self.name} are not class numbers from 0 on; make it with crescendo.dataset(x, y)"
            )
        for name, column in self.columns.items():
            if len(column) != len(self.train):
                raise DataError(f"column {name} has {len(column)} values for {len(self.train)} training records")

    def __repr__(self) -> str:
        test = "none" if self.test is None else f"{len(self.test):,}"
        return (
            f"Dataset({self.name!r}: {len(self.train):,} training records, {test} for testing, {self.features:,} features, "
            f"{len(self.classes):,} classes)"
        )

    @property
    def stated(self) -> tuple[Label, ...] | None:
        """The classes, unless they were read off the records."""
        return None if self.counted else self.classes

    @property
    def features(self) -> int:
        return self.train.features
