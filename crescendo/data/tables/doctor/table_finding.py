"""TableFinding: one thing about a table that would spoil a model, in a sentence, with the word that mends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TableFinding:
    """What is wrong with a column, or with the whole table (None).

    ``word`` goes behind the column's name in a schema; ``key`` is the same for a run file, a keyword of Python without "data.".
    ``mended`` says that the draft does so already.

    >>> made = TableFinding("temp", "the column 'temp' says -999 in 7 cells", "missing = [-999]", "data.missing = [-999]")
    >>> made.sentence
    "the column 'temp' says -999 in 7 cells; data.missing = [-999]"
    """

    column: str | None
    says: str
    word: str = ""
    key: str = ""
    mended: bool = False
    codes: tuple[float, ...] = ()  # the numbers that it is about

    @property
    def sentence(self) -> str:
        """For a run: with the key of a run file."""
        return f"{self.says}; {self.key}" if self.key else self.says

    @property
    def in_schema(self) -> str:
        """For a schema: with its word."""
        if not self.word:
            return self.sentence
        return f"{self.says}: {self.word}" if self.mended else f"{self.says}; write {self.word}"

    def to_json(self) -> dict[str, Any]:
        return {"column": self.column, "says": self.says, "remedy": self.word, "applied": self.mended}


def sentences(findings: Iterable[TableFinding]) -> tuple[str, ...]:
    """What a run should say: all that is not mended, which its line about columns says."""
    return tuple(one.sentence for one in findings if not one.mended)
