"""Measures of a run, ready to be drawn: the rows, the part of the axis to show, and a remark on a loss that rises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crescendo.report.figures.plain import telling
from crescendo.report.numbers import level
from crescendo.report.references import References

_WORDS = {
    "accuracy": "Accuracy on the test part",
    "r2": "R² (variance explained) on the test part",
    "rmse": "Root mean square error on the test part",
    "loss": "Loss on the training records",
}
_MOST_ROWS = 1000
_EARLY = 0.1  # of the rows: they do not affect the part of the axis that is shown
_FAR_APART = 50.0
_RISES = 0.03  # of the loss's fall: a larger rise above its minimum gets a remark

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Measure:
    """One curve. ``shown`` is the part of the y axis to show; ``remark`` is the place of a point and the words on it."""

    key: str
    words: str
    values: list[float | None]
    references: list[tuple[str, float]]
    shown: tuple[float, float] | None
    remark: tuple[int, str] | None = None
    log: bool = False  # the values differ so much that a linear axis would show only the largest

    @property
    def last(self) -> float | None:
        return next((value for value in reversed(self.values) if value is not None), None)


def chosen_rows(rows: Rows) -> list[dict[str, Any]]:
    """Return the rows to draw: all of them, or the highest and the lowest of each stretch."""
    columns = [[row.get(key) for row in rows] for key in _present(rows)]
    return [rows[i] for i in telling(columns, _MOST_ROWS)] if columns else list(rows)


def measures_of(rows: Rows, references: References) -> list[Measure]:
    """Return the measures that these rows have, the loss last."""
    found = []
    for key in _present(rows):
        values = [row.get(key) for row in rows]
        lines = references.of(key)
        bounds = (0.0, 1.0) if key == "accuracy" else (float("-inf"), 1.0) if key == "r2" else (0.0, float("inf"))
        shown = shown_part([value for _, value in lines], values, bounds)
        remark, log = (_rise(values), _far_apart(values)) if key == "loss" else (None, False)
        found.append(Measure(key, _WORDS[key], values, lines, shown, remark, log))
    return found


def _present(rows: Rows) -> list[str]:
    return [key for key in _WORDS if any(row.get(key) is not None for row in rows)]


def shown_part(
    lines: Sequence[float], values: Sequence[float | None], bounds: tuple[float, float]
) -> tuple[float, float]:
    """Return the range of all but the first rows and of the reference levels ``lines``, never beyond ``bounds``.

    >>> low, high = shown_part([0.76], [0.2, *[0.8] * 18, 0.9], (0, 1))
    >>> round(low, 3), round(high, 3)
    (0.749, 0.911)
    """
    late = [value for value in values[int(_EARLY * len(values)) :] if value is not None]
    known = [*(late or [value for value in values if value is not None]), *lines]
    low, high = min(known), max(known)
    pad = max(0.08 * (high - low), 0.01 * abs(high), 1e-6)
    return max(bounds[0], low - pad), min(bounds[1] + (pad if bounds[1] == high else 0), high + pad)


def _far_apart(values: Sequence[float | None]) -> bool:
    """
    >>> _far_apart([0.7, 0.3, 9.0]), _far_apart([0.7, 40.0]), _far_apart([0.0, 40.0])
    (False, True, False)
    """
    known = [value for value in values[int(_EARLY * len(values)) :] if value is not None]
    return bool(known) and min(known) > 0 and max(known) > _FAR_APART * min(known)


def _rise(values: Sequence[float | None]) -> tuple[int, str] | None:
    """Return the place of the minimum of a loss that ended clearly above it, and a remark; None for any other loss.

    >>> _rise([0.7, 0.3, 0.31, 0.35]), _rise([0.7, 0.4, 0.3]), _rise([0.7, 0.9])
    ((1, 'lowest 0.3000;<br>then it rose to 0.3500'), None, (1, 'it rose from 0.7000 to 0.9000,<br>above where it began'))
    """
    known = [(value, place) for place, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return None
    (first, _), (last, _) = known[0], known[-1]
    least, place = min(known)
    if last > first:
        return known[-1][1], f"it rose from {level(first)} to {level(last)},<br>above where it began"
    if last - least <= _RISES * (first - least):
        return None
    return place, f"lowest {level(least)};<br>then it rose to {level(last)}"
