"""The arithmetic of a budget, held to the exact curve of Gaussian releases, and to a literal count of what was admitted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scipy.special import log_ndtr

from crescendo_dp.directed_rounding import down, sum_up
from crescendo_dp.errors import Refused, UsageError
from crescendo_dp.events import Counted, Event, PoissonGaussian, tally
from crescendo_dp.ledger.book import Account, Book, Promise, Total
from crescendo_dp.ledger.budget import Budget

BUDGET = Budget(epsilon=2.0, delta=1e-6)
EVENT = PoissonGaussian(1.0, 20.0)


def true_delta(events: Counted, epsilon: float) -> float:
    """Exact for full-rate Gaussians: together they are one of mean difference mu = sqrt(sum 1/sigma^2) (Balle, Wang 2018)."""
    mu = math.sqrt(sum(count / event.sigma**2 for event, count in events))
    if mu == 0:
        return 0.0
    return math.exp(log_ndtr(mu / 2 - epsilon / mu)) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


def exact(events: Counted, delta: float) -> float:
    """The least epsilon of full-rate Gaussians, to 1e-9, from above: a price that is tight and costs nothing."""
    low, high = 0.0, 1.0
    while true_delta(events, high) > delta:
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if true_delta(events, middle) > delta else (low, middle)
    return high


def signed(book: Book, name: str, plan: Sequence[Event | None], delta: float = 1e-7) -> Promise:
    promise = book.quote(name, "terms", "me", plan, delta, exact)
    book.sign(promise)
    return promise


# -- signing off and charging ------------------------------------------------------------------------------------------


def test_a_federation_that_asks_for_the_whole_budget_gets_it_and_nothing_is_left() -> None:
    plan = (EVENT,) * 7
    book = Book(Budget(exact(tally(plan), 1e-6), 1e-6))
    signed(book, "all", plan, delta=1e-6)
    assert book.promised().left == 0 and book.promised().delta_left == 0
    with pytest.raises(Refused, match=r"asks for epsilon 0\.\d+ at delta 1e-06, .* spent or promised and 0 left"):
        book.quote("more", "terms", "me", plan[:1], 1e-6, exact)


@pytest.mark.parametrize("delta", [7e-7, 3.3e-7, 1e-6 / 3, 9.999999e-7])
def test_rounding_does_not_take_from_the_delta_that_the_first_federation_asked_for(delta: float) -> None:
    plan = (EVENT,) * 3
    signed(book := Book(Budget(exact(tally(plan), delta), 1e-6)), "first", plan, delta)
    assert book.promised().way == "sum"


def test_a_refusal_says_what_is_asked_spent_and_left_and_changes_nothing() -> None:
    book = Book(Budget(0.5, 1e-6))
    signed(book, "first", (EVENT,) * 2)
    before = book.promised()
    with pytest.raises(
        Refused,
        match=r"'second' asks for epsilon 3\.638 at delta 1e-07, .* epsilon 0\.5 .* 0\.3101 spent or promised and 0\.1899 left",
    ):
        book.quote("second", "terms", "me", (EVENT,) * 200, 1e-7, exact)
    assert book.promised() == before and list(book.accounts) == ["first"]


def test_a_promise_that_was_quoted_before_another_was_signed_is_looked_at_again() -> None:
    book = Book(Budget(0.35, 1e-6))
    late = book.quote("second", "terms", "me", (EVENT,) * 2, 1e-7, exact)
    signed(book, "first", (EVENT,) * 2)
    with pytest.raises(Refused, match="'second' asks for epsilon"):
        book.sign(late)
    assert list(book.accounts) == ["first"]


def test_a_federation_is_signed_off_once_and_other_terms_are_refused() -> None:
    book, plan = Book(BUDGET), (EVENT, None, EVENT)
    promise = signed(book, "f", plan)
    assert book.quote("f", "terms", "me", list(plan), 1e-7, exact) is promise
    for terms, client, other, delta in [
        ("x", "me", plan, 1e-7),
        ("terms", "you", plan, 1e-7),
        ("terms", "me", plan[:2], 1e-7),
        ("terms", "me", plan, 2e-7),
    ]:
        with pytest.raises(Refused, match=r"cannot change them|by another version"):
            book.quote("f", terms, client, other, delta, exact)
    with pytest.raises(Refused, match="signed off before"):
        book.sign(promise)


def test_a_round_is_charged_once_in_order_and_with_the_event_of_the_plan() -> None:
    book, plan = Book(BUDGET), (EVENT, None, EVENT, EVENT)
    signed(book, "f", plan)
    book.charge("f", 2, EVENT)
    for i, event, why in [
        (2, EVENT, "not after round 2"),
        (0, EVENT, "not after round 2"),
        (3, PoissonGaussian(0.5, 20.0), "signed off as PoissonGaussian"),
        (3, PoissonGaussian(1.0, 20.1), "signed off as PoissonGaussian"),
        (1, EVENT, "a round without a release"),
        (4, EVENT, "not in the plan, which has 4 rounds"),
        (-1, EVENT, "not in the plan"),
    ]:
        with pytest.raises(Refused, match=why):
            book.charge("f", i, event)
    with pytest.raises(Refused, match="was not signed off"):
        book.charge("g", 0, EVENT)
    assert book.accounts["f"].charged == [2]
    book.close("f")
    with pytest.raises(Refused, match="was closed after round 2"):
        book.charge("f", 3, EVENT)


def test_a_delta_beyond_the_budget_is_refused() -> None:
    for delta in (1.1e-6, 0.0, math.nan):
        with pytest.raises(Refused, match="whole budget is 1e-06"):
            Book(BUDGET).quote("f", "terms", "me", (EVENT,), delta, exact)


@pytest.mark.parametrize(
    "numbers", [(0, 1e-6), (-1, 1e-6), (math.nan, 1e-6), (1, 0), (1, 1), (1, 1e-6, 1.0), (1, 1e-6, -0.1)]
)
def test_a_budget_that_means_nothing_is_refused(numbers: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match="a budget needs"):
        Budget(*numbers)


def test_a_round_without_noise_fits_no_budget_but_an_infinite_one() -> None:
    bare = (PoissonGaussian(1.0, 0.0),)
    for epsilon, fits in [(1e9, False), (math.inf, True)]:
        book = Book(Budget(epsilon, 1e-6))
        if fits:
            book.sign(book.quote("f", "terms", "me", bare, 1e-7, lambda *_: math.inf))
            book.charge("f", 0, bare[0])
            assert book.promised().epsilon == math.inf
        else:
            with pytest.raises(Refused):
                book.quote("f", "terms", "me", bare, 1e-7, lambda *_: math.inf)


# -- totals ------------------------------------------------------------------------------------------------------------


def test_many_federations_cost_less_by_orders_than_as_a_sum_and_no_less_than_the_truth() -> None:
    book, plan = Book(Budget(3.0, 1e-5)), (EVENT,) * 4
    for j in range(30):
        signed(book, f"f{j}", plan)
    total, as_sum = book.promised(), 30 * exact(tally(plan), 1e-7)
    assert total.way == "orders" and total.epsilon < as_sum / 3
    assert exact(tally(plan * 30), 1e-5) <= total.epsilon <= 1.4 * exact(tally(plan * 30), 1e-5)


def test_closing_gives_back_what_was_not_charged_by_orders_and_nothing_in_a_sum() -> None:
    plan = (EVENT,) * 10
    for split, epsilon, gives_back in [(0.5, 4.5, True), (0.0, 20.0, False)]:
        book = Book(Budget(epsilon, 1e-4, split))
        for j in range(20):
            signed(book, f"f{j}", plan, delta=2e-6)
            book.charge(f"f{j}", 0, EVENT)
        before = book.promised().epsilon
        for j in range(20):
            book.close(f"f{j}")
        assert (book.promised().epsilon < 0.8 * before) == gives_back


@pytest.mark.parametrize("split", [0.5, 0.0])
def test_a_federation_closed_before_its_first_charge_gives_everything_back(split: float) -> None:
    book = Book(Budget(0.5, 1e-6, split))
    fresh = book.promised()
    for j in range(30):  # fresh ids, one after the other: none of them uses anything up
        signed(book, f"f{j}", (EVENT,) * 4, delta=5e-7)
        assert book.promised().left < fresh.left
        book.close(f"f{j}", returned=True)
        assert book.promised() == fresh
        with pytest.raises(Refused, match="was closed after round -1; nothing more may be sent"):
            book.charge(f"f{j}", 0, EVENT)


def test_after_the_first_charge_a_promise_stands() -> None:
    book = Book(Budget(2.0, 1e-6, split=0.0))
    signed(book, "f", (EVENT,) * 4)
    book.charge("f", 0, EVENT)
    before = book.promised()
    with pytest.raises(Refused, match="round 0 of federation 'f' was charged, so its promise stands"):
        book.close("f", returned=True)
    book.close("f")
    assert book.promised() == before
    with pytest.raises(Refused, match="was closed after round 0"):
        book.charge("f", 1, EVENT)


def test_by_orders_a_closed_federation_costs_exactly_the_rounds_that_were_charged() -> None:
    """A Renyi filter: the same as a book whose federations had been that short from the start."""
    budget, long, short = Budget(4.5, 1e-4), Book(Budget(4.5, 1e-4)), Book(Budget(4.5, 1e-4))
    signed(long, "first", (EVENT,)), signed(short, "first", (EVENT,))  # which fixes the order
    for j in range(20):
        signed(long, f"f{j}", (EVENT,) * 10, delta=2e-6)
        signed(short, f"f{j}", (EVENT,) * (j % 3 + 1), delta=2e-6)
        for i in range(j % 3 + 1):
            long.charge(f"f{j}", i, EVENT)
        long.close(f"f{j}")
    assert long.promised().way == "orders" == short.promised().way
    assert long.promised().epsilon == pytest.approx(short.promised().epsilon, rel=1e-12) and long.budget == budget


def test_the_order_is_chosen_anew_only_while_nothing_was_charged_and_no_promise_stands() -> None:
    book, other = Book(Budget(8.0, 1e-5)), (PoissonGaussian(1.0, 2.0),)
    first = signed(book, "first", (EVENT,), delta=9e-6)  # leaves little of delta for orders
    book.close("first", returned=True)
    second = signed(book, "second", other)
    assert first.orders is not None and second.orders is not None and book.orders == second.orders != first.orders
    book.close("second", returned=True)
    signed(book, "third", (EVENT,) * 2)
    book.charge("third", 0, EVENT)
    book.close("third")
    fixed = book.orders
    assert signed(book, "fourth", other).orders is None and book.orders == fixed


def test_rare_events_take_their_part_of_delta() -> None:
    book = Book(Budget(5.0, 1e-6))
    with pytest.raises(Refused, match="of which rare events take 1e-07; agree on a larger delta"):
        book.quote("f", "terms", "me", (EVENT,), 1e-7, exact, failure=1e-7)
    plain = book.quote("f", "terms", "me", (EVENT,) * 9, 1e-7, exact)
    rare = book.quote("f", "terms", "me", (EVENT,) * 9, 1e-7, exact, failure=9e-8)
    assert rare.epsilon == exact(tally((EVENT,) * 9), 1e-7 - 9e-8) > plain.epsilon and rare.failure == 9e-8
    many = Book(Budget(5.0, 1e-6))
    for j in range(5):
        many.sign(many.quote(f"f{j}", "terms", "me", (EVENT,), 1e-7, exact, failure=9e-8))
    with pytest.raises(Refused, match="left"):  # 6 * 9e-8 is more than the 5e-7 that are not set aside for orders
        many.sign(many.quote("f5", "terms", "me", (EVENT,), 1e-7, exact, failure=9e-8))
    assert signed(many, "f5", (EVENT,)) and many.promised().way == "orders"


def test_the_order_is_fixed_by_the_first_sign_off_whatever_comes_later() -> None:
    book = Book(Budget(8.0, 1e-5))
    first = signed(book, "first", (EVENT,))
    later = signed(book, "later", (PoissonGaussian(1.0, 2.0),))
    assert first.orders is not None and later.orders is None and book.orders == first.orders
    assert later.divergence == pytest.approx(first.orders.order / (2 * 2.0**2), rel=1e-6)


PLANS = st.lists(st.sampled_from([EVENT, PoissonGaussian(1.0, 50.0), PoissonGaussian(1.0, 9.0), None]), max_size=6)


@settings(deadline=None, max_examples=15)
@given(st.lists(PLANS, min_size=2, max_size=5), st.randoms())
def test_the_order_of_sign_offs_after_the_first_does_not_change_the_total(
    plans: list[list[PoissonGaussian | None]], random: Random
) -> None:
    def total(order: list[int], split: float) -> Total:
        book = Book(Budget(50.0, 1e-5, split))
        for j in order:
            signed(book, str(j), tuple(plans[j]))
        return book.promised()

    rest = list(range(1, len(plans)))
    random.shuffle(rest)
    for split in (0.0, 0.5):
        assert total([0, *rest], split) == total(list(range(len(plans))), split)
    assert total([*rest, 0], 0.0) == total(list(range(len(plans))), 0.0)


@given(st.lists(st.floats(0, 1e6), max_size=30), st.floats(0, 1e6))
def test_no_rounding_makes_a_sum_smaller_or_a_rest_larger(numbers: list[float], whole: float) -> None:
    exactly, found = sum(map(Fraction, numbers), Fraction(0)), sum_up(numbers)
    assert exactly <= found <= math.nextafter(float(exactly), math.inf)
    assert 0 <= Fraction(down(whole, found)) <= max(Fraction(0), Fraction(whole) - exactly)


# -- any history -------------------------------------------------------------------------------------------------------


def could_be_sent(account: Account) -> list[Event]:
    """What an adversary may have seen at the end: all that was charged, and all that still can be."""
    rounds = account.charged if account.closed else range(len(account.promise.plan))
    return [event for i in rounds if (event := account.promise.plan[i]) is not None]


def violation(book: Book) -> str | None:
    """A literal second count, sharing no code with the book: by sums or by orders, within the budget."""
    standing = [account for account in book.accounts.values() if account.charged or not account.closed]
    promises = [account.promise for account in standing]
    if not promises:
        return None
    orders, budget = book.orders, book.budget
    sums = sum(Fraction(promise.epsilon) for promise in promises) <= Fraction(budget.epsilon) and sum(
        Fraction(promise.delta) for promise in promises
    ) + Fraction(orders.delta if orders else 0) <= Fraction(budget.delta)
    by_orders = False
    if orders is not None:
        a, events = orders.order, [event for account in book.accounts.values() for event in could_be_sent(account)]
        divergence = math.fsum(a / (2 * event.sigma**2) for event in events)  # of full-rate Gaussians
        bound = divergence + math.log1p(-1 / a) - (math.log(orders.delta) + math.log(a)) / (a - 1)
        by_orders = bound <= budget.epsilon
    if not sums and not by_orders:
        return "neither sums nor orders stay within the budget"
    everything = tally(event for account in book.accounts.values() for event in could_be_sent(account))
    if true_delta(everything, budget.epsilon) > budget.delta:
        return "the exact delta is beyond the budget"
    return None


class Histories(RuleBasedStateMachine):
    """Sign-offs, charges, closings and refusals in any order."""

    kind: type[Book] = Book

    @initialize(
        epsilon=st.floats(0.1, 5), delta=st.sampled_from([1e-4, 1e-6]), split=st.sampled_from([0.0, 0.3, 0.5, 0.9])
    )
    def begin(self, epsilon: float, delta: float, split: float) -> None:
        self.book = self.kind(Budget(epsilon, delta, split))
        self.seen: dict[str, list[int]] = {}

    @rule(plan=PLANS, share=st.sampled_from([1.0, 0.5, 0.1, 0.01]))
    def sign(self, plan: list[PoissonGaussian | None], share: float) -> None:
        name = f"f{len(self.seen)}"
        try:
            signed(self.book, name, tuple(plan), self.book.budget.delta * share)
            self.seen[name] = []
        except Refused:
            assert name not in self.book.accounts

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), i=st.integers(-1, 6), event=st.sampled_from([EVENT, PoissonGaussian(1.0, 50.0)]))
    def charge(self, data: st.DataObject, i: int, event: PoissonGaussian) -> None:
        name = data.draw(st.sampled_from(sorted(self.seen)))
        account = self.book.accounts[name]
        allowed = not account.closed and i > max(self.seen[name], default=-1) and i < len(account.promise.plan)
        if allowed and account.promise.plan[i] == event:
            self.book.charge(name, i, event)
            self.seen[name].append(i)
        else:
            with pytest.raises(Refused):
                self.book.charge(name, i, event)

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.seen)))
        if not self.book.accounts[name].closed:
            self.book.close(name, returned=not self.seen[name])

    @invariant()
    def never_overspent(self) -> None:
        if hasattr(self, "book"):
            assert violation(self.book) is None
            assert self.book.promised().epsilon <= self.book.budget.epsilon

    @invariant()
    def charges_are_what_was_charged_and_cost_no_more_than_was_promised(self) -> None:
        if hasattr(self, "book"):
            assert {name: account.charged for name, account in self.book.accounts.items()} == self.seen
            spent, promised = self.book.spent(exact), self.book.promised()
            assert spent.epsilon <= promised.epsilon
            sent = tally(event for account in self.book.accounts.values() for event in account.events)
            assert true_delta(sent, spent.epsilon) <= self.book.budget.delta * (1 + 1e-6)


Histories.TestCase.settings = settings(deadline=None, max_examples=40, stateful_step_count=15)
test_any_history_stays_within_the_budget = pytest.mark.slow(Histories.TestCase)


# -- planted bugs ------------------------------------------------------------------------------------------------------


class ForgetsDelta(Book):
    """Adds epsilons and looks at nobody's delta."""

    def _total(self, accounts, epsilons, divergence, orders):  # type: ignore[no-untyped-def]
        honest = [Account(replace(account.promise, delta=1e-30)) for account in accounts]
        return super()._total(honest, epsilons, divergence, orders)


