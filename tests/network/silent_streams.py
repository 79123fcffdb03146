"""Many streams that say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from tests.network import raw_streams
from tests.network.raw_streams import End, RawStream, channel_to, check_end

MANY = 160


@asynccontextmanager
async def silent_streams(port: int, *methods: str) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Many streams that say nothing, over a few connections; the tasks end when the streams do."""
    async with AsyncExitStack() as stack:
        tasks: list[asyncio.Task[Any]] = []
        for n in range(MANY):
            if n % 40 == 0:
                channel = await stack.enter_async_context(channel_to(port))
            tasks.append(asyncio.create_task(RawStream(channel, methods[n % len(methods)]).hear()))
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def until_ended(streams: list[asyncio.Task[Any]], count: int) -> None:
    """Until so many were sent away, in words."""
    async with asyncio.timeout(raw_streams.DEADLINE):
        for ended in asyncio.as_completed(streams):
            end = await ended
            assert isinstance(end, End) and end.code == grpc.StatusCode.RESOURCE_EXHAUSTED, end
            check_end(end, [])
            count -= 1
            if not count:
                return
