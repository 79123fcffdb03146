"""Streams to a server on which any bytes can be sent, and what the answers on them must be like."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from crescendo.network.protocol import tree_pb2 as tree
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.transport.channels import JOIN

DEADLINE = 120.0  # seconds without a word after which the server counts as stuck: to fail by, never to pass by
Raw = bytes | pb.ToServer | tree.Up


@dataclass(frozen=True)
class End:
    """The stream is over."""

    code: grpc.StatusCode
    details: str


# gRPC's own words, on this side, for a write to a stream that the other side has just closed
BROKEN = End(grpc.StatusCode.INTERNAL, "Internal error from Core")


class RawStream:
    """One stream to the server, on which any bytes can be sent."""

    def __init__(self, channel: grpc.aio.Channel, method: str = JOIN, answer: Any = pb.ToClient) -> None:
        make = channel.stream_stream(method, request_serializer=as_bytes, response_deserializer=answer.FromString)
        self._call: Any = make()
        self.end: End | None = None

    async def say(self, *messages: Raw) -> None:
        """Send; on a stream that is over, nothing happens."""
        for message in messages:
            try:
                async with asyncio.timeout(DEADLINE):
                    await self._call.write(message)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return

    async def hear(self) -> pb.ToClient | End:
        try:
            async with asyncio.timeout(DEADLINE):
                answer = await self._call.read()
                if answer is not grpc.aio.EOF:
                    return answer  # type: ignore[no-any-return]
                self.end = End(await self._call.code(), str(await self._call.details()))
        except grpc.aio.AioRpcError as error:
            self.end = End(error.code(), str(error.details()))
        return self.end

    async def half_close(self) -> None:
        await self._call.done_writing()

    def cut(self) -> None:
        self._call.cancel()


def as_bytes(message: Raw) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()


@asynccontextmanager
async def channel_to(
    port: int, compression: Any = None, options: Sequence[tuple[str, Any]] = ()
) -> AsyncIterator[grpc.aio.Channel]:
    """A connection of its own, with none of the limits that a sound client has."""
    own = [("grpc.max_send_message_length", -1), ("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
    address = f"127.0.0.1:{port}"
    async with grpc.aio.insecure_channel(address, options=[*own, *options], compression=compression) as channel:
        async with asyncio.timeout(DEADLINE):
            await channel.channel_ready()
        yield channel


def check_clear(reason: str) -> None:
    """One sentence for people: no traceback, no class names, nothing of the machine."""
    assert 10 < len(reason) <= 1000 and reason.isprintable(), reason
    assert not re.search(r"Traceback|<class|\w+Error\b|/work|\.py\b", reason), reason


def check_end(end: End, sent: list[Raw]) -> None:
    """A stream may be closed, or dropped for being too large or undecodable; an exception in the server is a bug."""
    fine = {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    if any(kind_of(message) is None for message in sent):
        fine |= {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT}
    assert end == BROKEN or end.code in fine, end


def kind_of(message: Raw) -> str | None:
    """Which kind of message the bytes are; "" for none, None if they are not a message at all."""
    try:
        parsed = pb.ToServer.FromString(message) if isinstance(message, bytes) else message
    except DecodeError:
        return None
    return parsed.WhichOneof("message") or ""


def memory_of(pid: int) -> int:
    """The resident bytes of a process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10
