"""npz files of a user's own: arrays x and y."""

import io
import math
import zipfile
import zlib

import numpy as np

from crescendo.core.arrays import Array
from crescendo.data.records import Raw
from crescendo.errors import DataError


def read_npz(content: bytes, name: str, leave_out: bool = False) -> Raw:
    """An npz with ``x`` and ``y`` (or ``x_train`` and ``y_train``), perhaps ``x_test`` and ``y_test``.

    Every other array with one value per record is a column to split by. Images are flattened to a row each. With ``leave_out``
    a record that is not finite is no reason to refuse the others, and every float is a float64, whatever else the array holds.
    """
    arrays = _npz_arrays(content, name)
    x, y = (_array(arrays, key, name) for key in ("x", "y"))
    test = (arrays.pop("x_test"), arrays.pop("y_test")) if {"x_test", "y_test"} <= set(arrays) else None
    columns = {key: column for key, column in arrays.items() if column.shape == y.shape}
    pair = _pair(x, y, name, ("x", "y"), leave_out)
    part = None if test is None else Raw(*_pair(*test, name, ("x_test", "y_test"), leave_out))
    return Raw(*pair, part, columns)


def _npz_arrays(content: bytes, name: str) -> dict[str, Array]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as entry:
            if not hasattr(entry, "files"):
                raise DataError(f"{name} holds one array; a data set needs an npz with x and y")
            arrays = {key: entry[key] for key in entry.files}
        return {key: array for key, array in arrays.items() if isinstance(array, np.ndarray)}
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise DataError(
                f"{name} holds Python objects, which are not loaded; save plain arrays of numbers"
            ) from error
        raise DataError(f"{name} is damaged: {error}; replace it by a whole copy") from error
    except (OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{name} is not a whole npz file ({error}); save it anew with numpy.savez") from error


def _array(arrays: dict[str, Array], key: str, name: str) -> Array:
    for alias in (key, f"{key}_train", key.upper()):
        if alias in arrays:
            return arrays.pop(alias)
    raise DataError(f"{name} has no array '{key}' (it has {', '.join(arrays) or 'none'}); save it with x=..., y=...")


def _pair(x: Array, y: Array, name: str, keys: tuple[str, str], leave_out: bool) -> tuple[Array, Array]:
    """Features and labels of equal length, a row of numbers for each label."""
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y):
        raise DataError(
            f"{name} has {keys[0]} of shape {x.shape} and {keys[1]} of shape {y.shape}; one row and one label each"
        )
    if x.dtype.kind not in "biuf" or not (leave_out or np.isfinite(x).all()):
        raise DataError(f"{keys[0]} in {name} must be finite numbers throughout")
    if y.dtype.kind not in "biufU":
        raise DataError(f"{keys[1]} in {name} must be numbers or texts, and it is of type {y.dtype}")
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    if not leave_out:
        return flat, y
    with np.errstate(over="ignore"):  # a number too large for float64 is infinite: its record is left out
        return flat.astype(np.float64), y
