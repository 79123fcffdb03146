"""Warnings about a table and its features, in sentences for the owner of the records, each with the key that helps.

They are counted from records: a simulation prints them, and a federation's client logs them locally. They are never sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data.tables.cells import Table, missing, numbers, texts
from crescendo.data.tables.drafting import is_index
from crescendo.data.tables.feature_schema import NumberColumn, Schema

UNSCALED = "is not scaled"
_MARKS = "*†‡ "  # of footnotes
_CODES = (-9, -99, -999, -9999, -8, -88, -888)
_UNKNOWN = frozenset(("unknown", "not known", "missing", "unbekannt", "inconnu", "desconocido", "unk", "n.d."))
_SHOWN = 6  # classes
_MANY = 0.1  # the share of a column's cells that deserves a warning
_ENOUGH, _NARROW = 20, 0.02  # numbers, and the part of a range in which they lie
_LARGE = 30.0  # of a feature: beyond it, steps that suit the others diverge


def about_numbers(x: Floats, names: Sequence[str], may_look: bool) -> Iterator[str]:
    """Warn about numbers that are features as written: an index, and columns of very different size.

    If the run ``may_look`` at the table, name a key of the run file that helps; a private run and a federation need a schema.

    >>> list(about_numbers(np.array([[0.0, 1], [1, 0], [2, 5], [3, 1]]), ["row", "a"], may_look=True))
    ["the column 'row' counts the records and is used as a feature; leave it out with data.drop = ['row']"]
    """
    if not len(x):
        return
    with np.errstate(invalid="ignore"):
        largest = np.abs(x).max(axis=0)
    indices = [name for at, name in enumerate(names) if is_index(name, x[:, at])]
    large = [at for at, name in enumerate(names) if _LARGE < largest[at] < np.inf and name not in indices]
    for name in indices:
        how = f"data.drop = ['{name}']" if may_look else "a data.schema that does not name it"
        yield f"the column '{name}' counts the records and is used as a feature; leave it out with {how}"
    if large:
        worst = max(large, key=lambda at: float(largest[at]))
        others = f" ({len(large)} columns are beyond {_LARGE:g})" if len(large) > 1 else ""
        how = "set data.scale = true" if may_look else "state ranges in data.schema"
        yield (
            f"the column '{names[worst]}' {UNSCALED}: it goes up to {largest[worst]:.4g}{others}, and steps that suit other "
            f"columns diverge; {how}"
        )


def about_header(names: Sequence[str]) -> Iterator[str]:
    """Warn about a table without a line of names, whose first record was taken for the header.

    >>> list(about_header(["2.5", "north"]))
    ["the column names look like a record, such as '2.5'; a table begins with a line of names, so add one to the file"]
    >>> list(about_header(["0", "1", "age"]))
    []
    """
    fractions = [name for name in names if float(numbers(np.array([name], dtype=object))[0]) % 1 > 0]
    if fractions:
        yield (
            f"the column names look like a record, such as {fractions[0]!r:.40}; a table begins with a line of names, so add "
            "one to the file"
        )


def about_spelling(classes: Sequence[object]) -> Iterator[str]:
    """Warn about one label in several spellings, each of which counts as a class.

    >>> list(about_spelling(("NO", "no", "yes")))
    ["the labels 'NO' and 'no' differ only in how they are written, but count as two classes; write them in one way"]
    """
    met = dict[str, str]()
    for label in classes:
        plain = " ".join(label.casefold().rstrip(_MARKS).split()) if isinstance(label, str) else ""
        if plain and label != (first := met.setdefault(plain, str(label))):
            yield (
                f"the labels {first!r} and {label!r} differ only in how they are written, but count as two classes; write them "
                "in one way"
            )
            return


def about_unknown(classes: Sequence[object]) -> Iterator[str]:
    """Warn about a class that stands for an unknown class.

    >>> list(about_unknown((-9, 0, 1)))
    ["the label '-9' is learned as a class and may be a code for records whose class is not known; if it is one, leave it out \
with data.classes = [0, 1]"]
    >>> list(about_unknown((-1, 1))), list(about_unknown(("no", "unknown")))
    ([], [])
    """
    rest = [label for label in classes if not _is_unknown(label)]
    if not 2 <= len(rest) < len(classes):
        return
    odd = next(label for label in classes if _is_unknown(label))
    listed = str(rest) if len(rest) <= _SHOWN else "[..]"
    yield (
        f"the label '{odd}' is learned as a class and may be a code for records whose class is not known; if it is one, leave "
        f"it out with data.classes = {listed}"
    )


def _is_unknown(label: object) -> bool:
    return label in _CODES or (isinstance(label, str) and label.casefold() in _UNKNOWN)


def about_private_arrays(x: Any) -> Iterator[str]:
    """Warn about unscaled arrays in a private run, which must not look at the records to scale them.

    >>> list(about_private_arrays(np.array([[0.5, -4000.0]])))
    ['x is not scaled: it goes up to 4000, and a private run cannot measure that; divide each column by a public bound']
    """
    numbers = np.abs(np.asarray(x.data if hasattr(x, "tocsr") else x, dtype=np.float64))
    largest = float(np.max(numbers, initial=0.0, where=np.isfinite(numbers)))
    if largest > _LARGE:
        yield (
            f"x is not scaled: it goes up to {largest:.4g}, and a private run cannot measure that; divide each column by a "
            "public bound"
        )


def about_schema(schema: Schema, table: Table) -> Iterator[str]:
    """Warn about cells of a table for which the schema was not made."""
    for column in schema.columns:
        cells = table.columns[column.name]
        there = ~missing(cells)
        if not there.any():
            yield f"the column '{column.name}' is empty in every record; make sure that this is the table that was meant"
            continue
        if isinstance(column, NumberColumn):
            values = column.numbers(table)[there & ~np.isin(numbers(cells), column.codes)]
            strange, out = np.isnan(values), (values < column.low) | (values > column.high)
            yield from _about_narrow(column, values[np.isfinite(values)])
            if strange.mean() > _MANY:
                yield f"{strange.mean():.0%} of the cells of '{column.name}' are not numbers and count as missing"
            if out.mean() > _MANY:
                yield (
                    f"{out.mean():.0%} of the numbers in '{column.name}' lie outside {column.low:g} to {column.high:g} and "
                    f"count as the nearer end; widen its range in the schema"
                )
        else:
            known = set(column.values)
            strange = np.array([cell not in known for cell in np.array(texts(cells), dtype=object)[there].tolist()])
            if strange.mean() > _MANY:
                yield f"{strange.mean():.0%} of the cells of '{column.name}' say a category that the schema does not list"


def _about_narrow(column: NumberColumn, values: Floats) -> Iterator[str]:
    """Warn about numbers that lie in a small part of the range, such as metres in a range of centimetres."""
    if len(values) < _ENOUGH:
        return
    low, high = (float(q) for q in np.quantile(values, (0.05, 0.95)))
    if 0 < high - low < _NARROW * (column.high - column.low) and column.low <= low and high <= column.high:
        yield (
            f"nine in ten of the numbers in '{column.name}' lie between {low:.4g} and {high:.4g}, a small part of "
            f"{column.low:g} to {column.high:g}; check their unit, or narrow the range in the schema"
        )


def about_lengths(squares: Floats, norm_bound: float | None, schema: Schema | None, intercept: bool) -> Iterator[str]:
    """Warn about records that are longer than the norm bound.

    >>> list(about_lengths(np.array([1.0, 4.0, 9.0]), 1.5, None, True))
    ['2 of 3 records are longer than privacy.norm_bound = 1.5 and are shortened to it; scale the columns, or raise it']
    """
    if norm_bound is None or not len(squares):
        return
    longer = int(np.count_nonzero(np.sqrt(squares) > norm_bound * (1 + 1e-9)))
    if longer > _MANY * len(squares):
        most = None if schema is None else schema.norm_bound(intercept)
        how = "scale the columns, or raise it"
        if most is not None:
            how = f"under this schema {math.ceil(100 * most) / 100:g} would shorten none"
        yield (
            f"{longer:,} of {len(squares):,} records are longer than privacy.norm_bound = {norm_bound:g} and are shortened to it"
            f"; {how}"
        )
