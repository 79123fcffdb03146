"""Tables of the terms. Those shared with run files are checked again when they come from a peer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from crescendo.data.labels import Classes
from crescendo.data.records import Label
from crescendo.data.tables.feature_schema import Schema
from crescendo.errors import ConfigError
from crescendo.federation.objective_terms import KIND, MOST_OWN_FEATURES, Described
from crescendo.federation.schedule_terms import Schedule
from crescendo.federation.terms_limits import check_values
from crescendo.objectives.base import Objective
from crescendo.objectives.model_file import library_of
from crescendo.objectives.objective_kinds import OBJECTIVES
from crescendo.privacy.mechanisms.mechanism_kinds import MECHANISMS, NONE, is_mechanism
from crescendo.tables import AS_TUPLE, FLAG, NOT_NEGATIVE, NUMBER, POSITIVE, KnownWord, Section, key, one_of

LONGEST_NAME = 128  # letters
MOST_FEATURES = 50_000_000
MOST_NUMBERS = 1 << 30  # of a described model


class Run(Section):
    seed: int = key(0, "a whole number from 0 to 2^63 - 1", "the one source of all randomness", ge=0, lt=2**63)
    wire: Literal["float64", "float32", "float16", "bfloat16"] = key(
        "float32", one_of("float64", "float32", "float16", "bfloat16"), "the number format of vectors in messages"
    )


SigmaSteps = Annotated[
    tuple[Annotated[tuple[Annotated[int, Field(ge=1)], Annotated[float, Field(gt=0)]], AS_TUPLE], ...],
    AS_TUPLE,
    Field(min_length=1),
]
LayerSteps = SigmaSteps  # pairs of the same kind
Counts = Annotated[tuple[Annotated[int, Field(ge=1)], ...], AS_TUPLE]


class Privacy(Section):
    mechanism: Annotated[str, KnownWord(is_mechanism, lambda: one_of(NONE, *MECHANISMS))] = key(
        NONE,
        "",
        "how a client's releases are made private; none claims no privacy",
    )
    epsilon: float | None = key(
        None,
        POSITIVE,
        "the epsilon that each client may spend over the run; a run that would spend more is refused",
        gt=0,
    )
    delta: float | None = key(None, "a number between 0 and 1", "the delta that goes with epsilon", gt=0, lt=1)
    sigma: Annotated[float, Field(gt=0)] | SigmaSteps | None = key(
        None,
        "a number above 0, or a list of [rounds, sigma]",
        "noise multiplier: the noise of a round divided by what one record can change; left out, the smallest that keeps "
        "within epsilon",
    )
    clip: Annotated[float, Field(gt=0)] | LayerSteps | None = key(
        None,
        "a number above 0, or a list of [numbers, clip]",
        "C, the length that each record's gradient is clipped to; a list clips each layer separately, in the order of the "
        "model's numbers; under batch-clip, C applies to a client's whole update",
    )
    norm_bound: float | None = key(
        None, POSITIVE, "R, the length that a longer record (x, 1) is scaled down to; local needs it", gt=0
    )
    records: Annotated[int, Field(ge=1)] | Counts | None = key(
        None,
        "a whole number of at least 1, or a list of one per client",
        "the number of records that each client declares; stated, never counted from data",
    )

    @model_validator(mode="after")
    def _all_or_nothing(self) -> Self:
        given = [name for name in Privacy.model_fields if name != "mechanism" and getattr(self, name) is not None]
        if self.mechanism == NONE:
            if given:
                raise ValueError(
                    f'privacy.{given[0]} has no effect with privacy.mechanism = "none"; '
                    f"remove that key, or choose a mechanism"
                )
            return self
        for name in MECHANISMS[self.mechanism].needs:
            if name not in given:
                raise ValueError(f'privacy.{name} is missing; privacy.mechanism = "{self.mechanism}" needs it')
        if self.epsilon is None and self.sigma is None:
            raise ValueError("privacy.epsilon or privacy.sigma is missing; state the budget, the noise, or both")
        return self


# -- tables of terms only ----------------------------------------------------------------------------------------------


def _as_name(value: str) -> str:
    if not (value.strip() and value.isprintable()):
        raise ValueError("names must be printable")
    return value


Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_as_name)]
_NAME = f"a printable text of 1 to {LONGEST_NAME} letters"
_DTYPE = one_of("float64", "float32")
_LABELS = "a list of labels in rising order"


class _ClientsTable(Section):
    names: Annotated[tuple[Name, ...], AS_TUPLE] = key(..., f"a list of names, each {_NAME}", "", min_length=1)
    weights: Annotated[tuple[float, ...], AS_TUPLE] = key(..., "a list of numbers, one per client", "")
    shares: Literal["expected", "coin"] = key(..., one_of("expected", "coin"), "")
    combine: Literal["sum", "mean"] = key("sum", one_of("sum", "mean"), "")

    @model_validator(mode="after")
    def _one_per_client(self) -> Self:
        if len(set(self.names)) != len(self.names):
            raise ValueError("two clients have the same name")
        if len(self.weights) != len(self.names):
            raise ValueError(f"clients.weights has {len(self.weights)} numbers for {len(self.names)} clients")
        return self


def _check_classes(classes: list[Label] | None) -> None:
    if classes is not None and Classes.stated(classes) != tuple(classes):
        raise ValueError("classes are a list of labels in rising order")


class _OursTable(Section):
    """An objective of `OBJECTIVES`."""

    kind: str
    features: int = key(..., f"a whole number from 1 to {MOST_FEATURES}", "", ge=1, le=MOST_FEATURES)
    l2: float = key(..., NOT_NEGATIVE, "", ge=0)
    intercept: bool = key(..., FLAG, "")
    dtype: Literal["float64", "float32"] = key(..., _DTYPE, "")
    classes: list[Label] | None = key(..., _LABELS, "")
    label_range: Annotated[tuple[float, float], AS_TUPLE] | None = key(None, "a list of two numbers", "")

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a policy may allow the objective."""
        return (self.kind,)

    def objective(self) -> Objective:
        """Return the objective of these terms; raise ValueError or ConfigError for invalid classes."""
        _check_classes(self.classes)
        kind, many = OBJECTIVES[self.kind], None if self.classes is None else len(self.classes)
        if kind.numbers and many is not None:
            raise ValueError(f"{kind.about} predicts numbers, which have no classes")
        if not kind.numbers and self.label_range is not None:
            raise ValueError(f"{kind.about} has no label_range")
        if many is not None and not kind.fits(many):
            raise ValueError(f"{kind.about} tells {kind.many} classes apart, not {many}")
        made = kind.make(
            self.features,
            many,
            l2=self.l2,
            intercept=self.intercept,
            dtype=np.dtype(self.dtype),
            label_range=self.label_range,
        )
        if made.size > MOST_FEATURES + 1:
            raise ValueError(f"a model of {made.size} numbers is too large; {MOST_FEATURES + 1} are allowed")
        return made


