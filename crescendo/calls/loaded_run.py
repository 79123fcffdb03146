"""`crescendo.load`: reads a run's folder or a finished federation, and returns its numbers and its trained model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from crescendo.calls.asked_run import as_model
from crescendo.calls.foreign_words import in_a_sentence
from crescendo.calls.loaded_federation import LoadedFederation
from crescendo.calls.loaded_model import LoadedModel, check_sizes
from crescendo.calls.stored_run import Row, StoredRun
from crescendo.config.schema import Config
from crescendo.core.arrays import Floats
from crescendo.data.records import Label
from crescendo.errors import ConfigError, DataError, UsageError
from crescendo.federation.divergence import divergence
from crescendo.federation.finished_federation import FinishedFederation
from crescendo.federation.objective_terms import made_up_records
from crescendo.objectives import ModelFile, Objective, OwnModel
from crescendo.objectives.base import Traits
from crescendo.objectives.nets.net_names import is_net, with_classes
from crescendo.objectives.objective_kinds import OBJECTIVES
from crescendo.report.references import References
from crescendo.runs import result_view
from crescendo.runs.models.answers import LearnedRecords
from crescendo.runs.models.stored_model import MODEL
from crescendo.views import html_lines, html_table, text_table


class LoadedRun(LoadedModel):
    """A finished run, read from its folder: like `Result`, but without records, clients and the trace."""

    def __init__(self, stored: StoredRun, objective: Any = None) -> None:
        self._stored, self._given = stored, as_model(objective)
        if objective is not None and stored.trained in OBJECTIVES:
            raise UsageError(
                f"{stored.folder} trained {stored.trained}, which needs no model of yours; leave objective out"
            )

    def __repr__(self) -> str:
        last, clients = self.metrics[-1], self.config.clients.count or 0
        said = result_view.numbers_in_a_line(last, self.rounds, clients, self.privacy, self.diverged, self.references)
        return f"LoadedRun({self.run!r}: {said})"

    def _repr_html_(self) -> str:
        return html_table(self._facts()) + html_lines(self._mind())

    def summary(self) -> str:
        """Return the run's results, one line per fact."""
        return "\n".join([text_table(self._facts()), *self._mind()])

    @property
    def place(self) -> Path:
        return self._stored.folder

    @property
    def run(self) -> str:
        """The run's folder."""
        return str(self._stored.folder)

    @property
    def config(self) -> Config:
        """The run file that was run."""
        return self._stored.config

    @property
    def model(self) -> Floats:
        """The trained model as a vector."""
        return self._stored.model

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels that the model predicts, as they were written; empty if it predicts numbers."""
        return self._stored.classes or ()

    @property
    def metrics(self) -> list[Row]:
        """The measured models, one dictionary each."""
        return self._stored.metrics

    @property
    def history(self) -> Any:
        """The measured models, one per row: a pandas DataFrame if pandas is installed, otherwise a list of dictionaries."""
        return result_view.history(self.metrics)

    @property
    def privacy(self) -> Row | None:
        """The run's privacy spending; None for a run without privacy."""
        return self._stored.privacy

    @property
    def references(self) -> References:
        """Baselines for the scores: the commonest class and, if it was cheap, a pooled fit without privacy."""
        return self._stored.references

    @property
    def loss(self) -> float | None:
        """The last model's loss on the training records."""
        return self.metrics[-1]["loss"]  # type: ignore[no-any-return]

    @property
    def accuracy(self) -> float | None:
        """The last model's accuracy on the test part."""
        return self.metrics[-1].get("accuracy")

    @property
    def rounds(self) -> int:
        """The number of completed rounds."""
        return int(self.metrics[-1]["k"])

    @property
    def gradients(self) -> int:
        """The number of gradients over all clients."""
        return int(self.metrics[-1]["gradients"])

    @property
    def diverged(self) -> str | None:
        """A sentence if the run's last loss is above its first or not a number; None otherwise."""
        return divergence(self.metrics[0]["loss"], self.loss, self.config.schedule.steps, None)

    def plot(self, against: str = "gradients") -> Any:
        """Return a plotly figure of accuracy against gradients, k (rounds), seconds or bytes."""
        return result_view.plot(self.metrics, self.config.data.source, against)

    def _known(self) -> tuple[Objective, LearnedRecords, tuple[Label, ...]]:
        stored, kept = self._stored, self._stored.records
        if stored.classes is None or kept is None:
            raise UsageError(
                f"{stored.folder} was made by an earlier version, which did not keep how records and labels look; run it again, "
                "or use the vector .model"
            )
        return self._objective(kept, len(stored.classes)), kept, stored.classes

    def _objective(self, kept: LearnedRecords, classes: int) -> Objective:
        """Rebuild the trained objective from our code and the caller's only."""
        stored, given = self._stored, self._given
        kind = OBJECTIVES.get(stored.trained)
        if kind is not None:
            return kind.make(kept.features, classes, 0.0, stored.intercept, "float64")
        asked, sample = self.config.objective, made_up_records(kept.features, classes, kept.shape)
        if given is None and is_net(asked.kind):  # our code: the folder supplies only its sizes
            check_sizes(asked.options, kept.features, len(stored.model))
            given = asked.kind
        if given is None:
            what = "a model of a program's own" if asked.kind in OBJECTIVES else f"{asked.kind.rpartition('/')[2]:.80}"
            raise UsageError(
                f"{stored.folder} trained {what}, and load runs no code that a folder names; give the model: "
                "crescendo.load(folder, objective=..), or --model FILE.py:NAME of crescendo predict"
            )
        if isinstance(given, str):
            return ModelFile.read(given, asked="objective").made(sample, with_classes(given, asked.options, classes))
        if isinstance(getattr(given, "traits", None), Traits):
            made: Objective = given
            return made
        return OwnModel(given, sample)

    def _facts(self) -> list[tuple[str, str, str]]:
        stored, kept = self._stored, self._stored.records
        kind = self.config.objective.kind  # meaningless for a model that a program passed
        name = stored.trained if stored.trained != "own" or kind in OBJECTIVES else kind
        learned = "" if kept is None else result_view.learned(kept.features, len(self.classes))
        clients = self.config.clients.count or 0
        return result_view.stored_facts(
            self.metrics[-1], self.privacy, self.config.data.source, (name, learned), clients, self.references
        )

    def _mind(self) -> list[str]:
        return [] if self.diverged is None else [f"Note: {self.diverged}."]


