"""Terms of a rival algorithm, made from the run file's: equal gradients and step rule, but different rounds.

A label counts the gradients of all clients, so every algorithm has the same step size after the same number of
gradients.
"""

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import numpy as np

from crescendo.core.arrays import Ints
from crescendo.core.terms import Terms
from crescendo.errors import ConfigError
from crescendo.schedules.parameters import whole
from crescendo.schedules.sizes import ConstantSizes, CutSizes

Made = TypeVar("Made", bound=Terms)


class EqualTerms(Terms):
    """Rounds in which all clients take equally many local steps, regardless of their weights p_c, which do not change.

    >>> from crescendo.schedules import ConstantSteps
    >>> terms = EqualTerms(ConstantSizes(10), ConstantSteps(0.1), weights=(0.9, 0.1), rounds=3, ahead=0)
    >>> terms.shares(0), terms.etas(1, 1)
    (array([5, 5]), array([0.1, 0.1, 0.1, 0.1, 0.1]))
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_cumulative", np.linspace(0.0, 1.0, self.clients + 1))
        object.__setattr__(self, "strides", np.full(self.clients, float(self.clients)))


class TaskTerms(Terms):
    """Terms in which every round is a task for one free client, which has all of its slots.

    >>> from crescendo.schedules import ConstantSteps
    >>> terms = TaskTerms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=3, ahead=0)
    >>> terms.share(2, 0), terms.share(2, 1), terms.slots_before(2)
    (4, 4, array([8, 8]))
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "strides", np.ones(self.clients))

    def _shares(self, i: int) -> Ints:
        return np.full(self.clients, self.sizes(i) if i < self.rounds else 0, dtype=np.int64)

    def shares_of_rounds(self, first: int, stop: int) -> Ints:
        return np.repeat(np.diff(self.labels(first, stop))[:, None], self.clients, axis=1)


@dataclass(frozen=True)
class ScaledSteps:
    """The run file's step sizes times a factor."""

    base: Any
    factor: float

    @property
    def per(self) -> Literal["slot", "round"]:
        per: Literal["slot", "round"] = self.base.per
        return per

    @property
    def falls(self) -> bool:
        return bool(self.base.falls)

    def at(self, t: Any) -> Any:
        return self.base.at(t) * self.factor


def scaled(terms: Terms, factor: float) -> Any:
    """Return the step rule of ``terms`` times a factor, unchanged for a factor of 1."""
    return terms.steps if factor == 1 else ScaledSteps(terms.steps, factor)


def local_steps(terms: Terms, asked: int) -> int:
    """Return the local steps per round: as requested, or for 0 the fewest that need no more rounds than the run file
    has.

    >>> from crescendo.schedules import ConstantSteps, PowerSizes
    >>> terms = Terms(CutSizes(PowerSizes(50), 20_000), ConstantSteps(0.1), weights=(0.2,) * 5, rounds=28, ahead=1)
    >>> local_steps(terms, 0), local_steps(terms, 50)
    (143, 50)
    """
    gradients = terms.before(terms.rounds)
    steps = asked or -(-gradients // (terms.clients * terms.rounds))
    if steps > gradients:
        raise ConfigError(f"local_steps must be at most the {gradients} gradients of the run, not {steps}")
    return steps


def equal_rounds(terms: Terms, steps: int, scale: float = 1.0) -> EqualTerms:
    """Return synchronous rounds of ``steps`` local steps per client, for the gradients of the run file."""
    return _made(EqualTerms, terms, terms.clients * steps, scale)


def tasks(terms: Terms, steps: int, scale: float = 1.0) -> TaskTerms:
    """Return tasks of ``steps`` local steps each, for the gradients of the run file."""
    return _made(TaskTerms, terms, steps, scale)


def _made(kind: type[Made], terms: Terms, size: int, scale: float) -> Made:
    sizes = CutSizes(ConstantSizes(whole("local_steps", size, least=1)), terms.before(terms.rounds))
    agreed = {field.name: getattr(terms, field.name) for field in fields(terms) if field.init}
    # the run file's wait rule and combination apply to its own algorithm; a rival has different rules
    own: dict[str, Any] = {"ahead": 0, "tau": None, "shares_by": "expected", "combine": "sum"}
    return kind(**{**agreed, **own, "sizes": sizes, "rounds": sizes.rounds, "steps": scaled(terms, scale)})
