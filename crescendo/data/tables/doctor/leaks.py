"""Leaks: columns that alone reveal the label, such as one computed from the label or known only after it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from crescendo.core.arrays import Array, Bools, Floats, Ints
from crescendo.data.tables.cells import Table, missing, numbers, places_of
from crescendo.data.tables.doctor.table_finding import TableFinding

_ROWS, _COLUMNS = 5_000, 300  # examined at most
_CLASSES = 50
_FEWEST = 20  # records
_RARE = 5  # records outside the commonest class, from which on a rule is no coincidence
_ERRORS = 0.02  # of the errors that the commonest class makes
_EACH = 5  # records of a category
_ALIKE = 0.99999  # the correlation of a column with a label that is a number


def leaks(table: Table, features: list[str], label: Array) -> Iterator[TableFinding]:
    """Yield the columns among ``features`` that leak the ``label``, but not an only feature, which may well be the task.

    >>> y = np.array(["no", "yes"] * 15, dtype=object)
    >>> cells = {"size": np.arange(30.0) % 7, "paid": np.arange(30.0) % 2}
    >>> [found.column for found in leaks(Table("two", cells, 30), ["size", "paid"], y)]
    ['paid']
    """
    if len(features) < 2 or table.rows < _FEWEST:
        return
    rows = np.unique(np.linspace(0, table.rows - 1, min(table.rows, _ROWS)).astype(np.int64))
    said, at = _classes(label[rows])
    for name in features[:_COLUMNS]:
        cells = table.columns[name][rows]
        right = _alike(cells, label[rows]) if said is None else _right(cells, at, said)
        if right is not None:
            yield _finding(name, right, said is None)


def _finding(name: str, right: float, number: bool) -> TableFinding:
    what = "is the label in another unit" if number else f"alone gives the label of {_percent(right)} of the records"
    return TableFinding(
        name,
        f"the column '{name:.60}' {what}, as one does that is made from the label or known only after it",
        f'{name} = "drop"' if name.isidentifier() else '"drop"',
        f"unless it is known before the label is, leave it out with data.drop = ['{name:.60}']",
    )


def _percent(share: float) -> str:
    return "100%" if share == 1 else f"{100 * share:.2f}%"


def _classes(label: Array) -> tuple[int | None, Ints]:
    """Return the number of classes, None for labels that are numbers, and the class of each record."""
    at = places_of(label)
    known = int(at.max()) + 1
    values = numbers(label)
    measured = np.isfinite(values).all() and known > 2 and bool((values != np.rint(values)).any())
    return (None if measured or known > _CLASSES else known), at


def _alike(cells: Array, label: Array) -> float | None:
    values, wanted = numbers(cells), numbers(label)
    sound = np.isfinite(values) & np.isfinite(wanted)
    if np.count_nonzero(sound) < _FEWEST:
        return None
    with np.errstate(all="ignore"):
        together = float(np.corrcoef(values[sound], wanted[sound])[0, 1])
    return abs(together) if abs(together) >= _ALIKE else None


def _right(cells: Array, at: Ints, classes: int) -> float | None:
    """Return the share of records that the best simple rule on a column gets right, if that is nearly all; else None."""
    count = len(at)
    wrong = count - int(np.bincount(at).max())
    if wrong < _RARE or classes < 2:
        return None
    absent = missing(cells)
    fewest = _wrong_by_category(absent.astype(np.int64), at)
    found = places_of(cells)
    if int(found.max()) + 1 <= count / _EACH:
        fewest = min(fewest, _wrong_by_category(found, at))
    values = numbers(cells)
    if np.isfinite(values[~absent]).all():
        fewest = min(fewest, _wrong_by_order(values, ~absent, at, classes))
    return 1 - fewest / count if fewest <= _ERRORS * wrong else None


def _wrong_by_category(found: Ints, at: Ints) -> int:
    """Count the errors of the rule that predicts the commonest class of each category."""
    pairs, times = np.unique(found * (int(at.max()) + 1) + at, return_counts=True)
    most = np.zeros(int(found.max()) + 1, dtype=np.int64)
    np.maximum.at(most, pairs // (int(at.max()) + 1), times)
    return len(at) - int(most.sum())


def _wrong_by_order(values: Floats, there: Bools, at: Ints, classes: int) -> int:
    """Count the errors of the rule with one threshold between every two classes that are neighbours by their medians."""
    kept, of = values[there], at[there]
    wrong = len(at) - len(of)  # the rule predicts nothing for a missing cell
    order = sorted({int(one) for one in of}, key=lambda one: float(np.median(kept[of == one])))
    said = np.full(len(of), order[0] if order else 0)
    for one, other in pairwise(order):
        two = (of == one) | (of == other)
        said[kept > _cut(kept[two], of[two] == other)] = other
    return wrong + int(np.count_nonzero(said != of))


def _cut(values: Floats, above: Bools) -> float:
    """Return the threshold that separates two classes with the fewest errors."""
    order = np.argsort(values, kind="stable")
    values, above = values[order], above[order]
    wrong = np.cumsum(above) + (np.count_nonzero(~above) - np.cumsum(~above))  # with a cut behind each number
    ends = np.append(values[1:] != values[:-1], True)
    best = int(np.argmin(np.where(ends, wrong, len(values) + 1)))
    return float(values[best])
