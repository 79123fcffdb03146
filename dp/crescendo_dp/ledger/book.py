"""Ledger arithmetic: the budget of a data set across federations. No disk.

A federation is signed off once, with its whole plan: the event of every round. Then each round is charged at most once, with
exactly the event of the plan. A sign-off that could overspend the budget (epsilon, delta) is refused, so no release can.

Why a sign-off promises the whole plan, and not only the rounds that are sent
    A round that is skipped (the client was away, the federation ended) could as well have been a round whose gradients are all
    0: the plan covers that, so the plan's (epsilon, delta) holds for every part of it that is sent, whichever
    party chooses the part and whatever it saw before. The cost of *just the rounds sent* holds only if no release influenced the
    decision to stop. `Book.spent` shows that cost; no decision rests on it.

Two ways to count across federations
    Later terms may be chosen after looking at earlier releases, and federations may run at the same time. Both ways allow for
    that; they are *privacy filters* (Rogers, Roth, Ullman, Vadhan 2016), and filters hold for mechanisms that interleave
    (Haney, Shoemate, Tian, Vadhan, Vyrros, Xu, Zhang 2023).

    1. *Sum.* Federation j promises (epsilon_j, delta_j): its tight epsilon at its own delta_j, both fixed at its sign-off.
       Sums of numbers that are fixed before they are spent may depend on the past.
    2. *Orders.* Renyi divergences of one order add up, though each release is chosen with knowledge of the earlier ones
       (Feldman, Zrnic 2021; Lecuyer 2021). The order is fixed before the first release, because a proof for each of several
       orders is not a proof for the one that turns out best. It holds release by release. Privacy loss distributions have no
       such theorem: they serve within a plan, which is fixed.

    A budget holds while *one* of the two stays within it. Which one may depend on the releases, so the two fail
    separately and their deltas add: part of delta is set aside for orders, the rest is for the sums. The set-aside part
    is fixed at the first sign-off, like the order. One federation may ask for all of delta; then nothing is set aside.

When a federation is closed
    It can never be charged again. If no round was charged, nothing was released, and its promise is struck out of both ways.
    After the first charge its (epsilon, delta) stays in the sum: the epsilon of a plan is not a sum over its rounds, and the
    releases may have influenced the decision to close it. By the order only the rounds that were charged count, as a Renyi filter
    adds release by release. While nothing was ever charged and no promise stands, the order is chosen again.

Sums and comparisons are exact (fractions); their terms are rounded up, and remainders down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from crescendo_dp.directed_rounding import down, sum_up
from crescendo_dp.errors import Refused
from crescendo_dp.event_kinds import fewer
from crescendo_dp.events import Counted, Event, tally
from crescendo_dp.ledger.budget import Budget, Orders
from crescendo_dp.planned_events import PlannedEvents

Price: TypeAlias = Callable[[Counted, float], float]
"""An upper bound on the epsilon of events at a delta."""


def tight(events: Counted, delta: float) -> float:
    """The price that is used unless another is given: privacy loss distributions, of not too many kinds of rounds."""
    from crescendo_dp.accounting.epsilon import account

    return account(fewer(events), delta, state_error=False).epsilon


@dataclass(frozen=True)
class Promise:
    """A federation that was signed off: nothing in it ever changes.

    ``divergence`` is the plan's, of the ledger's order; ``orders``, which holds that order, stands in the first
    promise of a ledger only. ``failure`` is the part of ``delta`` for rare events in which a release does not match its event
    (a draw beyond its bound), so epsilon holds at the rest of delta. The numbers are kept, not computed again: a filter adds
    numbers that were fixed at the sign-off.
    """

    federation: str
    terms: str
    client: str
    plan: PlannedEvents
    delta: float
    epsilon: float
    divergence: float = 0.0
    orders: Orders | None = None
    failure: float = 0.0

    def asks_the_same(self, terms: str, client: str, plan: PlannedEvents, delta: float) -> bool:
        """Nothing that was agreed on is different."""
        return (self.terms, self.client, self.plan, self.delta) == (terms, client, plan, delta)


@dataclass
class Account:
    """One federation in the book."""

    promise: Promise
    charged: list[int] = field(default_factory=list)
    closed: bool = False
    returned: bool = False  # closed before its first charge: as if it had never been signed off
    withdrawn: bool = False  # closed by the owner of the records, not by the end of its run

    @property
    def last(self) -> int:
        """The last round that was charged, -1 before the first."""
        return self.charged[-1] if self.charged else -1

    @property
    def events(self) -> list[Event]:
        """Return the events that were charged."""
        return [event for event in self.promise.plan.at(self.charged) if event is not None]


@dataclass(frozen=True)
class Total:
    """``epsilon`` at the budget's delta, counted by ``way``; ``left`` is the rest of the budget, never below 0."""

    epsilon: float
    delta: float
    way: Literal["sum", "orders", "neither"]
    left: float
    delta_left: float  # for further sums


