"""Files of a run: its config, written at the start, a line per measured model during it, and the other files at the end."""

import json
from pathlib import Path
from typing import Any

from crescendo.config.schema_file import schema_text
from crescendo.data import Dataset
from crescendo.data.tables.drafting import Draft
from crescendo.runs.folder import write_format
from crescendo.runs.models.model_card import CARD, ModelCard
from crescendo.runs.models.stored_model import about_records, save_model
from crescendo.runs.result import Result
from crescendo.runs.run_events import Event, ModelsMeasured, RunBegan, RunEnded

METRICS, REFERENCES = "metrics.jsonl", "references.json"


class RunFiles:
    """A sink that writes into ``folder``. The same seed gives the same bytes, except for the date in the report."""

    def __init__(self, folder: Path, standalone: bool = False) -> None:
        self._folder, self._standalone = folder, standalone

    def __call__(self, event: Event) -> None:
        match event:
            case RunBegan(prepared):
                write_format(self._folder)
                (self._folder / "config.toml").write_text(prepared.config.to_toml(), encoding="utf-8")
                self._write_schema(prepared.dataset)
            case ModelsMeasured(rows):
                with (self._folder / METRICS).open("a", encoding="utf-8") as file:
                    file.writelines(map(_line, rows))
            case RunEnded(result):
                self._end(result)

    def _write_schema(self, data: Dataset) -> None:
        """Write the schema, with a warning if it was read off the records."""
        if data.schema is not None:
            draft = Draft(data.schema) if data.looked else None
            text = schema_text(data.schema, draft, Path(data.name).name)
            (self._folder / "schema.toml").write_text(text, encoding="utf-8")

    def _end(self, result: Result) -> None:
        from crescendo.report import Story, write_page
        from crescendo.report.dates import made_now

        folder, guarantee = self._folder, result.prepared.privacy
        # written again, with the averages over the run and the scores of the last model
        (folder / METRICS).write_text("".join(map(_line, result.metrics)), encoding="utf-8")
        result.trace.save(folder / "trace.npz")
        spent = guarantee.to_json(result.prepared.names, events=True) if guarantee is not None else None
        if spent is not None and result.noise_free is not None:
            spent["noise_free_accuracy"] = result.noise_free["accuracy"]
        (folder / "privacy.json").write_text(json.dumps(spent) + "\n", encoding="utf-8")
        (folder / REFERENCES).write_text(json.dumps(result.references.plain()) + "\n", encoding="utf-8")
        module = result.state_dict() if result.is_torch else None
        intercept, data = result.prepared.objective.traits.intercept, result.prepared.dataset
        save_model(folder, result.model, data.classes, result.trained, module, intercept, about_records(data))
        (folder / CARD).write_text(str(ModelCard.of_run(result)), encoding="utf-8")
        write_page(Story.of(result), folder, self._standalone, made_now())


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"
