"""The clients of an aggregator: who has joined here, who is behind an aggregator below, and what they hand in.

What a client says about itself goes up, if it can be news, and the server answers. What cannot be is answered here, so that
nobody keeps the way up, which all share, busy with nonsense.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crescendo.core.messages import Update
from crescendo.errors import PeerError
from crescendo.runtimes.network.conduct import Conduct
from crescendo.runtimes.network.door import BUSY
from crescendo.runtimes.network.limits import TooLong
from crescendo.runtimes.network.peers import Peer
from crescendo.runtimes.network.relayed import Link
from crescendo.runtimes.tree_messages import Below
from crescendo.runtimes.wire import Raw, decode
from crescendo.runtimes.wire_messages import Hello, Refusal, VoidRound, Welcome

if TYPE_CHECKING:
    from crescendo.runtimes.network.aggregator import Node, Work

ANSWER = 60.0  # seconds in which the server has to answer a hello


@dataclass(eq=False)
class Asked:
    """A hello that waits for the server's answer, and who waits for it: a stream, an aggregator below, or nobody any more."""

    hello: Hello
    who: asyncio.Future[Guest | Refusal] | Link | None


class Guest(Peer):
    """A client that has joined at an aggregator, and what it said about itself: the k it has seen and its last round."""

    def __init__(self, client: int, conduct: Conduct, hello: Hello, epoch: int) -> None:
        super().__init__(client, conduct)
        self.k, self.last, self.epoch = hello.k, hello.last, epoch
        self.voids: set[int] = set()  # rounds that it declared void, on this stream


