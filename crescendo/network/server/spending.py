"""Spending: the privacy budget that the clients of a served federation have spent, for its status.

The tight accountant takes about a second for a plan of some thousand rounds, so it runs only on request, in a child process, and
not for every round: the number of arrived rounds is rounded up to a mark, by at most a sixteenth, and each mark is accounted for
once. Epsilon grows with the rounds, so the cost of a mark is never less than the spending. Until the tight number is ready, the
status has the bound by Renyi divergence, marked as such. No number exceeds the cost of the client's whole plan.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crescendo.core.messages import Settled
from crescendo.logs import Log, quiet
from crescendo.network.server.accountant_process import AccountantFailed, Accountants, accountant_process
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo_dp.accounting import renyi
from crescendo_dp.events import Counted, Event, PoissonGaussian, tally

PATIENCE = 3.0  # seconds that an answer waits for the quick bounds, and again for the tight numbers
AT_ONCE = 8  # tight numbers that one question may ask for; the next question asks for more
MOST_KEPT = 1024
FINE = 16  # marks in each doubling of the rounds
A_WHILE = 256  # rounds to count before the thread checks if it should stop


@dataclass(frozen=True, slots=True)
class Price:
    """An epsilon that the rounds below ``mark`` do not exceed; infinite where there is next to no noise."""

    mark: int
    events: Counted
    epsilon: float
    tight: bool = False

    @staticmethod
    def next_mark(rounds: int) -> int:
        """Return the next number of rounds that is accounted for.

        >>> [Price.next_mark(rounds) for rounds in (0, 1, 31, 32, 33, 1000, 1025)]
        [0, 1, 31, 32, 34, 1024, 1088]
        """
        step = 1 << max(0, rounds.bit_length() - FINE.bit_length())
        return -(-rounds // step) * step


class _Released:
    """A client's releases in the rounds below ``upto``, and the sum of their Renyi divergences."""

    def __init__(self) -> None:
        self.upto, self.counts, self.divergence = 0, Counter[Event](), np.zeros(len(renyi.ORDERS))

    def add(self, events: Sequence[Event], upto: int) -> None:
        self.counts.update(events)
        self.divergence = self.divergence + renyi.divergences(tally(events))
        self.upto = upto


class SpendingTracker:
    """The cost of the clients' rounds up to some mark, computed in the background on request.

    ``costs`` are the costs of the clients' whole plans, if known: a part of the releases costs no more than all of them.
    """

    def __init__(
        self,
        certificate: Certificate,
        delta: float,
        costs: Sequence[float] = (),
        accountants: Accountants = accountant_process,
        patience: float = PATIENCE,
        log: Log = quiet,
    ) -> None:
        self._certificate, self._delta, self._patience, self._log = certificate, delta, patience, log
        clients = certificate.terms.clients
        self._costs = costs if len(costs) == clients else (math.inf,) * clients
        self._accountants = accountants
        self._prices: dict[int, Price] = {}
        self._released: dict[int, _Released] = {}
        self._kept: dict[Counted, float] = {}
        self._bounding = asyncio.Lock()  # of what was released, and the prices' marks
        self._tightening: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def close(self) -> None:
        """Stop all computations and wait for their end. Pending requests get the numbers known so far."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def of(self, reached: Sequence[Settled]) -> list[Price | None]:
        """Return an upper bound of each client's spending; None if even the quick bound takes too long."""
        rounds = self._certificate.terms.rounds
        marks = [min(rounds, Price.next_mark(settled.end)) for settled in reached]
        if not self._closed:
            await asyncio.wait({self._start(self._bound_all(marks))}, timeout=self._patience)
        if not self._closed:
            if self._tightening is None or self._tightening.done():
                self._tightening = self._start(self._tighten())
            await asyncio.wait({self._tightening}, timeout=self._patience)
        found = [(c, self._prices.get(c)) for c in range(len(marks))]
        return [
            replace(price, epsilon=min(price.epsilon, self._costs[c])) if price and price.mark == wanted else None
            for (c, price), wanted in zip(found, marks, strict=True)
        ]

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _bound_all(self, marks: Sequence[int]) -> None:
        """Compute the quick bounds of new marks."""
        async with self._bounding:
            for c, wanted in enumerate(marks):
                if c not in self._prices or self._prices[c].mark != wanted:
                    price = await asyncio.to_thread(self._bound, c, wanted)
                    if price is not None:
                        self._prices[c] = price

    def _bound(self, c: int, wanted: int) -> Price | None:
        """Return the quick bound of client c, continued from its last mark; None if stopped. This runs in a thread."""
        released = self._released.get(c)
        if released is None or released.upto > wanted:  # the server was restored from an older copy
            released = self._released[c] = _Released()
        while released.upto < wanted:
            if self._closed:
                return None
            upto = min(wanted, released.upto + A_WHILE)
            rounds = (self._certificate.event(i, c) for i in range(released.upto, upto))
            released.add([event for event in rounds if event is not None], upto)
        events = tally(released.counts.items())
        bound = renyi.epsilon_of(released.divergence, self._delta)[0]
        best = bound in (0.0, math.inf) or not all(isinstance(event, PoissonGaussian) for event, _ in events)
        return Price(wanted, events, bound, tight=best)  # for other events there is no tighter number

    async def _tighten(self) -> None:
        """Compute the missing tight numbers, most expensive first. Clients with the same releases share one."""
        lacking = sorted((price for price in self._prices.values() if not price.tight), key=lambda one: -one.epsilon)
        wanted = dict.fromkeys(price.events for price in lacking if price.events not in self._kept)
        self._take_kept()
        if not wanted:
            return
        try:
            async with self._accountants() as epsilon:
                for events in list(wanted)[:AT_ONCE]:
                    if len(self._kept) >= MOST_KEPT:
                        self._kept.clear()
                    self._kept[events] = await epsilon(events, self._delta)
                    self._take_kept()
        except AccountantFailed as error:
            self._log("accounting_failed", reason=str(error))

    def _take_kept(self) -> None:
        for c, price in self._prices.items():
            if not price.tight and price.events in self._kept:
                self._prices[c] = replace(price, epsilon=min(price.epsilon, self._kept[price.events]), tight=True)
