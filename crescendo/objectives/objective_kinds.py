"""Registry of the built-in objectives, by their names in run files, terms and policies.

A new one is one class and one line here, or one call of `register` from outside the package: the limits in run files
and terms, the wording of errors, and the objects that both sides build follow from it. A user's own model in a file
needs no line.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crescendo.errors import ConfigError, UsageError
from crescendo.objectives.base import Objective
from crescendo.objectives.least_squares.least_squares_regression import LeastSquares
from crescendo.objectives.logistic.objective import Logistic
from crescendo.objectives.nets.net_names import is_net
from crescendo.objectives.softmax.softmax_regression import Softmax


@dataclass(frozen=True)
class ObjectiveKind:
    """An objective and its name. ``about`` names it in errors.

    ``rule`` takes the features and the keys l2, intercept and dtype of a run file's [objective]. ``classes`` is its
    number of classes; None for any number, which the rule then takes as ``classes``. A regression (``numbers``) has
    no classes, and its rule takes a ``label_range``.
    """

    name: str
    rule: Callable[..., Objective]
    about: str
    classes: int | None = None
    numbers: bool = False

    @property
    def many(self) -> str:
        """The number of its classes, in words."""
        return "two" if self.classes == 2 else str(self.classes)

    def fits(self, classes: int) -> bool:
        return classes == 0 if self.numbers else self.classes in (None, classes) and classes > 0

    def make(
        self,
        features: int,
        classes: int | None,
        l2: float,
        intercept: bool,
        dtype: npt.DTypeLike,
        label_range: tuple[float, float] | None = None,
    ) -> Objective:
        if self.numbers:
            return self.rule(features, l2=l2, intercept=intercept, dtype=np.dtype(dtype), label_range=label_range)
        if self.classes is not None:
            return self.rule(features, l2=l2, intercept=intercept, dtype=np.dtype(dtype))
        if classes is None:
            raise ConfigError(f"data.classes is missing; {self.about} has weights for each class, so name them all")
        return self.rule(features, classes=classes, l2=l2, intercept=intercept, dtype=np.dtype(dtype))


OBJECTIVES: dict[str, ObjectiveKind] = {}


def register(*kinds: ObjectiveKind) -> None:
    """Register objectives by name; a name must be unused, and not that of a file."""
    for kind in kinds:
        if kind.name in OBJECTIVES or is_net(kind.name) or ":" in kind.name:
            raise UsageError(f"{kind.name!r} is taken or names a file; choose another name for the objective")
        OBJECTIVES[kind.name] = kind


register(
    ObjectiveKind("logistic", Logistic, "logistic regression", classes=2),
    ObjectiveKind("softmax", Softmax, "softmax regression"),
    ObjectiveKind("least-squares", LeastSquares, "least squares", numbers=True),
)
