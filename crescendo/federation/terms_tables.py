"""The tables that run files and terms have in common: what was typed into the one is checked again when it comes in the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from crescendo.errors import ConfigError
from crescendo.federation.schedule_terms import Schedule
from crescendo.tables import POSITIVE, Section, as_tuple, explain, key, one_of


class Run(Section):
    seed: int = key(0, "a whole number from 0 to 2^63 - 1", "the one source of all randomness", ge=0, lt=2**63)
    wire: Literal["float64", "float32", "float16", "bfloat16"] = key(
        "float32", one_of("float64", "float32", "float16", "bfloat16"), "how a vector's numbers travel"
    )


SigmaSteps = Annotated[
    tuple[Annotated[tuple[Annotated[int, Field(ge=1)], Annotated[float, Field(gt=0)]], BeforeValidator(as_tuple)], ...],
    BeforeValidator(as_tuple),
    Field(min_length=1),
]
Counts = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(as_tuple)]


class Privacy(Section):
    mechanism: Literal["none", "minibatch", "local"] = key(
        "none",
        one_of("none", "minibatch", "local"),
        "how a client's releases are made private; with none nothing is claimed",
    )
    epsilon: float | None = key(
        None, POSITIVE, "what every client may spend over the run; a run that spends more is refused", gt=0
    )
    delta: float | None = key(None, "a number between 0 and 1", "the delta of that epsilon", gt=0, lt=1)
    sigma: Annotated[float, Field(gt=0)] | SigmaSteps | None = key(
        None,
        "a number above 0, or a list of [rounds, sigma]",
        "noise of a round over what one record can change; left out, the least that keeps epsilon",
    )
    clip: float | None = key(None, POSITIVE, "C, the length that each record's gradient is cut to", gt=0)
    norm_bound: float | None = key(
        None, POSITIVE, "R, the length that each record (x, 1) is scaled down to; local needs it", gt=0
    )
    records: Annotated[int, Field(ge=1)] | Counts | None = key(
        None,
        "a whole number of at least 1, or a list of one per client",
        "how many records each client declares; typed in, never counted",
    )

    @model_validator(mode="after")
    def _all_or_nothing(self) -> Self:
        given = [name for name in Privacy.model_fields if name != "mechanism" and getattr(self, name) is not None]
        if self.mechanism == "none":
            if given:
                raise ValueError(
                    f'privacy.{given[0]} does nothing with privacy.mechanism = "none"; leave it out or choose one'
                )
            return self
        for name in ("delta", "clip", "records"):
            if name not in given:
                raise ValueError(f'privacy.{name} is missing; privacy.mechanism = "{self.mechanism}" needs it')
        if self.epsilon is None and self.sigma is None:
            raise ValueError("privacy.epsilon or privacy.sigma is missing; state what may be spent, the noise, or both")
        return self


class TermsTables(Section):
    """What terms have in common with a run file."""

    run: Run
    schedule: Schedule
    privacy: Privacy = Privacy()


def tables_of(raw: Mapping[str, Any]) -> TermsTables:
    """The tables of terms that have the right shape, or ConfigError."""
    private = raw["privacy"] if raw["privacy"] is not None else {}
    found = {
        "run": raw["run"],
        "schedule": raw["schedule"],
        "privacy": {name: value for name, value in private.items() if value is not None},
    }
    try:
        return TermsTables.model_validate(found)
    except ValidationError as error:
        raise ConfigError(explain(error, found, TermsTables, "terms have")) from None
