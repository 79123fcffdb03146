"""Upstream: an aggregator's stream to its parent, reopened whenever it breaks, and the queue of messages to send on it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crescendo import system
from crescendo.core.messages import Sum, Word
from crescendo.core.vectors import decode, encode, item_bytes
from crescendo.errors import Refused
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.resumption import SMALL_PART, Held, Resumed, Unfinished, resumed
from crescendo.network.protocol.tree_messages import (
    TO_PARENT,
    Above,
    Alive,
    FromNode,
    NodeHello,
    NodeWelcome,
    SumPart,
    WordPart,
)
from crescendo.network.protocol.vector_parts import Assembly
from crescendo.network.protocol.versions import OURS, program_of
from crescendo.network.protocol.wire_messages import Refusal, Welcome
from crescendo.network.transport.background import background
from crescendo.network.transport.channels import Endpoint, OutgoingStream, StreamBroken, added
from crescendo.network.transport.error_translation import is_unrecoverable
from crescendo.network.transport.retry import BROKEN, Backoff, Unrecoverable

if TYPE_CHECKING:
    from crescendo.network.aggregator.node import Node

LINGER = 60.0  # seconds after the last round to wait for a parent that has gone
MAX_QUEUED_UP = (
    256  # messages that wait for the parent to read them; beyond that clients wait, or have to come back later
)


class Upstream:
    """The stream to the parent. `keep` holds it open until the run is over, or raises `Refused`."""

    def __init__(self, node: Node, parent: Endpoint, backoff: Backoff) -> None:
        self._node, self._parent, self._backoff = node, parent, backoff
        self._queue: asyncio.Queue[FromNode | Sum] | None = None  # of the current stream
        self._unfinished: Unfinished | None = None  # a broadcast that arrived in part on the last stream
        self._line_broke = False  # while a vector was on its way: the next stream uses small parts
        self._going_on: dict[str, Resumed] | None = None  # sums of which the parent has a part; None: the line is good
        self._overtaking: deque[Alive] | None = None  # messages to send between two parts of the sum being sent
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_up(self) -> bool:
        """True if there is a stream to the parent."""
        return self._queue is not None

    @property
    def is_free(self) -> bool:
        """True if there is a stream to the parent and room in its queue."""
        return self._queue is not None and self._queue.qsize() < MAX_QUEUED_UP

    def send(self, message: FromNode | Sum) -> None:
        """Queue a message to the parent. While the stream is down it is dropped: clients repeat it when they come back."""
        if self._queue is not None and isinstance(message, Alive) and self._overtaking is not None:
            self._overtaking.append(message)
        elif self._queue is not None:
            self._queue.put_nowait(message)
            if not self.is_free:
                self._room.clear()

    async def room(self) -> None:
        """Back-pressure: wait until the parent has read enough of the clients' messages, or the stream is down."""
        await self._room.wait()

    async def _next(self, queue: asyncio.Queue[FromNode | Sum]) -> FromNode | Sum:
        message = await queue.get()
        if queue.qsize() < MAX_QUEUED_UP:
            self._room.set()
        return message

    def _set_queue(self, queue: asyncio.Queue[FromNode | Sum] | None) -> None:
        self._queue, self._overtaking = queue, None
        self._room.set()

    async def keep(self) -> None:
        """Open one stream after the other. After the last round, wait for a parent that has gone for `LINGER` seconds only."""
        waits, log, gone = self._backoff.waits(), self._node.log, system.monotonic()
        while True:
            try:
                await self._one_stream()
            except BROKEN as error:
                if self._node.over.is_set():
                    return
                if self.is_up:
                    waits, gone = self._backoff.waits(), system.monotonic()
                if self._node.agreement is None and is_unrecoverable(
                    error
                ):  # as for a client: no parent has answered yet
                    raise Unrecoverable(self._parent.address, self._parent.why(error)) from None
                wait = next(waits)
                log(
                    "disconnected", parent=self._parent.address, reason=self._parent.why(error), again_in=round(wait, 2)
                )
            finally:
                self._set_queue(None)
                self._node.downstream.send_away("the way to the server is interrupted; come back")
            if self._node.after_the_last_round and system.monotonic() - gone > LINGER:
                self._node.over.set()
                return
            await asyncio.sleep(wait)

    async def _one_stream(self) -> None:
        node = self._node
        agreement, core = node.agreement, node.core
        about = ("", "") if agreement is None else (agreement.federation, agreement.digest)
        carries = () if core is None else tuple(sorted(core.carries))
        held = Held() if self._line_broke else None
        if self._unfinished is not None:
            held = await asyncio.to_thread(self._unfinished.claim)
        async with self._parent.stream(NodeHello(node.name, *about, carries, self._parent.token, OURS, held)) as stream:
            welcome = await self._read(stream)
            if not isinstance(welcome, NodeWelcome):
                raise StreamBroken("the parent spoke out of turn")
            core = node.agree(welcome)
            totals = core.unanswered()
            self._going_on = await _going_on(totals, welcome.held)
            queue: asyncio.Queue[FromNode | Sum] = asyncio.Queue()
            self._set_queue(queue)
            for total in sorted(totals, key=self._is_not_going_on):
                self.send(total)
            version = program_of(welcome.version)
            node.log("joined", parent=self._parent.address, federation=welcome.federation, version=version)
            async with background(stream.write_all(lambda: self._next(queue), self._parts)):
                await self._read_all(stream)

    async def _read(self, stream: OutgoingStream) -> Any:
        message = await stream.read()
        if isinstance(message, Refusal):
            if message.final:
                raise Refused(f"the parent refuses: {message.reason}")
            raise StreamBroken(message.reason)
        return message

    async def _read_all(self, stream: OutgoingStream) -> None:
        agreement, core = self._node.known
        size, wire = agreement.size, agreement.wire
        assembly, word = Assembly(size, (wire,), kept=self._unfinished), Word({}, 0)
        due = set[int]()  # clients admitted on this stream that have received no model since
        try:
            while True:
                message = await self._read(stream)
                if isinstance(message, Above) and isinstance(message.message, Welcome):
                    due.add(message.message.client)
                if not isinstance(message, WordPart):
                    self._node.on_message(message)
                    continue
                part = message.part
                if part.yours is not None:
                    word = Word({c: ack.yours for c, ack in message.yours.items()}, part.vector.about, part.epoch)
                data = added(assembly, part.vector)
                if data is not None:
                    model = decode(data, wire, size)
                    broadcast = EncodedBroadcast(word.k, word.epoch, data, wire)
                    due -= word.yours.keys()
                    self._node.on_broadcast(replace(word, model=model), broadcast)
        finally:
            self._unfinished = assembly.hand_over()
            if size * item_bytes(wire) > SMALL_PART:
                self._line_broke = bool(due or core.unanswered()) or self._unfinished is not None

    def _parts(self, message: FromNode | Sum) -> Iterable[Any]:
        if not isinstance(message, Sum):
            return [TO_PARENT.encode(message)]
        agreement, _ = self._node.known
        wire, data = _on_the_wire(message)
        how = None if self._going_on is None else self._going_on.get(message.id, Resumed())
        parts = SumPart.split(message, data, wire, agreement.federation, agreement.digest, how)
        return self._with_overtaking(parts)

    def _with_overtaking(self, parts: Iterable[SumPart]) -> Iterator[Any]:
        """Yield the parts of a sum, and between them the queued `Alive` messages: on a slow line a sum may take minutes."""
        self._overtaking = waiting = deque[Alive]()
        for part in parts:
            while waiting:
                yield TO_PARENT.encode(waiting.popleft())
            yield TO_PARENT.encode(part)
        self._overtaking = None
        yield from map(TO_PARENT.encode, waiting)

    def _is_not_going_on(self, total: Sum) -> bool:
        """Sort key: a sum of which the parent has a part goes first, because the first part of another would drop it."""
        return not self._going_on or total.id not in self._going_on


def _on_the_wire(total: Sum) -> tuple[str, bytes]:
    wire = total.delta.dtype.name
    return wire, encode(total.delta, wire)


async def _going_on(totals: Iterable[Sum], held: Held | None) -> dict[str, Resumed] | None:
    """Return how to continue the sum of which the parent holds a part, if it is one of these; None if the line is good."""
    if held is None:
        return None
    same = [total for total in totals if total.pairs[0][0] == held.about]
    found = {one.id: await asyncio.to_thread(resumed, _on_the_wire(one)[1], held) for one in same}
    return {id: how for id, how in found.items() if how.start}
