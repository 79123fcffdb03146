"""A client's ledger on disk: the spending of its data set, and the outbox of unacknowledged releases.

A release follows an order that no kill can break: make the wire bytes; store charge and bytes in one transaction;
send the bytes. So every sent release was charged, and a resend repeats the original bytes: `Ledger.release` returns
the stored bytes of an already released round and ignores new ones. A charged round whose bytes are gone is void: it
can never be sent, and is never computed again.

The arithmetic is in `crescendo_dp.ledger.book`, the file in `crescendo.storage.ledger.ledger_file`.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from crescendo import system
from crescendo.core.messages import Settled
from crescendo.errors import DataError, Refused, UsageError
from crescendo.storage.ledger.head_note import Head
from crescendo.storage.ledger.ledger_entries import (
    budget_body,
    budget_of,
    promise_body,
    promise_of,
    summary_body,
)
from crescendo.storage.ledger.ledger_file import LedgerEntry, LedgerFile
from crescendo.storage.ledger.offers import Offers
from crescendo.storage.ledger.outbox import Outbox, Release
from crescendo_dp.events import Counted, Event, tally
from crescendo_dp.ledger.book import Account, Book, Price, Promise, Total, tight
from crescendo_dp.ledger.budget import Budget

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def _one_at_a_time(
    method: Callable[Concatenate[Ledger, _Given], _Answer],
) -> Callable[Concatenate[Ledger, _Given], _Answer]:
    """Let only one thread at a time into the ledger's methods."""

    @functools.wraps(method)
    def guarded(ledger: Ledger, /, *given: _Given.args, **named: _Given.kwargs) -> _Answer:
        with ledger._guard:
            return method(ledger, *given, **named)

    return guarded


class Watch(Protocol):
    """Observer of a ledger: it may refuse before a sign-off, and gets the head after each entry.

    If `wrote` raises, the ledger closes and sends nothing more.
    """

    def signing(self) -> None: ...

    def wrote(self, head: Head) -> None: ...

    def close(self) -> None: ...


