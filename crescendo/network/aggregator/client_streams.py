"""Clients at an aggregator's door: the same streams as at the server's, so that a client cannot tell the difference."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from crescendo.core.aggregator import TooMany
from crescendo.core.messages import Settled
from crescendo.core.server import ConflictingUpdate
from crescendo.errors import PeerError
from crescendo.network.protocol.framing import heard
from crescendo.network.protocol.tree_messages import Below
from crescendo.network.protocol.vector_parts import Assembly, Part
from crescendo.network.protocol.wire_messages import (
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
from crescendo.network.server.aggregator_stream import TryLater
from crescendo.network.server.session import serialize
from crescendo.network.transport.pending_streams import PendingStreams, TermsRequests
from crescendo.network.transport.rate_limits import RateLimits
from crescendo.network.transport.stream_writer import run_stream
from crescendo.network.transport.wording import named

if TYPE_CHECKING:
    from crescendo.network.aggregator.downstream import DownstreamSession
    from crescendo.network.aggregator.node import Node


class ClientStreams:
    """Serves the streams of clients for a node."""

    def __init__(self, node: Node, admit: Any, pending: PendingStreams) -> None:
        self._node, self._admit, self._pending, self._terms_requests = node, admit, pending, TermsRequests()

    def close(self) -> None:
        """End the streams that only ask."""
        self._terms_requests.close()

    @property
    def handlers(self) -> Any:
        """To be added to a gRPC server."""
        join = grpc.stream_stream_rpc_method_handler(
            self._join,
            request_deserializer=heard,
            response_serializer=serialize,
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Join": join})

    async def _join(self, requests: Any, context: Any) -> None:
        refusal: Refusal | None = None
        try:
            raw = await self._pending.first_message(context)
            if raw is not None:
                refusal = await self._first_word(from_client(raw), context)
        except PeerError as error:
            self._node.log("refused", peer=context.peer(), reason=str(error))
            refusal = Refusal(str(error), final=not isinstance(error, TryLater))
        if refusal is not None:
            await self._pending.send_last(context, [to_client(refusal)])

    async def _first_word(self, hello: Any, context: Any) -> Refusal | None:
        if not isinstance(hello, Hello):
            raise PeerError("a stream begins with a hello; refused, check the client's version")
        self._admit(hello.name, hello.token, context)
        agreed = self._node.agreement
        if agreed is None or not self._node.upstream.is_up:
            raise TryLater("the aggregator has no way to the server now; come back")
        if hello.name not in agreed.names:
            raise PeerError(f'"{hello.name}" is not part of federation "{agreed.federation}"; check the name')
        rate_limits = self._node.downstream.rate_limits[agreed.names.index(hello.name)]
        if not hello.digest:
            await self._show_terms(hello.name, rate_limits, context)
            return None
        if (why := rate_limits.may_join()) is not None:
            return Refusal(why)
        answer = await self._node.downstream.introduce(hello)
        if isinstance(answer, Refusal):
            if answer.final:
                rate_limits.strikes.take(1)
            return answer
        await self._serve(answer, context)
        return None

    async def _show_terms(self, name: str, rate_limits: RateLimits, context: Any) -> None:
        agreed = self._node.agreement
        assert agreed is not None
        welcome = Welcome(agreed.text, agreed.federation, 0, agreed.names.index(name), 0, Settled(0))
        declined = await self._terms_requests.answer(name, welcome, context)
        if declined is not None:
            self._node.log("declined", client=name, reason=declined.reason)
            await asyncio.sleep(rate_limits.useless.take())
            await self._node.upstream.room()
            self._node.upstream.send(Below(name, declined))

    async def _serve(self, peer: DownstreamSession, context: Any) -> None:
        def broken(error: PeerError) -> Refusal:
            if not isinstance(error, TooMany):  # which may be the server's slowness
                peer.rate_limits.strikes.take(1)
            names = dict(enumerate(self._node.agreement.names if self._node.agreement is not None else ()))
            reason, alarm = named(str(error), names), isinstance(error, ConflictingUpdate)
            self._node.log("alarm" if alarm else "refused", client=names.get(peer.client), reason=reason)
            return Refusal(reason, alarm)

        try:
            await run_stream(peer, context, self._read_all(peer, context), broken)
        finally:
            self._node.downstream.left(peer)

    async def _read_all(self, peer: DownstreamSession, context: Any) -> None:
        node, agreed = self._node, self._node.agreement
        assert agreed is not None
        name, about = agreed.names[peer.client], (agreed.federation, agreed.digest)
        assembly = Assembly(agreed.size, (agreed.wire,))
        while (raw := await context.read()) is not grpc.aio.EOF:
            node.heard.add(peer.client)
            message = from_client(raw)
            if isinstance(message, UpdatePart | VoidRound) and (message.federation, message.digest) != about:
                raise PeerError(
                    f'a message is about another federation or other terms than "{agreed.federation}"; dropped'
                )
            if isinstance(message, UpdatePart):
                await self._add_part(peer, assembly, message.vector)
            elif isinstance(message, VoidRound):
                if not node.downstream.void(peer, message):
                    await asyncio.sleep(peer.rate_limits.useless.take())
                await node.upstream.room()
            elif isinstance(message, Goodbye):
                node.upstream.send(Below(name, message))
                return
            elif isinstance(message, Pong):
                await asyncio.sleep(peer.rate_limits.useless.take())
            else:
                raise PeerError("a client says hello twice on one stream; refused, check its version")

    async def _add_part(self, peer: DownstreamSession, assembly: Assembly, part: Part) -> None:
        """By itself, so that nothing holds the whole vector while the reader waits for the next."""
        data = assembly.add(part)
        if data is not None and not self._node.downstream.take(peer, part.about, data):
            await asyncio.sleep(peer.rate_limits.useless.take())
