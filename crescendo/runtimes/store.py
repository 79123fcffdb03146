"""A client's ledger on disk: what its data set has spent, and the outbox of what was sent and not yet acknowledged.

The order of a release, which no kill can upset: wire bytes are made; charge and bytes go to disk in one transaction; the
bytes are sent. So what was sent was charged, and what is sent again is what was sent before: `Ledger.release` returns the stored
bytes of a round that was released earlier, whatever it is given. A charged round whose bytes are gone is void: nothing of it
can be sent any more, and it is never computed again.

The arithmetic is in `crescendo.privacy.ledger`, the file in `crescendo.runtimes.ledger_file`.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from crescendo.core.messages import Settled
from crescendo.errors import DataError, Refused, UsageError
from crescendo.privacy.budget import Budget
from crescendo.privacy.events import Counted, PoissonGaussian, tally
from crescendo.privacy.ledger import Book, Price, Promise, tight
from crescendo.runtimes.ledger_entries import budget_body, budget_of, promise_body, promise_of, summary_body
from crescendo.runtimes.ledger_file import Entry, LedgerFile
from crescendo.runtimes.outbox import Lost, Outbox, Release

__all__ = ["Ledger", "Lost", "Release", "VoidRound", "open_ledger"]


class VoidRound(UsageError):
    """The round was charged and its bytes are gone: declare it void, and never compute it again."""


def open_ledger(
    path: str | Path, budget: Budget | None = None, *, dataset: str = "", read_only: bool = False
) -> Ledger:
    """Open the ledger at ``path``, or begin one if there is none and a budget is given.

    The budget and the name of the data set are set once: until something is signed off they can be corrected, then a ledger that
    has others is refused. One process at a time may have a ledger open; with ``read_only`` others may look at it.
    """
    path = Path(path)
    file = LedgerFile(path, create=budget is not None and not read_only, read_only=read_only)
    try:
        if not file.entries:
            if budget is None or read_only:
                what = "nothing was spent" if read_only else "give a budget to begin it"
                raise DataError(f"the ledger {path} was never begun; {what}")
            file.append("budget", budget_body(budget, dataset, instance=uuid.uuid4().hex))
        ledger = Ledger(file)
        if budget is not None and not read_only and len(file.entries) == ledger.begun:
            ledger._begin_anew(budget, dataset)
        ledger._check_asked(budget, dataset)
        return ledger
    except BaseException:
        file.close()
        raise


class Ledger:
    """One data set's budget and outbox. May be used from several threads; use it in ``with`` or close it."""

    def __init__(self, file: LedgerFile) -> None:
        self._file, self._guard = file, threading.RLock()
        self._outbox = Outbox(file)
        budgets = [entry.body for entry in itertools.takewhile(lambda entry: entry.kind == "budget", file.entries)]
        self.begun = len(budgets)  # entries before the first that matters
        self._book = Book(budget_of(budgets[-1]))
        self.instance, self.dataset = str(budgets[-1]["instance"]), str(budgets[-1]["dataset"])
        try:
            for entry in file.entries[self.begun :]:
                self._apply(entry)
        except (Refused, KeyError, TypeError, ValueError) as error:
            raise DataError(f"the ledger {file.path} contradicts itself ({error}); put a sound copy back") from error

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        with self._guard:
            self._file.close()

    @property
    def is_closed(self) -> bool:
        """Whether the file was let go of, by itself if a write failed."""
        return self._file.is_closed

    @property
    def budget(self) -> Budget:
        """What the data set may spend."""
        return self._book.budget

    @property
    def head(self) -> tuple[int, str]:
        """How many entries there are and the hash of them all; a ledger whose head once was elsewhere is an older copy."""
        return self._file.head

    # -- signing off and releasing -------------------------------------------------------------------------------------

    def quote(
        self,
        federation: str,
        terms: str,
        client: str,
        plan: Sequence[PoissonGaussian | None],
        delta: float,
        price: Price = tight,
    ) -> Promise:
        """What `sign` would promise, or Refused; nothing is written."""
        with self._guard:
            return self._book.quote(federation, terms, client, plan, delta, price)

    def sign(
        self,
        federation: str,
        terms: str,
        client: str,
        plan: Sequence[PoissonGaussian | None],
        delta: float,
        price: Price = tight,
    ) -> Promise:
        """Sign a federation off: the digest of its terms, and the event of every round (None where nothing is sent).

        ``delta`` is the federation's own. Refused if it does not fit into the budget, or if other terms were signed off under
        this id. The same terms again change nothing.
        """
        with self._guard:
            promise = self._book.quote(federation, terms, client, plan, delta, price)
            if federation not in self._book.accounts:
                self._write("sign", promise_body(promise))
            return promise

    def release(self, federation: str, round: int, event: PoissonGaussian, data: bytes) -> bytes:
        """Charge the round and keep its bytes, on disk; then return what may be sent.

        That is ``data``, or what was stored if the round was released before. Refused if it is not what was signed off;
        `VoidRound` if it was released before and its bytes are gone.
        """
        with self._guard:
            stored = self.released(federation, round)
            if stored is not None:
                return stored
            self._charge(federation, round, event, hashlib.sha256(data).hexdigest(), bytes(data))
            return data

    def charge_void(self, federation: str, round: int, event: PoissonGaussian) -> None:
        """Charge a round whose computation failed, and keep no bytes: it is void from the start, in one transaction.

        Whether a computation fails may depend on the records. A round that failed is therefore never computed again with fresh
        noise, whoever starts the client anew.
        """
        with self._guard:
            self._charge(federation, round, event, None, None)

    def _charge(
        self, federation: str, round: int, event: PoissonGaussian, sha256: str | None, data: bytes | None
    ) -> None:
        self._book.check(federation, round, event)
        body = {"federation": federation, "round": round, "rate": event.rate, "sigma": event.sigma, "sha256": sha256}
        self._write("charge", body, data)

    def released(self, federation: str, round: int) -> bytes | None:
        """The stored bytes of a round, None if it was never released. Ask this before computing a round."""
        with self._guard:
            if not self._outbox.knows(federation, round):
                return None
            data = self._outbox.bytes_of(federation, round)
            if data is None:
                raise VoidRound(
                    f"round {round} of federation {federation!r} was released and its bytes are gone; never compute it again"
                )
            return data

    def close_federation(self, federation: str) -> None:
        """Promise that nothing more will be sent; counted by orders, what was not charged is free again."""
        with self._guard:
            if not self._book.account(federation).closed:
                self._write("close", {"federation": federation})

    def is_done(self, federation: str, terms: str, client: str) -> bool:
        """Was this signed off under these terms and name, and is nothing of it, or of any other federation, left to send?"""
        with self._guard:
            account = self._book.accounts.get(federation)
            signed = account is not None and (account.promise.terms, account.promise.client) == (terms, client)
            others = (other.closed for id, other in self._book.accounts.items() if id != federation)
            return signed and all(others) and not self.unacknowledged(federation)

    # -- the outbox ----------------------------------------------------------------------------------------------------

    def last_round(self, federation: str) -> int:
        """The last round that was charged, -1 for none: a client goes on after it, whatever a server says."""
        with self._guard:
            return self._book.account(federation).last

    def rounds(self, federation: str) -> int:
        """How many rounds were signed off."""
        with self._guard:
            return len(self._book.account(federation).promise.plan)

    def unacknowledged(self, federation: str) -> list[Release]:
        """What is in the outbox and intact, oldest round first: to be sent again, byte for byte."""
        with self._guard:
            self._book.account(federation)
            return self._outbox.releases(federation)

    def void(self, federation: str, settled: Settled) -> list[int]:
        """Rounds that were charged, that the server lacks and that cannot be sent again: to be declared void."""
        with self._guard:
            here = {release.round for release in self.unacknowledged(federation)}
            return [i for i in self._book.account(federation).charged if i not in settled and i not in here]

    def acknowledge(self, federation: str, settled: Settled) -> None:
        """The server has these rounds on disk: their bytes are dropped. The charges stay."""
        with self._guard:
            self._book.account(federation)
            self._outbox.drop(federation, settled)

    def check_not_behind(self, federation: str, received: Iterable[int]) -> None:
        """Refuse to go on if the server received a round that this ledger never released: there is another copy."""
        with self._guard:
            charged = set(self._book.account(federation).charged)
            unknown = sorted(set(received) - charged)
            if unknown:
                raise Refused(
                    f"the server has round {unknown[0]} of federation {federation!r} from this client, and the ledger "
                    f"{self._file.path} does not: it is an older copy, or another copy is at work; go on with the newest one "
                    f"alone, or spending would be forgotten"
                )

    # -- for people ----------------------------------------------------------------------------------------------------

    def summary(self, price: Price = tight) -> dict[str, Any]:
        """What was promised, spent and left, as plain data; None stands for an infinite epsilon.

        ``promised`` counts whole plans and is what the budget is held against; ``spent`` counts the rounds charged so far.
        """
        with self._guard:
            book = self._book.copy()
        return {"dataset": self.dataset, "instance": self.instance, **summary_body(book, price)}

    def charged(self) -> Counted:
        """Every release that was charged, over all federations, for another accountant."""
        with self._guard:
            return tally(event for account in self._book.accounts.values() for event in account.events)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _begin_anew(self, budget: Budget, dataset: str) -> None:
        """Nothing was signed off yet, so nothing rests on the numbers: a mistake in them can be corrected."""
        if (budget, dataset or self.dataset) != (self.budget, self.dataset):
            self._file.append("budget", budget_body(budget, dataset or self.dataset, self.instance))
            self.begun, self._book, self.dataset = self.begun + 1, Book(budget), dataset or self.dataset

    def _check_asked(self, budget: Budget | None, dataset: str) -> None:
        if budget is not None and budget != self.budget:
            raise Refused(
                f"the ledger {self._file.path} was begun with {_worded(self.budget)}, and {_worded(budget)} is asked for; "
                f"a data set's budget is set once: go on with the former numbers, or take a new ledger for other records"
            )
        if dataset and dataset != self.dataset:
            raise Refused(
                f"the ledger {self._file.path} belongs to data set {self.dataset!r}, not {dataset!r}; use its own"
            )

    def _write(self, kind: str, body: dict[str, Any], data: bytes | None = None) -> None:
        try:
            self._apply(self._file.append(kind, body, data))
        except BaseException:  # the disk may be ahead of the book: reading it again is the only way on
            self._file.close()
            raise

    def _apply(self, entry: Entry) -> None:
        """What an entry means, when it is written and when it is read again."""
        body = entry.body
        if entry.kind == "sign":
            self._book.sign(promise_of(body))
            self._outbox.open(body["federation"])
        elif entry.kind == "charge":
            self._book.charge(body["federation"], body["round"], PoissonGaussian(body["rate"], body["sigma"]))
            self._outbox.add(body["federation"], body["round"], entry.seq, body["sha256"])
        elif entry.kind == "close":
            self._book.close(body["federation"])
        else:
            raise ValueError(f"entry {entry.seq} is of the unknown kind {entry.kind!r}")


def _worded(budget: Budget) -> str:
    split = "" if budget.split == Budget.split else f" and split {budget.split:g}"
    return f"epsilon {budget.epsilon:g} at delta {budget.delta:g}{split}"
