"""The terms of a rival algorithm, made from those of the run file: as many gradients, the same step rule, rounds of its own.

A label counts the gradients of all clients, so that every algorithm has the same step size when as much was computed.
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
    """Rounds in which all clients take as many local steps, whatever their weights p_c, which stay what they were.

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
    """Every round is a task for one client, whoever is free: all of its slots are that client's.

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
    """The step rule of ``terms``, as it is for a factor of 1."""
    return terms.steps if factor == 1 else ScaledSteps(terms.steps, factor)


def local_steps(terms: Terms, asked: int) -> int:
    """Local steps of a client in a round: as asked, or for 0 those that make no more rounds than the run file has.

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
    """Synchronous rounds of ``steps`` local steps for every client, until the gradients of the run file are done."""
    return _made(EqualTerms, terms, terms.clients * steps, scale)


def tasks(terms: Terms, steps: int, scale: float = 1.0) -> TaskTerms:
    """Tasks of ``steps`` local steps each, until the gradients of the run file are done."""
    return _made(TaskTerms, terms, steps, scale)


def _made(kind: type[Made], terms: Terms, size: int, scale: float) -> Made:
    sizes = CutSizes(ConstantSizes(whole("local_steps", size, least=1)), terms.before(terms.rounds))
    agreed = {field.name: getattr(terms, field.name) for field in fields(terms) if field.init}
    # what the run file says about waiting and combining is about its own algorithm: a rival has rules of its own
    own: dict[str, Any] = {"ahead": 0, "tau": None, "shares_by": "expected", "combine": "sum"}
    return kind(**{**agreed, **own, "sizes": sizes, "rounds": sizes.rounds, "steps": scaled(terms, scale)})
