"""Labels of a data frame: one of its columns, whatever the type of its name, or a series in the order of the records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from crescendo.errors import DataError


def joined_name(name: Any) -> Any:
    """Return a column name of several levels as one text, and any other name unchanged.

    >>> joined_name(("person", "age", "")), joined_name(3)
    ('person age', 3)
    """
    return " ".join(text for part in name if (text := str(part).strip())) if isinstance(name, tuple) else name


def with_joined_names(frame: Any) -> Any:
    """Return the data frame with column names of one level."""
    if getattr(frame.columns, "nlevels", 1) == 1:
        return frame
    return frame.set_axis([joined_name(name) for name in frame.columns], axis=1)


def labelled_by_name(frame: Any, labels: Any) -> tuple[Any, Any]:
    """Return the data frame and its labels, naming a label column by a text; separate labels must be in the frame's order."""
    if isinstance(labels, tuple) and all(isinstance(part, str) for part in labels) and len(labels) != len(frame):
        return frame, joined_name(labels)
    if isinstance(labels, int | np.integer) and not isinstance(labels, bool):
        return with_text_name(frame, str(labels)), str(labels)
    _check_order(frame, labels)
    return frame, labels


def with_text_name(frame: Any, name: str) -> Any:
    """Rename a column that is named by a number to that number as a text.

    >>> import pandas
    >>> with_text_name(pandas.DataFrame({3: [0.5], 4: ["a"]}), "4").columns.tolist()
    [3, '4']
    """
    if name in frame.columns:
        return frame
    return frame.rename(columns={one: name for one in frame.columns if not isinstance(one, str) and str(one) == name})


def about_index(frame: Any) -> Iterator[str]:
    """Warn of a column that became the index and so is not a feature; a unique index only counts records and is fine.

    >>> import pandas
    >>> frame = pandas.DataFrame({"city": ["Oslo", "Rome", "Oslo"], "age": [3, 4, 5]})
    >>> list(about_index(frame.set_index("city"))), list(about_index(frame.set_index("age")))
    (["the index of x, 'city', is no feature; x.reset_index() makes it a column"], [])
    """
    names = [str(name) for name in frame.index.names if name is not None]
    if names and not frame.index.is_unique:
        yield f"the index of x, {', '.join(repr(name) for name in names)}, is no feature; x.reset_index() makes it a column"


def _check_order(frame: Any, labels: Any) -> None:
    """Refuse a series with the frame's index in another order: matching labels to records would be a guess."""
    theirs = getattr(labels, "index", None)
    if callable(theirs) or theirs is None or len(theirs) != len(frame) or frame.index.equals(theirs):
        return
    if frame.index.is_unique and theirs.is_unique and frame.index.sort_values().equals(theirs.sort_values()):
        raise DataError(
            "the index of y has the rows of x in another order, so that labels would go to other records; write "
            "y.loc[x.index], or y.to_numpy() if y is in order as it stands"
        )
