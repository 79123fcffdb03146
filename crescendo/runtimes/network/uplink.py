"""An aggregator's way up: one stream to its parent, made again whenever it breaks, and what waits to be said on it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from crescendo.core.messages import Sum, Word
from crescendo.errors import PeerError, Refused
from crescendo.runtimes import tree_pb2 as pb
from crescendo.runtimes.network.editions import Edition
from crescendo.runtimes.network.link import Cut, Hopeless, Patience, Place, channel_to
from crescendo.runtimes.network.trouble import is_hopeless, reason_of
from crescendo.runtimes.tree_messages import (
    RELAY,
    FromNode,
    NodeHello,
    NodeWelcome,
    WordPart,
    from_parent,
    sum_parts,
    to_parent,
)
from crescendo.runtimes.wire import Assembly, decode, encode
from crescendo.runtimes.wire_messages import Refusal

if TYPE_CHECKING:
    from crescendo.runtimes.network.aggregator import Node

LINGER = 60.0  # seconds after the last round in which a parent that is gone may come back
MOST_UP = 256  # messages that wait for the parent to read them; then clients wait, or are told to come back


class Outgoing:
    """What waits to go up on one stream."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[FromNode | Sum] = asyncio.Queue()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, message: FromNode | Sum) -> None:
        self._queue.put_nowait(message)
        if self.full:
            self._room.clear()

    async def get(self) -> FromNode | Sum:
        message = await self._queue.get()
        if not self.full:
            self._room.set()
        return message

    @property
    def full(self) -> bool:
        return self._queue.qsize() >= MOST_UP

    async def room(self) -> None:
        """Wait until the parent has read enough."""
        await self._room.wait()


class Uplink:
    """The stream to the parent, as the node sees it. `keep` it until the run is over or `Refused` comes."""

    def __init__(self, node: Node, parent: Place, patience: Patience) -> None:
        self._node, self._parent, self._patience = node, parent, patience
        self._outgoing: Outgoing | None = None  # of the stream that is up

    @property
    def is_up(self) -> bool:
        """Is there a way to the server?"""
        return self._outgoing is not None

    @property
    def is_free(self) -> bool:
        """Is there a way, and room on it?"""
        return self._outgoing is not None and not self._outgoing.full

    def send(self, message: FromNode | Sum) -> None:
        """Say something to the parent; if the way up is down nobody waits for it."""
        if self._outgoing is not None:
            self._outgoing.put(message)

    async def room(self) -> None:
        """Wait until there is room for more of what clients say."""
        if self._outgoing is not None:
            await self._outgoing.room()

    async def keep(self) -> None:
        """One stream after the other. After the last round a parent that stays away is waited for for a while only."""
        waits, log, gone = self._patience.waits(), self._node.log, time.monotonic()
        while True:
            try:
                await self._one_stream()
            except (Cut, grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                if self._node.is_over:
                    return
                if self.is_up:
                    waits, gone = self._patience.waits(), time.monotonic()
                if self._node.work is None and is_hopeless(error):  # as for a client: nobody has answered yet
                    raise Hopeless(self._parent.address, reason_of(error)) from None
                wait = next(waits)
                log("disconnected", parent=self._parent.address, reason=reason_of(error), again_in=round(wait, 2))
            finally:
                self._outgoing = None
                self._node.send_everybody_away("the way to the server is interrupted; come back")
            if self._node.after_the_last_round and time.monotonic() - gone > LINGER:
                self._node.end()
                return
            await asyncio.sleep(wait)

    async def _one_stream(self) -> None:
        node = self._node
        async with channel_to(self._parent) as channel:
            call = channel.stream_stream(
                RELAY, request_serializer=pb.Up.SerializeToString, response_deserializer=pb.Down.FromString
            )()
            work, core = node.work, node.core
            about = ("", "") if work is None else (work.federation, work.digest)
            carries = () if core is None else tuple(sorted(core.carries))
            await call.write(to_parent(NodeHello(node.name, *about, carries, self._parent.token)))
            writing: asyncio.Task[None] | None = None
            try:
                welcome = await self._read(call)
                if not isinstance(welcome, NodeWelcome):
                    raise Cut("the parent spoke out of turn")
                core = node.agree(welcome)
                self._outgoing = Outgoing()
                for total in core.unanswered():
                    self._outgoing.put(total)
                node.log("joined", parent=self._parent.address, federation=welcome.federation)
                writing = asyncio.create_task(self._write_all(call, self._outgoing))
                await self._read_all(call)
            finally:
                if writing is not None:
                    writing.cancel()
                    await asyncio.gather(writing, return_exceptions=True)
                call.cancel()

    async def _read(self, call: Any) -> Any:
        raw = await call.read()
        if raw is grpc.aio.EOF:
            raise Cut(await call.details() or "the parent closed the stream")
        try:
            message = from_parent(raw)
        except PeerError as error:
            raise Cut(str(error)) from None
        if isinstance(message, Refusal):
            if message.final:
                raise Refused(f"the parent refuses: {message.reason}")
            raise Cut(message.reason)
        return message

    async def _read_all(self, call: Any) -> None:
        work, _ = self._node.known
        assembly, word = Assembly(work.size, (work.wire,)), Word({}, 0)
        while True:
            message = await self._read(call)
            if not isinstance(message, WordPart):
                self._node.hear(message)
                continue
            if message.yours is not None:
                word = Word(message.yours, message.vector.about, message.epoch)
            data = assembly.add(message.vector)
            if data is not None:
                model = decode(data, work.wire, work.size)
                self._node.hear_model(replace(word, model=model), Edition(word.k, word.epoch, data, work.wire))

    async def _write_all(self, call: Any, outgoing: Outgoing) -> None:
        work, _ = self._node.known
        try:
            while True:
                message = await outgoing.get()
                if not isinstance(message, Sum):
                    await call.write(to_parent(message))
                    continue
                wire = message.delta.dtype.name
                data = encode(message.delta, wire)
                for part in sum_parts(message.id, message.pairs, data, wire, work.federation, work.digest):
                    await call.write(part)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            call.cancel()  # wakes the reader, which says why
