"""Findings on disk: one JSON file per experiment, without dates or times. The page and the figures are made from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from crescendo.errors import DataError, UsageError
from crescendo.whole_files import whole_file
from lab.pipeline.experiment import Effort, Experiment, Findings, Line, Panel, PaperStatement, Plot, TextTable


@dataclass(frozen=True)
class StoredFindings:
    """An experiment's findings, with the seeds and the effort behind them and the names of absent data."""

    name: str
    quick: bool
    absent: tuple[str, ...]
    seeds: tuple[int, ...]
    findings: Findings

    @classmethod
    def of(cls, experiment: Experiment, effort: Effort, absent: list[str], findings: Findings) -> StoredFindings:
        seeds = seeds_in(job.setting for job in experiment.jobs(effort))
        return cls(experiment.name, effort.quick, tuple(absent), seeds, findings)

    @classmethod
    def check_room(cls, names: Sequence[str], folder: Path, quick: bool) -> None:
        """Refuse a quick run that would replace a whole one, before anything runs."""
        for path in (folder / f"{name}.json" for name in names) if quick else ():
            if path.exists() and not cls.read(path).quick:
                raise UsageError(
                    f"{path} is of a whole run, which a quick one must not replace; name another folder with --out"
                )

    def write(self, folder: Path) -> None:
        """Write NAME.json."""
        path = folder / f"{self.name}.json"
        with whole_file(path) as file:
            file.write(self.text().encode())
        path.chmod(0o644)  # readable by everyone

    def text(self) -> str:
        """
        >>> print(StoredFindings("none", True, (), (0,), Findings("no rule")).text())  # doctest: +ELLIPSIS
        {
         "name": "none",
         "quick": true,
         "absent": [],
         "seeds": [
          0
         ],
         "findings": {
          "rule": "no rule",
        ...
        """
        return json.dumps(asdict(self), indent=1, allow_nan=False) + "\n"

    @classmethod
    def read(cls, path: Path) -> StoredFindings:
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                plain["name"],
                plain["quick"],
                tuple(plain["absent"]),
                tuple(plain["seeds"]),
                _findings(plain["findings"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} holds no findings that this version can read ({error}); remove it and run its experiment again"
            ) from error


def seeds_in(settings: Iterable[Mapping[str, Any]]) -> tuple[int, ...]:
    """Return every seed of these jobs.

    >>> seeds_in([{"seeds": (0, 1)}, {"seed": 2}, {"what": "a formula"}])
    (0, 1, 2)
    """
    found = {seed for one in settings for seed in (*one.get("seeds", ()), *([one["seed"]] if "seed" in one else []))}
    return tuple(sorted(found))


def _findings(plain: dict[str, Any]) -> Findings:
    return Findings(
        plain["rule"],
        tuple(_made(PaperStatement, one) for one in plain["statements"]),
        tuple(_made(TextTable, one) for one in plain["tables"]),
        tuple(_plot(one) for one in plain["plots"]),
        tuple(plain["remarks"]),
    )


def _plot(plain: dict[str, Any]) -> Plot:
    panels = ({**panel, "lines": [_made(Line, line) for line in panel["lines"]]} for panel in plain["panels"])
    plot: Plot = _made(Plot, {**plain, "panels": [_made(Panel, panel) for panel in panels]})
    return plot


def _made(kind: Any, plain: dict[str, Any]) -> Any:
    """Build a dataclass from its JSON, with lists turned back into tuples."""
    known = {field.name for field in fields(kind)}
    if extra := plain.keys() - known:
        raise KeyError(f"{kind.__name__} has no {sorted(extra)[0]}")
    return kind(**{key: _tuples(value) for key, value in plain.items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
