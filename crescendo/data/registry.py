"""Registry of named sources: their public facts and their readers.

The public facts are constants of the code, never counted from records: a private run takes its classes from here or from the
run file. A new source is one `NamedSource` in a file of `sets` and one line at the end of this file, or one call of `register`
from outside the package; loading, `crescendo data list` and error messages follow from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crescendo.data.formats.files import data_folder
from crescendo.data.labels import Classes
from crescendo.data.records import Label
from crescendo.data.sets import bundled, flights, from_folder
from crescendo.data.sets.named_source import NamedSource
from crescendo.errors import ConfigError, UsageError

SYNTHETIC = "synthetic"  # takes options in its name, and knows its minimiser: see `sets.synthetic`


SOURCES: dict[str, NamedSource] = {}


def register(*sources: NamedSource) -> None:
    """Register sources by their names; refuse a name that is taken."""
    for source in sources:
        if source.name in SOURCES or source.name == SYNTHETIC:
            raise UsageError(f"there is a data source called {source.name!r} already; choose another name")
        SOURCES[source.name] = source


def stated_classes(source: str, wanted: Sequence[Label] | None) -> tuple[Label, ...]:
    """Return the classes of a private run, in rising order: those named, otherwise the source's public ones.

    >>> stated_classes("digits", (8, 3)), stated_classes("mine.csv", ("yes", "no"))
    ((3, 8), ('no', 'yes'))
    """
    found = _public_classes(source)
    if wanted is not None:
        return Classes.stated(wanted) if found is None else Classes(found).among(source, wanted)
    if found is None:
        raise ConfigError(
            "data.classes is missing; in a private run no record may decide what the labels of the others mean, so name them "
            "all, for example data.classes = [0, 1]"
        )
    return found


def is_public(source: str, classes: Sequence[Label]) -> bool:
    """Return True if these are the public classes of the source of that name.

    >>> is_public("digits", range(10)), is_public("mine.csv", (0, 1))
    (True, False)
    """
    return tuple(classes) == _public_classes(source)


def _public_classes(source: str) -> tuple[Label, ...] | None:
    """Return the labels of a named source; None for a file.

    >>> _public_classes("covtype.binary"), _public_classes("mine.csv")
    ((1, 2), None)
    """
    if source.partition(":")[0] == SYNTHETIC:
        return (-1, 1)
    return SOURCES[source].classes if source in SOURCES else None


@dataclass(frozen=True)
class SourceInfo:
    """One line of ``crescendo data list``. ``here`` is True if the source can be loaded now."""

    name: str
    about: str
    rows: int | None
    features: int | None
    test: str
    comes_from: str
    here: bool


def catalogue(folder: Path | str | None = None) -> list[SourceInfo]:
    """Return every named source, for ``crescendo data list``.

    >>> [info.name for info in catalogue()][:5]
    ['flights', 'synthetic', 'breast_cancer', 'digits', 'iris']
    """
    where = data_folder(folder)
    made = "logistic data with a known minimiser; synthetic:rows=10000,features=20,l2=0"
    found = [
        SourceInfo(
            one.name,
            one.about,
            one.rows,
            one.features,
            "its own" if one.own_test else "a share",
            one.comes_from,
            one.here(where),
        )
        for one in SOURCES.values()
    ]
    found.insert(1, SourceInfo(SYNTHETIC, made, None, None, "a share", "made on the spot", True))
    return found


register(*flights.SOURCES, *bundled.SOURCES, *from_folder.SOURCES)
