"""Named source of records."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crescendo.data.records import Label, Raw


@dataclass(frozen=True)
class NamedSource:
    """A source of records with a name, its public facts and its reader.

    ``read`` takes the folder of data files, if there is one, and the share of records to hold out. ``classes`` are all labels
    that occur. ``norm_bound`` bounds the length of every record, if the source guarantees a bound.
    """

    name: str
    about: str
    rows: int | None
    features: int
    classes: tuple[Label, ...]
    comes_from: str
    read: Callable[[Path | None, float], Raw]
    own_test: bool = False
    here: Callable[[Path | None], bool] = lambda folder: True
    norm_bound: float | None = None
