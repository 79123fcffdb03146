"""From the [schedule] of a run file to sizes, steps, delay and the certificate that they fit together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from crescendo.config import schedule_keys as keys
from crescendo.config.schema import Config
from crescendo.errors import ConfigError, UsageError
from crescendo.schedules import Certificate, ConstantDelay, ConstantGamma, ConstantSizes, ConstantSteps, CurvatureSteps, CutSizes, Delay, DiminishingSteps, ListedSizes, LogGamma, LogSizes, PerClient, PowerDelay, PowerSizes, RecipeDelay, RecipeSizes, Sizes, Steps, StronglyConvexDelay, StronglyConvexSizes, TheoremSteps, certify, theorem_m1


@contextlib.contextmanager
def at(where: str) -> Iterator[None]:
    """A schedule names its own parameter; say where in the run file it stands."""
    try:
        yield
    except ConfigError:
        raise
    except UsageError as error:
        if type(error) is not UsageError:
            raise
        raise ConfigError(f"{where}: {error}") from None


def run_sizes(config: Config, clients: int) -> CutSizes:
    """The sizes over all clients, cut so that the run has exactly as many gradients as were asked for."""
    asked = config.schedule
    with at("schedule.sizes"):
        base = make_sizes(asked.sizes)
        if asked.sizes.per_client:
            base = PerClient(base, clients)
        if asked.rounds is not None:
            return CutSizes.of_rounds(base, asked.rounds)
        if asked.gradients is not None:
            return CutSizes(base, asked.gradients)
        assert asked.gradients_per_client is not None
        return CutSizes(base, asked.gradients_per_client * clients)


def make_sizes(asked: keys.Size) -> Sizes:
    match asked:
        case keys.ConstantSize():
            return ConstantSizes(asked.size)
        case keys.PowerSize():
            return PowerSizes(asked.scale, asked.power, asked.shift, asked.offset)
        case keys.LogSize():
            return LogSizes(asked.scale, asked.shift, asked.offset)
        case keys.TheoremSize():
            return StronglyConvexSizes(asked.d, asked.m)
        case keys.RecipeSize():
            return RecipeSizes(asked.g, make_gamma(asked.gamma), asked.d, asked.m)
        case keys.ListedSize():
            return ListedSizes(asked.values)


def make_gamma(asked: keys.Gamma) -> ConstantGamma | LogGamma:
    return ConstantGamma(asked.value) if isinstance(asked, keys.ConstantGamma) else LogGamma(asked.scale)


def needs_data(config: Config) -> bool:
    """Whether the wait rule depends on L and mu, which depend on the data."""
    return isinstance(config.schedule.wait.tau, keys.TheoremTau) and config.schedule.wait.m1 is None


@dataclass(frozen=True)
class Theorem:
    """The strongly convex theorem's m, M1 and mu for a run: typed in, or taken from sizes, objective and data."""

    config: Config
    first: int
    smooth: float | None
    convex: float | None

    @property
    def d(self) -> int:
        wait, sizes = self.config.schedule.wait, self.config.schedule.sizes
        given = (wait.rounds, wait.d, getattr(sizes, "d", None))
        return next((d for d in given if d is not None), 1)

    @property
    def delay(self) -> Delay | None:
        """The theorem's own tau, to hold the run against; known when the sizes or steps are the theorem's."""
        steps = self.config.schedule.steps
        m = getattr(self.config.schedule.sizes, "m", None) or getattr(steps, "m", None)
        if m is None or self.convex is None or self.smooth is None:
            return None
        return StronglyConvexDelay(m, self.m1(getattr(steps, "m1", None), "schedule.steps"))

    def m(self, given: int | None, where: str) -> int:
        found = given if given is not None else getattr(self.config.schedule.sizes, "m", None)
        if found is None:
            raise ConfigError(f'{where}.m is missing; sizes of kind "theorem" would give it, these do not')
        return int(found)

    def mu(self, given: float | None, where: str) -> float:
        found = given if given is not None else self.convex
        if found is None:
            raise ConfigError(f"{where} needs a strongly convex objective; set objective.l2 above 0, such as 1/N")
        return found

    def m1(self, given: float | None, where: str) -> float:
        if given is not None:
            return given
        mu = self.mu(None, where)
        if self.smooth is None:
            raise ConfigError(f"{where}.m1 is missing; this objective does not say how smooth it is")
        return theorem_m1(self.d, self.smooth, mu, self.first)


def make_steps(config: Config, theorem: Theorem) -> Steps:
    asked = config.schedule.steps
    with at("schedule.steps"):
        match asked:
            case keys.ConstantStep():
                return ConstantSteps(asked.eta)
            case keys.DiminishingStep():
                return DiminishingSteps(asked.eta0, asked.beta, asked.root, asked.per)
            case keys.CurvatureStep():
                return CurvatureSteps(asked.eta0, asked.h, asked.per)
            case keys.TheoremStep():
                where = "schedule.steps"
                return TheoremSteps(theorem.mu(asked.mu, where), theorem.m(asked.m, where), theorem.m1(asked.m1, where))


def make_delay(config: Config, theorem: Theorem | None) -> Delay | None:
    wait = config.schedule.wait
    with at("schedule.wait"):
        match wait.tau:
            case None:
                return None
            case keys.ConstantTau():
                return ConstantDelay(wait.tau.tau)
            case keys.PowerTau():
                return PowerDelay(wait.tau.scale, wait.tau.power, wait.tau.offset, wait.tau.shift)
            case keys.RecipeTau():
                return RecipeDelay(wait.tau.g, make_gamma(wait.tau.gamma), wait.tau.m0, wait.tau.m1)
            case keys.TheoremTau():
                theorem = theorem or Theorem(config, 1, None, None)
                return StronglyConvexDelay(
                    theorem.m(wait.m, "schedule.wait"), theorem.m1(wait.m1, 'schedule.wait.tau = "theorem"')
                )


def certificate_of(config: Config, sizes: CutSizes, theorem: Theorem | None) -> Certificate:
    """The certificate over the whole run, or Refused."""
    wait = config.schedule.wait
    d = wait.rounds if wait.rounds is not None else wait.d
    tau = make_delay(config, theorem)
    return certify(sizes, sizes.rounds, d=d, tau=tau, theorem=theorem.delay if theorem is not None else None)