@in_a_sentence("load")
def load(run: Path | str, *, objective: Any = None) -> LoadedRun | LoadedFederation:
    """Load the run in the folder ``run``, written by `simulate` (``out=``) or ``crescendo run``: its numbers and its model.

    ``run`` may also be a finished federation: the folder of its server or of one of its clients, or the file ``model.npz`` of
    either.

    ``load("runs/mine-1").predict(frame)`` returns labels as they were written. A data frame needs the columns of the training
    table; the run's schema, categories and ranges turn them into features.

    Nothing in the folder is run or unpickled, so it may come from anyone. If you trained your own model, pass it as
    ``objective``: any objective that `simulate` takes, or the text "file.py:Name" of a file that you trust.

    >>> import tempfile, crescendo, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     made = crescendo.simulate(x, x[:, 0] > x[:, 1], clients=2, gradients=400, out=f"{place}/first")
    ...     found = load(f"{place}/first")
    >>> found.accuracy == made.accuracy, (found.predict(x) == made.predict(x)).all()
    (True, np.True_)
    """
    if not isinstance(run, str | os.PathLike):
        raise UsageError(f"crescendo.load takes the path of a run's folder, not an object of type {type(run).__name__}")
    if "\0" in str(run):
        raise ConfigError("the path of a run's folder has a zero byte in it; check the path")
    place = Path(run)
    if FinishedFederation.is_at(place):
        return LoadedFederation(FinishedFederation.of(place), objective)
    if place.is_file() and place.name == MODEL and (place.parent / "config.toml").is_file():
        place = place.parent
    if place.is_file():
        raise DataError(f"{place} is a file; name the folder of a run, or of a federation, that it lies in")
    return LoadedRun(StoredRun.of(place), objective)
