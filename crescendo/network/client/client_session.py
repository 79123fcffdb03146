"""Client session: a client's long-lived stream to the server, reopened whenever it breaks.

The client has already asked for the terms (`terms_request`), checked them and signed them. `take_part` runs the stream and the
worker concurrently until the run is over, the client is stopped, or the server refuses for good. The `Participant` makes all
decisions about rounds and bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from typing import Any

from crescendo import system
from crescendo.core.messages import Broadcast, Settled
from crescendo.core.vectors import decode, item_bytes
from crescendo.errors import Refused
from crescendo.logs import Log, quiet
from crescendo.network.client.participant import Participant
from crescendo.network.client.terms_request import check_refusal, check_version, log_silence
from crescendo.network.protocol.resumption import SMALL_PART, Held, Resumed, Unfinished, resumed
from crescendo.network.protocol.vector_parts import Assembly
from crescendo.network.protocol.versions import OURS, program_of
from crescendo.network.protocol.wire_messages import (
    TO_SERVER,
    Ack,
    BroadcastPart,
    FromClient,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Refusal,
    UpdatePart,
    VoidRound,
    Welcome,
)
from crescendo.network.transport.background import background
from crescendo.network.transport.channels import Endpoint, OutgoingStream, StreamBroken, added
from crescendo.network.transport.retry import BROKEN, Backoff, Retries
from crescendo.network.transport.stream_writer import MAX_QUEUED
from crescendo.network.transport.wording import ranges
from crescendo.storage.ledger.outbox import Release

GOODBYE_TIMEOUT = 30.0  # seconds in which the server has to close the stream, which confirms the goodbye


async def take_part(
    endpoint: Endpoint, participant: Participant, instance: str, stop: asyncio.Event, backoff: Backoff, log: Log = quiet
) -> None:
    """Take part until the run is over or ``stop`` is set; all work charged by then is on disk."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    connection = _Connection(endpoint, participant, instance, log, over)

    def tell(done: Release) -> None:
        loop.call_soon_threadsafe(connection.released, done)

    with system.ThreadPoolExecutor(1, "worker") as pool:
        working = loop.run_in_executor(pool, participant.work, tell)
        async with background(_keep_connected(connection, backoff, log), stop.wait()) as (talking, stopping):
            try:
                first: set[asyncio.Future[Any]] = {working, talking, stopping}
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
                participant.stop()
                await working
                if participant.final is not None:
                    over.set()
                if not stopping.done() or talking.done():
                    await talking
            finally:
                participant.stop()


async def _keep_connected(connection: _Connection, backoff: Backoff, log: Log) -> None:
    """Open one stream after the other until the run is over."""
    retries = Retries(backoff, connection.endpoint, log)
    while not connection.over.is_set():
        try:
            await connection.one_stream()
        except BROKEN as error:
            if connection.over.is_set():
                return
            if connection.was_welcome:
                retries.reached()
            await retries.wait(error, lambda **facts: log("disconnected", **facts), connection.over)


