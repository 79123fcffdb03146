"""Example records that an audit starts from: given, read from a file, or made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from crescendo_dp.arrays import Array
from crescendo_dp.errors import ConfigError, DataError

_SHAPE = (20, 5)  # of the records that are made up
_MOST_NUMBERS = 10**8


def example_records(own: Any = None, file: Path | None = None, shape: str | None = None) -> Array:
    """Return the records of ``file``, made-up ones of ``shape``, or a mechanism's ``own``.

    >>> example_records(shape="3,2").shape, example_records([[1.0], [2.0]]).shape
    ((3, 2), (2, 1))
    """
    if file is not None:
        data, where = _read(file), str(file)
    elif shape is not None or own is None:
        return _made_up(_shape(shape) if shape is not None else _SHAPE)
    else:
        data, where = _array(own, "records of the mechanism"), "the mechanism's records"
    if data.ndim == 0 or not data.size:
        raise DataError(f"{where}: there are none; an array with a row for each record is needed")
    return data


def example_canaries(own: Any, records: Array) -> list[Array] | None:
    """Return a mechanism's ``own`` canaries as records like ``records``; None where it has none."""
    if own is None:
        return None
    canaries = _array(own, "canaries of the mechanism")
    if canaries.ndim != records.ndim or canaries.shape[1:] != records.shape[1:] or not len(canaries):
        raise DataError(
            f"canaries have shape {canaries.shape} where records have {records.shape}; give a row for each canary"
        )
    return list(canaries.astype(records.dtype))


def _made_up(shape: tuple[int, ...]) -> Array:
    """Their mean is not 0, so that their sum has a direction."""
    return np.random.Generator(np.random.Philox(0)).standard_normal(shape) + 0.5


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1 or np.prod(shape, dtype=float) > _MOST_NUMBERS:
        raise ConfigError(f"--shape is a number of records and the shape of each, like 20,5, not {text!r}")
    return shape


def _array(value: Any, what: str) -> Array:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise ValueError
    except (TypeError, ValueError):
        raise DataError(f"the {what} are not an array of finite numbers") from None
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def _read(path: Path) -> Array:
    """An .npy or .npz file, or a table of numbers with or without a first line of names."""
    try:
        if path.suffix == ".npy":
            return _array(np.load(path, allow_pickle=False), f"records of {path}")
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return _array(_of_npz(dict(arrays), path), f"records of {path}")
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        table = [line.replace(",", " ").split() for line in lines]
        if table and any(not _is_number(word) for word in table[0]):
            table = table[1:]
        return _array([[float(word) for word in row] for row in table], f"records of {path}")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; name an .npz, .npy or .csv file with the records") from None
    except DataError:
        raise
    except Exception as error:  # numpy raises what it likes for files that are something else
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"{path} is not a table of numbers, nor an .npz or .npy file of them") from None


def _of_npz(arrays: dict[str, Array], path: Path) -> Array:
    if "records" in arrays:
        return arrays["records"]
    if "x" in arrays:
        x = arrays["x"]
        return np.column_stack([x.reshape(len(x), -1), arrays["y"]]) if "y" in arrays else x
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise DataError(f"{path} has {', '.join(arrays)}; name the array of records records, or x with labels y")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
