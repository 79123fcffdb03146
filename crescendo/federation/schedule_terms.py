"""Schedules: the table in run files and terms, and the sizes, steps and delay that it unfolds into.

The keys of each kind come from `crescendo.schedules.kinds`; this file declares the length of the run and the wait rule.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import model_validator

from crescendo.data.records import Records
from crescendo.errors import ConfigError, UsageError
from crescendo.federation.kind_tables import WORD_AS_KIND, at, made, tables
from crescendo.objectives.base import Objective
from crescendo.schedules import (
    ConstantSteps,
    CutSizes,
    Delay,
    PerClient,
    RecipeSizes,
    ScheduleCertificate,
    Sizes,
    Steps,
    StronglyConvexDelay,
    StronglyConvexSizes,
    TheoremSteps,
    certify,
)
from crescendo.schedules.kinds import DELAYS, SIZES, STEPS
from crescendo.schedules.theory import ConstantRate, Theorem
from crescendo.tables import COUNT, FLAG, POSITIVE, WHOLE, Section, key, number_as

_SIZES = tables(SIZES, per_client=(bool, key(False, FLAG, "true if sizes are per client, not over all clients")))


class _WaitRule(Section):
    rounds: int | None = key(None, WHOLE, "a client may work on round i while i <= k + rounds; 0 is synchronous", ge=0)
    tau: Annotated[Annotated[Section, tables(DELAYS)] | None, number_as("tau"), WORD_AS_KIND] = key(
        None, 'a number, "theorem" or a table with a kind', "the delay bound tau(t), in place of `rounds`"
    )
    d: int | None = key(None, WHOLE, "number of rounds ahead that tau must allow; checked before the run", ge=0)
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
        if (self.m, self.m1) != (None, None) and not self.is_theorem:
            raise ValueError('schedule.wait.m and m1 go with tau = "theorem" only; remove them from [schedule.wait]')
        return self

    @property
    def is_theorem(self) -> bool:
        return getattr(self.tau, "kind", None) == "theorem"


class _Auto(Section):
    """The word "auto", replaced by numbers before a run begins and before terms are written."""

    kind: Literal["auto"]


_OTHER_SIZES = (
    "The step sizes are the theorem's but the round sizes are not, so the theorem makes no promise about this run."
)
_OF_THE_SUM = (
    "The theorem is about the sum of the clients' updates, but this run takes their mean, so it makes no promise here; "
    'set clients.combine = "sum" to compare the run with it.'
)
_LENGTHS = ("gradients", "gradients_per_client", "rounds")


class Schedule(Section):
    gradients: int | None = key(
        None, COUNT, "length in gradients, over all clients; the last round is cut to fit", ge=1
    )
    gradients_per_client: int | None = key(None, COUNT, "length in gradients per client", ge=1)
    rounds: int | None = key(None, COUNT, "length in rounds", ge=1)
    sizes: Annotated[Section, _SIZES] = key(..., "a table with a kind", "s_i, the gradients of round i, counted from 0")
    steps: Annotated[Section, tables(STEPS, _Auto), WORD_AS_KIND] = key(
        ..., '"auto" or a table with a kind', "the step sizes; auto chooses them and says why (docs/auto_steps.md)"
    )
    wait: _WaitRule = key(_WaitRule(rounds=1), "a table with rounds or tau", "how far a client may run ahead")
    blocks: int = key(1, COUNT, "D: each round moves and sends one of D blocks of coordinates, 1/D of the bytes", ge=1)

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        given = [name for name in _LENGTHS if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise ValueError(
                f"schedule must have exactly one of gradients, gradients_per_client and rounds, the length of the run, "
                f"but has {found}"
            )
        return self

    @property
    def is_auto(self) -> bool:
        return isinstance(self.steps, _Auto)

    def with_steps(self, table: dict[str, Any]) -> Self:
        """Return the schedule with other steps."""
        return type(self).model_validate({**self.model_dump(exclude_none=True), "steps": table})


@dataclass(frozen=True)
class RunSchedule:
    """A schedule for a number of clients. ``smooth`` (L) and ``convex`` (mu) are the objective's, None if unknown.

    The theorems' parameters m, M1 and mu are stated or follow from sizes and objective. The theory covers sums of
    updates without noise, so ``combine`` and ``private`` decide how much of it is shown. In terms (``of_terms``),
    omitted keys keep their original defaults: any recipe's m, and an M1 without the factor D of masks. New terms
    state other values explicitly.
    """

    asked: Schedule
    clients: int
    smooth: float | None = None
    convex: float | None = None
    combine: str = "sum"
    private: bool = False
    of_terms: bool = False

    @classmethod
    def of(
        cls,
        asked: Schedule,
        clients: int,
        objective: Objective,
        data: Records | None = None,
        norm_bound: float | None = None,
        *,
        combine: str = "sum",
        private: bool = False,
        of_terms: bool = False,
    ) -> Self:
        """Take L and mu from the objective if it knows them (mu = 0 is unknown); without data, L follows from the norm bound."""
        traits, smooth = objective.traits, None
        if traits.smoothness is not None and data is not None:
            smooth = traits.smoothness(float(data.squared_lengths(traits.intercept).max(initial=0.0)))
        elif traits.smoothness is not None and norm_bound is not None:
            smooth = traits.smoothness(norm_bound * norm_bound)
        return cls(asked, clients, smooth, traits.convexity or None, combine, private, of_terms)

    @cached_property
    def rule(self) -> Sizes:
        """The sizes over all clients, not cut to the run."""
        base: Sizes = made(SIZES, self.asked.sizes, "schedule.sizes")
        with at("schedule.sizes"):
            return PerClient(base, self.clients) if getattr(self.asked.sizes, "per_client", False) else base

    @property
    def gradients(self) -> int | None:
        """The gradients over all clients; None if the length is stated in rounds."""
        each = self.asked.gradients_per_client
        return self.asked.gradients if each is None else each * self.clients

    @cached_property
    def sizes(self) -> CutSizes:
        """The sizes over all clients, cut to exactly the stated length."""
        rule = self.rule
        with at("schedule.sizes"):
            if self.asked.rounds is not None:
                return CutSizes.of_rounds(rule, self.asked.rounds)
            assert self.gradients is not None
            return CutSizes(rule, self.gradients)

    @cached_property
    def steps(self) -> Steps:
        where = "schedule.steps"
        if self.asked.is_auto:
            raise ConfigError('schedule.steps = "auto" is not resolved yet: terms and running schedules need numbers')
        steps: Steps = made(STEPS, self.asked.steps, where, lambda name: self._given(name, None, where))
        return steps

    @cached_property
    def delay(self) -> Delay | None:
        wait, where = self.asked.wait, {"m": "schedule.wait", "m1": 'schedule.wait.tau = "theorem"'}
        if wait.tau is None:
            return None
        delay: Delay = made(
            DELAYS,
            wait.tau,
            "schedule.wait",
            lambda name: self._given(name, getattr(wait, name, None), where.get(name, "")),
        )
        return delay

    @cached_property
    def certificate(self) -> ScheduleCertificate:
        """The certificate over the whole run; raises Refused if there is none."""
        wait = self.asked.wait
        d = wait.rounds if wait.rounds is not None else wait.d
        found = certify(self.sizes, self.sizes.rounds, d=d, tau=self.delay, theorem=self._theorem)
        if self.combine != "sum" and (isinstance(self.steps, TheoremSteps) or StronglyConvexSizes.of(self.rule)):
            return replace(found, notes=(*found.notes, _OF_THE_SUM))
        if self.smooth is None or self.convex is None or self._beyond_theory:
            return found
        steps = self.steps
        if isinstance(steps, ConstantSteps) and self.asked.blocks == 1 and not self.private:
            smooth = max(self.smooth, self.convex)
            return found.against(ConstantRate(steps.eta, smooth, self.convex, found.consistent_delay, d))
        if isinstance(steps, TheoremSteps) and found.theorem is None:
            return replace(found, notes=(*found.notes, _OTHER_SIZES))
        return found

    @property
    def _beyond_theory(self) -> bool:
        """True if the theory does not apply: L or mu is unknown, or updates are not summed."""
        return self.smooth is None or self.convex is None or self.combine != "sum"

    @property
    def _theorem(self) -> Theorem | None:
        """The theorem to compare the run with; only for the theorem's own sizes."""
        own = StronglyConvexSizes.of(self.rule)
        if own is None or self.smooth is None or self.convex is None or self._beyond_theory:
            return None
        steps, smooth, mu, typed = self.steps, max(self.smooth, self.convex), self.convex, 0.0
        if isinstance(steps, TheoremSteps) and steps.m == own.m and steps.mu <= mu:
            mu, typed = steps.mu, steps.m1
        m1 = StronglyConvexDelay.theorem_m1(self._d, smooth, mu, self.sizes(0), blocks=self.asked.blocks)
        return Theorem(smooth, mu, own.m, max(m1, typed), self.asked.blocks, bounds=typed >= m1 and not self.private)

    def _given(self, name: str, typed: Any, where: str) -> Any:
        """Return a theorem's parameter: the stated value, otherwise the run's."""
        if typed is not None:
            return typed
        match name:
            case "m":
                return self._m(where)
            case "mu":
                return self._mu(where)
            case "m1":
                mu = self._mu(where)
                if self.smooth is None:
                    raise ConfigError(f"{where}.m1 is missing; the smoothness of this objective is unknown")
                blocks = 1 if self.of_terms else self.asked.blocks
                return StronglyConvexDelay.theorem_m1(self._d, self.smooth, mu, self.sizes(0), blocks=blocks)
        raise UsageError(f"a run does not supply {name}; give it a default")

    @property
    def _d(self) -> int:
        wait = self.asked.wait
        given = (wait.rounds, wait.d, getattr(self.asked.sizes, "d", None))
        return next((d for d in given if d is not None), 1)

    def _m(self, where: str) -> int:
        rule = self.rule.each if isinstance(self.rule, PerClient) else self.rule
        found = rule if self.of_terms and isinstance(rule, RecipeSizes) else StronglyConvexSizes.of(rule)
        if found is None:
            raise ConfigError(f'{where}.m is missing; only sizes of kind "theorem" imply it')
        return found.m

    def _mu(self, where: str) -> float:
        if self.convex is None:
            raise ConfigError(f"{where} needs a strongly convex objective; set objective.l2 above 0, such as 1/N")
        return self.convex