class _OwnTable(Section):
    kind: str = key(..., 'one of ours or "file.py:Name"', "", pattern=f"^{KIND.pattern}$")
    sha256: str = key(..., "a SHA-256 in hex", "", pattern="^[0-9a-f]{64}$")
    features: int = key(..., f"a whole number from 1 to {MOST_OWN_FEATURES}", "", ge=1, le=MOST_OWN_FEATURES)
    options: dict[str, Any] = key(..., "a table", "")
    size: int = key(..., f"a whole number from 1 to {MOST_NUMBERS}", "", ge=1, le=MOST_NUMBERS)
    l2: float = key(..., NOT_NEGATIVE, "", ge=0)
    dtype: Literal["float64", "float32"] = key(..., _DTYPE, "")
    classes: list[Label] = key(..., _LABELS, "")
    labels: Literal["class numbers"] | None = key(None, one_of("class numbers"), "")
    start: float = key(..., NUMBER, "")

    @property
    def names(self) -> tuple[str, ...]:
        return self.kind, self.sha256

    def objective(self) -> Described:
        """Return the described model. Old terms have no ``labels``: their two classes are -1 and +1, except in a neural model."""
        _check_classes(self.classes)
        signed = self.labels is None and len(self.classes) == 2 and not library_of(self.kind)
        kind = np.dtype(self.dtype)
        return Described(
            self.kind, self.sha256, self.features, self.options, self.size, self.l2, kind, self.start, signed
        )


def _check_schema(raw: dict[str, Any]) -> dict[str, Any]:
    """Require the canonical form; `Schema` checks a peer's numbers and names against its limits."""
    try:
        made = Schema.of(raw)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    if made.plain() != raw:
        raise ValueError("the schema is not in canonical form")
    return raw


class TermsTable(Section):
    """The complete terms."""

    federation: Name = key(..., _NAME, "")
    run: Run
    clients: _ClientsTable
    objective: _OursTable | _OwnTable
    schedule: Schedule
    privacy: Privacy | None
    schema: Annotated[dict[str, Any], AfterValidator(_check_schema)] | None = key(  # type: ignore[assignment]
        None, "a table with columns", ""
    )

    @staticmethod
    def read(raw: Any) -> TermsTable:
        """Read terms from plain data; raise ValueError if they are invalid."""
        check_values(raw)
        goal = raw.get("objective") if isinstance(raw, dict) else None
        kind = goal.get("kind") if isinstance(goal, dict) else None
        whole = _Ours if isinstance(kind, str) and kind in OBJECTIVES else _Own
        try:
            return whole.checked(raw, "terms have")
        except ConfigError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _private_to_the_end(self) -> Self:
        private, clients = self.privacy, len(self.clients.names)
        if private is None:
            return self
        if private.mechanism == NONE or private.sigma is None or set(Privacy.model_fields) != private.model_fields_set:
            raise ValueError(f"private terms have {', '.join(Privacy.model_fields)}, a mechanism and its noise")
        if not isinstance(private.records, tuple) or len(private.records) != clients:
            raise ValueError(f"privacy.records must be whole numbers of at least 1, one for each of {clients} clients")
        return self


class _Ours(TermsTable):
    objective: _OursTable


class _Own(TermsTable):
    objective: _OwnTable
