"""A paid draft as text: the schema file with its price, and the matching lines of a run file."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crescendo.config.schema_file import in_round_numbers, rounded_up, schema_text
from crescendo.config.short_toml import toml_text
from crescendo.data.tables.drafting import Draft
from crescendo.data.tables.feature_schema import NumberColumn, Schema
from crescendo.drafter.charged_draft import ChargedDraft
from crescendo.drafter.draft_request import DraftRequest


@dataclass(frozen=True)
class BoughtSchema:
    """A charged draft as readable text. Every number in it was released and is public."""

    source: Path
    found: ChargedDraft
    request: DraftRequest

    @property
    def schema(self) -> Schema:
        """The schema with rounded ranges."""
        made = self.found.draft.usable(self.source.name)
        stated = set(self.request.columns)
        rounded = {one.name: one for one in in_round_numbers(Draft(made)).schema.columns}
        columns = {one.name: one if one.name in stated else rounded[one.name] for one in made.columns}
        return Schema.of({**made.plain(), "columns": {name: one.plain() for name, one in columns.items()}})

    @property
    def text(self) -> str:
        """Return the schema file."""
        draft, certificate = self.found.draft, self.found.draft.certificate
        mind = (
            f"Drafted from {ascii(self.source.name)[1:-1]} by differentially private counts: epsilon {certificate.epsilon:g} at "
            f"delta {certificate.delta:g} for one record, {certificate.provenance} ({self.found.entry}). Its numbers, names and "
            f"lists are public from now on, and they are approximate: edit what you know better."
        )
        head = "".join(f"# {line}\n" for line in textwrap.wrap(mind, 110))
        left_out = "".join(f"#   {ascii(name)[1:-1]}: {why}\n" for name, why in draft.left_out.items())
        tail = f"\n# Left out; a column that is not named above is never read.\n{left_out}" if left_out else ""
        return f"{head}\n{schema_text(self.schema)}{tail}"

    def for_a_run_file(self, out: Path) -> str:
        """Return the lines that name it, to paste into a run file."""
        draft = self.found.draft
        lines = ["", "[data]", f"schema = {toml_text(str(out))}"]
        lines += [f"classes = {toml_text(list(draft.classes))}"] if draft.classes is not None else []
        if draft.label_range is not None:
            lines += ["", "[objective]", f"label_range = {toml_text(list(self.label_range or ()))}"]
        bound = rounded_up(self.schema.norm_bound())
        lines += ["", "[privacy]  # of a private run", f"norm_bound = {bound:g}", f"records = {draft.records}"]
        return "\n".join(lines) + "\n"

    @property
    def label_range(self) -> tuple[float, float] | None:
        """The label range in round numbers, unless it was stated."""
        found = self.found.draft.label_range
        if found is None or found in self.request.columns.values():
            return found
        rounded = in_round_numbers(Draft(Schema((NumberColumn("label", *found),)))).schema.columns[0]
        assert isinstance(rounded, NumberColumn)
        return rounded.low, rounded.high

    def sentences(self, out: Path | None) -> Iterator[str]:
        """Yield the size of the schema, the price, and the columns left out."""
        draft, certificate = self.found.draft, self.found.draft.certificate
        if out is not None:
            columns = len(self.schema.columns)
            yield f"wrote {out}: {self.schema.width} features from {columns} column{'s' if columns > 1 else ''}"
        paid = "was bought before, so that nothing was charged now" if self.found.again else "is charged"
        budget = f"epsilon {certificate.epsilon:g} at delta {certificate.delta:g}"
        yield f"{budget} {paid}: {self.found.entry!r} in {self.found.ledger}"
        yield self.left
        seen = f"values shared by fewer than about {certificate.least:.3g} records are not visible"
        yield f"every count has noise of {certificate.noise:.3g}, so {seen}"
        for name, why in draft.left_out.items():
            yield f"the column {name!r:.62} is left out: {why}"
        if draft.classes is None and draft.label_range is None:
            yield "the labels do not stand out of the noise; state data.classes or objective.label_range in the run file"

    @property
    def left(self) -> str:
        """Return the sentence on the remaining budget."""
        epsilon, delta = self.found.left
        if not epsilon:
            return "nothing is left of the budget of these records"
        return f"epsilon {math.floor(epsilon * 1000) / 1000:g} at delta {delta:.2g} of the budget is left for training"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        draft = self.found.draft
        return {
            "schema": self.schema.plain(),
            "features": list(self.schema.features),
            "left_out": draft.left_out,
            "classes": None if draft.classes is None else list(draft.classes),
            "label_range": None if self.label_range is None else list(self.label_range),
            "records": draft.records,
            "norm_bound": self.schema.norm_bound(),
            "certificate": draft.certificate.to_json(),
            "ledger": str(self.found.ledger),
            "entry": self.found.entry,
            "again": self.found.again,
            "left": {"epsilon": self.found.left[0], "delta": self.found.left[1]},
        }
