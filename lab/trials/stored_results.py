"""Results of finished runs, one JSON object a line: a trial that was stopped continues where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Values = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[1] / "results"


class StoredResults:
    """Runs by their settings, in the order in which they finished. A run is written once it has ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._runs = {_key(run["setting"]): run for run in map(json.loads, lines)}

    def __iter__(self) -> Iterator[tuple[Values, Values]]:
        return ((run["setting"], run["found"]) for run in self._runs.values())

    def measured(self, setting: Values, measure: Callable[[], Values]) -> Values:
        """Return the stored result for these settings; otherwise measure it and store it."""
        if _key(setting) not in self._runs:
            run = {"setting": setting, "found": measure()}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(run, allow_nan=False) + "\n")
            self._runs[_key(setting)] = run
        found: Values = self._runs[_key(setting)]["found"]
        return found


def _key(setting: Values) -> str:
    return json.dumps(setting, sort_keys=True)
