"""Canary run: one simulated run with canaries among the records of the costliest client, for a lower bound on its epsilon.

Canaries are ordinary records. They replace real ones if the client would have more records than it declares, so that
rates, noise and the epsilon of every record stay as certified.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crescendo.audit.canaries.families import LessNoise
from crescendo.audit.canaries.gradient_canaries import WithCanaries
from crescendo.audit.canaries.guess_plan import GuessPlan, log_likelihood
from crescendo.audit.canaries.record_canaries import gradients, longest, widened, with_canaries
from crescendo.audit.canaries.report import CanaryReport
from crescendo.config.schema import Config
from crescendo.core.arrays import Bools, Floats, Ints
from crescendo.core.terms import Terms
from crescendo.data.records import Dataset, Records, as_records
from crescendo.errors import ConfigError
from crescendo.objectives.base import Objective, Slots, Stepper
from crescendo.privacy.guarantee import Guarantee
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism import Mechanism
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SeededSource, Source
from crescendo.privacy.protection import Withheld
from crescendo.runs.prepare import Prepared, prepare
from crescendo.runs.simulate import run_prepared

LEAST_CANARIES, MOST_CANARIES = 20, 100_000
_Signal = Callable[[int, Floats], Floats]  # how far each canary moves its coordinate in a round begun at a model


def canary_audit(
    config: Config,
    name: str,
    canaries: int,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    source: Callable[[int, int], Source] = SeededSource,
) -> CanaryReport:
    """Run ``config`` once with so many canaries, each included with probability 1/2, and guess which were included.

    ``seed`` is for the auditor's coins only. ``source`` makes the client's noise from the run's seed and the client.
    """
    if config.privacy.mechanism == "none":
        raise ConfigError(f"{name} claims no privacy, so there is nothing to audit; choose a privacy.mechanism")
    if not LEAST_CANARIES <= canaries <= MOST_CANARIES:
        raise ConfigError(f"--canaries must lie between {LEAST_CANARIES} and {MOST_CANARIES:,}, not {canaries:,}")
    if not 0.5 <= confidence < 1:
        raise ConfigError(f"--confidence must be at least 0.5 and below 1, not {confidence:g}")
    prepared = prepare(config)
    if isinstance(prepared.privacy, Withheld):
        raise ConfigError(f"{name} has no epsilon to compare canaries with: {prepared.privacy.says}")
    planted = _Planted.in_run(prepared, canaries, seed)
    guarantee = prepared.privacy
    assert guarantee is not None
    me, events = planted.me, guarantee.certificate.plan(planted.me).counted
    family = LessNoise(events, guarantee.delta)
    plan = GuessPlan.chosen(
        canaries, family, CanaryReport.level(confidence)
    )  # fixed before the run, independently of the releases
    scores = planted.scores(prepared, source)
    return CanaryReport.of(
        plan.guesses(scores, planted.inside),
        plan.trials(scores, planted.inside),
        family,
        confidence,
        mechanism=config.privacy.mechanism,
        name=prepared.names[me],
        kind=planted.kind,
        claimed=guarantee.spent[me].epsilon,
        inside=int(planted.inside.sum()),
        records=len(planted.real),
    )


@dataclass(frozen=True, eq=False)
class _Planted:
    """A run with canaries: the objective, the data and the rows of client ``me``, certified like the run."""

    me: int
    kind: str
    inside: Bools
    real: Ints
    data: Records
    objective: Objective
    certificate: Certificate
    coordinates: slice
    signal: _Signal

    @classmethod
    def in_run(cls, prepared: Prepared, canaries: int, seed: int) -> _Planted:
        guarantee = prepared.privacy
        assert isinstance(guarantee, Guarantee)
        made, me = guarantee.certificate, guarantee.costliest
        _check(made, me, canaries)
        inside = np.random.Generator(np.random.PCG64(seed)).random(canaries) < 0.5
        real = prepared.parts[me][: made.records[me] - canaries]
        data, first = prepared.dataset.train, len(prepared.dataset.train)
        label = (prepared.objective.traits.label_range or (1.0,))[0]
        objective: Objective
        if made.mechanism == "minibatch":
            kind, wide = "gradients", WithCanaries(prepared.objective, canaries, first)
            objective, data, coordinates = wide, _with_zeros(data, canaries, label), wide.coordinates
        else:
            kind, wider = "records", widened(prepared.objective, canaries)
            assert made.norm_bound is not None  # `local` is not certified without it
            length = longest(made.norm_bound, wider.intercept)
            objective, data = wider, with_canaries(data, canaries, length, label)
            coordinates = slice(wider.features - canaries, wider.features)
        certificate = certify(
            made.mechanism,
            made.terms,
            objective,
            clip=made.clip,
            sigma=made.sigma,
            records=made.records,
            norm_bound=made.norm_bound,
        )

        def signal(i: int, start: Floats) -> Floats:
            step = float(np.mean(made.terms.etas(i, me)))
            if isinstance(objective, WithCanaries):
                return np.full(canaries, step * objective.length(certificate.clip, certificate.unit))
            return step * gradients(objective, start, data, first, certificate.clip)

        return cls(me, kind, inside, real, data, objective, certificate, coordinates, signal)

    def scores(self, prepared: Prepared, source: Callable[[int, int], Source]) -> Floats:
        """Run the federation, and return the score of every canary."""
        guarantee, me = prepared.privacy, self.me
        assert isinstance(guarantee, Guarantee)
        first = len(self.data) - len(self.inside)
        parts = list(prepared.parts)
        parts[me] = np.concatenate([self.real, first + np.flatnonzero(self.inside)])
        heard = _Heard(self)
        listening = _Listening(self.certificate, guarantee.delta, guarantee.stated, guarantee.spent, heard, source)
        seldom = prepared.config.evaluate.model_copy(
            update={"every": 10**9, "optimum": False, "gradient": False, "auc": False}
        )
        run_prepared(
            dataclasses.replace(
                prepared,
                config=prepared.config.model_copy(update={"evaluate": seldom}),
                dataset=_unmeasured(prepared.dataset, self.data),
                parts=parts,
                agreement=dataclasses.replace(
                    prepared.agreement, objective=self.objective, certificate=self.certificate
                ),
                privacy=listening,
            )
        )
        return heard.total


def _check(made: Certificate, me: int, canaries: int) -> None:
    if made.mechanism not in ("minibatch", "local"):
        raise ConfigError(
            f"canaries are seen one by one, and {made.mechanism} hides the move of a whole draw, in which canaries would hide "
            "each other; audit it without --canaries"
        )
    if made.layers is not None:
        raise ConfigError(
            "canaries take one clip, and privacy.clip lists one for each layer; give one number to use them"
        )
    if made.terms.blocks > 1:
        raise ConfigError("canaries need rounds that move every coordinate; leave schedule.blocks out to use them")
    if 2 * canaries > made.records[me]:
        raise ConfigError(
            f"{canaries:,} canaries are more than half of the {made.records[me]:,} records that the client declares; "
            f"{made.records[me] // 2:,} or fewer would pass"
        )


def _with_zeros(records: Records, canaries: int, label: float) -> Records:
    """Return the records followed by a row of zeros for each canary."""
    y = np.append(records.y, np.full(canaries, label))
    if isinstance(records.x, np.ndarray):
        zeros = np.zeros((canaries, records.features), records.x.dtype)
        return dataclasses.replace(as_records(np.concatenate([records.x, zeros]), y), shape=records.shape)
    x = records.x.copy()
    x.resize(len(y), records.features)
    return dataclasses.replace(as_records(x, y), shape=records.shape)


def _unmeasured(dataset: Dataset, train: Records) -> Dataset:
    """Return the data set with the training records ``train`` and without a test part: the model's scores are not needed."""
    columns = {name: np.resize(column, len(train)) for name, column in dataset.columns.items()}
    return dataclasses.replace(dataset, train=train, test=None, columns=columns, optimum=None)


