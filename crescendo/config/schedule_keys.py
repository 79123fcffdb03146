"""The keys under ``[schedule]``: how long the run is, round sizes, step sizes and the wait rule."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from crescendo.config.sections import (
    COUNT,
    FLAG,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    WHOLE,
    Section,
    as_tuple,
    key,
    number_as,
    one_of,
)


def _word_as_kind(value: object) -> object:
    return {"kind": value} if isinstance(value, str) else value


Count = Annotated[int, Field(ge=1)]
_AS_TUPLE = BeforeValidator(as_tuple)


class ConstantSize(Section):
    kind: Literal["constant"]
    size: int = key(..., COUNT, "s_i = size", ge=1)
    per_client: bool = key(False, FLAG, "the sizes are for each client, not for all together")


class PowerSize(Section):
    kind: Literal["power"]
    scale: float = key(..., POSITIVE, "s_i = ceil(scale (i + shift)^power + offset)", gt=0)
    power: float = key(1.0, NOT_NEGATIVE, "how fast the rounds grow: 0 constant, 1 linear", ge=0)
    shift: float = key(1.0, NOT_NEGATIVE, "where the sequence starts", ge=0)
    offset: float = key(0.0, NUMBER, "added to every round")
    per_client: bool = key(False, FLAG, "the sizes are for each client, not for all together")


class LogSize(Section):
    kind: Literal["log"]
    scale: float = key(..., POSITIVE, "s_i = ceil(scale (i + shift) / ln(i + shift) + offset)", gt=0)
    shift: float = key(2.0, "a number of at least 2", "where the sequence starts", ge=2)
    offset: float = key(0.0, NUMBER, "added to every round")
    per_client: bool = key(False, FLAG, "the sizes are for each client, not for all together")


class TheoremSize(Section):
    kind: Literal["theorem"]
    d: int = key(1, WHOLE, "rounds a client may run ahead in the theorem", ge=0)
    m: int = key(..., WHOLE, "where the sequence starts; m + 1 >= 2e(d + 1)", ge=0)
    per_client: bool = key(False, FLAG, "the sizes are for each client, not for all together")


class ConstantGamma(Section):
    kind: Literal["constant"]
    value: float = key(1.0, "a number of at least 1", "gamma(z) = value", ge=1)


class LogGamma(Section):
    kind: Literal["log"]
    scale: float = key(4.0, POSITIVE, "gamma(z) = scale ln z", gt=0)


Gamma = Annotated[ConstantGamma | LogGamma, Field(discriminator="kind")]
GammaKey = Annotated[Gamma, number_as("value"), BeforeValidator(_word_as_kind)]
GAMMA = 'a number of at least 1, "log" or a table with a kind'


class RecipeSize(Section):
    kind: Literal["recipe"]
    g: float = key(2.0, "a number above 1", "exponent of the recipe: delays grow like t^(1/g)", gt=1)
    gamma: GammaKey = key(..., GAMMA, "the recipe's slowly growing function")
    d: int = key(1, WHOLE, "rounds a client may run ahead", ge=0)
    m: int = key(..., WHOLE, "where the sequence starts", ge=0)
    per_client: bool = key(False, FLAG, "the sizes are for each client, not for all together")


class ListedSize(Section):
    kind: Literal["list"]
    values: Annotated[tuple[Count | Annotated[tuple[Count, Count], _AS_TUPLE], ...], _AS_TUPLE] = key(
        ...,
        "a list of whole numbers of at least 1, or of pairs of them",
        "s_0, s_1, ..; a pair [size, rounds] is that many rounds of one size; the last size repeats",
        min_length=1,
    )
    per_client: bool = key(False, FLAG, "the sizes are for each client, not for all together")


PER: dict[str, str] = {
    "right": one_of("slot", "round"),
    "says": "whether the step falls at every gradient or once a round",
}


class ConstantStep(Section):
    kind: Literal["constant"]
    eta: float = key(..., POSITIVE, "eta", gt=0)


class DiminishingStep(Section):
    kind: Literal["diminishing"]
    eta0: float = key(..., POSITIVE, "eta0 / (1 + beta t), t counting gradients over all clients", gt=0)
    beta: float = key(..., NOT_NEGATIVE, "how fast it falls", ge=0)
    root: bool = key(False, FLAG, "with the square root of t in place of t")
    per: Literal["slot", "round"] = key("round", **PER)


class CurvatureStep(Section):
    kind: Literal["curvature"]
    eta0: float = key(..., POSITIVE, "eta0 (t + 1)^(-1 / (2 - h))", gt=0)
    h: float = key(..., "a number from 0 to 1", "curvature of the objective: 0 convex, 1 strongly convex", ge=0, le=1)
    per: Literal["slot", "round"] = key("round", **PER)


class TheoremStep(Section):
    kind: Literal["theorem"]
    mu: float | None = key(None, POSITIVE, "strong convexity; left out, the objective's l2", gt=0)
    m: int | None = key(None, WHOLE, "left out, the m of theorem sizes", ge=0)
    m1: float | None = key(None, POSITIVE, "left out, the theorem's M1 for this objective and data", gt=0)


class ConstantTau(Section):
    kind: Literal["constant"]
    tau: float = key(..., POSITIVE, "tau(t) = tau", gt=0)


class PowerTau(Section):
    kind: Literal["power"]
    scale: float = key(..., POSITIVE, "tau(t) = scale (t + shift)^power + offset", gt=0)
    power: float = key(0.5, "a number from 0 to 1", "how fast the allowed delay grows", ge=0, le=1)
    shift: float = key(0.0, NOT_NEGATIVE, "added to every label", ge=0)
    offset: float = key(0.0, NOT_NEGATIVE, "added to every delay", ge=0)


class RecipeTau(Section):
    kind: Literal["recipe"]
    g: float = key(2.0, "a number above 1", "tau(t) = m1 + ((t + m0) / gamma(t + m0))^(1/g)", gt=1)
    gamma: GammaKey = key(..., GAMMA, "the recipe's slowly growing function")
    m0: float = key(..., NOT_NEGATIVE, "added to every label", ge=0)
    m1: float = key(..., NOT_NEGATIVE, "added to every delay", ge=0)


class TheoremTau(Section):
    kind: Literal["theorem"]


Tau = Annotated[ConstantTau | PowerTau | RecipeTau | TheoremTau, Field(discriminator="kind")]


class Wait(Section):
    rounds: int | None = key(
        None,
        WHOLE,
        "a client may work on round i while i <= k + rounds; 0 is synchronous",
        ge=0,
    )
    tau: Annotated[Tau | None, number_as("tau"), BeforeValidator(_word_as_kind)] = key(
        None, 'a number, "theorem" or a table with a kind', "the delay bound tau(t), in place of `rounds`"
    )
    d: int | None = key(None, WHOLE, "rounds ahead that tau must leave room for, checked", ge=0)
    m: int | None = key(None, WHOLE, 'for tau = "theorem"; left out, the m of theorem sizes', ge=0)
    m1: float | None = key(
        None, POSITIVE, 'for tau = "theorem"; left out, the theorem\'s M1 for this objective and data', gt=0
    )

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if (self.rounds is None) == (self.tau is None):
            raise ValueError("schedule.wait must have exactly one of rounds and tau; rounds = 1 suits most runs")
        if self.rounds is not None and self.d is not None:
            raise ValueError("schedule.wait.d goes with tau only; with the rule by rounds, d is schedule.wait.rounds")
        if (self.m, self.m1) != (None, None) and not isinstance(self.tau, TheoremTau):
            raise ValueError('schedule.wait.m and schedule.wait.m1 go with tau = "theorem" only; leave them out')
        return self


Size = Annotated[
    ConstantSize | PowerSize | LogSize | TheoremSize | RecipeSize | ListedSize, Field(discriminator="kind")
]
Step = Annotated[ConstantStep | DiminishingStep | CurvatureStep | TheoremStep, Field(discriminator="kind")]
LENGTHS = ("gradients", "gradients_per_client", "rounds")


class Schedule(Section):
    gradients: int | None = key(None, COUNT, "gradients over all clients; the last round is cut to fit", ge=1)
    gradients_per_client: int | None = key(None, COUNT, "the same, given for each client", ge=1)
    rounds: int | None = key(None, COUNT, "or the number of rounds", ge=1)
    sizes: Size = key(..., "a table with a kind", "gradients of round i, rounds counted from 0")
    steps: Step = key(..., "a table with a kind", "the step size")
    wait: Wait = key(Wait(rounds=1), "a table with rounds or tau", "how far a client may run ahead")
    blocks: int = key(1, COUNT, "D: one of D blocks of coordinates per round moves and is sent, 1/D of the bytes", ge=1)

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        given = [name for name in LENGTHS if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise ValueError(
                f"schedule must have exactly one of gradients, gradients_per_client and rounds, and has {found}; "
                "it says how long the run is"
            )
        return self
