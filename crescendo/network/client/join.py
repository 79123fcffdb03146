"""`join`: one client of a served federation, from its policy and its records to the last round."""

import asyncio
import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from crescendo import system
from crescendo.data.sound import Sound
from crescendo.errors import CrescendoError, Refused, UsageError
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.federation.last_model import LastModel
from crescendo.federation.own_model import clients_copy
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.logs import Log, quiet
from crescendo.network.client.checkpoints import EVERY, Checkpoints
from crescendo.network.client.client_session import take_part
from crescendo.network.client.ledger_for import ledger_for
from crescendo.network.client.local_test import LocalTest
from crescendo.network.client.participant import Participant
from crescendo.network.client.seen import Seen
from crescendo.network.client.terms_request import ask, check_version
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff, Unreachable
from crescendo.network.transport.shutdown import ShutdownRequest
from crescendo.objectives import ModelFile
from crescendo.objectives.score import Measured
from crescendo.privacy.mechanisms.noise import Source as Randomness
from crescendo.privacy.mechanisms.noise import SystemSource
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.round_checkpoint import remove_stale
from crescendo.whole_files import make_folder
from crescendo.worker import Worker
from crescendo_dp.ledger.book import Account, Promise, tight

# What a server is told. Why a ledger does not allow terms (too little left, another federation is open, too many offers) stays
# with the client, and so does why its machine fails.
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
    score: Measured | None = None  # of the last model, on records that this client held out


def join(
    endpoint: Endpoint,
    name: str,
    source: RecordSource,
    state: Path,
    policy: Policy,
    *,
    model: ModelFile | None = None,
    log: Log = quiet,
    backoff: Backoff | None = None,
    randomness: Callable[[int], Randomness] | None = None,
    checkpoint_every: float = EVERY,
) -> Joined:
    """Take part until the run is over, or until a signal.

    ``model`` is this client's copy of the model, where the terms describe one that is not ours. The round in hand is written down
    in ``state`` after ``checkpoint_every`` seconds of work, 0 for never. ``randomness`` is for tests; a real client has the
    system's.
    """
    check_name(name)
    check_interval(checkpoint_every)
    source.check()
    make_folder(state)
    with ShutdownRequest.on_signals() as shutdown, ledger_for(source.own_file(), policy, state, log) as ledger:
        for path, reason in remove_stale(state, _open_terms(ledger) if checkpoint_every else []):
            log("checkpoint_failed", path=str(path), reason=reason)
        waits = backoff or Backoff()
        client = _Joining(
            endpoint, name, source, state, policy, ledger, log, waits, randomness, model, checkpoint_every
        )
        return asyncio.run(client.run(shutdown))


def check_name(name: str) -> None:
    """Refuse what no terms can name."""
    if not name.strip() or not name.isprintable():
        raise UsageError(f"{name!r} is not a client's name; give the one that the terms have for you with --as")


def check_interval(seconds: float) -> None:
    """Refuse a time between checkpoints that is none."""
    if not 0 <= seconds < math.inf:
        raise UsageError(f"--checkpoint takes seconds of work, 10 say, or 0 for never, not {seconds:g}")


def _open_terms(ledger: Ledger) -> list[str]:
    """The digests of the terms that were signed off and are not over."""
    accounts = [ledger.account(federation) for federation in ledger.open_federations()]
    return [account.promise.terms for account in accounts if account is not None]


