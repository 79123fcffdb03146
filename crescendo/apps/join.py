"""`join`: one client of a served federation, from its policy and its records to the last round."""

from __future__ import annotations

import asyncio
import functools
import math
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.apps.own_copy import clients_copy
from crescendo.apps.own_data import Own, Source, check_source, own_records
from crescendo.apps.policy import Policy, check_epsilon, check_policy
from crescendo.apps.stopping import Wish, stoppable
from crescendo.apps.terms import Agreed, build_terms
from crescendo.errors import CrescendoError, Refused, UsageError
from crescendo.objectives import ModelFile
from crescendo.privacy.certificates import usual_delta
from crescendo.privacy.events import tally
from crescendo.privacy.ledger import Account, Promise, tight
from crescendo.privacy.mechanisms import Private
from crescendo.privacy.noise import Source as Randomness
from crescendo.privacy.noise import SystemSource
from crescendo.runtimes.network.asking import ask
from crescendo.runtimes.network.client import take_part
from crescendo.runtimes.network.link import Patience, Place, Unreachable
from crescendo.runtimes.network.logs import Log, quiet
from crescendo.runtimes.network.member import Contract, Member, Seen
from crescendo.runtimes.store import Ledger, open_ledger
from crescendo.worker import Worker

# What a server is told. Why a ledger does not allow terms (too little left, another federation is open, too many offers) is
# nobody's business but the client's own, and so is why its machine fails.
COPY = "this client has no copy of the model that the terms describe"
CANNOT = "this client cannot take part in these terms now; its own log says why"
"""What a server hears whether the ledger, the records or this machine is the reason: it must not tell which."""


@dataclass(frozen=True)
class Joined:
    """How it ended: the last model if the run is over, None if it was stopped before."""

    model: Any
    federation: str | None
    rounds: int
    last: int


def join(
    place: Place,
    name: str,
    source: Source,
    state: Path,
    policy: Policy,
    *,
    model: ModelFile | None = None,
    log: Log = quiet,
    patience: Patience | None = None,
    randomness: Callable[[int], Randomness] | None = None,
) -> Joined:
    """Take part until the run is over, or until a signal.

    ``model`` is this client's copy of the model, where the terms describe one that is not ours. ``randomness`` is for tests; a
    real client has the system's.
    """
    check_name(name)
    check_source(source)
    state.mkdir(parents=True, exist_ok=True)
    path = Path(policy.ledger) if policy.ledger is not None else state / "ledger.sqlite"
    with stoppable() as wish, open_ledger(path, policy.budget(), dataset=policy.dataset) as ledger:
        client = _Joining(place, name, source, state, policy, ledger, log, patience or Patience(), randomness, model)
        return asyncio.run(client.run(wish))


def check_name(name: str) -> None:
    """Refuse what no terms can name."""
    if not name.strip() or not name.isprintable():
        raise UsageError(f"{name!r} is not a client's name; give the one that the terms have for you with --as")