class _Connection:
    """The streams to the server, one after the other."""

    def __init__(
        self, endpoint: Endpoint, participant: Participant, instance: str, log: Log, over: asyncio.Event
    ) -> None:
        self.endpoint, self.over, self.was_welcome = endpoint, over, False
        self._participant, self._instance, self._log = participant, instance, log
        self._outgoing: asyncio.Queue[FromClient | Release] | None = None  # of the current stream
        self._sent: set[int] = set()  # rounds sent on this stream
        self._refused: set[int | None] = set()  # rounds that the server has refused, on any stream
        self._newest: tuple[int, int] | None = None  # epoch and k of the broadcast in this process's memory
        self._unfinished: Unfinished | None = None  # a broadcast that arrived in part on the last stream
        self._line_broke = False  # while a vector was on its way: the next stream uses small parts
        self._going_on: dict[int, Resumed] | None = (
            None  # rounds of which the server has a part; None: the line is good
        )

    def released(self, done: Release) -> None:
        """Queue a released or void round for sending. Without a stream, the next stream sends it."""
        if self._outgoing is not None and done.round not in self._sent:
            self._sent.add(done.round)
            agreed = self._participant.agreement
            void = VoidRound(done.round, agreed.federation, agreed.digest)
            self._outgoing.put_nowait(void if done.data is None else done)

    async def one_stream(self) -> None:
        """Run one stream until it breaks (`StreamBroken`) or the run is over."""
        agreed, seen, self.was_welcome = self._participant.agreement, self._participant.seen, False
        held = Held() if self._line_broke else None
        if self._unfinished is not None:
            held = await asyncio.to_thread(self._unfinished.claim)
        last = await asyncio.to_thread(self._participant.introduce)  # charges no round from here to the welcome
        hello = Hello(
            self._participant.name,
            self._instance,
            agreed.federation,
            agreed.digest,
            last,
            seen.epoch,
            seen.k,
            seen.settled,
            self.endpoint.token,
            OURS,
            held,
            self._newest == (seen.epoch, seen.k),
        )
        async with self.endpoint.stream(hello) as stream:
            try:
                silence = log_silence(self._log, self.endpoint.address, lambda: self.was_welcome)
                async with background(self._read_all(stream), self.over.wait(), silence) as (reading, ending, _):
                    await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
                    if reading.done():
                        reading.result()
                    if self.over.is_set():  # explicit, because a cut stream looks the same as a closed one
                        self._put(Goodbye(finished=True))
                        await asyncio.wait({reading}, timeout=GOODBYE_TIMEOUT)
            finally:
                self._outgoing = None

    async def _read_all(self, stream: OutgoingStream) -> None:
        agreed = self._participant.agreement
        assembly = Assembly(agreed.size, (agreed.wire,), kept=self._unfinished)
        yours, epoch, received = Settled(0), 0, Settled(0)
        due = self._newest != (self._participant.seen.epoch, self._participant.seen.k)  # as in the hello
        writing: asyncio.Task[None] | None = None
        try:
            while True:
                message = await stream.read()
                if writing is not None and writing.done():
                    writing.result()
                if isinstance(message, Welcome):
                    if writing is None:
                        writing, received = await self._on_welcome(message, stream), message.received
                elif isinstance(message, BroadcastPart):
                    if message.yours is not None:
                        yours, epoch = message.yours, message.epoch
                        self._participant.check_alone(yours)
                    data = added(assembly, message.vector)
                    if data is not None:
                        model, k = decode(data, agreed.wire, agreed.size), message.vector.about
                        self._participant.hear(Broadcast(model, k, yours, epoch))
                        self._participant.acknowledged(yours, epoch, k)
                        self._newest, received, due = (epoch, k), yours, False
                elif isinstance(message, Ack):
                    self._participant.check_alone(message.yours)
                    self._participant.acknowledged(message.yours, message.epoch)
                    received = message.yours
                elif isinstance(message, Ping):
                    self._on_ping(message)
                else:
                    self._on_refusal(message)
        finally:
            self._unfinished = assembly.hand_over()
            if self.was_welcome and agreed.size * item_bytes(agreed.wire) > SMALL_PART:
                unsettled = any(i not in received for i in self._sent)
                self._line_broke = due or unsettled or self._unfinished is not None
            if writing is not None:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    async def _on_welcome(self, welcome: Welcome, stream: OutgoingStream) -> asyncio.Task[None]:
        agreed, participant = self._participant.agreement, self._participant
        check_version(welcome)
        if hashlib.sha256(welcome.terms.encode()).hexdigest() != agreed.digest:
            raise Refused(
                f"the server has other terms for federation {agreed.federation!r} than those that were signed off; nothing "
                f"more is sent, ask its operator"
            )
        if welcome.federation != agreed.federation or welcome.client != self._participant.me:
            raise Refused(
                f"the server speaks for federation {welcome.federation!r} now, and this client signed off terms of "
                f"{agreed.federation!r}; nothing more is sent, ask its operator"
            )
        if welcome.start > agreed.terms.rounds:
            raise StreamBroken(
                f"the server asks for round {welcome.start} next, and this run has {agreed.terms.rounds} rounds"
            )
        await asyncio.to_thread(participant.check_alone, welcome.received, welcome.start)
        self.was_welcome = True
        self._outgoing, self._sent = asyncio.Queue(), set()
        releases, lost = await asyncio.to_thread(participant.to_send, welcome.received)
        if lost:
            self._log("void", rounds=ranges(lost), count=len(lost), reason="their bytes are gone")
        self._going_on = await _going_on(releases, welcome.held)
        for release in [*map(Release, lost), *sorted(releases, key=self._is_not_going_on)]:
            self.released(release)
        participant.acknowledged(welcome.received, welcome.epoch)
        participant.welcomed(welcome.start)
        self._log(
            "joined",
            federation=agreed.federation,
            start=welcome.start,
            resent=len(releases),
            void=len(lost),
            version=program_of(welcome.version),
        )
        if self.over.is_set():  # the run ended while this stream was being opened
            self._put(Goodbye(finished=True))
        return asyncio.create_task(stream.write_all(self._outgoing.get, self._parts))

    def _on_ping(self, ping: Ping) -> None:
        """Answer a ping, unless the queue is full: a server that asks without reading must not fill this client's memory."""
        if self._outgoing is not None and self._outgoing.qsize() < MAX_QUEUED:
            self._put(Pong(ping.number))

    def _on_refusal(self, message: Any) -> None:
        """Handle a refusal. Each round's refusal is logged once, so a server cannot fill this client's log."""
        round = message.round if isinstance(message, Refusal) and not message.final else None
        if round is not None and round >= self._participant.agreement.terms.rounds:
            raise StreamBroken(f"the server refuses round {round}, which this run does not have")
        if round is None or round not in self._refused:
            check_refusal(message, self._log)
            self._refused.add(round)

    def _is_not_going_on(self, release: Release) -> bool:
        """Sort key: a round of which the server has a part goes first, because the first part of another would drop it."""
        return not self._going_on or release.round not in self._going_on

    def _put(self, message: FromClient) -> None:
        if self._outgoing is not None:
            self._outgoing.put_nowait(message)

    def _parts(self, message: FromClient | Release) -> Iterable[Any]:
        if not isinstance(message, Release):
            return [TO_SERVER.encode(message)]
        assert message.data is not None, "a round without bytes is sent as void"
        agreed = self._participant.agreement
        how = None if self._going_on is None else self._going_on.get(message.round, Resumed())
        parts = UpdatePart.split(message.round, message.data, agreed.wire, agreed.federation, agreed.digest, how)
        return map(TO_SERVER.encode, parts)


async def _going_on(releases: Iterable[Release], held: Held | None) -> dict[int, Resumed] | None:
    """Return how to continue the round of which the server holds a part, if its bytes are ours; None if the line is good."""
    if held is None:
        return None
    same = [(one.round, one.data) for one in releases if one.round == held.about and one.data is not None]
    found = {round: await asyncio.to_thread(resumed, data, held) for round, data in same}
    return {round: how for round, how in found.items() if how.start}
