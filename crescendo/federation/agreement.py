"""The agreement of a federation: one text of terms from which both sides build everything.

The text is canonical JSON: sorted keys, no spaces. Every message, journal and ledger holds its digest. No value in it
was computed from a client's records: the operator types in every number that a simulation would count (records,
features, 1/N, weights by size), and they are resolved before the text is made. Server and client build schedule,
objective and certificate from the text by the same function, so neither side has to trust the other for a size, a
step or a rate.
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
LONGEST = 900  # characters of an error about terms, which may quote them
NOTHING_HIDDEN = PoissonGaussian(1.0, 0.0)  # the cost of a round without privacy: everything


@dataclass(frozen=True, eq=False)
class Agreement:
    """The objects that both sides derive from the text of the terms; a simulation sends no terms and has no text."""

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
    learns: tuple[str, ...] = ()  # names by which a policy may allow the objective
    smooth: float | None = None  # L, if it is known without a look at private records
    schema: Schema | None = None  # maps the columns of a client's table to features

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
        """Make terms, for a federation or a simulation; the caller adds a mechanism's certificate afterwards."""
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
        """Return a copy with one more note on its schedule, unless the note is empty."""
        notes = (why, *self.schedule.notes) if why else self.schedule.notes
        return replace(self, schedule=replace(self.schedule, notes=notes))

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the text; every message, journal and ledger holds it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def indices(self) -> dict[str, int]:
        """The index of each client by name."""
        return {name: c for c, name in enumerate(self.names)}

    @property
    def size(self) -> int:
        """The size of the model."""
        return int(self.objective.size)

    def numbers(self, round: int) -> int:
        """Return the size of an update of that round: the size of the block that it moves."""
        low, high = self.terms.block(round, self.size)
        return high - low

    @cached_property
    def limits(self) -> NormLimits:
        """The norm limits of an update."""
        return NormLimits(self.certificate, self.size)

    @property
    def stability(self) -> Stability:
        """The run's margin to the limit of stability."""
        frozen = self.certificate is not None and issubclass(self.certificate.kind, Minibatch)
        return Stability(self.terms, self.smooth, frozen)

    @property
    def mechanism(self) -> str:
        return NONE if self.certificate is None else self.certificate.mechanism

    def initial(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the model that every client starts from."""
        return first_model(self.objective, self.seed)

    def plan(self, me: int) -> PlannedEvents:
        """Return the privacy cost of each round for client ``me``, the plan that its ledger signs off.

        Without privacy each round costs everything.
        """
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
        """A cache of the latest plan by client: a plan of a million rounds takes seconds to make."""
        return {}


def check_running(objective: Objective, terms: Terms) -> None:
    """Refuse running statistics unless the clients' updates are averaged and cover the whole model."""
    layer = objective.traits.running_layer
    if layer is not None and terms.combine == "sum" and terms.clients > 1:
        raise ConfigError(
            f"{layer} keeps running statistics, and the sum of {terms.clients} clients' updates would move them "
            f'{terms.clients} times too far; use clients.combine = "mean"'
        )
    if layer is not None and terms.blocks > 1:
        raise ConfigError(f"{layer} keeps running statistics, which every round must move; leave schedule.blocks out")


def build_terms(text: str) -> Agreement:
    """Build the agreement from a text of terms; raise Refused if the text is malformed or breaks a limit."""
    try:
        return _built(text)
    except CrescendoError as error:
        error.args = (cleaned(str(error), LONGEST),)
        raise
    except Exception as error:  # any other error: a peer's text must not crash this side
        raise Refused(
            f"the terms cannot be used ({type(error).__name__}); ask the server's operator for the run file"
        ) from error


def _built(text: str) -> Agreement:
    if len(text) > MOST_TEXT:
        raise Refused(f"the terms have {len(text)} characters, but at most {MOST_TEXT} are allowed; name fewer clients")
    try:
        raw = json.loads(text)
        if canonical(raw) != text:
            raise ValueError("not in canonical form")
        return _build(text, TermsTable.read(raw))
    except RecursionError:
        raise Refused("the terms are nested too deeply; ask the server's operator") from None
    except ValueError as error:
        raise Refused(f"the terms cannot be understood ({error}); both sides must run the same version") from None


def canonical(raw: Any) -> str:
    """Return the canonical text: equal terms give equal texts."""
    try:
        return json.dumps(raw, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    except ValueError as error:
        raise UsageError(f"the terms cannot be written as JSON: {error}") from None


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
            f"the terms state {goal.features} features, but their schema makes {schema.width}; ask the server's operator"
        )
    made = replace(made, text=text, federation=asked.federation, learns=goal.names, schema=schema)
    if private is None:
        return made
    if schema is not None and schema.looked_at:
        raise Refused(
            "the terms are private, but their schema was read off records (it is marked looked_at), so their epsilon would "
            "not hold; the server's operator must state what is public"
        )
    if objective.traits.numbers and objective.traits.label_range is None:
        raise Refused(
            "the terms are private and state no label_range; the server's run file must have objective.label_range"
        )
    if made.classes is None:
        raise Refused(
            "the terms are private and name no classes, so one record could change the meaning of the other labels; "
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