@dataclass
class _Joining:
    endpoint: Endpoint
    name: str
    source: RecordSource
    state: Path
    policy: Policy
    ledger: Ledger
    log: Log
    backoff: Backoff
    randomness: Callable[[int], Randomness] | None
    model: ModelFile | None
    checkpoint_every: float
    own: Sound | None = None  # its records, once they are known to suit the terms

    async def run(self, shutdown: ShutdownRequest) -> Joined:
        stop, kept, agreed = shutdown.event(), await asyncio.to_thread(self._kept), None
        once = replace(self.backoff, give_up=0.0)
        try:
            agreed = await self._agree(stop, self.backoff if kept is None else once)
            if agreed is None:
                return Joined(None, None, 0, -1)
            another = kept is None or kept.federation != agreed.federation
            return await self._take_part(agreed, stop, self.backoff if another else once)
        except Unreachable:
            if kept is None or (agreed is not None and agreed.federation != kept.federation):
                raise
            why = f"this folder has all of it, and no server of it answers at {self.endpoint.address}"
            self.log("finished", federation=kept.federation, rounds=kept.rounds, why=why)
            return kept

    async def _take_part(self, agreed: Agreement, stop: asyncio.Event, backoff: Backoff) -> Joined:
        participant = await asyncio.to_thread(self._participant, agreed)
        instance = self.ledger.instance_of(agreed.federation)
        await take_part(self.endpoint, participant, instance, stop, backoff, self.log)
        score = None
        if participant.final is not None:
            LastModel.of(participant.final, agreed).save(self.state / "model.npz")
            self.ledger.close_federation(agreed.federation)  # what was promised and never sent is free again
            self.log("finished", federation=agreed.federation, rounds=agreed.terms.rounds)
            held_out = None if self.own is None else self.own.held_out
            score = await asyncio.to_thread(self._test.measure, agreed, participant.final, held_out, self.log)
        else:
            self.log("stopped", federation=agreed.federation, last=participant.last)
        return Joined(participant.final, agreed.federation, agreed.terms.rounds, participant.last, score)

    @property
    def _test(self) -> LocalTest:
        return LocalTest(self.state / "test.json", self.source.test)

    def _kept(self) -> Joined | None:
        """The run that this folder saw the end of, if nothing else was begun since: no server is needed to say so.

        The last model is written only when everything has arrived. A server that is there is asked all the same: it may serve
        another federation by now.
        """
        found = LastModel.load(self.state / "model.npz")
        if found is None or not self.ledger.is_done(found.federation, found.terms, self.name):
            return None
        self.ledger.close_federation(found.federation)  # a kill may have come between the model and this
        last, rounds = self.ledger.last_round(found.federation), self.ledger.rounds(found.federation)
        return Joined(found.model, found.federation, rounds, last, self._test.found(found.federation, found.terms))

    async def _agree(self, stop: asyncio.Event, backoff: Backoff) -> Agreement | None:
        """The server's terms, checked and signed off; both sides log why if they are not."""
        async with ask(self.endpoint, self.name, stop, backoff, self.log) as question:
            if question is None:
                return None
            try:
                with _told():
                    check_version(question.welcome)
                return await asyncio.to_thread(self._accepted, question.welcome.terms, question.welcome.client)
            except Exception as error:
                self.log("declined", reason=str(error) or type(error).__name__)
                await question.decline(getattr(error, "public", None) or CANNOT)
                raise

    def _accepted(self, text: str, me: int) -> Agreement:
        """What both sides may log comes from terms and policy; the ledger and this machine are asked in silence."""
        with _told():
            agreed = _understood(text)
            if me >= len(agreed.names) or agreed.names[me] != self.name:
                raise Refused(f'the terms do not name "{self.name}" as client {me}; ask the server\'s operator')
            self.policy.check_terms(agreed)
        with _told(COPY):
            agreed = clients_copy(agreed, self.model, self.log)
        with _told(CANNOT):
            promise = self._promised(agreed, me)
        epsilon = None if promise.epsilon == math.inf else promise.epsilon
        self.log("signed", federation=agreed.federation, terms=agreed.digest, epsilon=epsilon, delta=agreed.delta)
        return agreed

    def _promised(self, agreed: Agreement, me: int) -> Promise:
        """The sign-off in the ledger, or Refused.

        What the plan costs rests on the terms alone, so the policy has its say first, be the federation known here or not.
        Then the ledger is asked. Each answer tells the server something about what is left, so the answers are few a day, and
        the server hears one sentence whatever the ledger or the records say. The records are read before anything is signed: a
        file of another shape costs nothing.
        """
        made, plan = agreed.certificate, agreed.plan(me)
        price, rare = (functools.cache(tight), made.failure) if made is not None else (lambda *_: math.inf, 0.0)
        delta = agreed.delta if agreed.delta is not None else min(1e-9, self.ledger.budget.delta)
        known = self.ledger.account(agreed.federation)
        if made is not None and (known is None or known.promise.terms != agreed.digest):
            self.log("accounting", says=f"what the terms of {agreed.federation} cost; this may take a minute")
            with _told():
                self.policy.check_epsilon(agreed, price(plan.priced, made.usual_delta(delta)))
        self.ledger.consider(agreed.federation, agreed.digest, self.policy.max_offers, system.time())
        self._check_open(agreed.federation, known)
        self._test.check(agreed, known is not None and known.last >= 0, self.source.part is not None)
        self.own = self.source.read(agreed, me)
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

    def _participant(self, agreed: Agreement) -> Participant:
        assert self.own is not None, "the records were read before the terms were signed"
        self._test.begin(agreed)
        self.source.tell(self.own, self.log)
        me, records = agreed.names.index(self.name), self.own.records
        rows, mechanism = np.arange(len(records), dtype=np.int64), None
        if agreed.certificate is not None:
            mechanism = agreed.certificate.client(me, rows, self._randomness(me))
        worker = Worker(
            agreed.terms, me, agreed.initial(), agreed.objective, records, rows, agreed.seed, agreed.wire, mechanism
        )
        seen = Seen(self.state / f"seen-{agreed.digest[:16]}.json")
        instance = self.ledger.instance_of(agreed.federation)
        every = self.checkpoint_every
        checkpoints = Checkpoints(self.state, every, agreed, self.name, instance, records, self.log)
        return Participant(agreed, me, worker, self.ledger, seen, self.log, checkpoints)

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


def _understood(text: str) -> Agreement:
    """Terms, or Refused: whatever is wrong with them, the server has sent it."""
    try:
        return build_terms(text)
    except CrescendoError as error:
        raise error if isinstance(error, Refused) else Refused(str(error)) from None
