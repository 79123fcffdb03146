"""Pending streams: those whose peer has not proved who it is, and those that only ask for the terms.

Any process that reaches the port can open streams and send nothing. The server and an aggregator keep such a stream among the
`PendingStreams` until it has sent a hello and proved its name. There is room for so many; when it is full a new stream evicts an
old one, so that silent streams keep no client out: a sound client sends its hello with the first packet, and is pending for an
instant only. After that every name has one stream that asks for the terms and one that has joined; a newer one ends the older.
"""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio

from crescendo.errors import CrescendoError, PeerError
from crescendo.logs import Log, quiet
from crescendo.network.protocol.wire_messages import TO_CLIENT, TO_SERVER, Goodbye, Refusal, Welcome
from crescendo.network.transport.log_summaries import SummarisedLog
from crescendo.network.transport.rate_limits import REFUSAL_RATE, REFUSALS, TokenBuckets

HELLO_TIMEOUT = (
    10.0  # seconds in which a stream has to send its hello, and in which one that is refused has to read why
)
DECISION_TIMEOUT = 600.0  # seconds in which a client that was shown the terms has to decide
SPARE = 256  # pending streams beyond two of each name, which may all come at once
BUSY = Refusal("another stream of this client is just being let in; come back")
LONGEST_HOLD = 5.0  # seconds that a stream is made to wait for asking too often
OUR_FAULT = "the server cannot tell now whether you may come in; come back later, and tell its operator if this goes on"
SILENT = "a stream has to say who it is at once, or makes room for others; come back"


class TryLater(PeerError):
    """Nothing is wrong with the request; the peer should make it again later."""


class PendingStreams:
    """Streams that have not sent a hello, and those that are being refused.

    When there are too many, the oldest stream of the address that has the most is evicted. So a flood from few addresses only
    ever evicts its own streams.
    """

    def __init__(self, names: int, log: Log = quiet) -> None:
        self.names, self.log = names, SummarisedLog(log)
        self._by_address: dict[str, dict[asyncio.Timeout, None]] = {}  # by address, each oldest first
        self._refusals = TokenBuckets(REFUSALS, REFUSAL_RATE)

    @property
    def room(self) -> int:
        return 2 * self.names + SPARE

    def __len__(self) -> int:
        return sum(len(streams) for streams in self._by_address.values())

    @asynccontextmanager
    async def counted(self, context: Any) -> AsyncIterator[None]:
        """Count a stream as pending; TimeoutError if it stays so for too long, or is evicted."""
        address = source_of(context)
        if len(self) >= self.room:
            self._evict()
        async with asyncio.timeout(HELLO_TIMEOUT) as until:
            self._by_address.setdefault(address, {})[until] = None
            try:
                yield
            finally:
                self._leave(address, until)

    async def first_message(self, context: Any) -> Any:
        """The first message of a new stream, None if none comes.

        The headers go out before. gRPC would send them with the first message, and if that write is cancelled at the instant in
        which its bytes have left, gRPC forgets that they have: it sends them again with the stream's end, which the core refuses,
        and the other side never hears of the end.
        """
        with suppress(grpc.aio.BaseError, asyncio.InvalidStateError):  # the other side is gone
            await context.send_initial_metadata(())
        try:
            async with self.counted(context):
                raw = await context.read()
                return None if raw is grpc.aio.EOF else raw
        except TimeoutError:
            context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
            context.set_details(SILENT)
            return None

    async def serve(
        self, context: Any, serve: Callable[[Any, Any], Awaitable[list[Any]]], encode: Callable[[Any], Any]
    ) -> None:
        """Read a new stream's first message and ``serve`` the stream; send the answers to one that is not let in."""
        answers: list[Any] = []
        try:
            first = await self.first_message(context)
            if first is not None:
                answers = await serve(first, context)
        except PeerError as error:
            await self.hold_refused(context, error)
            answers = [Refusal(str(error), final=not isinstance(error, TryLater))]
        except CrescendoError as error:
            answers = [Refusal(self.our_fault(error))]
        if answers:
            await self.send_last(context, map(encode, answers))

    async def hold_refused(self, context: Any, error: PeerError) -> None:
        """Log a refusal, and wait before it is sent to an address that was refused too often: it makes a loop a slow one."""
        address = source_of(context)
        self.log("refused", address, peer=context.peer(), reason=str(error))
        if not isinstance(error, TryLater):
            await self.hold(context, self._refusals.take(address))

    def our_fault(self, error: CrescendoError) -> str:
        """What a peer hears when the fault is on this side, in its files perhaps; the log has what it is."""
        self.log("stream_failed", "", reason=str(error))
        return OUR_FAULT

    async def hold(self, context: Any, seconds: float) -> bool:
        """Let a stream wait, among the pending ones; False if it was evicted meanwhile."""
        if seconds <= 0:
            return True
        try:
            async with self.counted(context):
                await asyncio.sleep(min(seconds, LONGEST_HOLD))
                return True
        except TimeoutError:
            return False

    async def send_last(self, context: Any, messages: Iterable[Any]) -> None:
        """Send a stream the last messages. One that does not read is not waited for."""
        with suppress(grpc.aio.BaseError, asyncio.InvalidStateError, TimeoutError):
            async with self.counted(context):
                for message in messages:
                    await context.write(message)

    def close(self) -> None:
        """End every pending stream, and log what was only counted."""
        self.log.close()
        for until in [until for streams in self._by_address.values() for until in streams]:
            _expire(until)

    def _evict(self) -> None:
        address, streams = max(self._by_address.items(), key=lambda one: len(one[1]))
        oldest = next(iter(streams))
        self._leave(address, oldest)
        _expire(oldest)

    def _leave(self, address: str, until: asyncio.Timeout) -> None:
        streams = self._by_address.get(address, {})
        streams.pop(until, None)
        if not streams:
            self._by_address.pop(address, None)