class Guests:
    """All clients below a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.peers: dict[int, Guest] = {}
        self.behind: dict[int, Link] = {}  # clients that are behind an aggregator below
        self.conduct: defaultdict[int, Conduct] = defaultdict(Conduct)
        self._asked: dict[str, Asked] = {}  # one of a name: however often it comes, one hello is on its way

    def send_away(self, why: str) -> None:
        for peer in list(self.peers.values()):
            peer.close(Refusal(why))
        for asked in self._asked.values():
            if isinstance(asked.who, asyncio.Future) and not asked.who.done():
                asked.who.set_result(Refusal(why))
        self._asked.clear()

    # -- coming and going ----------------------------------------------------------------------------------------------

    async def introduce(self, hello: Hello) -> Guest | Refusal:
        """Ask the server about a client that has come here: its place, if it is let in. Call `left` in the end."""
        answer: asyncio.Future[Guest | Refusal] = asyncio.get_running_loop().create_future()
        if not self.ask(replace(hello, token=""), answer):
            return BUSY
        asked = self._asked[hello.name]
        try:
            await asyncio.wait({answer}, timeout=ANSWER)
            return answer.result() if answer.done() else Refusal("the server does not answer; come back later")
        except asyncio.CancelledError:
            if answer.done() and isinstance(peer := answer.result(), Peer):
                self.left(peer)
            raise
        finally:
            asked.who = None

    def ask(self, hello: Hello, who: asyncio.Future[Guest | Refusal] | Link) -> bool:
        """Pass a hello up, unless one of the same name is on its way or too much else is."""
        work, _ = self._node.known
        if hello.name in self._asked or not self._node.uplink.is_free:
            return False
        self._vacate(hello.name, work)
        self._asked[hello.name] = Asked(hello, who)
        self._node.uplink.send(Below(hello.name, hello))
        return True

    def _vacate(self, name: str, work: Work) -> None:
        """A client comes anew: the server has to hear first that its older stream has ended."""
        c = work.names.index(name) if name in work.names else -1
        older, link = self.peers.pop(c, None), self.behind.pop(c, None)
        if older is not None:
            older.close(Refusal("this client has joined again from elsewhere; if these are two copies, stop one", True))
        if older is not None or link is not None:
            self._node.uplink.send(Below(name))

    def _enter(self, welcome: Welcome, hello: Hello) -> Guest:
        """A client was let in by the server."""
        work, core = self._node.known
        c = welcome.client
        peer = Guest(c, self.conduct[c], hello, welcome.epoch)
        self.peers[c] = peer
        self.behind.pop(c, None)
        core.join(c, [c])
        peer.say(welcome)
        self._node.log("joined", client=work.names[c], start=welcome.start)
        return peer

    def answered(self, name: str, message: Welcome | Refusal) -> None:
        work, core = self._node.known
        asked = self._asked.pop(name, None)
        who = None if asked is None else asked.who
        c = work.names.index(name) if name in work.names else -1
        link = who if isinstance(who, Link) else self.behind.get(c)
        if asked is not None and isinstance(who, asyncio.Future):
            if isinstance(message, Refusal):
                who.set_result(message)
            else:  # now, or a broadcast that follows at once would pass it by
                who.set_result(self._enter(message, asked.hello))
        elif isinstance(message, Welcome) and who is None and c not in self.peers:
            self._node.uplink.send(Below(name))  # nobody waits for it any more
        elif link is not None:
            if isinstance(message, Welcome):
                self.behind[c] = link
                core.join(link, [c])
            link.above(name, message)
        elif c in self.peers and isinstance(message, Refusal):
            peer = self.peers[c]
            peer.close(message) if message.final or message.round is None else peer.say(message)

    def left(self, peer: Peer) -> None:
        """A client's stream has ended."""
        c = peer.client
        if self.peers.get(c) is peer and self._node.work is not None and self._node.core is not None:
            del self.peers[c]
            self._node.core.part(c)
            self._node.uplink.send(Below(self._node.work.names[c]))
            self._node.log("disconnected", client=self._node.work.names[c])

    def left_behind(self, link: Link, name: str) -> None:
        """A client that was behind an aggregator below has gone."""
        work, _ = self._node.known
        c = work.names.index(name) if name in work.names else -1
        if self.behind.get(c) is link:
            del self.behind[c]
            self._node.uplink.send(Below(name))

    def link_ended(self, link: Link) -> None:
        """An aggregator below has gone, and everybody behind it."""
        assert self._node.work is not None
        for asked in self._asked.values():
            if asked.who is link:
                asked.who = None
        for c in [c for c, behind in self.behind.items() if behind is link]:
            del self.behind[c]
            self._node.uplink.send(Below(self._node.work.names[c]))

    # -- what they hand in ---------------------------------------------------------------------------------------------

    def take(self, peer: Guest, round: int, data: Raw) -> bool:
        """A whole update of a client has come: True if it is new."""
        work, core = self._node.known
        if (reason := self._impossible(peer, round)) is not None:
            raise PeerError(reason)
        low, high = work.terms.block(round, work.size)
        update = Update(round, peer.client, decode(data, work.wire, high - low))
        if self._too_long(peer, update):
            return False
        held = core.waiting
        word = core.receive(peer.client, update)
        if word is not None:
            peer.acknowledge(word.yours[peer.client], word.epoch)
        is_new = core.waiting > held
        self._node.kick()
        return is_new

    def _too_long(self, peer: Guest, update: Update) -> bool:
        """Refuse here what the server cannot tell in a sum, and as it would: the pair becomes void and the client is told."""
        work, _ = self._node.known
        i, c = update.round, update.client
        try:
            work.limits.check(i, c, update.delta)
            return False
        except TooLong as error:
            self._node.log("refused", client=work.names[c], round=i, reason=str(error))
            self.void(peer, VoidRound(i, work.federation, work.digest))
            peer.say(Refusal(str(error), False, i))
            return True

    def void(self, peer: Guest, message: VoidRound) -> bool:
        """A client says that a round's bytes are gone: True if that is news, which goes up. The server has the last word."""
        _, core = self._node.known
        c, i = peer.client, message.round
        if i in core.settled(c):
            peer.acknowledge(core.settled(c), core.epoch)
        elif (reason := self._impossible(peer, i)) is not None:
            peer.say(Refusal(reason, False, i))
        elif i not in peer.voids:
            peer.voids.add(i)
            self._node.uplink.send(Below(self._node.known[0].names[c], message))
            return True
        return False

    def _impossible(self, peer: Guest, i: int) -> str | None:
        """Why a round cannot be this client's, by what is known here; None if it can be."""
        work, core = self._node.known
        terms, name, k = work.terms, work.names[peer.client], max(self._node.k, peer.k)
        if not 0 <= i < terms.rounds or not terms.share(i, peer.client):
            return f'client "{name}" has no share in a round {i} of this run; check its terms'
        forgetful = max(core.epoch, peer.epoch) > 0  # a server that lost something takes clients' word, and so do we
        if not forgetful and i > max(terms.furthest(min(k, terms.rounds)), peer.last):
            return f'client "{name}" speaks of round {i}, which nobody can have finished at k={k}; check its terms'
        return None
