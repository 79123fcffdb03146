"""Helpers for the files of every study: CSV columns, means as text, and atomic writes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from crescendo.studies.intervals import Interval
from crescendo.studies.points import Outcome

MEASURES = (
    "status", "accuracy", "rmse", "r2", "loss", "gradients", "rounds", "broadcasts", "bytes_up", "bytes_down", "waits",
    "virtual_seconds", "epsilon", "delta", "sigma", "says",
)  # fmt: skip


def measures_of(outcome: Outcome) -> list[Any]:
    """Return the values of the columns `MEASURES`. Wall time is left out, so that a rerun gives the same bytes."""
    privacy = outcome.privacy or {}
    known = {**outcome.counts, **privacy, **{name: getattr(outcome, name) for name in _FIELDS}}
    return [known.get(name) for name in MEASURES]


_FIELDS = ("status", "says", "accuracy", "rmse", "r2", "loss", "virtual_seconds")


def bounded(found: Interval | None, form: Callable[[float], str] = "{:.4f}".format) -> str:
    """Format a mean with half its interval; without the half if there is one seed or all seeds agree.

    An asymmetric interval is written with both ends.

    >>> bounded(Interval(0.5, 0.4, 0.6, 3)), bounded(Interval(7, 7, 7, 3), "{:.0f}".format), bounded(None)
    ('0.5000 ± 0.1000', '7', 'none')
    >>> bounded(Interval(0.5, None, None, 2)), bounded(Interval(0.9, 0.7, 1.0, 3))
    ('0.5000 (2 seeds: no interval)', '0.9000 (0.7000 to 1.0000)')
    """
    if found is None:
        return "none"
    if found.lacks or found.skew:
        return f"{form(found.mean)}{found.lacks or f' ({form(found.low or 0.0)} to {form(found.high or 0.0)})'}"
    half = 0.0 if found.low is None or found.high is None else (found.high - found.low) / 2
    return f"{form(found.mean)} ± {form(half)}" if half else form(found.mean)


def at_most(sentences: Sequence[str], most: int = 40) -> list[str]:
    """
    >>> at_most(["a", "b", "c"], 2)
    ['a', 'and 2 more, in the CSV']
    """
    rest = len(sentences) - most + 1
    return list(sentences) if rest <= 1 else [*sentences[: most - 1], f"and {rest:,} more, in the CSV"]


def shown_sigma(sigma: Any) -> str:
    """
    >>> shown_sigma(2.0), shown_sigma([[3, 2.0], [4, 1.5]]), shown_sigma(None)
    ('2', 'by round', 'none')
    """
    return "none" if sigma is None else f"{sigma:.4g}" if isinstance(sigma, int | float) else "by round"


def csv_text(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """
    >>> csv_text(["a", "b"], [[0.1, None], ["x,y", [1, 2]]])
    'a,b\\n0.1,\\n"x,y","[1, 2]"\\n'
    """
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(
        [[json.dumps(cell) if isinstance(cell, list | tuple | dict) else cell for cell in row] for row in rows]
    )
    return made.getvalue()


def write_text(path: Path, text: str) -> None:
    """Replace a file atomically: a reader sees the old text or the new one."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
