"""Examination: all findings of the doctor about a table, in the order of its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from crescendo.core.arrays import Array
from crescendo.data.tables.cells import Table, missing, numbers, objects
from crescendo.data.tables.doctor.leaks import leaks
from crescendo.data.tables.doctor.odd_cells import empty_below, no_numbers, odd_categories
from crescendo.data.tables.doctor.odd_rows import copies
from crescendo.data.tables.doctor.sentinels import sentinels
from crescendo.data.tables.doctor.squeezed import squeezed
from crescendo.data.tables.doctor.table_finding import TableFinding
from crescendo.data.tables.doctor.two_units import two_units
from crescendo.data.tables.drafting import OTHER_MINUS, is_index
from crescendo.data.tables.feature_schema import CategoryColumn, NumberColumn, Schema
from crescendo.data.tables.written_numbers import PLAIN


@dataclass(frozen=True, eq=False)
class Examined:
    """A table, and a draft's use of its columns."""

    table: Table
    schema: Schema
    label: Array
    as_codes: tuple[str, ...] = ()
    other_minus: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    def findings(self) -> tuple[TableFinding, ...]:
        """Return all findings: about each column in turn, and then about the records."""
        label = _labels(self.label)
        found = [one for column in self.schema.columns for one in self._of(column)]
        features = [column.name for column in self.schema.columns]
        found += leaks(self.table, features, label)
        return (*found, *copies([*(self.table.columns[name] for name in features), label]))

    def _of(self, column: NumberColumn | CategoryColumn) -> Iterator[TableFinding]:
        name, cells = column.name, self.table.columns[column.name]
        yield from empty_below(name, cells, missing(cells))
        if isinstance(column, NumberColumn):
            values = column.numbers(self.table)
            yield from sentinels(name, values)
            yield from two_units(name, values)
            yield from squeezed(name, values, column.low, column.high)
            yield from no_numbers(name, cells, np.where(np.isin(numbers(cells), column.codes), 0.0, values))
            if column.written != PLAIN:
                how = OTHER_MINUS if name in self.other_minus else column.written
                words = ", ".join(f'{key} = "{value}"' for key, value in column.written.plain().items())
                yield TableFinding(
                    name,
                    f"the column '{name:.60}' holds {how}, which are read as numbers",
                    words,
                    mended=True,
                )
            return
        yield from odd_categories(name, cells)
        if name in self.as_codes:
            says = f"the column '{name:.60}' holds codes, which are categories and no amounts"
            yield TableFinding(name, says, 'as = "category"', mended=True)
        elif name in self.unread:
            yield TableFinding(
                name,
                f"the column '{name:.60}' holds {self.unread[name]}, which are taken for categories; write them all in one way",
            )


def about_arrays(names: Iterable[str], columns: Iterable[Array], label: Array) -> tuple[TableFinding, ...]:
    """Return findings about columns of numbers that are features unchanged."""
    by_name = dict(zip(names, columns, strict=True))
    table, label = Table("", by_name, len(label)), _labels(label)
    found = [one for name, values in by_name.items() for one in (*sentinels(name, values), *two_units(name, values))]
    for name, values in by_name.items():
        if is_index(name, values):
            says = f"the column '{name}' counts the records and is used as a feature"
            found.append(TableFinding(name, says, '"drop"', f"leave it out with data.drop = ['{name}']"))
    return (*found, *leaks(table, list(by_name), label), *copies([*by_name.values(), label]))


def _labels(label: Array) -> Array:
    """Return labels as cells: numbers, or the text of any other object."""
    return label if label.dtype.kind in "biuf" else objects(str(one) for one in label.tolist())
