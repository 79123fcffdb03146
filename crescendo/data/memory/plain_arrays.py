"""Conversion of arrays, tensors, lists, torch data sets and loaders to numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from crescendo.core.arrays import Array
from crescendo.errors import DataError


def as_array(values: Any) -> Array:
    """Return a numpy array; a tensor's memory is shared, a data frame's copied. A masked number becomes nan.

    >>> as_array(np.ma.masked_equal([1, -9], -9))
    array([ 1., nan])
    """
    if hasattr(values, "detach"):
        values = _plain_tensor(values.detach().cpu())
    if isinstance(values, np.ma.MaskedArray):
        return _without_mask(values)
    try:
        if hasattr(values, "iloc") and _has_nullable_numbers(values):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(values)
    except TypeError as error:
        raise DataError(f"x and y are arrays, and this {type(values).__name__} makes none: {error!s:.100}") from error
    except ValueError as error:
        raise DataError(
            "x and y are arrays, and all records have as many numbers; these are of several lengths"
        ) from error


def _has_nullable_numbers(frame: Any) -> bool:
    """Return whether a data frame has only numbers, some of pandas' own types, which numpy reads as objects."""
    kinds = list(getattr(frame, "dtypes", ())) if hasattr(frame, "columns") else []
    numbers = all(getattr(kind, "kind", "O") in "biuf" for kind in kinds)
    return numbers and not all(isinstance(kind, np.dtype) for kind in kinds)


def _plain_tensor(values: Any) -> Any:
    """Return a tensor that numpy can read: dense, and without types that only torch has."""
    dense = values if "strided" in str(values.layout) else values.to_dense()
    return dense.float() if str(dense.dtype) == "torch.bfloat16" else dense


def _without_mask(values: Any) -> Array:
    """Replace masked values by nan or None: they are meaningless, and the model must not learn from them."""
    if not np.ma.getmaskarray(values).any():
        return np.asarray(values.data)
    if values.dtype.kind in "biuf":
        return np.asarray(values.astype(np.float64).filled(np.nan))
    found = np.array(values.data, dtype=object)
    found[np.ma.getmaskarray(values)] = None
    return found


def arrays_of_pairs(pairs: Any) -> tuple[Array, Array]:
    """Read all records of a torch Dataset one by one, or of a DataLoader batch by batch."""
    try:
        batched = hasattr(pairs, "batch_size") and hasattr(pairs, "dataset")
        items = list(pairs) if batched else [pairs[k] for k in range(len(pairs))]
        xs, ys = zip(*((as_array(x), as_array(y)) for x, y in items), strict=True)
    except (TypeError, ValueError, KeyError):
        raise DataError(
            f"a {type(pairs).__name__} without labels is no data; pass x and y, a torch Dataset or DataLoader of pairs, or a "
            "list with a pair (x, y) of arrays for each client"
        ) from None
    join = np.concatenate if batched else np.stack
    return join(xs), join(ys)
