"""`join`: runs one client of a served federation, from its policy and its records to the last round."""

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

# Reasons that the server gets. Why a ledger does not allow terms (too little left, another federation is open, too many offers)
# stays with the client, and so does the reason why its machine fails.
COPY = "this client has no copy of the model that the terms describe"
CANNOT = "this client cannot take part in these terms now; its own log says why"
"""One text for the ledger, the records and this machine: the server must not learn which of them is the reason."""


@dataclass(frozen=True)
class Joined:
    """How the client ended: with the last model if the run is over, or with None if it was stopped before."""

    model: Any
    federation: str | None
    rounds: int
    last: int
    score: Measured | None = None  # of the last model, on this client's held-out records


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

    ``model`` is this client's copy of the model, if the terms describe one that is not built in. The current round is saved in
    ``state`` after every ``checkpoint_every`` seconds of work, or never with 0. ``randomness`` is for tests; a real client uses
    the system's.
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
    """Refuse a name that no terms can contain."""
    if not name.strip() or not name.isprintable():
        raise UsageError(f"{name!r} is not a client's name; give your name in the terms with --as")


def check_interval(seconds: float) -> None:
    """Refuse an invalid time between checkpoints."""
    if not 0 <= seconds < math.inf:
        raise UsageError(f"--checkpoint takes seconds of work, such as 10, or 0 for never, not {seconds:g}")


def _open_terms(ledger: Ledger) -> list[str]:
    """Return the digests of signed terms whose federations are still open."""
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
    own: Sound | None = None  # its records, once they are checked against the terms

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
            self.ledger.close_federation(agreed.federation)  # returns the budget of rounds that were never sent
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
        """Return the finished run in this folder, if no other was begun since; this needs no server.

        The last model is written only after all updates have arrived. The client still asks a server that it can reach, because
        that may serve another federation by now.
        """
        found = LastModel.load(self.state / "model.npz")
        if found is None or not self.ledger.is_done(found.federation, found.terms, self.name):
            return None
        self.ledger.close_federation(found.federation)  # a kill may have come between the model and this
        last, rounds = self.ledger.last_round(found.federation), self.ledger.rounds(found.federation)
        return Joined(found.model, found.federation, rounds, last, self._test.found(found.federation, found.terms))

    async def _agree(self, stop: asyncio.Event, backoff: Backoff) -> Agreement | None:
        """Ask for the server's terms, check and sign them. If the client declines, both sides log the reason."""
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
        """Check and sign the terms. Reasons from terms and policy go to the server; those from ledger and machine do not."""
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
        """Sign the terms in the ledger, or raise Refused.

        The cost of the plan depends on the terms alone, so the policy is checked first, for a known federation too. The ledger
        comes next. Each answer reveals something about the remaining budget, so the number of answers a day is limited, and the
        server gets one sentence for all reasons of the ledger and the records. The records are read before the terms are signed,
        so a file of the wrong shape costs no budget.
        """
        made, plan = agreed.certificate, agreed.plan(me)
        price, rare = (functools.cache(tight), made.failure) if made is not None else (lambda *_: math.inf, 0.0)
        delta = agreed.delta if agreed.delta is not None else min(1e-9, self.ledger.budget.delta)
        known = self.ledger.account(agreed.federation)
        if made is not None and (known is None or known.promise.terms != agreed.digest):
            self.log(
                "accounting", says=f"computing the cost of the terms of {agreed.federation}; this may take a minute"
            )
            with _told():
                self.policy.check_epsilon(agreed, price(plan.priced, made.usual_delta(delta)))
        self.ledger.consider(agreed.federation, agreed.digest, self.policy.max_offers, system.time())
        self._check_open(agreed.federation, known)
        self._test.check(agreed, known is not None and known.last >= 0, self.source.part is not None)
        self.own = self.source.read(agreed, me)
        return self.ledger.sign(agreed.federation, agreed.digest, self.name, plan, delta, price, rare)

    def _check_open(self, federation: str, known: Account | None) -> None:
        """Refuse too many open federations: each reserves budget, and new federation ids must not use it up."""
        others, most = self.ledger.open_federations(), self.policy.max_open_federations
        if known is not None and known.withdrawn:
            raise Refused(
                f"federation {federation!r} was closed in the ledger {self.ledger.path} and can never be joined again; "
                f"a new federation needs a new id"
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
    """Mark refusals in the block as public: the server gets the text ``public``, or the error's own text.

    Use the error's own text only where it depends on terms and policy alone. Other errors stay private.
    """
    try:
        yield
    except Refused as error:
        error.public = error.public or public or str(error)
        raise


def _understood(text: str) -> Agreement:
    """Parse the terms; every error becomes Refused, because the server sent them."""
    try:
        return build_terms(text)
    except CrescendoError as error:
        raise error if isinstance(error, Refused) else Refused(str(error)) from None