class Ledger:
    """One data set's budget and outbox. Thread-safe; use it in ``with`` or close it."""

    def __init__(self, file: LedgerFile) -> None:
        self._file, self._guard = file, system.RLock()
        self._outbox, self._offers = Outbox(file), Offers()
        self._watch: Watch | None = None
        self._instances: dict[str, str] = {}  # federation -> this client's pseudonym there
        try:
            self._begin(file.entries[0])
            for entry in file.entries[1:]:
                self._apply(entry)
        except (Refused, IndexError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"the ledger {file.path} contradicts itself ({error}); put a sound copy back") from error

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @_one_at_a_time
    def close(self) -> None:
        """Close the file and the observer."""
        self._file.close()
        if self._watch is not None:
            self._watch.close()

    def watched_by(self, watch: Watch) -> None:
        """Notify ``watch`` of every entry from now on, and close it with the ledger."""
        self._watch = watch

    @property
    def id(self) -> str:
        """The ledger's identity on its own machine, independent of its path; it is never sent."""
        return hashlib.sha256(f"id of a ledger\0{self._secret}".encode()).hexdigest()[:32]

    @property
    def witness_key(self) -> bytes:
        """The key of the ledger's witness, which only the ledger itself can give."""
        return hashlib.sha256(f"witness of a ledger\0{self._secret}".encode()).digest()

    @property
    def has_signed(self) -> bool:
        """True if a federation was ever signed off."""
        return bool(self._book.accounts)

    def reaches(self, head: Head) -> bool:
        """Return True if a head noted earlier is part of this ledger."""
        return self._file.reaches(*head)

    @property
    def is_closed(self) -> bool:
        """True if the file was closed, by the caller or after a failed write."""
        return self._file.is_closed

    @property
    def budget(self) -> Budget:
        """The data set's budget."""
        return self._book.budget

    @_one_at_a_time
    def correct(self, budget: Budget, dataset: str) -> None:
        """Replace the budget and data set if nothing was signed off yet."""
        dataset = dataset or self.dataset
        if not self._book.accounts and (budget, dataset) != (self.budget, self.dataset):
            self._write("budget", budget_body(budget, dataset, self._secret))

    @_one_at_a_time
    def instance_of(self, federation: str) -> str:
        """Return this client's pseudonym in a signed-off federation, a different one in every federation."""
        self._book.account(federation)
        return self._instances[federation]

    @property
    def head(self) -> Head:
        """The number of entries and the hash of them all; a ledger that lacks a noted head is an older copy."""
        return self._file.head

    # -- signing off and releasing -------------------------------------------------------------------------------------

    @_one_at_a_time
    def sign(
        self,
        federation: str,
        terms: str,
        client: str,
        plan: Sequence[Event | None],
        delta: float,
        price: Price = tight,
        failure: float = 0.0,
    ) -> Promise:
        """Sign off a federation: the digest of its terms, and the event of every round (None for rounds without a
        release).

        ``delta`` is the federation's own, and ``failure`` its part reserved for rare events. Raise Refused if the
        plan exceeds the budget, or if other terms were signed off under this id. Repeating the same terms changes
        nothing.
        """
        promise = self._book.quote(federation, terms, client, plan, delta, price, failure)
        if federation not in self._book.accounts:
            if self._watch is not None:
                self._watch.signing()
            self._write("sign", {**promise_body(promise), "instance": _instance_for(self._secret, federation, terms)})
        return promise

    @_one_at_a_time
    def consider(self, federation: str, terms: str, most: int, now: float) -> None:
        """Record on disk that terms are priced against this ledger; refuse more than ``most`` different ones in a day.

        Signed-off terms do not count. ``now`` is in seconds since 1970.
        """
        signed = self._book.accounts.get(federation)
        if (signed is None or signed.promise.terms != terms) and self._offers.is_news(federation, terms, most, now):
            self._write("offer", {"federation": federation, "terms": terms, "at": now})

    @_one_at_a_time
    def release(self, federation: str, round: int, event: Event, data: bytes) -> bytes:
        """Charge the round and store its bytes on disk; then return the bytes to send.

        These are ``data``, or the stored bytes if the round was released before. Raise Refused if the event is not the
        signed-off one, and UsageError if the round was released before and its bytes are gone.
        """
        stored = self.released(federation, round)
        if stored is not None:
            return stored
        self._charge(federation, round, event, hashlib.sha256(data).hexdigest(), bytes(data))
        return data

    @_one_at_a_time
    def charge_void(self, federation: str, round: int, event: Event) -> None:
        """Charge a round whose computation failed, in one transaction and without bytes: the round is void.

        A failure may depend on the records. So a failed round is never recomputed with fresh noise, even after a
        restart.
        """
        self._charge(federation, round, event, None, None)

    def _charge(self, federation: str, round: int, event: Event, sha256: str | None, data: bytes | None) -> None:
        self._book.check(federation, round, event)
        body = {"federation": federation, "round": round, **event.to_json(), "sha256": sha256}
        self._write("charge", body, data)

    @_one_at_a_time
    def released(self, federation: str, round: int) -> bytes | None:
        """Return the stored bytes of a round, None if it was never released. Call this before computing a round."""
        if not self._outbox.knows(federation, round):
            return None
        data = self._outbox.bytes_of(federation, round)
        if data is None:
            raise UsageError(
                f"round {round} of federation {federation!r} was released and its bytes are gone; never compute it again"
            )
        return data

    @_one_at_a_time
    def close_federation(self, federation: str, *, withdrawn: bool = False) -> None:
        """Declare that nothing more will be sent, which frees the uncharged part of the promise.

        ``withdrawn`` is True if the owner of the records closes the federation before its end; it cannot be joined
        again.
        """
        account = self._book.account(federation)
        if not account.closed:
            body = {"federation": federation, "returned": not account.charged, "withdrawn": withdrawn}
            self._write("close", body)

    @property
    def path(self) -> Path:
        return self._file.path

    @_one_at_a_time
    def account(self, federation: str) -> Account | None:
        """Return a copy of a federation's account; None if it was never signed off."""
        return self._book.copy().accounts.get(federation)

    @_one_at_a_time
    def open_federations(self) -> list[str]:
        """Return the federations signed off and not closed."""
        return [federation for federation, account in self._book.accounts.items() if not account.closed]

    @_one_at_a_time
    def is_done(self, federation: str, terms: str, client: str) -> bool:
        """Return True if this was signed off under these terms and name, with nothing left to send in any federation."""
        account = self._book.accounts.get(federation)
        signed = account is not None and (account.promise.terms, account.promise.client) == (terms, client)
        others = (other.closed for id, other in self._book.accounts.items() if id != federation)
        return signed and all(others) and not self.unacknowledged(federation)

    # -- the outbox ----------------------------------------------------------------------------------------------------

    @_one_at_a_time
    def last_round(self, federation: str) -> int:
        """Return the last charged round, -1 for none: a client resumes after it, whatever the server claims."""
        return self._book.account(federation).last

    @_one_at_a_time
    def rounds(self, federation: str) -> int:
        """Return the number of signed-off rounds."""
        return len(self._book.account(federation).promise.plan)

    @_one_at_a_time
    def unacknowledged(self, federation: str) -> list[Release]:
        """Return the intact releases in the outbox, oldest round first, to be resent byte for byte."""
        self._book.account(federation)
        return self._outbox.releases(federation)

    @_one_at_a_time
    def void(self, federation: str, settled: Settled) -> list[int]:
        """Return the charged rounds that the server lacks and that cannot be resent; the client declares them void."""
        here = {release.round for release in self.unacknowledged(federation)}
        return [i for i in self._book.account(federation).charged if i not in settled and i not in here]

    @_one_at_a_time
    def acknowledge(self, federation: str, settled: Settled) -> None:
        """Drop the bytes of these rounds, which the server has on disk; keep the charges."""
        self._book.account(federation)
        self._outbox.drop(federation, settled)

    @_one_at_a_time
    def check_not_behind(self, federation: str, received: Iterable[int]) -> None:
        """Refuse to continue if the server received a round that this ledger never released: another copy exists."""
        charged = set(self._book.account(federation).charged)
        unknown = sorted(set(received) - charged)
        if unknown:
            raise Refused(
                f"the server has round {unknown[0]} of federation {federation!r} from this client, and the ledger "
                f"{self._file.path} does not: it is an older copy, or another copy is at work; go on with the newest one "
                f"alone, or spending would be forgotten"
            )

    # -- summaries -----------------------------------------------------------------------------------------------------

    def summary(self, price: Price = tight) -> dict[str, Any]:
        """Return the amounts promised, spent and left, as plain data; None stands for an infinite epsilon.

        ``promised`` counts whole plans, and the budget limits it; ``spent`` counts the rounds charged so far.
        """
        with self._guard:
            book = self._book.copy()
        return {"dataset": self.dataset, **summary_body(book, price)}

    @_one_at_a_time
    def left(self) -> Total:
        """Return the total of all plans, and the budget left after them."""
        return self._book.promised()

    @_one_at_a_time
    def charged(self) -> Counted:
        """Return every charged release, over all federations, for another accountant."""
        return tally(event for account in self._book.accounts.values() for event in account.events)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _write(self, kind: str, body: dict[str, Any], data: bytes | None = None) -> None:
        try:
            self._apply(self._file.append(kind, body, data))
            if self._watch is not None:
                self._watch.wrote(self._file.head)
        except BaseException:  # the disk may be ahead of the book, so the file must be read again
            self._file.close()
            raise

    def _begin(self, entry: LedgerEntry) -> None:
        """Apply a budget: a ledger's first entry, or a correction before the first sign-off."""
        if entry.kind != "budget":
            raise ValueError("it does not begin with a budget")
        self._book = Book(budget_of(entry.body))
        self._secret, self.dataset = str(entry.body["instance"]), str(entry.body["dataset"])

    def _apply(self, entry: LedgerEntry) -> None:
        """Apply an entry to the book, when it is written and when it is read again."""
        body = entry.body
        if entry.kind == "sign":
            self._book.sign(promise_of(body))
            self._instances[body["federation"]] = body.get(
                "instance", self._secret
            )  # older ledgers: one for all federations
        elif entry.kind == "charge":
            event = Event.from_json(**{name: body[name] for name in ("rate", "sigma", "event") if name in body})
            self._book.charge(body["federation"], body["round"], event)
            self._outbox.add(body["federation"], body["round"], entry.seq, body["sha256"])
        elif entry.kind == "close":
            flags = {name: bool(body.get(name)) for name in ("returned", "withdrawn")}  # older ledgers have none
            self._book.close(body["federation"], **flags)
        elif entry.kind == "offer":
            self._offers.add(body["federation"], body["terms"], body["at"])
        elif entry.kind == "budget" and not self._book.accounts:
            self._begin(entry)
        else:
            raise ValueError(f"entry {entry.seq} is of the unknown kind {entry.kind!r}, or out of place")


def _instance_for(secret: str, federation: str, terms: str) -> str:
    """Return this client's pseudonym in a federation: only this ledger can make it, and federations cannot link two
    of them.

    >>> len({_instance_for("secret", *about) for about in [("f", "9f3c"), ("g", "9f3c"), ("f", "a1b2")]})
    3
    """
    return hmac.new(secret.encode(), f"{federation}\0{terms}".encode(), "sha256").hexdigest()[:32]
