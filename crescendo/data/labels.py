"""Labels and their class numbers 0, 1, 2, ...: the position of a label among the classes.

Models see only these numbers; `Classes.mapping` lists them with the labels. A loss that needs other values, such as the -1 and +1
of logistic regression, converts them itself.
"""

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.data.records import Column, Label
from crescendo.errors import ConfigError, DataError

MOST = 1000
_AMOUNTS = 100  # more different numbers than that are amounts
_MOSTLY = 0.9  # the share of numbers from which on labels count as measurements with a few texts among them
SHOWN = 6  # classes in a printed mapping


def _quoted(labels: Sequence[Label]) -> str:
    """
    >>> _quoted(["no", "yes"]), _quoted([7])
    ("'no', 'yes'", '7')
    """
    return ", ".join(repr(label) for label in labels[:6]) + (", .." if len(labels) > 6 else "")


def _plain(value: object) -> Label:
    """Return a label as a person writes it: 3 for 3.0."""
    if isinstance(value, str):
        return str(value)
    number = float(value)  # type: ignore[arg-type]  # np.unique gives numbers here
    return int(number) if number.is_integer() else number


def _is_label(label: object) -> bool:
    if isinstance(label, str):
        return 0 < len(label) <= 100 and label.isprintable() and label == label.strip()
    if isinstance(label, bool) or not isinstance(label, int | float):
        return False
    return abs(label) <= 2**53  # floats represent all whole numbers up to here; False for nan


def _meant(label: Label) -> float | str:
    """Return the finite number that a label denotes, or its text if it denotes none."""
    try:
        number = float(label)
    except OverflowError:  # a whole number beyond all floats
        return "inf"
    except (ValueError, TypeError):  # a label from a program may be any object
        return str(label)
    return number if math.isfinite(number) else str(label)


NUMBERS: tuple[Label, ...] = ()  # instead of classes: labels are numbers to be predicted


def as_numbers(labels: Column) -> Floats:
    """Return labels as finite numbers, with nan for any other label: a rule on each label alone.

    >>> as_numbers(np.array(["2.5", " 3", "inf", "many"], dtype=object))
    array([2.5, 3. , nan, nan])
    """
    if labels.dtype.kind in "biuf":
        numbers = labels.astype(np.float64)
    else:
        meant = (_meant(label) for label in labels.tolist())
        numbers = np.array([math.nan if isinstance(one, str) else one for one in meant], dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, math.nan)


def to_be_predicted(cells: Column) -> bool:
    """Return True for numbers that cannot be classes: more than two different ones with fractions, or very many.

    >>> to_be_predicted(np.array([0.5, 1.5, 2.5])), to_be_predicted(np.array([0, 1, 2])), to_be_predicted(np.array(["a", "b"]))
    (True, False, False)
    """
    values = as_numbers(cells)
    if np.isnan(values).any():
        return False
    known = np.unique(values)
    return len(known) > _AMOUNTS or (len(known) > 2 and bool((known != np.rint(known)).any()))


def one_by_one(labels: Any) -> Column:
    """Return a program's labels as an array that keeps each label's type: numpy would turn all into texts if one is a text.

    >>> one_by_one([True, False, "maybe"]).tolist(), np.array([True, False, "maybe"]).tolist()
    ([True, False, 'maybe'], ['True', 'False', 'maybe'])
    """
    return np.fromiter(labels, object, len(labels)) if isinstance(labels, list | tuple) else np.asarray(labels)


def _check_there(labels: Column, name: str) -> None:
    """Refuse labels if there are no records or one has no label."""
    if not len(labels):
        raise DataError(f"{name} has no records; training needs some of at least two classes")
    absent = int((~np.isfinite(labels)).sum()) if labels.dtype.kind == "f" else 0
    if absent:
        raise DataError(
            f"{absent:,} of the {len(labels):,} labels of {name} are not finite numbers; fill them in or leave these records out"
        )


