"""Clients at an aggregator's door: the same streams as at the server's, so that a client cannot tell the difference."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from crescendo.core.messages import Settled
from crescendo.core.server import ConflictingUpdate
from crescendo.core.tree import TooMany
from crescendo.errors import PeerError
from crescendo.runtimes.network.conduct import Conduct
from crescendo.runtimes.network.door import Porch, Questions
from crescendo.runtimes.network.peers import serialized
from crescendo.runtimes.network.relay import NotNow
from crescendo.runtimes.network.voice import converse
from crescendo.runtimes.network.wording import named
from crescendo.runtimes.tree_messages import Below
from crescendo.runtimes.wire import Assembly, Part
from crescendo.runtimes.wire_frames import heard
from crescendo.runtimes.wire_messages import (
    SERVICE,
    Goodbye,
    Hello,
    Pong,
    Refusal,
    UpdatePart,
    VoidRound,
    Welcome,
    from_client,
    to_client,
)

if TYPE_CHECKING:
    from crescendo.runtimes.network.aggregator import Node
    from crescendo.runtimes.network.guests import Guest


class ClientDoor:
    """Serves the streams of clients for a node."""

    def __init__(self, node: Node, admit: Any, porch: Porch) -> None:
        self._node, self._admit, self._porch, self._questions = node, admit, porch, Questions()

    def close(self) -> None:
        """End the streams that only ask."""
        self._questions.close()

    @property
    def handlers(self) -> Any:
        """To be added to a gRPC server."""
        join = grpc.stream_stream_rpc_method_handler(
            self._join,
            request_deserializer=heard,
            response_serializer=serialized,
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Join": join})

    async def _join(self, requests: Any, context: Any) -> None:
        refusal: Refusal | None = None
        try:
            raw = await self._porch.first_word(context)
            if raw is not None:
                refusal = await self._first_word(from_client(raw), context)
        except PeerError as error:
            self._node.log("refused", peer=context.peer(), reason=str(error))
            refusal = Refusal(str(error), final=not isinstance(error, NotNow))
        if refusal is not None:
            await self._porch.last_words(context, [to_client(refusal)])

    async def _first_word(self, hello: Any, context: Any) -> Refusal | None:
        if not isinstance(hello, Hello):
            raise PeerError("a stream begins with a hello; refused, check the client's version")
        self._admit(hello.name, hello.token, context)
        work = self._node.work
        if work is None or not self._node.uplink.is_up:
            raise NotNow("the aggregator has no way to the server now; come back")
        if hello.name not in work.names:
            raise PeerError(f'"{hello.name}" is not part of federation "{work.federation}"; check the name')
        conduct = self._node.guests.conduct[work.names.index(hello.name)]
        if not hello.digest:
            await self._show_terms(hello.name, conduct, context)
            return None
        if (why := conduct.may_join()) is not None:
            return Refusal(why)
        answer = await self._node.guests.introduce(hello)
        if isinstance(answer, Refusal):
            if answer.final:
                conduct.strikes.take(1)
            return answer
        await self._serve(answer, context)
        return None

    async def _show_terms(self, name: str, conduct: Conduct, context: Any) -> None:
        work = self._node.work
        assert work is not None
        welcome = Welcome(work.text, work.federation, 0, work.names.index(name), 0, Settled(0))
        declined = await self._questions.answer(name, welcome, context)
        if declined is not None:
            self._node.log("declined", client=name, reason=declined.reason)
            await asyncio.sleep(conduct.useless.take())
            await self._node.uplink.room()
            self._node.uplink.send(Below(name, declined))

    async def _serve(self, peer: Guest, context: Any) -> None:
        def broken(error: PeerError) -> Refusal:
            if not isinstance(error, TooMany):  # which may be the server's slowness
                peer.conduct.strikes.take(1)
            names = dict(enumerate(self._node.work.names if self._node.work is not None else ()))
            reason, alarm = named(str(error), names), isinstance(error, ConflictingUpdate)
            self._node.log("alarm" if alarm else "refused", client=names.get(peer.client), reason=reason)
            return Refusal(reason, alarm)

        try:
            await converse(peer, context, self._read_all(peer, context), broken)
        finally:
            self._node.guests.left(peer)

    async def _read_all(self, peer: Guest, context: Any) -> None:
        node, work = self._node, self._node.work
        assert work is not None
        name, about = work.names[peer.client], (work.federation, work.digest)
        assembly = Assembly(work.size, (work.wire,))
        while (raw := await context.read()) is not grpc.aio.EOF:
            node.heard.add(peer.client)
            message = from_client(raw)
            if isinstance(message, UpdatePart | VoidRound) and (message.federation, message.digest) != about:
                raise PeerError(
                    f'a message is about another federation or other terms than "{work.federation}"; dropped'
                )
            if isinstance(message, UpdatePart):
                await self._add_part(peer, assembly, message.vector)
            elif isinstance(message, VoidRound):
                if not node.guests.void(peer, message):
                    await asyncio.sleep(peer.conduct.useless.take())
                await node.uplink.room()
            elif isinstance(message, Goodbye):
                node.uplink.send(Below(name, message))
                return
            elif isinstance(message, Pong):
                await asyncio.sleep(peer.conduct.useless.take())
            else:
                raise PeerError("a client says hello twice on one stream; refused, check its version")

    async def _add_part(self, peer: Guest, assembly: Assembly, part: Part) -> None:
        """By itself, so that nothing holds the whole vector while the reader waits for the next."""
        data = assembly.add(part)
        if data is not None and not self._node.guests.take(peer, part.about, data):
            await asyncio.sleep(peer.conduct.useless.take())
