"""Arrays, tensors, lists, torch data sets and loaders as arrays of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from crescendo.core.arrays import Array
from crescendo.errors import DataError


def as_array(values: Any) -> Array:
    """As a numpy array; a tensor's numbers are shared, a data frame's copied."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise DataError(
            "x and y are arrays, and all records have as many numbers; these are of several lengths"
        ) from error


def arrays_of_pairs(pairs: Any) -> tuple[Array, Array]:
    """All records of a torch Dataset, one by one, or of a DataLoader, batch by batch."""
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
