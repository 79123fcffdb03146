"""A federation in which an adversary decides everything that the algorithm leaves open.

At every turn it picks who works (and for how many slots) or which message arrives; it repeats, loses and reorders messages,
crashes clients, and brings them back, declared absent or not. The model is that of `tests.tally`, which shows what it contains.
Beside the parts under test the oracle of `tests.paper` lives through the same events.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crescendo.core.client import Client, Done, Work
from crescendo.core.messages import Broadcast, DuplicateUpdate, Update
from crescendo.core.server import Server
from crescendo.core.terms import Terms
from crescendo.errors import CrescendoError
from tests.paper import Gradient, PaperClient, PaperServer, Rule, Vector, labels
from tests.tally import contents, first_model, step


@dataclass(frozen=True)
class Parts:
    """The implementation under test; a planted bug takes the place of one part."""

    server: Any = Server
    client: Any = Client


@dataclass(frozen=True)
class Style:
    """What the adversary does beyond choosing an order."""

    duplicate: float = 0.2
    lose: float = 0.0
    crash: float = 0.0
    absent: float = 0.0  # of a crashed client, at each turn


CALM, ROUGH, CHURN = Style(), Style(lose=0.2, crash=0.03), Style(lose=0.1, crash=0.05, absent=0.5)


def plain_shares(terms: Terms) -> list[list[int]]:
    return [[terms.share(i, c) for c in range(terms.clients)] for i in range(terms.rounds)]


def plain_assignment(terms: Terms) -> list[list[int]]:
    return [terms.assignment(i).tolist() for i in range(terms.rounds)]


def plain_rule(terms: Terms) -> Rule:
    return Rule(tau=terms.tau, d=terms.ahead)


def accepted(call: Any, *arguments: Any) -> Any:
    """Call what the specification allows; to refuse it is the implementation's fault."""
    try:
        return call(*arguments)
    except CrescendoError as error:
        raise AssertionError(f"refused, though allowed: {error}") from error


Action = tuple[float, Any, Any]  # how likely it is, what is done, and with which argument


@dataclass
class Seat:
    """One client at the table: the machine under test, its local model, and the oracle's client."""

    client: Any
    paper: PaperClient
    w: Vector | None = None  # None: the round in hand has not begun
    saved: Any = None  # what is on its disk: the state after its last finished round
    down: bool = False
    absent: bool = False