class CountsOnlyWhatWasCharged(Book):
    """Admits new federations on the rest of plans that are still running."""

    def _promised(self, accounts, orders):  # type: ignore[no-untyped-def]
        spent = [self.spent_on(a, exact) for a in accounts]
        return self._total(accounts, spent, lambda a, o: o.divergence(a.events), orders)


class ForgetsTheToll(Book):
    """Takes a Renyi divergence for an epsilon."""

    def _total(self, accounts, epsilons, divergence, orders):  # type: ignore[no-untyped-def]
        total = super()._total(accounts, epsilons, divergence, orders)
        return total if orders is None else replace(total, epsilon=sum(divergence(a, orders) for a in accounts))


class GivesBackInSums(Book):
    """A closed federation no longer counts in a sum, though its early end may say something."""

    def _promised(self, accounts, orders):  # type: ignore[no-untyped-def]
        return super()._promised([account for account in accounts if not account.closed], orders)


class GivesBackWhatWasCharged(Book):
    """A closed federation is struck out, whatever was sent of it."""

    def close(self, federation, *, returned=False, withdrawn=False):  # type: ignore[no-untyped-def]
        self.account(federation).closed = self.account(federation).returned = True


BUGS = [ForgetsDelta, CountsOnlyWhatWasCharged, ForgetsTheToll, GivesBackInSums, GivesBackWhatWasCharged]


