"""What a federation agrees on, as one text that both sides build everything from.

The text is canonical JSON: sorted keys, no spaces. Its digest stands in every message, journal and ledger. Nothing in it was
computed from a client's records: what a simulation would count (records, features, 1/N, weights by size) is typed in, and
resolved to numbers before the text is made. Server and client build schedule, objective and certificate from the text by the
same function, so that no side takes the other's word for a size, a step or a rate.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from crescendo.core.terms import Terms
from crescendo.data.labels import NUMBERS
from crescendo.data.tables.feature_schema import Schema
from crescendo.errors import ConfigError, CrescendoError, Refused, UsageError
from crescendo.federation.kind_tables import at
from crescendo.federation.objective_terms import first_model
from crescendo.federation.schedule_terms import RunSchedule
from crescendo.federation.stability import Stability
from crescendo.federation.terms_limits import check_extent
from crescendo.federation.terms_tables import Run, TermsTable
from crescendo.logs.peer_text import cleaned
from crescendo.objectives.base import Objective
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import NONE, certify
from crescendo.privacy.mechanisms.minibatch import Minibatch
from crescendo.privacy.mechanisms.norm_limits import NormLimits
from crescendo.schedules import ScheduleCertificate
from crescendo_dp.events import PoissonGaussian
from crescendo_dp.planned_events import PlannedEvents
from crescendo_dp.planning.sigmas import Sigmas

MOST_TEXT = 2 << 20  # characters: what a message to a client holds
LONGEST = 900  # letters of a sentence about terms, which may quote them
NOTHING_HIDDEN = PoissonGaussian(1.0, 0.0)  # what a round without privacy costs: everything


@dataclass(frozen=True, eq=False)
class Agreement:
    """Everything that both sides derive from the text of the terms; a simulation, which sends no terms, has no text."""

    names: tuple[str, ...]
    seed: int
    wire: str
    terms: Terms
    objective: Objective
    features: int
    classes: tuple[int | float | str, ...] | None
    schedule: ScheduleCertificate
    certificate: Certificate | None = None
    delta: float | None = None
    text: str = ""
    federation: str = ""
    learns: tuple[str, ...] = ()  # what a policy may call the objective
    smooth: float | None = None  # L, where it is known without a look at private records
    schema: Schema | None = None  # how the columns of a client's table become features

    @classmethod
    def of(
        cls,
        schedule: RunSchedule,
        objective: Objective,
        weights: tuple[float, ...],
        *,
        names: tuple[str, ...],
        run: Run,
        shares: Any,
        combine: Any,
        private: bool,
        features: int,
        classes: tuple[int | float | str, ...] | None,
    ) -> Agreement:
        """The one place where terms are made, for a federation and for a simulation; a mechanism's certificate comes after it."""
        certificate, blocks = schedule.certificate, schedule.asked.blocks
        if blocks > objective.size:
            raise ConfigError(f"schedule.blocks must be at most the model's {objective.size} numbers, not {blocks}")
        with at("schedule"):
            terms = Terms(
                sizes=schedule.sizes,
                steps=schedule.steps,
                weights=weights,
                rounds=schedule.sizes.rounds,
                ahead=schedule.asked.wait.rounds,
                tau=schedule.delay,
                shares_by=shares,
                seed=run.seed,
                blocks=blocks,
                whole_rounds=private,
                combine=combine,
            )
        check_running(objective, terms)
        return cls(names, run.seed, run.wire, terms, objective, features, classes, certificate, smooth=schedule.smooth)

    def noting(self, why: str) -> Agreement:
        """The same, with one more sentence among the notes of its schedule, unless it is empty."""
        notes = (why, *self.schedule.notes) if why else self.schedule.notes
        return replace(self, schedule=replace(self.schedule, notes=notes))

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the text, which stands in every message, journal and ledger."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def indices(self) -> dict[str, int]:
        """The number of each client, by its name."""
        return {name: c for c, name in enumerate(self.names)}

    @property
    def size(self) -> int:
        """Numbers of the model."""
        return int(self.objective.size)

    def numbers(self, round: int) -> int:
        """Numbers of an update of that round: those of the block that it moves."""
        low, high = self.terms.block(round, self.size)
        return high - low

    @cached_property
    def limits(self) -> NormLimits:
        """How long an update can be."""
        return NormLimits(self.certificate, self.size)

    @property
    def stability(self) -> Stability:
        """Where the run stands against the limit of stability."""
        frozen = self.certificate is not None and issubclass(self.certificate.kind, Minibatch)
        return Stability(self.terms, self.smooth, frozen)

    @property
    def mechanism(self) -> str:
        return NONE if self.certificate is None else self.certificate.mechanism

    def initial(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The model that everybody starts from."""
        return first_model(self.objective, self.seed)

    def plan(self, me: int) -> PlannedEvents:
        """What each round costs client ``me``: the plan that its ledger signs. Without privacy each costs everything."""
        if me not in self._newest_plan:
            self._newest_plan.clear()
            self._newest_plan[me] = (
                PlannedEvents.of(NOTHING_HIDDEN if slots else None for slots in self.terms.shares_of(me))
                if self.certificate is None
                else self.certificate.plan(me)
            )
        return self._newest_plan[me]

    @cached_property
    def _newest_plan(self) -> dict[int, PlannedEvents]:
        """The plan that was asked for last, by its client: to make one of a million rounds takes seconds."""
        return {}


def check_running(objective: Objective, terms: Terms) -> None:
    """ConfigError where running statistics would not be those of the clients' records: they are averaged, and all at once."""
    layer = objective.traits.running_layer
    if layer is not None and terms.combine == "sum" and terms.clients > 1:
        raise ConfigError(
            f"{layer} keeps running statistics, which the sum of {terms.clients} clients' updates would move "
            f'{terms.clients} times too far; use clients.combine = "mean"'
        )
    if layer is not None and terms.blocks > 1:
        raise ConfigError(f"{layer} keeps running statistics, which move in every round; leave schedule.blocks out")


def build_terms(text: str) -> Agreement:
    """Everything that follows from a text of terms; Refused, in one sentence, if it is not one or does not hold."""
    try:
        return _built(text)
    except CrescendoError as error:
        error.args = (cleaned(str(error), LONGEST),)
        raise
    except Exception as error:  # whatever was not thought of: a peer's text must not end this side
        raise Refused(
            f"the terms cannot be used ({type(error).__name__}); ask the server's operator for the run file"
        ) from error


def _built(text: str) -> Agreement:
    if len(text) > MOST_TEXT:
        raise Refused(f"the terms have {len(text)} characters, and {MOST_TEXT} are allowed; name fewer clients")
    try:
        raw = json.loads(text)
        if canonical(raw) != text:
            raise ValueError("not in canonical form")
        return _build(text, TermsTable.read(raw))
    except RecursionError:
        raise Refused("the terms are nested too deeply to be terms; ask the server's operator") from None
    except ValueError as error:
        raise Refused(f"the terms cannot be understood ({error}); both sides must run the same version") from None


def canonical(raw: Any) -> str:
    """The text of terms: one for what they say."""
    try:
        return json.dumps(raw, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    except ValueError as error:
        raise UsageError(f"the terms cannot be written down: {error}") from None


def _build(text: str, asked: TermsTable) -> Agreement:
    private, clients, goal = asked.privacy, asked.clients, asked.objective
    objective = goal.objective()
    bound = private.norm_bound if private is not None else None
    schedule = RunSchedule.of(
        asked.schedule,
        len(clients.names),
        objective,
        norm_bound=bound,
        combine=clients.combine,
        private=private is not None,
        of_terms=True,
    )
    check_extent(schedule, clients.weights, clients.shares)
    made = Agreement.of(
        schedule,
        objective,
        clients.weights,
        names=clients.names,
        run=asked.run,
        shares=clients.shares,
        combine=clients.combine,
        private=private is not None,
        features=goal.features,
        classes=NUMBERS if objective.traits.numbers else None if goal.classes is None else tuple(goal.classes),
    )
    schema = None if asked.schema is None else Schema.of(asked.schema)
    if schema is not None and schema.width != goal.features:
        raise Refused(
            f"the terms say {goal.features} features, and their schema makes {schema.width}; ask the server's operator"
        )
    made = replace(made, text=text, federation=asked.federation, learns=goal.names, schema=schema)
    if private is None:
        return made
    if schema is not None and schema.looked_at:
        raise Refused(
            "the terms are private, and their schema was read off records (it is marked looked_at), so that no epsilon of "
            "theirs is true; the server's operator must state what is public"
        )
    if objective.traits.numbers and objective.traits.label_range is None:
        raise Refused(
            "the terms are private and state no label_range; the server's run file must have objective.label_range"
        )
    if made.classes is None:
        raise Refused(
            "the terms are private and name no classes, so that a record could decide what the labels of the others mean; "
            "the server's run file must have data.classes"
        )
    assert private.clip is not None and private.delta is not None and isinstance(private.records, tuple)
    certificate = certify(
        private.mechanism,
        made.terms,
        objective,
        clip=private.clip,
        sigma=Sigmas.of(private.sigma),
        records=private.records,
        norm_bound=private.norm_bound,
    )
    certificate.usual_delta(private.delta)  # refuses a delta that leaves no room for rare events
    return replace(made, certificate=certificate, delta=private.delta)
