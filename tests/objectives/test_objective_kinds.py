"""An objective of one's own under a name is one class and one call: run files, terms, policies and errors follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from crescendo.config.loading import read
from crescendo.config.reference import reference
from crescendo.config.to_terms import terms_text
from crescendo.core.arrays import Ints, Vector
from crescendo.data.records import Records
from crescendo.errors import ConfigError, Refused, UsageError
from crescendo.federation.agreement import build_terms
from crescendo.objectives.base import LoopStepper, Stepper, Traits
from crescendo.objectives.nets.net_names import NETS
from crescendo.objectives.objective_kinds import OBJECTIVES, ObjectiveKind, register
from crescendo.runs.simulate import simulate
from crescendo.tables import one_of
from tests.config.small import small
from tests.conformance.cases import PRIVATE, case

NETS_AND_FILES = (*NETS, "file.py:Name", "torch:file.py:Name", "jax:file.py:Name")


@dataclass(frozen=True)
class Least:
    """Least squares of the label, which is a number; no compiled loop of its own."""

    features: int
    l2: float
    intercept: bool
    dtype: Any
    classes: int = 2

    @property
    def size(self) -> int:
        return self.features + self.intercept

    @property
    def traits(self) -> Traits:
        return Traits(name="least squares", l2=self.l2, intercept=self.intercept, features=self.features)

    def _design(self, data: Records, rows: Ints) -> Vector:
        x = np.asarray(data.x[rows], dtype=np.float64)
        return np.hstack([x, np.ones((len(rows), 1))]) if self.intercept else x

    def initial(self, rng: np.random.Generator) -> Vector:
        return np.zeros(self.size)

    def gradient(self, w: Vector, data: Records, rows: Ints) -> Vector:
        x = self._design(data, rows)
        return np.asarray(x.T @ (x @ w - data.y[rows]))

    def evaluate(
        self, w: Vector, data: Records, weighted: npt.ArrayLike | None = None, metrics: Sequence[str] = ()
    ) -> dict[str, Any]:
        error = self._design(data, np.arange(len(data))) @ w.T - (data.y if w.ndim == 1 else data.y[:, None])
        return {"loss": (error**2).mean(axis=0) / 2}

    def stepper(self, data: Records) -> Stepper:
        return LoopStepper(self, data)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(ObjectiveKind("least", Least, "least squares", classes=2), ObjectiveKind("parts", Least, "a sum of parts"))
    yield
    del OBJECTIVES["least"], OBJECTIVES["parts"]


def test_a_registered_objective_runs_from_a_run_file() -> None:
    result = simulate(small("objective.kind=least", "objective.intercept=false", "schedule.steps.eta0=0.01"))
    assert result.prepared.objective == Least(3, 0.01, False, np.dtype("float64"))
    losses = [row["loss"] for row in result.metrics]
    assert len(result.model) == 3 and losses[-1] < losses[0]


def test_one_that_tells_any_number_of_classes_apart_is_told_how_many() -> None:
    made = simulate(small("objective.kind=parts", "data.source=iris", "schedule.steps.eta0=0.001")).prepared.objective
    assert isinstance(made, Least) and made.classes == 3


def test_it_is_certified_like_any_other() -> None:
    private = {"mechanism": "minibatch", **PRIVATE}
    made = build_terms(terms_text(read(case(objective={"kind": "least"}, privacy=private))))
    assert made.certificate is not None and made.certificate.objective == Least(4, 0.01, True, np.dtype("float64"))


def test_both_sides_of_a_federation_build_it_from_the_terms_and_one_without_it_refuses() -> None:
    text = terms_text(read(case(objective={"kind": "least"})))
    assert '"kind":"least"' in text
    made = build_terms(text)
    assert made.objective == Least(4, 0.01, True, np.dtype("float64")) and made.learns == ("least",)
    kind = OBJECTIVES.pop("least")
    with pytest.raises(Refused, match="objective"):
        build_terms(text)
    register(kind)


def test_mistakes_are_answered_as_for_logistic() -> None:
    with pytest.raises(ConfigError) as caught:
        small("objective.kind=leasst")
    assert str(caught.value) == (
        f'objective.kind must be {one_of(*OBJECTIVES, *NETS_AND_FILES)}, not "leasst"; did you mean "least"?'
    )
    with pytest.raises(ConfigError, match=r"objective.options is for networks"):
        small("objective.kind=least", "objective.options={a = 1}")
    with pytest.raises(ConfigError, match="iris has 3 classes and least squares needs exactly two"):
        simulate(small("objective.kind=least", "data.source=iris"))
    with pytest.raises(ConfigError, match=r"data.classes has 3 labels, and least squares needs exactly two; name two"):
        terms_text(read(case(objective={"kind": "least"}, data={"classes": [1, 2, 3]})))
    with pytest.raises(ConfigError, match=r"data.classes is missing; a sum of parts has weights for each class"):
        build_terms(terms_text(read(case(objective={"kind": "parts"}))))
    assert f"| `objective.kind` | {one_of(*OBJECTIVES, *NETS_AND_FILES)} |" in reference()


def test_a_name_is_registered_once_and_is_not_that_of_a_file() -> None:
    for name in ("logistic", "lenet", "file.py:Name"):
        with pytest.raises(UsageError, match="choose another name"):
            register(ObjectiveKind(name, Least, "least squares"))
