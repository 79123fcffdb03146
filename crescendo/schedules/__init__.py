"""Sample sizes, step sizes, delays, and the certificate that says whether they go together. Pure maths.

Rounds and labels count from 0. Everything here is immutable: it prints, compares, and refuses a bad parameter at once.
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
    theorem_m1,
)
from crescendo.schedules.gamma import ConstantGamma, Gamma, LogGamma
from crescendo.schedules.recipe import RecipeSizes, StronglyConvexSizes, least_m, m_for_first_size
from crescendo.schedules.schedule_certificate import ScheduleCertificate, ScheduleCondition, ScheduleRefused, certify
from crescendo.schedules.sequence import Sizes
from crescendo.schedules.sizes import ConstantSizes, CutSizes, ListedSizes, LogSizes, PerClient, PowerSizes
from crescendo.schedules.steps import (
    ConstantSteps,
    CurvatureSteps,
    DiminishingSteps,
    Steps,
    TheoremSteps,
    largest_constant_size,
    largest_constant_step,
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
    "largest_constant_size",
    "largest_constant_step",
    "least_m",
    "lower_bound",
    "m_for_first_size",
    "theorem_m1",
    "upper_bound",
]
