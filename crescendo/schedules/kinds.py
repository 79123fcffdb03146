"""Registries: every kind of sizes, steps, delay and gamma by the name that run files and terms call it.

A new kind is one class and one line here, or one call of ``register`` from outside the package: the keys of its table, their
limits, the words of errors and the lines of the reference follow from the class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Generic, TypeVar

from crescendo.errors import UsageError
from crescendo.schedules.delay import ConstantDelay, Delay, PowerDelay, RecipeDelay, StronglyConvexDelay
from crescendo.schedules.gamma import ConstantGamma, Gamma, LogGamma
from crescendo.schedules.parameters import POSITIVE, UNIT, Declared, Parameter, Range, parameters
from crescendo.schedules.recipe import RecipeSizes, StronglyConvexSizes
from crescendo.schedules.sequence import Sizes
from crescendo.schedules.sizes import ConstantSizes, ListedSizes, LogSizes, PowerSizes
from crescendo.schedules.steps import ConstantSteps, CurvatureSteps, DiminishingSteps, Steps, TheoremSteps

Rule = TypeVar("Rule", bound=Declared)


@dataclass(frozen=True)
class Kind(Generic[Rule]):
    """A rule under its name. A key that may be left out although the class asks for it is given by the run."""

    name: str
    rule: type[Rule]
    keys: tuple[Parameter, ...]

    def make(self, values: Mapping[str, Any], given_by_run: Callable[[str], Any] | None = None) -> Rule:
        """The rule with these values; ``given_by_run`` is asked for each that is missing and has no default."""
        given = {name: value for name, value in values.items() if value is not None}
        for one in parameters(self.rule):
            if one.name not in given and one.default is MISSING and given_by_run is not None:
                given[one.name] = given_by_run(one.name)
        return self.rule(**given)


class Registry(Generic[Rule]):
    """The kinds of one family, in the order in which they were registered.

    >>> [key.name for key in STEPS["diminishing"].keys], STEPS["constant"].make({"eta": 0.5})
    (['eta0', 'beta', 'root', 'per'], ConstantSteps(eta=0.5))
    """

    def __init__(self, base: type[Rule]) -> None:
        self._base = base
        self._kinds: dict[str, Kind[Rule]] = {}

    def register(
        self,
        name: str,
        rule: type[Rule],
        left_out: Mapping[str, Any] | None = None,
        within: Mapping[str, Range] | None = None,
    ) -> None:
        """Add a kind. ``left_out`` is what a key is when it is left out, None for what the run gives; ``within`` is a narrower
        range than the class takes.
        """
        if name in self._kinds or not issubclass(rule, self._base):
            raise UsageError(f"{rule.__name__} must be a {self._base.__name__} with a name of its own, not {name!r}")
        keys = (
            dataclasses.replace(
                one, default=(left_out or {}).get(one.name, one.default), range=(within or {}).get(one.name, one.range)
            )
            for one in parameters(rule)
            if one.says is not None
        )
        self._kinds[name] = Kind(name, rule, tuple(keys))

    def unregister(self, name: str) -> None:
        del self._kinds[name]

    def __getitem__(self, name: str) -> Kind[Rule]:
        return self._kinds[name]

    def __iter__(self) -> Iterator[Kind[Rule]]:
        return iter(self._kinds.values())


SIZES: Registry[Sizes] = Registry(Sizes)  # type: ignore[type-abstract]
SIZES.register("constant", ConstantSizes)
SIZES.register("power", PowerSizes)
SIZES.register("log", LogSizes)
SIZES.register("theorem", StronglyConvexSizes, {"d": 1})
SIZES.register("recipe", RecipeSizes, {"g": 2.0, "d": 1})
SIZES.register("list", ListedSizes)

STEPS: Registry[Steps] = Registry(Steps)  # type: ignore[type-abstract]
STEPS.register("constant", ConstantSteps)
STEPS.register("diminishing", DiminishingSteps)
STEPS.register("curvature", CurvatureSteps)
STEPS.register("theorem", TheoremSteps, {"mu": None, "m": None, "m1": None}, {"m1": POSITIVE})

DELAYS: Registry[Delay] = Registry(Delay)  # type: ignore[type-abstract]
DELAYS.register("constant", ConstantDelay)
DELAYS.register("power", PowerDelay, within={"scale": POSITIVE, "power": UNIT})
DELAYS.register("recipe", RecipeDelay, {"g": 2.0})
DELAYS.register("theorem", StronglyConvexDelay)

GAMMAS: Registry[Gamma] = Registry(Gamma)  # type: ignore[type-abstract]
GAMMAS.register("constant", ConstantGamma)
GAMMAS.register("log", LogGamma)
