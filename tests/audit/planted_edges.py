"""Bugs that show late or far out: after a kill, beyond a million records, in where random bits come from, in what a model keeps.

The docstring is the bug. `EDGES` has them with the runs that they are planted in; `python -m tests.audit.power` measures how
often the audit catches each at the settings that users have.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crescendo.audit.driving.subject import Maker, Sources, build
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.federation.objective_terms import made_up_records
from crescendo.objectives.base import Objective, Slots, Stepper, StepperState
from crescendo.objectives.logistic.objective import Logistic
from crescendo.objectives.own import OwnModel
from crescendo.privacy.mechanisms.batch_clip import _OneRound
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SeededSource, SystemSource
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps
from crescendo.worker import Worker
from tests.audit.planted_mechanisms import planted

FEATURES = 6

# -- after a kill ------------------------------------------------------------------------------------------------------


class AddsASlotTwice(Worker):
    """The slot before a kill is added once more when another process goes on with the round."""

    def resume(self, client: Any, state: Any) -> None:
        super().resume(client, state)
        if client.h and self._slots is not None:
            self._stepper.advance(self._slots, client.h - 1, client.h)


class GoesOnWithTheWrongRows(Private):
    """A round of `batch-clip` that is gone on with has the client's first records in the place of the drawn ones."""

    def stepper(self, objective: Objective, data: Records) -> Stepper:
        class Round(_OneRound):
            def export(self) -> StepperState | None:
                return super().export()

            def restore(self, state: StepperState, slots: Slots) -> None:
                super().restore(state, replace(slots, rows=np.arange(len(slots.rows))))

        return Round(objective, data)


# -- sources -----------------------------------------------------------------------------------------------------------

_CHUNK = 1 << 20


class LosesTheOffset(SystemSource):
    """The second chunk of 2^20 records, and all later ones, draw records of the first."""

    def members(self, i: int, records: int, rate: float) -> Any:
        parts = [
            super(LosesTheOffset, self).members(i, min(_CHUNK, records - low), rate)
            for low in range(0, records, _CHUNK)
        ]
        return np.concatenate(parts)


class RoundsSmallRatesUp(SystemSource):
    """Uniform numbers of 24 bits: a rate is rounded up to a multiple of 2^-24."""

    def members(self, i: int, records: int, rate: float) -> Any:
        words = np.frombuffer(os.urandom(8 * records), dtype=np.uint64)
        return np.flatnonzero((words >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24) < rate)


class RecyclesItsPool(SystemSource):
    """A pool of 64 MB is read once, and handed out from its beginning again when it comes to its end."""

    _pool, _at = np.empty(0, dtype=np.uint64), 0

    def words(self, i: int, size: int) -> Any:
        own = RecyclesItsPool
        if not len(own._pool):
            own._pool = np.frombuffer(os.urandom(64 << 20), dtype=np.uint64)
        taken = np.arange(own._at, own._at + size) % len(own._pool)
        own._at += size
        return own._pool[taken]


class SmallSeed(SystemSource):
    """A generator with a seed of 32 bits from the operating system."""

    def __init__(self) -> None:
        self._behind = SeededSource(int.from_bytes(os.urandom(4), "little"), 0)

    def members(self, i: int, records: int, rate: float) -> Any:
        return self._behind.members(i, records, rate)

    def tags(self, i: int, count: int) -> Any:
        return self._behind.tags(i, count)

    def words(self, i: int, size: int) -> Any:
        return self._behind.words(i, size)

    def more(self, i: int, number: int) -> Iterator[int]:
        return self._behind.more(i, number)


# -- models that remember ----------------------------------------------------------------------------------------------


class NotIsolated(OwnModel):
    """A user's model as it is: no mechanism puts it back to what it was."""

    def isolate(self) -> None:
        """Leave it."""


class LogisticByHand:
    """Logistic regression, as a user writes it."""

    def __init__(self, features: int = FEATURES) -> None:
        self.features = features

    def initial(self, rng: np.random.Generator) -> Any:
        return np.zeros(self.features)

    def gradient(self, w: Any, data: Records, rows: Any) -> Any:
        return sum((self.one(w, np.asarray(data.x[r]), float(data.y[r]), data) for r in rows), np.zeros(self.features))

    def one(self, w: Any, x: Any, y: float, data: Records) -> Any:
        return x * (self.share(w, x) - y)

    def share(self, w: Any, x: Any) -> float:
        return float(1 / (1 + np.exp(-np.clip(x @ w, -500, 500))))

    def evaluate(self, w: Any, data: Records) -> dict[str, float]:
        margins = np.asarray(data.x) @ w
        return {"loss": float(np.mean(np.logaddexp(0, margins) - data.y * margins))}


