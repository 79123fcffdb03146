"""Connection limits: how many connections a port takes, in all and per address, and which it closes to make room.

gRPC accepts connections in its own threads and does not expose them before they open a stream. It has a limit on their number
(`most`; gRPC closes any further one at once) and on the time until a connection speaks HTTP/2 or opens a stream. With these
limits alone one machine could keep all others out, so the process examines its own sockets. A connection is pending until it
carries the stream of an authenticated peer. The oldest pending connections of the address that has the most are shut down, which
gRPC takes for the other side's end. A check takes some microseconds per connection, and runs only if there are many.
"""

import asyncio
import os
import socket
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from crescendo.network.transport import descriptors
from crescendo.network.transport.pending_streams import PendingStreams, TryLater, address_of, host_and_port, plain

LOOK_EVERY, UNDER_FLOOD = 0.25, 0.1  # seconds until the next check; the second after one that closed connections
TOO_MANY = "too many connections that do not say who they are; the oldest of the address that has the most are closed"


class _Socket(NamedTuple):
    """A connection to the port: its file descriptor, and the peer's host and port."""

    descriptor: int
    host: str
    port: int


class Connections:
    """The connections to one port. ``pending`` are the streams whose peers are not yet authenticated."""

    def __init__(self, pending: PendingStreams) -> None:
        self._pending, self.most = pending, descriptors.connections(pending.names)
        self._known: Counter[tuple[str, int]] = Counter()  # streams of authenticated peers, by connection
        self._order: dict[_Socket, None] = {}  # the pending ones, oldest first

    @property
    def room(self) -> int:
        """How many may be pending: two per name and some more; at most the rest of the limit, but at least a sixteenth of it."""
        names = self._pending.names
        return min(2 * names + descriptors.SPARE, max(self.most - 2 * names, self.most // 16, 1))

    @contextmanager
    def known(self, context: Any) -> Iterator[None]:
        """Count the connection as known while the stream of an authenticated peer lasts; `TryLater` if the server is full."""
        peer = host_and_port(context.peer())
        if peer not in self._known and len(self._known) >= self.most - self.room:
            reason = f"the server can hold no more than {self.most} connections; come back later, and tell its operator"
            raise TryLater(reason)
        self._known[peer] += 1
        try:
            yield
        finally:
            self._known[peer] -= 1
            if not self._known[peer]:
                del self._known[peer]

    async def watch(self, port: int) -> None:
        """Close excess connections until cancelled."""
        while True:
            closed = self.close_excess(port)
            await asyncio.sleep(UNDER_FLOOD if closed else LOOK_EVERY)

    def close_excess(self, port: int) -> int:
        """Close pending connections to the port for which there is no room; return their number."""
        if len(descriptors.open_now()) - len(self._known) <= self.room // 2:
            self._order.clear()
            return 0
        pending = [one for one in _sockets(port) if (one.host, one.port) not in self._known]
        there = set(pending)
        self._order = dict.fromkeys((*(one for one in self._order if one in there), *pending))
        excess = self._excess()
        for one in excess:
            _shut_down(one)
            del self._order[one]
        for address, count in Counter(address_of(one.host) for one in excess).items():
            self._pending.log("connections_closed", address, count=count, address=address, reason=TOO_MANY)
        return len(excess)

    def _excess(self) -> list[_Socket]:
        """Return the connections to close, so that no address keeps over half of the room, and all together no more than it."""
        by_address: defaultdict[str, deque[_Socket]] = defaultdict(deque)
        for one in self._order:
            by_address[address_of(one.host)].append(one)
        heap = [(-len(those), place, those) for place, those in enumerate(by_address.values())]
        heapify(heap)
        excess: list[_Socket] = []
        while heap and (-heap[0][0] > self.room // 2 or len(self._order) - len(excess) > self.room):
            count, place, those = heappop(heap)
            excess.append(those.popleft())
            heappush(heap, (count + 1, place, those))
        return excess


def _sockets(port: int) -> Iterator[_Socket]:
    """Yield this process's connections to the port."""
    for descriptor in descriptors.open_now():
        with suppress(OSError):  # not a socket, closed meanwhile, or the listening one
            found = socket.socket(fileno=descriptor)
            try:
                if found.family in (socket.AF_INET, socket.AF_INET6) and found.getsockname()[1] == port:
                    yield _Socket(descriptor, *plain(*found.getpeername()[:2]))
            finally:
                found.detach()


def _shut_down(one: _Socket) -> None:
    """Shut down a connection that gRPC owns. A duplicate keeps the descriptor's number from being reused meanwhile."""
    with suppress(OSError), socket.socket(fileno=os.dup(one.descriptor)) as held:
        if plain(*held.getpeername()[:2]) == (one.host, one.port):
            held.shutdown(socket.SHUT_RDWR)
