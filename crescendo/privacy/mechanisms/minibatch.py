"""The `minibatch` mechanism: every gradient of a round at its start model, so that any model can be certified."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from crescendo.objectives.base import Objective, Stepper
from crescendo.privacy.mechanisms.certificate import Requirement
from crescendo.privacy.mechanisms.frozen import FrozenStepper
from crescendo.privacy.mechanisms.proposal import Proposal
from crescendo.privacy.mechanisms.rounding import U

if TYPE_CHECKING:
    from crescendo.data.records import Records

_FINEST = 40  # a clipped gradient has at most 2^41 units


class Minibatch(Proposal):
    """Hides the sum of clipped gradients, which the start model is no part of; so the bound is what the run reaches."""

    name = "minibatch"

    def requirements(self) -> list[Requirement]:
        holds = self.terms.steps.per == "round" or self.terms.rounds == 0
        says = 'minibatch takes one step size per round, and these change within a round; schedule.steps.per = "round" would pass'
        plain = self.objective.traits.plain_steps
        takes = "minibatch takes one plain step by the sum of a round's gradients, and this model has an optimiser of its own; "
        return [
            Requirement("one step size per round", float(not holds), 0.0, holds, says),
            Requirement(
                "plain steps", float(not plain), 0.0, plain, takes + 'optimiser = "sgd" or batch-clip would pass'
            ),
            self.shrink(),
        ]

    def bound(self, least: float, most: float) -> float:
        return most

    @property
    def unit(self) -> float:
        return _unit(self.clip, float(self.drawn.max()))

    def slack(self, bound: float) -> float:
        """See the top of `rounding`."""
        size, drawn = self.objective.size, float(self.drawn.max())
        return math.sqrt(size) / 2 * self.unit / self.clip + (size + 8 + 4 * drawn + 16) * U

    def remedy(self, bound: float, least: float, first: float) -> str:
        return "a smaller model or fewer records per round would pass"

    @classmethod
    def stepper(cls, objective: Objective, data: Records) -> Stepper:
        return FrozenStepper(objective, data)


def _unit(clip: float, drawn: float) -> float:
    """The power of two that clipped gradients are rounded to: as fine as leaves the sum of ``drawn`` of them exact.

    >>> _unit(1.0, 1000) == 2.0**-40, _unit(0.1, 2e8) == 2.0**-4 * 2.0**-23
    (True, True)
    """
    bits = min(_FINEST, 51 - math.ceil(math.log2(max(drawn, 1.0))))
    return math.ldexp(1.0, math.frexp(clip)[1] - 1 - bits)
