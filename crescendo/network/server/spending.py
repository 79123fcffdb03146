"""What the clients of a served federation have spent, for people who look at its status.

The tight accountant takes a second or so for a plan of some thousand rounds, so it runs only on request, in a thread, and
not for every round: the rounds that arrived are rounded up to a mark, by at most a sixteenth, and each mark is accounted for
once. Epsilon grows with the rounds, so what a mark costs is never less than what was spent. Until the tight number is there, the
bound by Renyi divergence stands for it, and says so.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from crescendo.core.messages import Settled
from crescendo.privacy.accounting.accountant import account
from crescendo.privacy.accounting.events import Counted, Event, tally
from crescendo.privacy.mechanisms.certificate import Certificate

PATIENCE = 3.0  # seconds that an answer waits for the quick bounds, and again for the tight numbers
AT_ONCE = 8  # tight numbers that one question may ask for; the next question asks for more
MOST_KEPT = 1024
FINE = 16  # marks in each doubling of the rounds

Accountant = Callable[[Counted, float], float]


@dataclass(frozen=True, slots=True)
class Price:
    """An epsilon that the rounds below ``mark`` do not exceed; infinite where there is next to no noise."""

    mark: int
    events: Counted
    epsilon: float
    tight: bool = False

    @staticmethod
    def next_mark(rounds: int) -> int:
        """The next number of rounds that is accounted for.

        >>> [Price.next_mark(rounds) for rounds in (0, 1, 31, 32, 33, 1000, 1025)]
        [0, 1, 31, 32, 34, 1024, 1088]
        """
        step = 1 << max(0, rounds.bit_length() - FINE.bit_length())
        return -(-rounds // step) * step


class SpendingTracker:
    """Knows what the clients' rounds cost up to some mark, and finds out in the background what it is asked for."""

    def __init__(
        self, certificate: Certificate, delta: float, tight: Accountant | None = None, patience: float = PATIENCE
    ) -> None:
        self._certificate, self._delta, self._patience = certificate, delta, patience
        self._tight = tight or self.by_pld
        self._prices: dict[int, Price] = {}
        self._tallies: dict[int, tuple[int, Counter[Event]]] = {}
        self._kept: dict[Counted, float] = {}
        self._guard = threading.Lock()  # of the tallies and quick bounds
        self._idle: asyncio.Event | None = None

    @staticmethod
    def by_pld(events: Counted, delta: float) -> float:
        """The tight epsilon."""
        return account(events, delta, state_error=False).epsilon

    async def of(self, reached: Sequence[Settled]) -> list[Price | None]:
        """What each client has spent at most; None where even the quick bound takes longer than anybody should wait."""
        rounds = self._certificate.terms.rounds
        marks = [
            min(rounds, Price.next_mark(max(settled.below, *(i + 1 for i in settled.beyond), 0))) for settled in reached
        ]
        quick = asyncio.create_task(asyncio.to_thread(self._bound_all, marks))
        await asyncio.wait({quick}, timeout=self._patience)
        if self._idle is None or self._idle.is_set():
            self._idle = asyncio.Event()
            work = asyncio.get_running_loop(), self._idle
            threading.Thread(target=self._tighten, args=work, name="accountant", daemon=True).start()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), self._patience)
        found = [self._prices.get(c) for c in range(len(marks))]
        return [
            price if price is not None and price.mark == wanted else None
            for price, wanted in zip(found, marks, strict=True)
        ]

    def _bound_all(self, marks: Sequence[int]) -> None:
        with self._guard:
            for c, wanted in enumerate(marks):
                if c not in self._prices or self._prices[c].mark != wanted:
                    events = self._events(c, wanted)
                    bound = account(events, self._delta, quick=True).epsilon
                    self._prices[c] = Price(wanted, events, bound, tight=not events)

    def _events(self, c: int, wanted: int) -> Counted:
        """What client c releases in the rounds below ``wanted``; counted on from where it was when last asked."""
        upto, counts = self._tallies.get(c, (0, Counter()))
        if upto > wanted:  # the server was put back from an older copy
            upto, counts = 0, Counter()
        counts.update(event for i in range(upto, wanted) if (event := self._certificate.event(i, c)) is not None)
        self._tallies[c] = wanted, counts
        return tally(counts.items())

    def _tighten(self, loop: asyncio.AbstractEventLoop, idle: asyncio.Event) -> None:
        """In a thread: the tight numbers that are lacking, dearest first. Clients with the same rounds behind them share one."""
        try:
            self._tighten_some()
        finally:
            with suppress(RuntimeError):  # the loop is closed: no request waits any more
                loop.call_soon_threadsafe(idle.set)

    def _tighten_some(self) -> None:
        lacking = [(c, price) for c, price in list(self._prices.items()) if not price.tight]
        computed = 0
        for c, price in sorted(lacking, key=lambda one: -one[1].epsilon):
            if price.events not in self._kept:
                if computed == AT_ONCE:
                    continue
                computed += 1
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                self._kept[price.events] = self._tight(price.events, self._delta)
            if self._prices[c] is price:
                self._prices[c] = replace(price, epsilon=min(price.epsilon, self._kept[price.events]), tight=True)