class Classes(tuple[Label, ...]):
    """The classes of a data set, in rising order and texts last."""

    __slots__ = ()

    @classmethod
    def stated(cls, classes: Sequence[object]) -> Self:
        """Return the classes that a run file or terms state, in rising order and texts last; refuse invalid ones.

        >>> Classes.stated([8, "late", "3"])
        (3, 8, 'late')
        """
        if len(classes) > MOST:
            raise ConfigError(f"data.classes has {len(classes)} labels, and {MOST} are allowed; name fewer")
        for label in classes:
            if not _is_label(label):
                raise ConfigError(
                    f"data.classes has {label!r:.60}, which is not a valid label; use a number or a short text"
                )
        known = {_meant(label): None for label in classes}  # type: ignore[arg-type]  # they are labels
        if len(known) < 2:
            raise ConfigError(f"data.classes must name at least two classes, got {list(classes)}")
        if len(known) < len(classes):
            raise ConfigError(f"data.classes has one class twice, got {list(classes)[:12]}; name each once")
        return cls(sorted(map(_plain, known), key=lambda label: (isinstance(label, str), label)))

    @classmethod
    def of(cls, labels: Column, name: str, wanted: Sequence[Label] | None) -> Self:
        """Return the classes of a data set in rising order: all that occur, or ``wanted``, each of which must occur.

        >>> Classes.of(np.array([2.0, 1.0, 7.0]), "three", wanted=(7, 1))
        (1, 7)
        """
        _check_there(labels, name)
        try:
            found = cls(_plain(value) for value in np.unique(labels))
        except TypeError:  # None among numbers, for example, or dates
            raise DataError(
                f"the labels of {name} are neither all numbers nor all texts; fill in missing ones and write all in one way"
            ) from None
        if wanted is not None:
            return found.among(name, wanted)
        if len(found) < 2:
            raise DataError(f"every record of {name} has the label {found[0]}; training needs two classes")
        whole = all(isinstance(label, int | str) for label in found)
        if len(found) > MOST or (len(found) > 2 and not whole):
            raise DataError(
                f"{name} has {len(found)} different labels, such as {found[0]} and {found[1]}, which are not classes; "
                'to predict numbers write objective.kind = "least-squares", else make them two values or whole numbers, or name '
                "another label column"
            )
        found._check_measured(name)
        return found

    def _check_measured(self, name: str) -> None:
        """Refuse measurements with a few texts among them, such as "<0.3": every number would become a class."""
        meant = [_meant(label) for label in self]
        numbers = [one for one in meant if isinstance(one, float)]
        texts = [one for one in meant if isinstance(one, str)]
        if not texts or len(numbers) < _MOSTLY * len(self) or all(number.is_integer() for number in numbers):
            return
        raise DataError(
            f"the labels of {name} are numbers, such as {numbers[0]:g}, but for {len(texts)}, such as {texts[0]!r:.60}; "
            'correct or empty those cells and write objective.kind = "least-squares" to predict the numbers'
        )

    def among(self, name: str, wanted: Sequence[Label]) -> Self:
        """Return the classes ``wanted`` in rising order; refuse any that the source ``name`` does not have.

        >>> Classes((0, 1, 2)).among("three", wanted=(2, 0))
        (0, 2)
        """
        chosen, known = self.stated(wanted), {_meant(label) for label in self}
        absent = [label for label in chosen if _meant(label) not in known]
        if absent:
            some = ", ".join(str(label) for label in self[:12]) + (", ..." if len(self) > 12 else "")
            raise ConfigError(f"data.classes asks for {_quoted(absent)}, but the labels of {name} are {some}")
        return chosen

    def places(self, labels: Column) -> Ints:
        """Return the position of each label among the classes, -1 if it is not a class: a rule on each label alone.

        A number matches however it is written; a text must match exactly.

        >>> Classes((1, "no", "yes")).places(np.array(["yes", "1.0", "", "nan", "no"], dtype=object)).tolist()
        [2, 0, -1, -1, 1]
        """
        texts = {label: place for place, label in enumerate(self) if isinstance(label, str)}
        known = {_meant(label): place for place, label in enumerate(self)}
        if labels.dtype.kind in "UO":
            met: dict[Label, int] = {}
            written = [label if isinstance(label, str) else _meant(label) for label in labels.tolist()]
            for label in written:
                if label not in met:
                    met[label] = texts.get(str(label), known.get(_meant(label), -1))
            return np.array([met[label] for label in written], dtype=np.int64)
        numbers = np.sort([label for label in known if isinstance(label, float)])
        if not len(numbers):
            return np.full(len(labels), -1)
        near = np.minimum(np.searchsorted(numbers, labels), len(numbers) - 1)
        at = np.array([known[number] for number in numbers.tolist()], dtype=np.int64)
        return np.where(numbers[near] == labels, at[near], -1)

    def encode(self, labels: Column, name: str) -> Floats:
        """Return the class numbers of labels; refuse a label that is not a class.

        >>> Classes((1, 2)).encode(np.array([2, 1, 2]), "three")
        array([1., 0., 1.])
        """
        place = self.places(labels)
        strange = np.flatnonzero(place < 0)
        if len(strange):
            raise DataError(f"{name} has the label {_plain(labels[strange[0]])}, which its training part never has")
        return self.numbered(place)

    def numbered(self, place: Ints) -> Floats:
        """Return class numbers from positions among the classes.

        >>> Classes((7, 8)).numbered(np.array([1, 0]))
        array([1., 0.])
        """
        return place.astype(np.float64)

    @classmethod
    def values_of(cls, many: int) -> tuple[float, ...]:
        """Return the class numbers of ``many`` classes.

        >>> Classes.values_of(3)
        (0.0, 1.0, 2.0)
        """
        return tuple(float(place) for place in range(many))

    @property
    def mapping(self) -> str | None:
        """The labels and their class numbers in words; None if the labels are these numbers already.

        >>> Classes(("no", "yes")).mapping, Classes((0, 1, 2)).mapping, Classes(range(5, 25)).mapping
        ('no = 0, yes = 1', None, '5 = 0, 6 = 1, 7 = 2, 8 = 3, ..., 24 = 19')
        """
        if all(label == place and not isinstance(label, str) for place, label in enumerate(self)):
            return None
        said = [f"{label} = {place}" for place, label in enumerate(self)]
        return ", ".join(said if len(said) <= SHOWN else [*said[: SHOWN - 2], "...", said[-1]])
