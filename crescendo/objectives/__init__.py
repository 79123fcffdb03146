"""Objectives: models and their losses. Import from here; numba and scipy load when a model first moves or is scored.

base.py       the protocols, traits, Slots, and the loop that steps any objective own.py        a user's own model
from a file neural/       torch modules and JAX functions as models nets/         built-in networks by one word
linear/       shared code of the regressions: checks, steppers, compiled loops of single-margin losses logistic/
logistic regression and its scoring loop least_squares/  least squares, for numeric labels softmax/      softmax
regression and its compiled loops score.py      accuracy or R², the ranking of models in studies optimum.py    w*, F*
and G to full precision, cached weighting.py  means over records
"""

from crescendo.objectives.base import (
    LoopStepper,
    Objective,
    Slots,
    Stepper,
    Traits,
    clipped,
)
from crescendo.objectives.least_squares.least_squares_regression import LeastSquares
from crescendo.objectives.logistic.objective import Logistic
from crescendo.objectives.model_file import ModelFile
from crescendo.objectives.optimum import Optimum
from crescendo.objectives.own import OwnModel
from crescendo.objectives.softmax.softmax_regression import Softmax
from crescendo.objectives.weighting import mean_gradient, weights_of_rows

__all__ = [
    "LeastSquares",
    "Logistic",
    "LoopStepper",
    "ModelFile",
    "Objective",
    "Optimum",
    "OwnModel",
    "Slots",
    "Softmax",
    "Stepper",
    "Traits",
    "clipped",
    "mean_gradient",
    "weights_of_rows",
]