@dataclass
class _Joining:
    place: Place
    name: str
    source: Source
    state: Path
    policy: Policy
    ledger: Ledger
    log: Log
    patience: Patience
    randomness: Callable[[int], Randomness] | None
    model: ModelFile | None
    own: Own | None = None  # its records, once they are known to suit the terms

    async def run(self, wish: Wish) -> Joined:
        stop, kept, agreed = wish.event(), await asyncio.to_thread(self._kept), None
        once = replace(self.patience, give_up=0.0)
        try:
            agreed = await self._agree(stop, self.patience if kept is None else once)
            if agreed is None:
                return Joined(None, None, 0, -1)
            another = kept is None or kept.federation != agreed.federation
            return await self._take_part(agreed, stop, self.patience if another else once)
        except Unreachable:
            if kept is None or (agreed is not None and agreed.federation != kept.federation):
                raise
            why = f"this folder has all of it, and no server of it answers at {self.place.address}"
            self.log("finished", federation=kept.federation, rounds=kept.rounds, why=why)
            return kept

    async def _take_part(self, agreed: Agreed, stop: asyncio.Event, patience: Patience) -> Joined:
        member = await asyncio.to_thread(self._member, agreed)
        instance = self.ledger.instance_of(agreed.federation)
        await take_part(self.place, member, instance, stop, patience, self.log)
        if member.final is not None:
            save_model(self.state / "model.npz", member.final, agreed)
            self.ledger.close_federation(agreed.federation)  # what was promised and never sent is free again
            self.log("finished", federation=agreed.federation, rounds=agreed.terms.rounds)
        else:
            self.log("stopped", federation=agreed.federation, last=member.last)
        return Joined(member.final, agreed.federation, agreed.terms.rounds, member.last)

    def _kept(self) -> Joined | None:
        """The run that this folder saw the end of, if nothing else was begun since: no server is needed to say so.

        The last model is written only when everything has arrived. A server that is there is asked all the same: it may serve
        another federation by now.
        """
        found = load_model(self.state / "model.npz")
        if found is None or not self.ledger.is_done(found.federation, found.terms, self.name):
            return None
        self.ledger.close_federation(found.federation)  # a kill may have come between the model and this
        last, rounds = self.ledger.last_round(found.federation), self.ledger.rounds(found.federation)
        return Joined(found.model, found.federation, rounds, last)

    async def _agree(self, stop: asyncio.Event, patience: Patience) -> Agreed | None:
        """The server's terms, checked and signed off; both sides log why if they are not."""
        async with ask(self.place, self.name, stop, patience, self.log) as question:
            if question is None:
                return None
            try:
                return await asyncio.to_thread(self._accepted, question.welcome.terms, question.welcome.client)
            except Exception as error:
                self.log("declined", reason=str(error) or type(error).__name__)
                await question.decline(getattr(error, "public", None) or CANNOT)
                raise

    def _accepted(self, text: str, me: int) -> Agreed:
        """What both sides may log comes from terms and policy; the ledger and this machine are asked in silence."""
        with _told():
            agreed = _understood(text)
            if me >= len(agreed.names) or agreed.names[me] != self.name:
                raise Refused(f'the terms do not name "{self.name}" as client {me}; ask the server\'s operator')
            check_policy(self.policy, agreed, me)
        with _told(COPY):
            agreed = clients_copy(agreed, self.model, self.log)
        with _told(CANNOT):
            promise = self._promised(agreed, me)
        epsilon = None if promise.epsilon == math.inf else promise.epsilon
        self.log("signed", federation=agreed.federation, terms=agreed.digest, epsilon=epsilon, delta=agreed.delta)
        return agreed

    def _promised(self, agreed: Agreed, me: int) -> Promise:
        """The sign-off in the ledger, or Refused.

        What the plan costs rests on the terms alone, so the policy has its say first, be the federation known here or not.
        Then the ledger is asked. Each answer tells the server something about what is left, so the answers are few a day, and
        the server hears one sentence whatever the ledger or the records say. The records are read before anything is signed: a
        file of another shape costs nothing.
        """
        made, plan = agreed.certificate, agreed.plan(me)
        price, rare = (functools.cache(tight), made.failure) if made is not None else (_everything, 0.0)
        delta = agreed.delta if agreed.delta is not None else min(1e-9, self.ledger.budget.delta)
        known = self.ledger.account(agreed.federation)
        if made is not None and (known is None or known.promise.terms != agreed.digest):
            with _told():
                events = tally(event for event in plan if event is not None)
                check_epsilon(self.policy, agreed, price(events, usual_delta(made, delta)))
        self.ledger.consider(agreed.federation, agreed.digest, self.policy.max_offers, time.time())
        self._check_open(agreed.federation, known)
        self.own = own_records(self.source, agreed, me)
        return self.ledger.sign(agreed.federation, agreed.digest, self.name, plan, delta, price, rare)

    def _check_open(self, federation: str, known: Account | None) -> None:
        """Fresh federation ids must not use a budget up: each open one holds on to what it was promised."""
        others, most = self.ledger.open_federations(), self.policy.max_open_federations
        if known is not None and known.withdrawn:
            raise Refused(
                f"federation {federation!r} was closed in the ledger {self.ledger.path} and can never be joined again; "
                f"a new one needs an id of its own"
            )
        if known is None and len(others) >= most:
            raise Refused(
                f"this client's policy allows {most} open federation{'s' if most > 1 else ''} (max_open_federations), and "
                f"{', '.join(map(repr, others[:3]))} {'are' if len(others) > 1 else 'is'} open; close one that is over with "
                f"`crescendo account --ledger {self.ledger.path} --close FEDERATION`, or raise max_open_federations"
            )

    def _member(self, agreed: Agreed) -> Member:
        assert self.own is not None, "the records were read before the terms were signed"
        self.own.tell(self.source, self.log)
        me, records = agreed.names.index(self.name), self.own.records
        rows, mechanism = np.arange(len(records), dtype=np.int64), None
        if agreed.certificate is not None:
            mechanism = Private(agreed.certificate, me, rows, self._randomness(me))
        worker = Worker(
            agreed.terms, me, agreed.initial(), agreed.objective, records, rows, agreed.seed, agreed.wire, mechanism
        )
        contract = Contract(
            federation=agreed.federation,
            digest=agreed.digest,
            name=self.name,
            me=me,
            terms=agreed.terms,
            wire=agreed.wire,
            size=agreed.objective.size,
            plan=agreed.plan(me),
        )
        seen = Seen(self.state / f"seen-{agreed.digest[:16]}.json")
        return Member(contract, worker, self.ledger, seen, self.log)

    def _randomness(self, me: int) -> Randomness:
        if self.randomness is None:
            return SystemSource()
        chosen = self.randomness(me)
        self.log("simulated_noise", says="this client's noise can be computed again and protects nobody")
        return chosen


@contextmanager
def _told(public: str | None = None) -> Iterator[None]:
    """What is refused in here may be told to the server: in these words, else in its own, which are of terms and policy alone.

    Anything else that goes wrong is not about the terms, and is not told.
    """
    try:
        yield
    except Refused as error:
        error.public = error.public or public or str(error)
        raise


def _understood(text: str) -> Agreed:
    """Terms, or Refused: whatever is wrong with them, the server has sent it."""
    try:
        return build_terms(text)
    except CrescendoError as error:
        raise error if isinstance(error, Refused) else Refused(str(error)) from None


def _everything(events: Any, delta: float) -> float:
    """What releases without noise cost."""
    return math.inf


@dataclass(frozen=True, eq=False)
class Kept:
    """A last model, and the federation and terms that it is of."""

    model: Any
    federation: str
    terms: str


def load_model(path: Path) -> Kept | None:
    """What `save_model` wrote, None if there is nothing that can be read."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return Kept(file["model"], str(file["federation"]), str(file["terms"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def save_model(path: Path, model: Any, agreed: Agreed) -> None:
    """The model as an npz, there whole or not at all."""
    draft = path.with_suffix(".draft")
    try:
        with draft.open("wb") as out:
            np.savez(out, model=np.asarray(model), federation=agreed.federation, terms=agreed.digest)
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"the model cannot be written to {path}: {(error.strerror or str(error)).lower()}") from None
