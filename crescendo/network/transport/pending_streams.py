"""Pending streams: streams whose peer is not yet authenticated, and streams that only ask for the terms.

Any process that reaches the port can open streams and send nothing. The server and an aggregator count a stream among the
`PendingStreams` until it has sent a hello and proved its name. Their number is limited; at the limit a new stream evicts an old
one. So silent streams keep no client out: a sound client sends its hello with the first packet, and is pending only for an
instant. After that every name has one stream that asks for the terms and one that has joined; a newer one ends the older.
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

HELLO_TIMEOUT = 10.0  # seconds in which a new stream has to send its hello, and a refused one has to read the reason
DECISION_TIMEOUT = 600.0  # seconds in which a client has to accept or decline the terms
SPARE = 256  # pending streams beyond two per name: all names may connect at the same time
BUSY = Refusal("another stream of this client is just being let in; come back")
LONGEST_HOLD = 5.0  # seconds that a stream waits after too many refusals
OUR_FAULT = "the server cannot tell now whether you may come in; come back later, and tell its operator if this goes on"
SILENT = "a stream has to say who it is at once, or makes room for others; come back"


class TryLater(PeerError):
    """The request is valid; the peer should repeat it later."""


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
        """Count a stream as pending; TimeoutError if it stays pending too long, or is evicted."""
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
        """Return the first message of a new stream, or None if it sends none.

        This sends the headers first. gRPC would send them with the first message. If that write is cancelled just after its bytes
        have left, gRPC sends the headers again with the end of the stream; its core refuses that, and the other side never learns
        that the stream has ended.
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
        """Read a new stream's first message and ``serve`` the stream; send the answers to a stream that is refused."""
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
        """Log a refusal, and delay it if the address was refused too often, which slows down a peer that retries in a loop."""
        address = source_of(context)
        self.log("refused", address, peer=context.peer(), reason=str(error))
        if not isinstance(error, TryLater):
            await self.hold(context, self._refusals.take(address))

    def our_fault(self, error: CrescendoError) -> str:
        """Log an error of this side, and return the message for the peer, which does not contain the reason."""
        self.log("stream_failed", "", reason=str(error))
        return OUR_FAULT

    async def hold(self, context: Any, seconds: float) -> bool:
        """Let a stream wait, counted as pending; return False if it was evicted meanwhile."""
        if seconds <= 0:
            return True
        try:
            async with self.counted(context):
                await asyncio.sleep(min(seconds, LONGEST_HOLD))
                return True
        except TimeoutError:
            return False

    async def send_last(self, context: Any, messages: Iterable[Any]) -> None:
        """Send a stream its last messages; give up on one that does not read."""
        with suppress(grpc.aio.BaseError, asyncio.InvalidStateError, TimeoutError):
            async with self.counted(context):
                for message in messages:
                    await context.write(message)

    def close(self) -> None:
        """End every pending stream, and log the counts."""
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
    """Streams of clients that ask for the terms: one per name; a newer one ends the older."""

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
        """End all of these streams."""
        for until in self._open.values():
            _expire(until)


def _expire(until: asyncio.Timeout) -> None:
    """Let a timeout expire now, which ends its stream."""
    if not until.expired():
        until.reschedule(asyncio.get_running_loop().time())


def source_of(context: Any) -> str:
    """Return the address of a stream's peer."""
    return address_of(host_and_port(context.peer())[0])


def host_and_port(peer: str) -> tuple[str, int]:
    """Return host and port of a stream's peer, from gRPC's form.

    >>> host_and_port("ipv4:10.0.0.7:4711"), host_and_port("ipv6:%5B::ffff:10.0.0.7%5D:4711"), host_and_port("unix:")
    (('10.0.0.7', 4711), ('10.0.0.7', 4711), ('unix:', 0))
    """
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return plain(host.strip("[]"), int(port)) if port.isdecimal() else (peer, 0)


def plain(host: str, port: int) -> tuple[str, int]:
    """Return host and port; an IPv4 address mapped into IPv6 becomes plain IPv4."""
    return host.partition("%")[0].removeprefix("::ffff:"), port


def address_of(host: str) -> str:
    """Return the address to count a host under: a machine has a whole /64 of IPv6 addresses, so the /64 counts as one.

    >>> address_of("10.0.0.7"), address_of("2001:db8::1:2"), address_of("unix:")
    ('10.0.0.7', '2001:db8::/64', 'unix:')
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(address if address.version == 4 else ipaddress.ip_network((address, 64), strict=False))