class _Heard:
    """The score of each canary, summed over the releases."""

    def __init__(self, planted: _Planted) -> None:
        self.planted, self.total = planted, np.zeros(len(planted.inside))

    def add(self, i: int, start: Floats, released: Floats) -> None:
        planted, made, me = self.planted, self.planted.certificate, self.planted.me
        at = planted.coordinates
        pull = 1 - float(np.prod(1 - made.terms.etas(i, me) * planted.objective.traits.l2))
        sent = released[at] - start[at] * pull
        moved = planted.signal(i, start)
        self.total += log_likelihood(sent, moved, made.noise_scale(i, me), made.rate(i, me))


@dataclass(frozen=True, eq=False, repr=False)
class _Listening(Guarantee):
    """A guarantee whose mechanism for one client passes its releases to the auditor."""

    heard: _Heard
    source: Callable[[int, int], Source]

    def mechanism(self, c: int, rows: Ints, seed: int, noise: bool = True) -> Mechanism:
        if c != self.heard.planted.me:
            return super().mechanism(c, rows, seed, noise)
        return _Overheard(self.certificate.client(c, rows, self.source(seed, c)), self.heard)


class _Overheard:
    """An unchanged mechanism that also passes each release to the auditor."""

    def __init__(self, inner: Mechanism, heard: _Heard) -> None:
        self._inner, self._heard, self.saturates = inner, heard, inner.saturates

    def check(self, terms: Terms, objective: Objective) -> None:
        self._inner.check(terms, objective)

    def stepper(self, objective: Objective, data: Records) -> Stepper:
        return self._inner.stepper(objective, data)

    def start(self, model: Floats) -> Floats:
        return self._inner.start(model)

    def draw(self, i: int, size: int) -> Slots:
        return self._inner.draw(i, size)

    def laid_out(self, i: int, size: int, rows: Ints, ends: Ints | None) -> Slots:
        return self._inner.laid_out(i, size, rows, ends)

    def release(self, i: int, start: Floats, stepper: Stepper) -> Floats:
        released = self._inner.release(i, start, stepper)
        self._heard.add(i, start, released)
        return released