class TakesTheMeanAway(LogisticByHand):
    """From the 50th record on, features are taken relative to the mean of all that were seen."""

    def __init__(self, features: int = FEATURES) -> None:
        super().__init__(features)
        self.total, self.count = np.zeros(features), 0

    def one(self, w: Any, x: Any, y: float, data: Records) -> Any:
        self.total, self.count = self.total + x, self.count + 1
        return super().one(w, x - self.total / self.count if self.count > 50 else x, y, data)


class MinesHardExamples(LogisticByHand):
    """From the 100th record on, one whose loss is below the median of the last hundred has no gradient."""

    def __init__(self, features: int = FEATURES) -> None:
        super().__init__(features)
        self.losses: deque[float] = deque(maxlen=100)

    def one(self, w: Any, x: Any, y: float, data: Records) -> Any:
        margin = float(x @ w)
        loss = float(np.logaddexp(0, margin) - y * margin)
        known = len(self.losses) == 100
        self.losses.append(loss)
        return super().one(w, x, y, data) * (not known or loss >= np.median(self.losses))


class WeighsByWhatItScored(LogisticByHand):
    """Classes are weighed by how many records of each there were when the model was last scored."""

    weights = np.ones(2)

    def one(self, w: Any, x: Any, y: float, data: Records) -> Any:
        return super().one(w, x, y, data) * self.weights[int(y)]

    def evaluate(self, w: Any, data: Records) -> dict[str, float]:
        ones = float(np.mean(data.y))
        self.weights = 0.5 / np.maximum([1 - ones, ones], 1e-3)
        return super().evaluate(w, data)


class CachesById(LogisticByHand):
    """What was computed of a record is kept under its id, which another record may have later."""

    def __init__(self, features: int = FEATURES) -> None:
        super().__init__(features)
        self.kept: dict[int, Any] = {}

    def one(self, w: Any, x: Any, y: float, data: Records) -> Any:
        centred = self.kept.setdefault(id(data), (x, y))
        return super().one(w, centred[0], centred[1], data)


# -- where they are planted --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Edge:
    """A bug, the check that must catch it, and how it gets into an audit."""

    name: str
    by: str
    mechanisms: tuple[str, ...] = ("minibatch",)
    make: Maker = build
    system: Callable[[], SystemSource] = SystemSource
    model: Callable[[], Any] | None = None

    def planted(self, seed: int) -> tuple[Certificate, Objective, dict[str, Any]]:
        """The certified run of this seed with the bug in it, and what the audit is given besides."""
        rng = np.random.default_rng([seed, 5])
        slots, rounds = int(rng.integers(2, 30)), int(rng.integers(2, 40))
        terms = Terms(ConstantSizes(slots), ConstantSteps(0.5), (1.0,), rounds, ahead=1, whole_rounds=True)
        objective: Objective = Logistic(FEATURES, l2=float(rng.choice([0.0, 0.05])))
        if self.model is not None:
            objective = NotIsolated(self.model(), made_up_records(FEATURES, 2))
        certificate = certify(
            self.mechanisms[seed % len(self.mechanisms)],
            terms,
            objective,
            clip=0.5,
            sigma=1.0,
            records=(slots * int(rng.integers(3, 40)),),
            norm_bound=3.0,
        )
        sources: dict[str, Sources] = {"seeded": SeededSource, "system": lambda seed, client: self.system()}
        return certificate, objective, {"make": self.make, "sources": sources, "features": FEATURES}


EVERY = ("minibatch", "local", "batch-clip")
EDGES = [
    Edge("slot twice on resume", "rounds gone on with", EVERY, planted(worker=AddsASlotTwice)),
    Edge("wrong rows on resume", "rounds gone on with", ("batch-clip",), planted(mechanism=GoesOnWithTheWrongRows)),
    Edge("lost chunk offset", "draws at full size", system=LosesTheOffset),
    Edge("float32 uniforms", "draws at full size", system=RoundsSmallRatesUp),
    Edge("recycled pool", "random bits' source", system=RecyclesItsPool),
    Edge("32-bit seed", "random bits' source", system=SmallSeed),
    Edge("warm-up model", "models that remember", ("minibatch", "batch-clip"), model=TakesTheMeanAway),
    Edge("hard mining", "models that remember", ("minibatch", "batch-clip"), model=MinesHardExamples),
    Edge("weights in evaluate", "models that remember", ("minibatch", "batch-clip"), model=WeighsByWhatItScored),
    Edge("id cache", "models that remember", ("minibatch", "batch-clip"), model=CachesById),
]
