"""The other end of `network.py`: clients that only send, and a bare gRPC echo. Each runs in a separate process.

The senders speak the wire's protocol and compute nothing: every client sends one vector round after round, as many in flight as
fit in a window, and decodes replies only as far as it must. An echo gets the same bytes and sends every message back.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import AsyncIterator
from concurrent import futures
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import numpy as np

from crescendo.core.arrays import Vector
from crescendo.core.vectors import encode
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.vector_parts import Part
from crescendo.network.protocol.wire_messages import TO_SERVER, Hello, UpdatePart
from crescendo.network.transport.channels import JOIN, LARGEST_MESSAGE, Endpoint

ECHO = "/benchmark.Echo/Echo"


@dataclass(frozen=True)
class Job:
    """The orders for a sender process: clients ``first`` to ``last`` - 1, ``window`` updates of each in flight at once."""

    port: int
    echo: bool
    numbers: int
    first: int
    last: int
    rounds: int
    window: int
    federation: str
    digest: str
    vectors: str  # path of a file with a row of floats for each client


class Sender:
    """One client on one stream, with its own connection."""

    def __init__(self, job: Job, client: int, heads: list[list[bytes]], vector: Vector) -> None:
        self._job, self._client, self._heads = job, client, heads
        self._data = [bytes(part.data) for part in Part.split(0, encode(vector), "float32")]
        self._room = asyncio.Semaphore(job.window)
        self._call: Any = None

    async def join(self, channel: grpc.aio.Channel) -> None:
        """Open the stream, and return once the server has answered."""
        self._call = channel.stream_stream(ECHO if self._job.echo else JOIN)()
        if self._job.echo:
            await self._call.write(b"")
        else:
            hello = Hello(f"client {self._client}", f"{self._client:032x}", self._job.federation, self._job.digest)
            await self._call.write(TO_SERVER.encode(hello).SerializeToString())
        await self._call.read()

    async def send_all(self) -> None:
        """Send every round; return when all are acknowledged."""
        await asyncio.gather(self._write(), self._count_echoes() if self._job.echo else self._read_acks())

    async def _write(self) -> None:
        for heads in self._heads:
            await self._room.acquire()
            for head, data in zip(heads, self._data, strict=True):
                await self._call.write(head + data)

    async def _count_echoes(self) -> None:
        for _ in range(self._job.rounds):
            for data in self._data:
                assert len(await self._call.read()) > len(data)
            self._room.release()

    async def _read_acks(self) -> None:
        known = 0
        while known < self._job.rounds:
            raw = await self._call.read()
            if raw is grpc.aio.EOF:
                raise SystemExit("the server closed a stream")
            yours = _settled(pb.ToClient.FromString(raw))
            if yours is not None:
                now = yours.below  # a stream sends its rounds in order
                for _ in range(now - known):
                    self._room.release()
                known = max(known, now)


def _settled(message: pb.ToClient) -> pb.Settled | None:
    """Return the rounds that a message acknowledges: an acknowledgement does, and the first part of a broadcast."""
    if message.HasField("refusal"):
        raise SystemExit(f"the server refuses: {message.refusal.reason}")
    if message.HasField("ack"):
        return message.ack.yours
    return message.broadcast.yours if message.broadcast.HasField("yours") else None


def heads_of(job: Job) -> list[list[bytes]]:
    """Return the bytes before the floats in each part of each round, made before the clock runs; the floats come last."""
    zeros, heads = bytes(4 * job.numbers), list[list[bytes]]()
    for i in range(job.rounds):
        parts = Part.split(i, zeros, "float32")
        row = [
            (part, TO_SERVER.encode(UpdatePart(job.federation, job.digest, part)).SerializeToString()) for part in parts
        ]
        heads.append([raw[: -len(part.data)] for part, raw in row])
    return heads


async def send(job: Job) -> None:
    """Join, report it, wait for a line, send everything, report the time; keep the streams open until the input ends."""
    heads, vectors = heads_of(job), np.load(job.vectors, mmap_mode="r")
    async with AsyncExitStack() as stack:
        senders = [Sender(job, c, heads, vectors[c]) for c in range(job.first, job.last)]
        for some in range(0, len(senders), 50):
            channels = [await stack.enter_async_context(_place(job).channel()) for _ in senders[some : some + 50]]
            both = zip(senders[some : some + 50], channels, strict=True)
            await asyncio.gather(*(sender.join(channel) for sender, channel in both))
        print("ready", flush=True)
        await _line()
        began, cpu = time.monotonic(), _cpu()
        await asyncio.gather(*(sender.send_all() for sender in senders))
        print(json.dumps({"began": began, "ended": time.monotonic(), "cpu": _cpu() - cpu}), flush=True)
        await _line()


def _place(job: Job) -> Endpoint:
    return Endpoint(f"127.0.0.1:{job.port}")


async def echo() -> None:
    """Serve a method that sends every message back."""

    async def handler(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for message in requests:
            yield message

    server = grpc.aio.server(options=[("grpc.max_receive_message_length", LARGEST_MESSAGE)])
    service, _, method = ECHO[1:].partition("/")
    handlers = {method: grpc.stream_stream_rpc_method_handler(handler)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await _line()
    await server.stop(None)


async def _line() -> str:
    with futures.ThreadPoolExecutor(1) as pool:
        return await asyncio.get_running_loop().run_in_executor(pool, sys.stdin.readline)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    match sys.argv[1:]:
        case ["send", job]:
            asyncio.run(send(Job(**json.loads(job))))
        case ["echo"]:
            asyncio.run(echo())
        case _:
            print("the senders of network.py; nothing is measured here")


if __name__ == "__main__":
    main()
