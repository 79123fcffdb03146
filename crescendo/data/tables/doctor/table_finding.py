"""TableFinding: a fault of a table that would spoil a model, in a sentence, with the word that mends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TableFinding:
    """A fault of a column, or of the whole table (None).

    ``word`` is the remedy in the column's line of a schema; ``key`` is the remedy in a run file and, without "data.", a keyword
    of Python. ``mended`` is True if the draft applies the remedy already.

    >>> made = TableFinding("temp", "the column 'temp' says -999 in 7 cells", "missing = [-999]", "data.missing = [-999]")
    >>> made.sentence
    "the column 'temp' says -999 in 7 cells; data.missing = [-999]"
    """

    column: str | None
    says: str
    word: str = ""
    key: str = ""
    mended: bool = False
    codes: tuple[float, ...] = ()  # the numbers in question

    @property
    def sentence(self) -> str:
        """The sentence for a run, with the key of a run file."""
        return f"{self.says}; {self.key}" if self.key else self.says

    @property
    def in_schema(self) -> str:
        """The sentence for a schema, with its word."""
        if not self.word:
            return self.sentence
        return f"{self.says}: {self.word}" if self.mended else f"{self.says}; write {self.word}"

    def to_json(self) -> dict[str, Any]:
        return {"column": self.column, "says": self.says, "remedy": self.word, "applied": self.mended}


def sentences(findings: Iterable[TableFinding]) -> tuple[str, ...]:
    """Return the sentences that a run prints: those not mended, since its line about columns covers the others."""
    return tuple(one.sentence for one in findings if not one.mended)
