"""Every source that has a name: what is public about it, and how it is read.

What is public are constants of the code, never counted from records: a private run takes its classes from here, or from what
the run file states. A new source is one `NamedSource` in a file of `sets` and one line at the end of this file, or one
call of `register` from outside the package; loading, `crescendo data list` and the words of errors follow from it.
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

SYNTHETIC = "synthetic"  # has options in its name, and a data set whose minimiser is known: see `sets.synthetic`


SOURCES: dict[str, NamedSource] = {}


def register(*sources: NamedSource) -> None:
    """Make sources known by their names; a name is given once."""
    for source in sources:
        if source.name in SOURCES or source.name == SYNTHETIC:
            raise UsageError(f"there is a data source called {source.name!r} already; choose another name")
        SOURCES[source.name] = source


def stated_classes(source: str, wanted: Sequence[Label] | None) -> tuple[Label, ...]:
    """The classes of a private run, in rising order: those that were named, else those that the source is known to have.

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
    """Whether these are the classes that a source is known to have, by its name alone.

    >>> is_public("digits", range(10)), is_public("mine.csv", (0, 1))
    (True, False)
    """
    return tuple(classes) == _public_classes(source)


def _public_classes(source: str) -> tuple[Label, ...] | None:
    """The labels that occur in a source, by its name alone; None for a file.

    >>> _public_classes("covtype.binary"), _public_classes("mine.csv")
    ((1, 2), None)
    """
    if source.partition(":")[0] == SYNTHETIC:
        return (-1, 1)
    return SOURCES[source].classes if source in SOURCES else None


@dataclass(frozen=True)
class SourceInfo:
    """One line of ``crescendo data list``. ``here`` says whether it could be loaded now."""

    name: str
    about: str
    rows: int | None
    features: int | None
    test: str
    comes_from: str
    here: bool


def catalogue(folder: Path | str | None = None) -> list[SourceInfo]:
    """Every source that has a name, for ``crescendo data list``.

    >>> [info.name for info in catalogue()]
    ['flights', 'synthetic', 'breast_cancer', 'digits', 'iris', 'wine',
     'a9a', 'w8a', 'phishing', 'ijcnn1', 'covtype.binary', 'real-sim', 'mnist']
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
