"""From labels as written to classes: -1 and +1 for two, 0, 1, 2, ... for more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crescendo.data.records import Column, FloatArray, Label
from crescendo.errors import ConfigError, DataError

_MOST = 1000


def classes_of(labels: Column, name: str, wanted: Sequence[Label] | None) -> tuple[Label, ...]:
    """The classes of a data set in rising order: all that occur, or those of ``wanted``, which must occur.

    >>> classes_of(np.array([2.0, 1.0, 7.0]), "three", wanted=(7, 1))
    (1, 7)
    """
    found = tuple(_plain(value) for value in np.unique(labels))
    if wanted is not None:
        return _wanted(found, name, wanted)
    if len(found) < 2:
        raise DataError(f"every record of {name} has the label {found[0]}; training needs two classes")
    whole = all(isinstance(label, int | str) for label in found)
    if len(found) > _MOST or (len(found) > 2 and not whole):
        raise DataError(
            f"{name} has {len(found)} different labels, such as {found[0]} and {found[1]}, which are not classes; "
            "make them two values or whole numbers, or name another label column"
        )
    return found


def _plain(value: object) -> Label:
    """A label as a person writes it: 3 for 3.0."""
    if isinstance(value, str):
        return str(value)
    number = float(value)  # type: ignore[arg-type]  # np.unique gives numbers here
    return int(number) if number.is_integer() else number


def _wanted(found: tuple[Label, ...], name: str, wanted: Sequence[Label]) -> tuple[Label, ...]:
    if len(set(wanted)) < 2:
        raise ConfigError(f"data.classes must name at least two classes, got {list(wanted)}")
    absent = [label for label in wanted if label not in found]
    if absent:
        some = ", ".join(str(label) for label in found[:12]) + (", ..." if len(found) > 12 else "")
        raise ConfigError(f"data.classes asks for {absent[0]}, but the labels of {name} are {some}")
    return tuple(label for label in found if label in wanted)


def encode(labels: Column, classes: tuple[Label, ...], name: str) -> FloatArray:
    """Class numbers of labels that are all among ``classes``.

    >>> encode(np.array([2, 1, 2]), (1, 2), "three")
    array([ 1., -1.,  1.])
    """
    known = np.array(classes, dtype=labels.dtype if labels.dtype.kind == "U" else np.float64)
    place = np.minimum(np.searchsorted(known, labels), len(known) - 1)
    strange = np.flatnonzero(known[place] != labels)
    if len(strange):
        raise DataError(f"{name} has the label {_plain(labels[strange[0]])}, which its training part never has")
    return 2.0 * place - 1.0 if len(classes) == 2 else place.astype(np.float64)


def values_of(classes: int) -> tuple[float, ...]:
    """What `encode` makes of the labels of so many classes.

    >>> values_of(2), values_of(3)
    ((-1.0, 1.0), (0.0, 1.0, 2.0))
    """
    return (-1.0, 1.0) if classes == 2 else tuple(float(place) for place in range(classes))


def kept(labels: Column, classes: tuple[Label, ...]) -> Column:
    """Which records have one of the classes."""
    return np.isin(labels, np.array(classes))
