"""The adversary of `tests.core.play` with aggregators between clients and server, in trees of depth 0 to 2.

Besides order, repeats and losses, it decides when a sum is packed, kills aggregators at any instant (their memory is lost, what
they sent is still on the way) and moves clients from one aggregator to another. The oracle is a flat server: it is given
each update of a sum by itself, as the client made it, and must agree after every turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crescendo.core.aggregator import Aggregator
from crescendo.core.messages import Sum, SumOverlaps, Update, Word
from crescendo.errors import PeerError
from tests.core.play import Parts, Play, accepted
from tests.core.properties import Case
from tests.paper import Vector

SERVER = -1
TOP, LEFT, RIGHT = -2, -3, -4  # the aggregators; LEFT and RIGHT may be below TOP
Place = int  # a client (0 and up), an aggregator or the server


@dataclass(frozen=True)
class TreeParts(Parts):
    aggregator: Any = Aggregator


@dataclass(frozen=True)
class Up:
    """A sum that an aggregator sent to its parent."""

    node: Place
    total: Sum


@dataclass
class TreePlay(Play):
    kill: float = 0.05  # at each turn
    move: float = 0.03
    sent: dict[tuple[int, int], Vector] = field(default_factory=dict)  # what each client made, by pair
    frozen: dict[str, Sum] = field(default_factory=dict)  # every sum that was ever sent

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = [TOP, SERVER]
        self.parent: dict[Place, Place] = {
            TOP: SERVER,
            LEFT: self.rng.choice(inner),
            RIGHT: self.rng.choice(inner),
        }
        for c in range(self.terms.clients):
            self.parent[c] = self.rng.choice([SERVER, TOP, LEFT, LEFT, RIGHT, RIGHT])
        self.nodes = {place: self.fresh() for place in (TOP, LEFT, RIGHT)}
        for place in self.nodes:
            self.reconnect(place)
        self.sums = 0  # sums of two or more updates that the server took

    def fresh(self) -> Any:
        assert isinstance(self.parts, TreeParts)
        return self.parts.aggregator(self.terms, len(self.server.model))

    # -- who is where

    def children(self, place: Place) -> list[Place]:
        return [child for child, parent in self.parent.items() if parent == place]

    def below(self, place: Place) -> list[int]:
        """The clients behind a place; a client is behind itself."""
        return [place] if place >= 0 else [c for child in self.children(place) for c in self.below(child)]

    def join(self, place: Place, child: Place) -> None:
        carries = self.nodes[child].carries if child < 0 else ()
        accepted(self.nodes[place].join, child, self.below(child), carries)

    def reconnect(self, place: Place) -> None:
        """All children find the aggregator again and send what nobody has acknowledged."""
        for child in self.children(place):
            self.join(place, child)
            self.send_up_again(child)
            newest = self.nodes[place].newest(child)
            if newest is not None:
                self.pass_down(child, newest)

    def send_up_again(self, place: Place) -> None:
        if place >= 0:
            self.pool += [(SERVER, update) for update in self.seats[place].client.unacknowledged()]
        else:
            for total in self.nodes[place].unanswered():
                assert total.id in self.frozen, "a sum was changed after it was sent"
                assert total.delta.tobytes() == self.frozen[total.id].delta.tobytes()
                self.pool.append((SERVER, Up(place, total)))

    # -- what can happen

    def turn(self) -> None:
        actions = self.possible()
        if not actions and not sum(self.pack(place) for place in self.nodes):
            self.send_what_was_lost()
        if actions:
            if self.rng.random() < 0.1:
                self.pack(self.rng.choice(list(self.nodes)))
            self.do_one_of(actions)
        self.strike()
        self.note()

    def strike(self) -> None:
        self.maybe_crash()
        if self.rng.random() < self.kill:
            place = self.rng.choice(list(self.nodes))
            self.nodes[place], self.lost = self.fresh(), True
            if self.rng.random() < 0.5:
                self.reconnect(place)
        if self.rng.random() < self.move:
            self.move_to(self.rng.randrange(self.terms.clients), self.rng.choice([SERVER, *self.nodes]))

    def move_to(self, c: int, place: Place) -> None:
        """Client c goes elsewhere, sends its unacknowledged updates again and is told the newest. Nothing is lost by it."""
        self.parent[c] = place
        self.send_up_again(c)
        child = c
        while place != SERVER:
            self.join(place, child)
            newest = self.nodes[place].newest(child)
            if newest is not None:
                self.pass_down(child, newest)
            child, place = place, self.parent[place]
        self.tell(child)

    def work(self, c: int) -> None:
        before = len(self.pool)
        super().work(c)
        for _, update in self.pool[before:]:
            self.sent[update.round, update.client] = update.delta

    def pack(self, place: Place) -> bool:
        total = self.nodes[place].pack()
        if total is None:
            return False
        self.frozen[total.id] = total
        self.pool.append((SERVER, Up(place, total)))
        return True

    def arrive(self, to: Place, message: Any) -> None:
        if isinstance(message, Update):
            self.hand_in(self.parent[message.client], message.client, message)
        elif isinstance(message, Up):
            self.hand_in(self.parent[message.node], message.node, message.total)
        elif isinstance(message, Word):
            self.at_node(to, message)
        elif self.seats[to].down:
            self.lost = True
        else:
            self.at_client(to, message)

    def hand_in(self, place: Place, child: Place, message: Update | Sum) -> None:
        if place == SERVER:
            self.at_server(message) if isinstance(message, Update) else self.sum_at_server(child, message)
            return
        self.join(place, child)
        if isinstance(message, Sum):  # it may be from before the child was killed, so from clients it no longer knows
            accepted(self.nodes[place].join, child, (), message.clients)
        word = accepted(self.nodes[place].receive, child, message)
        if word is not None:
            self.pass_down(child, word)

    def sum_at_server(self, node: Place, total: Sum) -> None:
        there = {pair for pair in total.pairs if pair in self.paper.applied or pair in self.paper.void}
        if there:
            try:
                self.server.receive_sum(total)
            except SumOverlaps as answer:
                assert set(answer.settled) == there, "the answer is not what the server has"
            except PeerError as error:
                raise AssertionError(f"refused, though allowed: {error}") from error
            else:
                raise AssertionError(f"{there} were taken twice")
            self.pool.append((node, self.server.word(total.clients, model=False)))
            return
        rose = accepted(self.server.receive_sum, total)
        for i, c in total.pairs:
            self.paper.isr_receive("update", i, c, self.sent[i, c])
        self.sums += len(total.pairs) > 1
        self.pool.append((node, self.server.word(total.clients, model=False)))
        self.announce(rose)

    def announce(self, rose: bool) -> None:
        if rose:
            self.tell_all()

    def tell_all(self) -> None:
        for child in self.children(SERVER):
            self.tell(child)

    def tell(self, child: Place) -> None:
        message = self.server.broadcast(child) if child >= 0 else self.server.word(self.below(child))
        self.pool.append((child, message))

    def at_node(self, place: Place, word: Word) -> None:
        for child, part in accepted(self.nodes[place].hear, word).items():
            self.pass_down(child, part)
        self.lost |= not self.nodes[place].clients.issuperset(self.below(place))  # somebody has not come back yet

    def pass_down(self, child: Any, word: Word) -> None:
        if child < 0:
            self.pool.append((child, word))
        elif word.model is not None and child in word.yours:
            self.pool.append((child, word.to(child)))

    def send_again(self) -> None:
        self.lost = False
        for place in self.nodes:
            self.reconnect(place)
        for c in self.children(SERVER):
            self.send_up_again(c)
        self.tell_all()


@dataclass(frozen=True)
class TreeCase(Case):
    kill: float = 0.05

    def play(self, parts: Parts, **more: Any) -> TreePlay:
        return TreePlay(self.terms, self.seed, parts, self.style, kill=self.kill, **more)
