"""Conversion of other libraries' tables to pandas data frames: Arrow tables, polars, Hugging Face data sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from crescendo.data.memory.frame_labels import with_joined_names
from crescendo.data.tables.table_files import is_frame
from crescendo.errors import DataError


def as_frame(values: Any) -> Any:
    """Convert another library's table to a pandas data frame; return any other value unchanged.

    >>> as_frame([1, 2])
    [1, 2]
    """
    if is_frame(values):
        return with_joined_names(values)
    if not _is_table(values):
        return values
    if hasattr(values, "collect"):
        raise DataError(f"a {type(values).__name__} has not been read yet; write x.collect() for x")
    try:
        import pandas
    except ModuleNotFoundError:
        raise DataError(
            f"a {type(values).__name__} of {_library(values)} is read by way of pandas; install it with pip install pandas"
        ) from None
    try:
        if hasattr(values, "__arrow_c_stream__"):
            import pyarrow

            found = pyarrow.table(values).to_pandas()
        else:
            found = values.to_pandas() if hasattr(values, "to_pandas") else None
    except ImportError:
        if not hasattr(values, "__dataframe__"):
            raise DataError(
                f"a {type(values).__name__} of {_library(values)} is read by way of pyarrow; install it with pip install "
                "'crescendo-fl[parquet]'"
            ) from None
        found = None
    if found is None and hasattr(values, "__dataframe__"):
        found = pandas.api.interchange.from_dataframe(values)
    return _with_pictures(values, found) if is_frame(found) else values


def _library(values: Any) -> str:
    return type(values).__module__.partition(".")[0]


def _is_table(values: Any) -> bool:
    """Return True for a table of named columns, judged by the protocols and names that such libraries share."""
    kind = type(values)
    if isinstance(values, type) or not (hasattr(kind, "column_names") or hasattr(kind, "columns")):
        return False
    return any(hasattr(kind, name) for name in ("__arrow_c_stream__", "__dataframe__", "to_pandas", "collect"))


def _with_pictures(values: Any, frame: Any) -> Any:
    """Replace columns of pictures by arrays: Arrow holds the bytes of a file, and Hugging Face decodes them."""
    features = getattr(values, "features", None)
    for name, kind in features.items() if isinstance(features, dict) else ():
        if type(kind).__name__ == "Image":
            frame[name] = [np.asarray(one) for one in values[name]]
    return frame


def stacked(frame: Any, label: str | None) -> Any:
    """Return a data frame's only feature column as one array if its cells are arrays, and otherwise the frame."""
    names = [name for name in frame.columns if name != label]
    cells = frame[names[0]].tolist() if len(names) == 1 and len(frame) else []
    if not cells or not all(isinstance(cell, list | np.ndarray) for cell in cells):
        return frame
    try:
        return np.stack([np.asarray(cell, dtype=np.float64) for cell in cells])
    except (TypeError, ValueError):
        raise DataError(
            f"the cells of the column '{names[0]!s:.60}' are lists of several lengths, or no numbers; make them equally long"
        ) from None
