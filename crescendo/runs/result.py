"""Result of a run: its numbers, its model, and its savings against rounds that do not grow."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, cast

from crescendo.config.schema import Config
from crescendo.core.arrays import Array, Floats
from crescendo.core.vectors import message_bytes
from crescendo.data.from_arrays import records_of
from crescendo.errors import CrescendoError, UsageError
from crescendo.federation.divergence import divergence
from crescendo.objectives.linear.linear_model import LinearModel
from crescendo.privacy.cautions import about_noise
from crescendo.privacy.guarantee import Guarantee
from crescendo.report.doubts import Doubt, unlike_columns
from crescendo.report.references import References, references_of
from crescendo.runs import result_view
from crescendo.runs.export import sklearn_regression
from crescendo.runs.models.answers import LearnedRecords, answers, scores
from crescendo.runs.models.stored_model import Trained
from crescendo.runs.prepare import Prepared
from crescendo.simulator.trace import Trace
from crescendo_dp.planning.budget_to_schedule import plan

Row = dict[str, Any]
_MOST_EPSILON = 100.0  # above it, no plan is computed


@dataclass(frozen=True)
class _Savings:
    """Constant rounds that a person might have chosen for the same gradients. They are computed, not run.

    ``why`` gives the reason for their size. For a private run the planner chooses them for the same epsilon. For any other run
    they are as large as its first round, but have at least one gradient for each client: two gradients over ten clients would
    be an unlikely choice.
    """

    size: int
    rounds: int
    bytes_up: int
    bytes_down: int
    why: str

    @classmethod
    def of(cls, prepared: Prepared) -> Self:
        terms, least = prepared.terms, prepared.terms.clients
        size = min(max(prepared.sizes(0), least), prepared.sizes.gradients)
        rounds, why = math.ceil(prepared.sizes.gradients / size), "as large as this run's first round"
        if prepared.sizes(0) < least:
            why = "of one gradient for each client, more than this run's first round has"
        if (planned := _planned(prepared)) is not None:
            rounds, size = planned
            why = "as `crescendo plan` would choose them for the same epsilon"
        clients, numbers = terms.clients, prepared.objective.size
        wire = prepared.config.run.wire
        up = message_bytes(math.ceil(numbers / terms.blocks), wire)
        down = message_bytes(numbers, wire)
        sending = min(clients, size)  # a client without a gradient in a round sends nothing
        return cls(size, rounds, rounds * sending * up, (rounds + 1) * clients * down, why)


def _planned(prepared: Prepared) -> tuple[int, int] | None:
    """Return the number and the size of the rounds, over all clients, of the constant schedule with least noise, or None."""
    made = prepared.privacy
    if not isinstance(made, Guarantee) or not 0 < made.epsilon <= _MOST_EPSILON:
        return None
    client, terms = made.costliest, made.certificate.terms
    gradients = sum(terms.share(i, client) for i in range(terms.rounds))
    try:
        found = plan(made.epsilon, made.delta, made.certificate.records[client], gradients, power=0.0, compare=False)
    except CrescendoError:  # no constant rounds reach that epsilon
        return None
    return found.rounds, math.ceil(prepared.sizes.gradients / found.rounds)


_IN_JSON = (
    "gradients",
    "rounds",
    "broadcasts",
    "bytes_up",
    "bytes_down",
    "loss",
    "accuracy",
    "max_rounds_ahead",
    "max_delay_used",
    "waits",
    "virtual_seconds",
    "wall_seconds",
    "privacy",
    "run",
)
"""The fields of a result that its JSON object has as they are, in its order."""


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The result of a run."""

    gradients: int
    rounds: int
    broadcasts: int
    bytes_up: int
    bytes_down: int
    loss: float | None
    accuracy: float | None
    max_rounds_ahead: int
    max_delay_used: float | None
    waits: int
    virtual_seconds: float
    wall_seconds: float
    privacy: Row | None
    run: str | None
    model: Floats
    metrics: list[Row]
    trace: Trace
    prepared: Prepared
    noise_free: Row | None = None  # the last metrics of the same run without its noise

    def __repr__(self) -> str:
        return result_view.in_a_line(self)

    def _repr_html_(self) -> str:
        return result_view.as_html(self)

    def summary(self) -> str:
        """Return the result as text, a line for each fact."""
        return result_view.summary(self)

    @property
    def config(self) -> Config:
        """The run file: ``print`` shows the keys that differ from their defaults, ``to_toml`` returns the whole file."""
        return self.prepared.config

    @property
    def history(self) -> Any:
        """The measured models, a row each: a pandas DataFrame, or a list of dictionaries if pandas is not installed."""
        return result_view.history(self.metrics)

    def plot(self, against: str = "gradients") -> Any:
        """Plot the accuracy against gradients, k (rounds), seconds or bytes, as a plotly figure."""
        return result_view.plot(self.metrics, self.prepared.dataset.name, against)

    def predict(self, x: Any) -> Array:
        """Predict the label, as written in the training data, of each row of ``x``: an array, data frame or tensor.

        A data frame has the columns of the training table, in any order and with or without the label. Texts, missing cells and
        numbers of any size become features as they did in training.
        """
        data = self.prepared.dataset
        records = records_of(x, data.train, data.schema, data.names, data.scaling)
        return result_view.predicted(self.prepared.objective, self.model, records, data.classes)

    def score(self, x: Any, y: Any = None) -> dict[str, Any]:
        """Return the model's accuracy (or rmse and R²) on records with labels, beside the best constant answer's.

        ``y`` are the labels or the column that has them. It may be left out if the training table named that column.
        """
        data, like = self.prepared.dataset, self.prepared.dataset.train
        label = (data.schema.label if data.schema is not None else None) or self.config.data.label
        kept = LearnedRecords(data.features, like.shape, data.names, data.schema, data.scaling, label)
        return scores(answers(self.prepared.objective, self.model, kept, data.classes, x, y))

    @cached_property
    def constant(self) -> _Savings:
        """The cost of the same gradients in rounds that do not grow."""
        return _Savings.of(self.prepared)

    def torch_model(self) -> Any:
        """Return the trained torch module: a copy of the given one with the last weights."""
        if not self.is_torch:
            raise UsageError("this run trained no torch module; its model is the vector result.model")
        return getattr(self.prepared.objective, "module")(self.model)  # noqa: B009

    @property
    def is_torch(self) -> bool:
        """Whether the run trained a torch module."""
        return getattr(self.prepared.objective, "module", None) is not None

    def jax_params(self) -> Any:
        """Return the trained parameters of a JAX model: a pytree of JAX arrays, like the given one."""
        made = getattr(self.prepared.objective, "pytree", None)
        if made is None:
            raise UsageError("this run trained no JAX model; its model is the vector result.model")
        return made(self.model)

    @property
    def trained(self) -> Trained:
        """The kind of the trained model: a built-in regression, "torch" or "own"."""
        if isinstance(self.prepared.objective, LinearModel):
            return cast(Trained, self.prepared.objective.traits.name)
        return "torch" if self.is_torch else "own"

    def state_dict(self) -> Any:
        """Return the trained module's tensors by name, for ``load_state_dict``."""
        return self.torch_model().state_dict()

    def sklearn_model(self) -> Any:
        """Return a fitted scikit-learn ``LogisticRegression``, or ``LinearRegression`` for least squares."""
        goal, data = self.prepared.objective, self.prepared.dataset
        if not isinstance(goal, LinearModel):
            raise UsageError("this run trained no built-in regression; its model is the vector result.model")
        return sklearn_regression(self.model, self.trained, data.classes, goal.intercept, data.scaling)

    @cached_property
    def diverged(self) -> str | None:
        """The sentence on a run that diverged or did not learn: its last loss exceeds its first or is not finite."""
        first, room = self.metrics[0]["loss"], self.prepared
        if first is not None and self.loss is not None and self.loss <= first:
            return None
        noisy = room.privacy if self.privacy is not None else None
        drowned = None if noisy is None else about_noise(noisy.certificate)
        known = self.privacy is None and room.step_room is not None  # then a smaller step size would do
        unlike = None if known else unlike_columns(room.dataset, self.privacy is not None)
        return divergence(first, self.loss, room.config.schedule.steps, room.step_room, drowned, unlike)

    @cached_property
    def references(self) -> References:
        """Reference scores: the commonest class and, if it is cheap, a pooled fit without privacy."""
        return references_of(self)

    @cached_property
    def doubt(self) -> Doubt | None:
        """The doubt about a run that scored below a constant answer or far below a pooled fit, without diverging."""
        return None if self.diverged is not None else Doubt.of(self)

    @property
    def trouble(self) -> str | None:
        """The sentence on a run that diverged or is in doubt; None for a success."""
        return self.diverged or (None if self.doubt is None else self.doubt.says)

    def as_json(self) -> Row:
        """Return the JSON object of ``crescendo run --json``."""
        found = {name: getattr(self, name) for name in _IN_JSON}
        if self.privacy is not None:
            cost = {"noise_free_accuracy": self.noise_free["accuracy"]} if self.noise_free is not None else {}
            found["privacy"] = {**self.privacy, **cost}
        return {
            **found,
            "references": self.references.plain(),
            "diverged": self.diverged,
            "doubt": None if self.doubt is None else self.doubt.says,
        }
