"""Registries of every kind of sizes, steps, delay and gamma, by their names in run files and terms.

A new kind is one class and one line here, or one call of ``register`` from outside the package. The class determines
the keys of its table, their limits, the wording of errors and the lines of the reference.

>>> [key.name for key in STEPS["diminishing"].keys], STEPS["constant"].make({"eta": 0.5})
(['eta0', 'beta', 'root', 'per'], ConstantSteps(eta=0.5))
"""

from crescendo.schedules.delay import ConstantDelay, Delay, PowerDelay, RecipeDelay, StronglyConvexDelay
from crescendo.schedules.gamma import ConstantGamma, Gamma, LogGamma
from crescendo.schedules.parameters import POSITIVE, UNIT
from crescendo.schedules.recipe import RecipeSizes, StronglyConvexSizes
from crescendo.schedules.rules import Registry
from crescendo.schedules.sequence import Sizes
from crescendo.schedules.sizes import ConstantSizes, ListedSizes, LogSizes, PowerSizes
from crescendo.schedules.steps import ConstantSteps, CurvatureSteps, DiminishingSteps, Steps, TheoremSteps

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