class Book:
    """The ledger as arithmetic: promises, charges and their totals.

    >>> from crescendo_dp.events import PoissonGaussian
    >>> book, plan = Book(Budget(epsilon=2.0, delta=1e-6)), (PoissonGaussian(0.01, 2.0),) * 100
    >>> book.sign(book.quote("flights", "9f3c", "AA", plan, delta=1e-7))
    >>> book.charge("flights", 0, plan[0])
    >>> round(book.promised().epsilon, 2), round(book.spent().epsilon, 2), book.accounts["flights"].last
    (0.26, 0.06, 0)
    >>> book.charge("flights", 0, plan[0])
    Traceback (most recent call last):
    crescendo_dp.errors.Refused: round 0 of federation 'flights' is not after round 0, the last one charged; never charge it again
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.accounts: dict[str, Account] = {}  # in the order of sign-off
        self.orders: Orders | None = None  # what the first sign-off fixed

    def copy(self) -> Book:
        """The book as it stands, to be read while the first goes on."""
        book = Book(self.budget)
        book.accounts = {name: replace(one, charged=list(one.charged)) for name, one in self.accounts.items()}
        book.orders = self.orders
        return book

    @property
    def blank(self) -> bool:
        """No promise stands and nothing was ever charged, so that the order may be chosen."""
        return all(account.returned for account in self.accounts.values())

    # -- signing off ---------------------------------------------------------------------------------------------------

    def quote(
        self,
        federation: str,
        terms: str,
        client: str,
        plan: Sequence[Event | None],
        delta: float,
        price: Price = tight,
        failure: float = 0.0,
    ) -> Promise:
        """Return the promise that signing off would make, or raise Refused; nothing changes. Equal terms give it again."""
        plan = PlannedEvents.of(plan)
        known = self.accounts.get(federation)
        if known is not None:
            if known.promise.asks_the_same(terms, client, plan, delta):
                return known.promise
            if (known.promise.terms, known.promise.client) == (terms, client):
                raise Refused(
                    f"federation {federation!r} was signed off with the same terms by another version of this program, whose "
                    f"rounds were others; end it with that version, or close it"
                )
            raise Refused(
                f"federation {federation!r} was signed off for client {known.promise.client!r} with terms "
                f"{known.promise.terms!r} and cannot change them; a changed federation needs an id of its own"
            )
        if not 0 < delta <= self.budget.delta:
            raise Refused(
                f"federation {federation!r} asks delta {delta:g}, and the data set's whole budget is {self.budget.delta:g}; "
                f"agree on a smaller delta"
            )
        if not 0 <= failure < delta:
            raise Refused(
                f"federation {federation!r} asks delta {delta:g}, of which rare events take {failure:.3g}; "
                f"agree on a larger delta"
            )
        counted = plan.priced
        epsilon = price(counted, down(delta, failure)) if counted else 0.0
        first = Orders.chosen(self.budget, counted, delta) if self.blank else None
        orders = first if self.blank else self.orders
        divergence = orders.divergence(counted) if orders else 0.0
        promise = Promise(federation, terms, client, plan, delta, epsilon, divergence, first, failure)
        self._check_fits(promise)
        return promise

    def sign(self, promise: Promise) -> None:
        """Enter a promise that was quoted."""
        if promise.federation in self.accounts:
            raise Refused(f"federation {promise.federation!r} was signed off before; it is done once")
        self._check_fits(promise)
        self.orders = promise.orders if self.blank else self.orders
        self.accounts[promise.federation] = Account(promise)

    def _check_fits(self, promise: Promise) -> None:
        orders = promise.orders if self.blank else self.orders
        before, after = self.promised(), self._promised([*self.accounts.values(), Account(promise)], orders)
        if math.isinf(promise.epsilon) and math.isfinite(self.budget.epsilon):
            raise Refused(
                f"federation {promise.federation!r} adds no noise that an epsilon could come from, and the data set has a budget "
                f"of epsilon {self.budget.epsilon:g}; agree on terms with a private mechanism, or use records without a budget"
            )
        if after.epsilon > self.budget.epsilon:
            raise Refused(  # what is left stands in the message, for the data's owner alone
                f"federation {promise.federation!r} asks for epsilon {promise.epsilon:.4g} at delta {promise.delta:.3g}, but of "
                f"the data set's epsilon {self.budget.epsilon:g} at delta {self.budget.delta:g} there are {before.epsilon:.4g} "
                f"spent or promised and {before.left:.4g} left (delta left {before.delta_left:.3g}); agree on fewer rounds or "
                f"more noise, or close a federation that is over"
            )

    # -- charging ------------------------------------------------------------------------------------------------------

    def check(self, federation: str, i: int, event: Event) -> None:
        """Refuse what `charge` would refuse; nothing is changed."""
        account = self.account(federation)
        plan = account.promise.plan
        if account.closed:
            raise Refused(f"federation {federation!r} was closed after round {account.last}; nothing more may be sent")
        if not 0 <= i < len(plan):
            raise Refused(f"round {i} of federation {federation!r} is not in the plan, which has {len(plan)} rounds")
        if plan[i] != event:
            raise Refused(
                f"round {i} of federation {federation!r} was signed off as {plan[i] or 'a round without a release'}, "
                f"got {event}; send what was agreed"
            )
        if i <= account.last:
            raise Refused(
                f"round {i} of federation {federation!r} is not after round {account.last}, the last one charged; "
                f"never charge it again"
            )

    def charge(self, federation: str, i: int, event: Event) -> None:
        """Round i is about to be sent. Rounds go up; one that was skipped is void and can never be charged."""
        self.check(federation, i, event)
        self.account(federation).charged.append(i)

    def close(self, federation: str, *, returned: bool = False, withdrawn: bool = False) -> None:
        """Close the account for good: nothing more will be sent. With ``returned``, nothing ever was."""
        account = self.account(federation)
        if returned and account.charged:
            raise Refused(f"round {account.last} of federation {federation!r} was charged, so its promise stands")
        account.closed, account.returned, account.withdrawn = True, returned, withdrawn

    def account(self, federation: str) -> Account:
        """The federation's account, or Refused."""
        if federation not in self.accounts:
            raise Refused(f"federation {federation!r} was not signed off with this ledger; sign it off before sending")
        return self.accounts[federation]

    # -- totals --------------------------------------------------------------------------------------------------------

    def promised(self) -> Total:
        """Return the total of all plans. It holds whatever happens, so the budget is compared with it."""
        return self._promised(list(self.accounts.values()), self.orders)

    def _promised(self, accounts: list[Account], orders: Orders | None) -> Total:
        accounts = [account for account in accounts if not account.returned]
        epsilons = [account.promise.epsilon for account in accounts]
        return self._total(accounts, epsilons, self._divergence_promised, orders)

    def _divergence_promised(self, account: Account, orders: Orders) -> float:
        return orders.divergence(account.events) if account.closed else account.promise.divergence

    def spent(self, price: Price = tight) -> Total:
        """Return the total of the rounds charged so far. It holds if no release influenced their number; `promised` always."""
        accounts = [account for account in self.accounts.values() if account.charged]
        epsilons = [self.spent_on(account, price) for account in accounts]
        total = self._total(accounts, epsilons, lambda account, orders: orders.divergence(account.events), self.orders)
        return min(total, self.promised(), key=lambda either: either.epsilon)

    def spent_on(self, account: Account, price: Price = tight) -> float:
        """The same for one federation, at its own delta; never above its promise, which covers every part of it."""
        events, promise = tally(account.events), account.promise
        return min(promise.epsilon, price(events, down(promise.delta, promise.failure))) if events else 0.0

    def _total(
        self,
        accounts: list[Account],
        epsilons: list[float],
        divergence: Callable[[Account, Orders], float],
        orders: Orders | None,
    ) -> Total:
        """The smaller of the two ways. Nothing is set aside for orders while no promise stands."""
        orders = orders if accounts else None
        for_sums = Fraction(self.budget.delta) - (Fraction(orders.delta) if orders else 0)
        delta_left = for_sums - sum(Fraction(account.promise.delta) for account in accounts)
        found: list[tuple[float, Literal["sum", "orders", "neither"]]] = [(math.inf, "neither")]
        if delta_left >= 0:
            found.append((sum_up(epsilons), "sum"))
        rare = sum(Fraction(account.promise.failure) for account in accounts)
        if (
            orders and rare <= for_sums
        ):  # a sum's deltas hold its rare events; by orders they have to fit in the same place
            found.append((sum_up([*(divergence(account, orders) for account in accounts), orders.toll()]), "orders"))
        epsilon, way = min(found)
        left = down(self.budget.epsilon, epsilon)
        return Total(epsilon, self.budget.delta, way, left, down(delta_left, 0))
