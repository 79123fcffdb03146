"""A finished federation from `crescendo.load`: its last model, with its terms' schema, classes and labels."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from crescendo.calls.asked_run import as_model
from crescendo.calls.loaded_model import LoadedModel, check_sizes
from crescendo.calls.stored_run import Row
from crescendo.core.arrays import Floats
from crescendo.data.records import Label
from crescendo.errors import UsageError
from crescendo.federation.finished_federation import FinishedFederation
from crescendo.federation.objective_terms import Described, made_up_records
from crescendo.objectives import ModelFile, Objective, OwnModel
from crescendo.objectives.base import Traits
from crescendo.objectives.nets.net_names import name_of
from crescendo.privacy.guarantee import Guarantee
from crescendo.runs import result_view
from crescendo.runs.models.answers import LearnedRecords
from crescendo.views import html_table, text_table


class LoadedFederation(LoadedModel):
    """A finished federation. No party saw the records of all, so there is no loss and no accuracy for the whole."""

    def __init__(self, found: FinishedFederation, objective: Any = None) -> None:
        self._found, self._given = found, as_model(objective)
        if objective is not None and not isinstance(found.agreed.objective, Described):
            raise UsageError(f"{found.place} trained {found.kind}, which needs no model of yours; leave objective out")

    def __repr__(self) -> str:
        agreed, found = self._found.agreed, self._found
        return (
            f"LoadedFederation({str(found.place)!r}: {found.kind}, rounds={self.rounds}, clients={len(agreed.names)})"
        )

    def _repr_html_(self) -> str:
        return html_table(self._facts())

    def summary(self) -> str:
        """Return the model, its features and its terms, one line per fact."""
        return text_table(self._facts())

    @property
    def place(self) -> Path:
        return self._found.place

    @property
    def run(self) -> str:
        """The folder or file that it was loaded from."""
        return str(self._found.place)

    @property
    def federation(self) -> str:
        """Its name, which every ledger holds."""
        return self._found.agreed.federation

    @property
    def terms(self) -> str:
        """The SHA-256 of its terms."""
        return self._found.agreed.digest

    @property
    def model(self) -> Floats:
        """The last model as a vector."""
        return self._found.model

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels that the model predicts, as the terms name them; empty if it predicts numbers."""
        return self._found.classes

    @property
    def metrics(self) -> list[Row]:
        """Empty, since no model was measured."""
        return []

    @property
    def loss(self) -> None:
        """None, since no party saw the records of all."""

    @property
    def accuracy(self) -> None:
        """None, since no party saw the records of all; `score` measures the model on your records."""

    @property
    def rounds(self) -> int:
        """The number of rounds of the whole run."""
        return self._found.agreed.terms.rounds

    @cached_property
    def privacy(self) -> Row | None:
        """The privacy cost of the client that spends most under the terms; None for a federation without privacy.

        Accounting takes some seconds. A client's total spending is in its ledger.
        """
        agreed = self._found.agreed
        if agreed.certificate is None or agreed.delta is None:
            return None
        made = Guarantee.of_terms(agreed.certificate, agreed.delta)
        sigma = agreed.certificate.sigma.to_json()
        return {"mechanism": agreed.mechanism, "epsilon": made.epsilon, "delta": agreed.delta, "sigma": sigma}

    def _known(self) -> tuple[Objective, LearnedRecords, tuple[Label, ...]]:
        found, agreed = self._found, self._found.agreed
        label = None if agreed.schema is None else agreed.schema.label
        kept = LearnedRecords(agreed.features, schema=agreed.schema, label=label)
        return self._objective(), kept, found.classes

    def _objective(self) -> Objective:
        """Rebuild the trained objective from our code and the caller's only."""
        found, given, goal = self._found, self._given, self._found.agreed.objective
        if not isinstance(goal, Described):
            return goal
        ours = name_of(goal.kind)
        if given is None and ours is not None:  # our code: the terms supply only its sizes
            check_sizes(goal.options, goal.features, goal.size)
            given = ours
        if given is None or isinstance(given, str):
            copy = None if given is None else ModelFile.read(given, asked="objective")
            return found.with_copy(copy).objective
        if isinstance(getattr(given, "traits", None), Traits):
            made: Objective = given
            return made
        return OwnModel(given, made_up_records(goal.features, len(found.classes)), goal.signed)

    def _facts(self) -> list[tuple[str, str, str]]:
        found, agreed = self._found, self._found.agreed
        by = "" if agreed.schema is None else f", by a schema of {len(agreed.schema.columns):,} columns"
        rows = [
            ("federation", agreed.federation, f"{len(agreed.names):,} client{'s' if len(agreed.names) != 1 else ''}"),
            ("model", found.kind, result_view.learned(agreed.features, len(found.classes)) + by),
            ("rounds", f"{self.rounds:,}", "all that the terms agreed on"),
        ]
        if self.privacy is None:
            return [*rows, ("privacy", "none", "no epsilon: what clients sent may tell everything")]
        most = f"of the client that spends most, at delta {self.privacy['delta']:g}"
        return [*rows, ("epsilon", f"{self.privacy['epsilon']:.4g}", most)]
