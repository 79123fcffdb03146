"""From a checked config to the parts of a run: data, objective, schedule with its certificate, terms and timing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.apps import schedule_keys as keys
from crescendo.apps.config import Config, Constant, Listed
from crescendo.core.random import Purpose, stream
from crescendo.core.setup import Terms
from crescendo.data import Dataset, Records, client_names, load, split, weights
from crescendo.data.records import FloatArray, IntArray
from crescendo.errors import ConfigError, UsageError
from crescendo.objectives import Logistic, OwnModel, load_objective, weights_of_rows
from crescendo.runtimes import timing as clocks
from crescendo.schedules import (
    Certificate,
    ConstantDelay,
    ConstantGamma,
    ConstantSizes,
    ConstantSteps,
    CurvatureSteps,
    CutSizes,
    Delay,
    DiminishingSteps,
    ListedSizes,
    LogGamma,
    LogSizes,
    PerClient,
    PowerDelay,
    PowerSizes,
    RecipeDelay,
    RecipeSizes,
    Sizes,
    Steps,
    StronglyConvexDelay,
    StronglyConvexSizes,
    TheoremSteps,
    certify,
    theorem_m1,
)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A run that may start: everything is made and the certificate holds."""

    config: Config
    dataset: Dataset
    parts: list[IntArray]
    names: tuple[str, ...]
    weights: FloatArray
    objective: Any
    terms: Terms
    sizes: CutSizes
    certificate: Certificate
    smoothness: float | None
    convexity: float | None


def prepare(config: Config, objective: Any = None, data: Dataset | None = None) -> Prepared:
    """Load, split and certify. What the run file alone can decide is decided before any data are read."""
    count = config.clients.count
    if count is not None and not needs_data(config):
        certificate_of(config, run_sizes(config, count), None)
    dataset = data if data is not None else load_data(config)
    parts = split_data(config, dataset)
    config = config.model_copy(update={"clients": config.clients.model_copy(update={"count": len(parts)})})
    records = sum(len(part) for part in parts)
    goal = make_objective(config, dataset, records) if objective is None else given_objective(objective, dataset)
    smooth, convex = curvature(goal, dataset.train)
    sizes = run_sizes(config, len(parts))
    theorem = Theorem(config, sizes(0), smooth, convex)
    shares = weights(config.clients.weights, parts)
    wait = config.schedule.wait
    with at("schedule"):
        terms = Terms(
            sizes=sizes,
            steps=make_steps(config, theorem),
            weights=tuple(float(share) for share in shares),
            rounds=sizes.rounds,
            ahead=wait.rounds,
            tau=make_delay(config, theorem),
            shares_by=config.clients.shares,
            seed=config.run.seed,
            blocks=config.schedule.blocks,
        )
    certificate = certificate_of(config, sizes, theorem)
    if config.schedule.blocks > goal.size:
        raise ConfigError(
            f"schedule.blocks must be at most the model's {goal.size} numbers, not {config.schedule.blocks}"
        )
    names = client_names(dataset, len(parts), config.clients.split)
    return Prepared(
        config, dataset, parts, names, shares, goal, terms, sizes, certificate, smooth, convex
    )  # fmt: skip


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


# Data and objective


def load_data(config: Config) -> Dataset:
    asked, split_by = config.data, config.clients.split
    return load(
        asked.source,
        folder=asked.folder,
        test=asked.test,
        seed=config.run.seed,
        classes=asked.classes,
        label=asked.label,
        column=split_by.removeprefix("column:") if split_by.startswith("column:") else None,
        features=asked.features,
    )


def split_data(config: Config, dataset: Dataset) -> list[IntArray]:
    asked = config.clients
    return split(dataset, asked.count, asked.split, seed=config.run.seed, alpha=asked.alpha, sizes=asked.sizes)


def make_objective(config: Config, dataset: Dataset, records: int) -> Any:
    asked = config.objective
    if asked.kind != "logistic":
        if (asked.l2, asked.intercept, asked.dtype) != (0.0, True, "float64"):
            raise ConfigError("objective.l2, intercept and dtype are for logistic; give your model objective.options")
        return load_objective(asked.kind, dataset.train, **asked.options)
    if len(dataset.classes) != 2:
        raise ConfigError(
            f"{dataset.name} has {len(dataset.classes)} classes and logistic regression tells two apart; "
            "choose two with data.classes"
        )
    l2 = 1.0 / records if asked.l2 == "1/N" else float(asked.l2)
    return Logistic(dataset.features, l2=l2, intercept=asked.intercept, dtype=np.dtype(asked.dtype))


def given_objective(objective: Any, dataset: Dataset) -> Any:
    """An objective passed in by a program: one of ours as it is, any other checked and completed."""
    return objective if isinstance(objective, Logistic | OwnModel) else OwnModel(objective, dataset.train)


def curvature(objective: Any, data: Records) -> tuple[float | None, float | None]:
    """L and mu where the objective knows them; mu = 0 is none."""
    smooth = float(objective.smoothness(data)) if hasattr(objective, "smoothness") else None
    convex = float(getattr(objective, "strong_convexity", 0.0))
    return smooth, convex if convex > 0 else None


# Schedule


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


# Timing


def make_timing(config: Config, terms: Terms) -> clocks.Timing:
    """The preset, with whatever the run file states in place of its own."""
    asked, base = config.timing, clocks.preset(config.timing.preset, terms)
    crash = asked.crash
    return clocks.Timing(
        speeds=_speeds(asked.speed, config.run.seed, terms.clients) or base.speeds,
        starts=base.starts,
        latency=_distribution(asked.latency) if asked.latency is not None else base.latency,
        duplicate=asked.duplicate,
        lose=asked.lose,
        resend=asked.resend,
        crashes=clocks.Crashes(crash.every, crash.down) if crash is not None else None,
        absent_after=asked.absent_after,
    )


def _speeds(asked: Any, seed: int, clients: int) -> tuple[float, ...] | None:
    if asked is None:
        return None
    if isinstance(asked, Listed):
        if len(asked.values) != clients:
            raise ConfigError(f"timing.speed has {len(asked.values)} values for {clients} clients; give one per client")
        return asked.values
    if isinstance(asked, Constant):
        return (asked.value,) * clients
    drawn = _distribution(asked)
    return tuple(max(drawn.draw(stream(seed, Purpose.TIMING, c, SPEED_ROUND)), SLOWEST) for c in range(clients))


SPEED_ROUND = 2**62  # a counter no round reaches: a client's speed has a stream of its own
SLOWEST = 1e-9  # a drawn speed of 0 would never end


def _distribution(asked: Any) -> clocks.Distribution:
    values = {name: value for name, value in asked.model_dump().items() if name != "kind"}
    made: clocks.Distribution = {
        "constant": clocks.Constant,
        "uniform": clocks.Uniform,
        "exponential": clocks.Exponential,
        "lognormal": clocks.LogNormal,
    }[asked.kind](**values)
    return made


def row_weights(prepared: Prepared) -> FloatArray | None:
    """The weight of every training record in F = sum_c p_c F_c; None where all are equal."""
    weights = weights_of_rows(prepared.parts, prepared.weights, len(prepared.dataset.train))
    return None if np.ptp(weights) <= 1e-13 * weights.max() else weights