class TermsRequests:
    """Streams of clients that look at the terms: one for each name, a newer ends the older."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Timeout] = {}

    async def answer(self, name: str, welcome: Welcome, context: Any) -> Goodbye | None:
        """Send the terms and wait until the client declines (its goodbye), or ends the stream to come back and join (None)."""
        if name in self._open:
            _expire(self._open[name])
        message = None
        with suppress(TimeoutError):
            async with asyncio.timeout(DECISION_TIMEOUT) as until:
                self._open[name] = until
                try:
                    await context.write(TO_CLIENT.encode(welcome))
                    raw = await context.read()
                    message = None if raw is grpc.aio.EOF else TO_SERVER.decode(raw)
                finally:
                    if self._open.get(name) is until:
                        del self._open[name]
        return message if isinstance(message, Goodbye) else None

    def close(self) -> None:
        """End all of them."""
        for until in self._open.values():
            _expire(until)


def _expire(until: asyncio.Timeout) -> None:
    """End what runs under this limit now."""
    if not until.expired():
        until.reschedule(asyncio.get_running_loop().time())


def source_of(context: Any) -> str:
    """The address that a stream comes from."""
    return address_of(host_and_port(context.peer())[0])


def host_and_port(peer: str) -> tuple[str, int]:
    """Where a stream comes from, as gRPC says it.

    >>> host_and_port("ipv4:10.0.0.7:4711"), host_and_port("ipv6:%5B::ffff:10.0.0.7%5D:4711"), host_and_port("unix:")
    (('10.0.0.7', 4711), ('10.0.0.7', 4711), ('unix:', 0))
    """
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return plain(host.strip("[]"), int(port)) if port.isdecimal() else (peer, 0)


def plain(host: str, port: int) -> tuple[str, int]:
    """An IPv4 address as such, if it came by a socket that takes both."""
    return host.partition("%")[0].removeprefix("::ffff:"), port


def address_of(host: str) -> str:
    """What counts as one address. A machine has a whole /64 of IPv6 addresses, so that counts as one.

    >>> address_of("10.0.0.7"), address_of("2001:db8::1:2"), address_of("unix:")
    ('10.0.0.7', '2001:db8::/64', 'unix:')
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(address if address.version == 4 else ipaddress.ip_network((address, 64), strict=False))
