"""Odd cells: texts among numbers, several spellings of one category, characters that no schema can name, and empty cells that
may mean the cell above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from crescendo.core.arrays import Array, Bools, Floats
from crescendo.data.tables.cells import missing, texts
from crescendo.data.tables.doctor.table_finding import TableFinding
from crescendo.data.tables.feature_schema import is_text

_NEARLY_ALL, _FEWEST = 0.95, 20  # the share of empty cells, in a column of at least so many cells
_HALF, _CHANCE = 0.5, 0.001


def no_numbers(name: str, cells: Array, values: Floats) -> Iterator[TableFinding]:
    """Report cells among numbers that are not numbers; a schema counts them as missing.

    >>> column = np.array(["1", "forty", "", "inf"], dtype=object)
    >>> for found in no_numbers("age", column, np.array([1.0, np.nan, np.nan, np.inf])): print(found.says)
    the column 'age' holds no finite number in 2 of its 4 cells, such as 'forty', which count as missing
    """
    odd = cells[~missing(cells) & ~np.isfinite(values)]
    if len(odd):
        counts = "which count" if len(odd) > 1 else "which counts"
        yield TableFinding(
            name,
            f"the column '{name:.60}' holds no finite number in {len(odd):,} of its {len(cells):,} cells, such as "
            f"{str(odd[0])!r:.40}, {counts} as missing",
            mended=True,
        )


def odd_categories(name: str, cells: Array) -> Iterator[TableFinding]:
    """Report categories that differ only in case and blanks, and those that cannot be printed.

    >>> for found in odd_categories("city", np.array(["Oslo", "OSLO", "Os\\x00lo"], dtype=object)): print(found.says)
    the column 'city' writes one category in several ways, 'OSLO' and 'Oslo', which count as two; write them in one way
    the column 'city' holds characters that cannot be printed in 1 of its 3 cells, such as 'Os\\x00lo', which no schema can name
    """
    counts, met = Counter(texts(cells)), dict[str, str]()
    for value in sorted(filter(is_text, counts)):
        if value != (first := met.setdefault(" ".join(value.casefold().split()), value)):
            yield TableFinding(
                name,
                f"the column '{name:.60}' writes one category in several ways, {first!r:.40} and {value!r:.40}, which count "
                "as two; write them in one way",
            )
            break
    strange = [value for value in counts if value and not value.isprintable()]
    if strange:
        many = sum(counts[value] for value in strange)
        yield TableFinding(
            name,
            f"the column '{name:.60}' holds characters that cannot be printed in {many:,} of its {len(cells):,} cells, such as "
            f"{strange[0]!r:.40}, which no schema can name",
            "",
            "remove such characters",
        )


def empty_below(name: str, cells: Array, absent: Bools) -> Iterator[TableFinding]:
    """Report a nearly empty column, or a sparse one in which no value follows itself, as after merging cells.

    >>> column = np.array((["Oslo"] + [""] * 4 + ["Rome"] + [""] * 4) * 8, dtype=object)
    >>> [found.column for found in empty_below("city", column, missing(column))]
    ['city']
    """
    there = cells[~absent]
    if len(cells) < _FEWEST or len(there) < 2 or absent[0]:
        return
    if absent.mean() >= _NEARLY_ALL or (absent.mean() >= _HALF and cells.dtype == object and _never_twice(there)):
        yield TableFinding(
            name,
            f"the column '{name:.60}' is empty in {int(absent.sum()):,} of its {len(cells):,} cells",
            "",
            "if an empty cell means the one above it, as where cells were merged, write that into it",
        )


def _never_twice(there: Array) -> bool:
    """Return True if no category follows itself, although in random order one would."""
    said = texts(there)
    alike = sum((many / len(said)) ** 2 for many in Counter(said).values())
    if (1 - alike) ** (len(said) - 1) > _CHANCE:
        return False
    return all(one != other for one, other in pairwise(said))
