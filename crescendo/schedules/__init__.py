"""Sample sizes, step sizes, delays, and the certificate that checks them together. Pure maths.

Rounds and labels count from 0. Every object is immutable, prints, compares, and refuses a bad parameter at once.
"""

from crescendo.schedules.convergence import lower_bound, upper_bound
from crescendo.schedules.delay import (
    ConstantDelay,
    Delay,
    LiftedDelay,
    OwnDelay,
    PowerDelay,
    RecipeDelay,
    StronglyConvexDelay,
    growth_limit,
)
from crescendo.schedules.gamma import ConstantGamma, Gamma, LogGamma
from crescendo.schedules.recipe import RecipeSizes, StronglyConvexSizes
from crescendo.schedules.schedule_certificate import ScheduleCertificate, ScheduleCondition, ScheduleRefused, certify
from crescendo.schedules.sequence import Sizes
from crescendo.schedules.sizes import ConstantSizes, CutSizes, ListedSizes, LogSizes, PerClient, PowerSizes
from crescendo.schedules.steps import (
    ConstantSteps,
    CurvatureSteps,
    DiminishingSteps,
    Steps,
    TheoremSteps,
)

__all__ = [
    "ConstantDelay",
    "ConstantGamma",
    "ConstantSizes",
    "ConstantSteps",
    "CurvatureSteps",
    "CutSizes",
    "Delay",
    "DiminishingSteps",
    "Gamma",
    "LiftedDelay",
    "ListedSizes",
    "LogGamma",
    "LogSizes",
    "OwnDelay",
    "PerClient",
    "PowerDelay",
    "PowerSizes",
    "RecipeDelay",
    "RecipeSizes",
    "ScheduleCertificate",
    "ScheduleCondition",
    "ScheduleRefused",
    "Sizes",
    "Steps",
    "StronglyConvexDelay",
    "StronglyConvexSizes",
    "TheoremSteps",
    "certify",
    "growth_limit",
    "lower_bound",
    "upper_bound",
]