@dataclass
class Play:
    terms: Terms
    seed: int
    parts: Parts = Parts()
    style: Style = CALM
    lockstep: bool = False  # compare with the oracle after every turn
    restore: Any = None  # a function applied to server and clients before every turn, for tests of export and restore
    gradients: list[Gradient] = field(default_factory=list)
    history: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shares, self.assignment = plain_shares(self.terms), plain_assignment(self.terms)
        self.labels = sum(map(len, self.assignment))
        self.rng = random.Random(self.seed)
        model = first_model(self.labels, self.seed)
        self.server, self.paper = self.parts.server(self.terms, model), PaperServer(model, self.shares)
        self.seats = [
            Seat(self.parts.client(self.terms, c, model), PaperClient(c, model, self.shares, plain_rule(self.terms)))
            for c in range(self.terms.clients)
        ]
        for c in range(self.terms.clients):
            self.save(c)
        self.pool: list[tuple[int, Any]] = []  # (receiver, message); receiver -1 is the server
        self.lost = False
        self.favours = [self.rng.choice([0.02, 1.0, 1.0, 5.0]) for _ in range(self.terms.clients + 1)]

    def run(self) -> Play:
        """Until every round is in; an AssertionError if the federation stands still before."""
        for _ in range(100 * (self.labels + 20)):
            if self.server.finished:
                return self
            self.turn()
        raise AssertionError("no end in sight")

    def turn(self) -> None:
        actions = self.possible()
        if not actions:
            self.send_what_was_lost()
            return
        self.do_one_of(actions)
        self.maybe_crash()
        self.note()

    def possible(self) -> list[Action]:
        """What can happen next: a client works or comes back, a message arrives."""
        if self.restore is not None:
            self.restore(self)
        actions: list[Action] = []
        for c, seat in enumerate(self.seats):
            if seat.down:
                actions.append((0.1, self.come_back, c))
            elif isinstance(seat.client.next(), Work):
                actions.append((self.favours[c], self.work, c))
        return actions + [(self.favours[-1], self.deliver, number) for number in range(len(self.pool))]

    def do_one_of(self, actions: list[Action]) -> None:
        _, act, argument = self.rng.choices(actions, weights=[action[0] for action in actions])[0]
        act(argument)

    def maybe_crash(self) -> None:
        up = [c for c, seat in enumerate(self.seats) if not seat.down]
        if up and self.rng.random() < self.style.crash:
            self.crash(self.rng.choice(up))

    def send_what_was_lost(self) -> None:
        assert self.lost, f"all stand still for ever at k={self.server.k}"
        self.send_again()

    # -- what can happen

    def step(self, w: Vector, c: int, i: int, h: int) -> Vector:
        return step(self.assignment, w, c, i, h)

    def contains(self, w: Vector) -> frozenset[int]:
        return contents(w)

    def work(self, c: int) -> None:
        seat = self.seats[c]
        client = seat.client
        work = client.next()
        if seat.w is None:
            seat.w = np.array(accepted(client.start))
        assert work.first == client.h and 1 <= work.slots <= self.terms.share(work.round, c) - work.first
        slots = self.rng.randint(1, work.slots)
        for h in range(work.first, work.first + slots):
            self.gradients.append(Gradient(c, work.round, h, client.k, self.contains(seat.w)))
            seat.w = seat.w - self.step(seat.w, c, work.round, h)
        accepted(client.advance, slots)
        if self.lockstep:
            seat.paper.skip_empty_rounds()
            assert (seat.paper.i, seat.paper.h) == (work.round, work.first), "another slot than the paper's"
            for h in range(work.first, work.first + slots):
                assert not seat.paper.must_wait(), "worked where the paper waits"
                seat.paper.slot(lambda w, h=h: self.step(w, c, work.round, h))  # type: ignore[misc]
        if client.h == self.terms.share(work.round, c):
            update = accepted(client.finish, client.frame - seat.w)
            assert (update.round, update.client) == (work.round, c)
            seat.w = None
            self.pool.append((-1, update))
            self.save(c)

    def deliver(self, number: int) -> None:
        """A message arrives, and may arrive again; or it is lost."""
        to, message = self.pool[number]
        if self.rng.random() >= self.style.duplicate or len(self.pool) > 50:
            del self.pool[number]
            if self.rng.random() < self.style.lose:
                self.lost = True
                return
        self.arrive(to, message)

    def arrive(self, to: int, message: Any) -> None:
        if to == -1:
            self.at_server(message)
        elif self.seats[to].down:
            self.lost = True
        else:
            self.at_client(to, message)

    def at_server(self, update: Update) -> None:
        pair = (update.round, update.client)
        if pair in self.paper.applied or pair in self.paper.void:
            try:
                self.server.receive(update)
            except DuplicateUpdate:
                return
            raise AssertionError(f"{pair} was taken twice")
        rose = accepted(self.server.receive, update)
        self.paper.isr_receive("update", update.round, update.client, update.delta)
        self.announce(rose)

    def announce(self, rose: bool) -> None:
        if rose:
            self.pool += [(c, self.server.broadcast(c)) for c in range(self.terms.clients)]

    def at_client(self, c: int, broadcast: Broadcast) -> None:
        seat = self.seats[c]
        shift = accepted(seat.client.receive, broadcast)
        if shift is not None and seat.w is not None:
            seat.w = seat.w + shift
        yours = [i for i in range(self.terms.rounds) if i in broadcast.yours]
        seat.paper.isr_receive(np.asarray(broadcast.model), broadcast.k, yours)

    def send_again(self) -> None:
        self.lost = False
        for c, seat in enumerate(self.seats):
            self.pool += [(-1, update) for update in seat.client.unacknowledged()]
            self.pool.append((c, self.server.broadcast(c)))

    def save(self, c: int) -> None:
        self.seats[c].saved = (self.seats[c].client.export(), copy.deepcopy(self.seats[c].paper))

    def crash(self, c: int) -> None:
        """The unfinished round and all broadcasts since the last finished one are forgotten."""
        seat = self.seats[c]
        seat.down, seat.w, self.lost = True, None, True
        state, paper = seat.saved
        seat.client, seat.paper = self.parts.client.restore(self.terms, state), copy.deepcopy(paper)
        if self.rng.random() < self.style.absent:
            seat.absent = True
            self.announce(accepted(self.server.absent, c))
            self.paper.isr_receive("absent", c)

    def come_back(self, c: int) -> None:
        seat = self.seats[c]
        seat.down = False
        self.pool += [(-1, update) for update in seat.client.unacknowledged()]
        if seat.absent:
            seat.absent = False
            last = seat.client.round - 1  # sent, or passed over without a share
            k, expected = self.server.k, self.paper.returns_at(last)
            start = accepted(self.server.back, c, last)
            assert start == expected
            self.announce(self.server.k > k)  # with somebody there again, k may rise
            self.paper.isr_receive("back", c, last)
            accepted(seat.client.resume, start)
            seat.paper.i, seat.paper.h = max(seat.paper.i, start), 0
            self.save(c)
        self.pool.append((c, self.server.broadcast(c)))

    # -- what is written down and compared

    def note(self) -> None:
        self.history.append((self.server.k, self.server.model.tobytes(), [self.seen_of(seat) for seat in self.seats]))
        if self.lockstep:
            self.compare()

    def seen_of(self, seat: Seat) -> Any:
        client = seat.client
        again = [(update.round, update.delta.tobytes()) for update in client.unacknowledged()]
        counters = (client.round, client.h, client.k, client.epoch)
        return counters, again, client.lost(), None if seat.w is None else seat.w.tobytes()

    def compare(self) -> None:
        assert self.server.k == self.paper.k, "k is not the paper's"
        np.testing.assert_allclose(self.server.model, self.paper.v, rtol=1e-12, atol=1e-12)
        for seat in self.seats:
            said, paper = seat.client.next(), seat.paper
            paper.skip_empty_rounds()
            assert seat.client.k == paper.k, "another broadcast than the paper's"
            assert isinstance(said, Done) == paper.done()
            if not paper.done():
                assert (seat.client.round, seat.client.h) == (paper.i, paper.h)
                assert isinstance(said, Work) == (not paper.must_wait()), "waits where the paper works, or the reverse"
            if seat.w is not None:
                np.testing.assert_allclose(seat.w, paper.w(), rtol=1e-12, atol=1e-12)

    def excluded(self) -> set[int]:
        """Labels of pairs that were declared void, or were missing from an absent client when their round was passed."""
        return labels(self.assignment, {*self.paper.void, *self.paper.excused})