@pytest.mark.parametrize("kind", [Book, *BUGS])
def test_a_planted_bug_overspends_and_is_seen(kind: type[Book]) -> None:
    rng = np.random.default_rng(1)
    found = set()
    for _ in range(30):
        book = kind(Budget(float(rng.uniform(0.3, 2)), 1e-6, float(rng.choice([0.0, 0.5]))))
        for j in range(8):
            plan = (PoissonGaussian(1.0, float(rng.choice([9.0, 20.0]))),) * int(rng.integers(1, 5))
            try:
                signed(book, f"f{j}", plan, 1e-6 * float(rng.choice([0.1, 0.5, 1.0])))
            except Refused:
                continue
            for i in range(int(rng.integers(0, len(plan) + 1))):
                book.charge(f"f{j}", i, plan[i])
            if rng.random() < 0.5:
                book.close(f"f{j}", returned=not book.accounts[f"f{j}"].charged)
            found.add(violation(book))
    assert (found == {None}) == (kind is Book)


def test_adding_epsilons_without_deltas_would_sell_the_same_lottery_ticket_again_and_again() -> None:
    """Releases that reveal a record entirely with probability 1e-7 each, else nothing: all of their cost is in delta."""

    def price(events: Counted, delta: float) -> float:
        return 0.0 if sum(count * event.rate for event, count in events) <= delta else math.inf

    ticket = PoissonGaussian(1e-7, 1e-3)
    sold = {}
    for kind in (Book, ForgetsDelta):
        book = kind(Budget(1.0, 1e-6, split=0.0))
        for j in range(30):
            try:
                book.sign(book.quote(f"f{j}", "terms", "me", (ticket,), 1e-7, price))
            except Refused:
                break
        sold[kind] = len(book.accounts)
    assert sold == {Book: 10, ForgetsDelta: 30}
