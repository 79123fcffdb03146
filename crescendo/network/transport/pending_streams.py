"""What the door of the server and that of an aggregator have in common: streams that nobody knows yet, and those that only ask.

Whoever reaches the port can open streams and say nothing. Such a stream stands on the `Porch` until it has said, and proved, who
it is. The porch has room for so many; when it is full the newcomer takes the place of another, so that nobody is kept out by
those who say nothing: a sound client says hello with its first packet and is gone from the porch in an instant. Behind the porch
every name has one stream that asks for the terms and one that has joined; a newer one ends the older.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio

from crescendo.network.protocol.wire_messages import Goodbye, Refusal, Welcome, from_client, to_client
from crescendo.network.transport.channels import LARGEST_MESSAGE, OPTIONS

FIRST_WORD = 10.0  # seconds in which a stream has to say who it is, and in which one that is refused has to hear why
THINKING = 600.0  # seconds in which a client that was shown the terms has to decide
SPARE = 256  # room on the porch beyond two streams of each name, which may all come at once
MOST_STREAMS = 1000  # of one connection; a client has one, a proxy in between may have many
BUSY = Refusal("another stream of this client is just being let in; come back")
SILENT = "a stream has to say who it is at once, or makes room for others; come back"

DOOR_OPTIONS: list[tuple[str, Any]] = [
    *OPTIONS,
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", MOST_STREAMS),
]


class Porch:
    """Streams that have not said who they are, and those that are being told to go.

    When it is full the place that is taken is of the address that has the most there, and of that one the oldest. So who
    comes from few addresses only ever takes places from itself.
    """

    def __init__(self, names: int) -> None:
        self.names = names
        self._crowds: dict[str, dict[asyncio.Timeout, None]] = {}  # by address, each oldest first

    @property
    def room(self) -> int:
        return 2 * self.names + SPARE

    def __len__(self) -> int:
        return sum(len(crowd) for crowd in self._crowds.values())

    @asynccontextmanager
    async def stay(self, context: Any) -> AsyncIterator[None]:
        """Stand here; TimeoutError for one that stays too long or whose place is taken."""
        address = address_of(context.peer())
        if len(self) >= self.room:
            self._make_room()
        async with asyncio.timeout(FIRST_WORD) as until:
            self._crowds.setdefault(address, {})[until] = None
            try:
                yield
            finally:
                self._leave(address, until)

    async def first_word(self, context: Any) -> Any:
        """What a new stream says first, None if it says nothing."""
        try:
            async with self.stay(context):
                raw = await context.read()
                return None if raw is grpc.aio.EOF else raw
        except TimeoutError:
            context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
            context.set_details(SILENT)
            return None

    async def last_words(self, context: Any, messages: Iterable[Any]) -> None:
        """Tell a stream why it ends. One that does not read is not waited for."""
        with suppress(grpc.aio.BaseError, asyncio.InvalidStateError, TimeoutError):
            async with self.stay(context):
                for message in messages:
                    await context.write(message)

    def close(self) -> None:
        """End every stream that stands here."""
        for until in [until for crowd in self._crowds.values() for until in crowd]:
            end_now(until)

    def _make_room(self) -> None:
        address, crowd = max(self._crowds.items(), key=lambda one: len(one[1]))
        oldest = next(iter(crowd))
        self._leave(address, oldest)
        end_now(oldest)

    def _leave(self, address: str, until: asyncio.Timeout) -> None:
        crowd = self._crowds.get(address, {})
        crowd.pop(until, None)
        if not crowd:
            self._crowds.pop(address, None)


class Questions:
    """Clients that look at the terms: one stream each, a newer ends the older."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Timeout] = {}

    async def answer(self, name: str, welcome: Welcome, context: Any) -> Goodbye | None:
        """Show the terms and wait: a client declines, or comes again and joins."""
        if name in self._open:
            end_now(self._open[name])
        message = None
        with suppress(TimeoutError):
            async with asyncio.timeout(THINKING) as until:
                self._open[name] = until
                try:
                    await context.write(to_client(welcome))
                    raw = await context.read()
                    message = None if raw is grpc.aio.EOF else from_client(raw)
                finally:
                    if self._open.get(name) is until:
                        del self._open[name]
        return message if isinstance(message, Goodbye) else None

    def close(self) -> None:
        """End every stream that asks."""
        for until in self._open.values():
            end_now(until)


def end_now(until: asyncio.Timeout) -> None:
    """Whatever runs under this limit has had enough time."""
    if not until.expired():
        until.reschedule(asyncio.get_running_loop().time())


def address_of(peer: str) -> str:
    """Where a stream comes from, without the port. A machine has a whole /64 of IPv6 addresses, so that counts as one.

    >>> address_of("ipv4:10.0.0.7:4711"), address_of("ipv6:%5B::ffff:10.0.0.7%5D:4711"), address_of("unix:")
    ('10.0.0.7', '10.0.0.7', 'unix:')
    >>> address_of("ipv6:%5B2001:db8::1:2%25eth0%5D:4711")
    '2001:db8::/64'
    """
    host = unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
