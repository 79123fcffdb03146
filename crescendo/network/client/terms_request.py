"""What a client says first on a stream, `ask`: what are the terms? And what asking has in common with taking part."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import grpc.aio

from crescendo.errors import PeerError, Refused
from crescendo.logs import Log, quiet
from crescendo.network.protocol.wire_messages import Goodbye, Hello, Refusal, Welcome, from_server, to_server
from crescendo.network.transport.channels import (
    Attempts,
    Backoff,
    Endpoint,
    StreamBroken,
    TurnedAway,
    Unrecoverable,
    channel_to,
    join_on,
)
from crescendo.network.transport.error_translation import is_unrecoverable, reason_of


class TermsOffer:
    """A stream on which the server was asked for its terms; nobody has joined yet."""

    def __init__(self, call: Any, welcome: Welcome) -> None:
        self._call, self.welcome = call, welcome

    async def decline(self, reason: str) -> None:
        """Tell the server why its terms are not accepted."""
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.write(to_server(Goodbye(reason)))
            await self._call.done_writing()
            await self._call.read()


@asynccontextmanager
async def ask(
    endpoint: Endpoint, name: str, stop: asyncio.Event, backoff: Backoff, log: Log = quiet
) -> AsyncIterator[TermsOffer | None]:
    """The server's terms, as soon as it can be reached; None if stopped before, `Unreachable` if given up.

    Whoever asks has an instance id that is drawn for this question: a server learns a lasting one from those who join it.

    Before anybody has answered, what no attempt can mend is a mistake of whoever typed the command: it ends here. Later it may be
    somebody else's, who mends it, so `take_part` goes on trying.
    """
    attempts = Attempts(backoff, endpoint.address)
    while True:
        try:
            async with channel_to(endpoint) as channel:
                call = join_on(channel)
                try:
                    await call.write(to_server(Hello(name, secrets.token_hex(16), token=endpoint.token)))
                    answer = await _until(read(call), stop)
                    if answer is None or isinstance(answer, Welcome):
                        yield None if answer is None else TermsOffer(call, answer)
                        return
                    check_refusal(answer, log)
                    raise StreamBroken("the server spoke out of turn")
                finally:
                    call.cancel()
        except (StreamBroken, grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            if is_unrecoverable(error):
                raise Unrecoverable(endpoint.address, reason_of(error)) from None
            wait = attempts.failed(reason_of(error))
            facts = facts_of(attempts, error, wait)
            log("sent_away", **facts) if isinstance(error, TurnedAway) else log("unreachable", **facts)
        if await stopped(stop, wait):
            yield None
            return


async def read(call: Any) -> Any:
    """The next message. What a sound server would not send is refused before anybody looks at it."""
    raw = await call.read()
    if raw is grpc.aio.EOF:
        raise StreamBroken(await call.details() or "the server closed the stream")
    try:
        return from_server(raw)
    except PeerError as error:
        raise StreamBroken(str(error)) from None


def check_refusal(answer: Any, log: Log) -> None:
    """A refusal ends the client if it is final; one that is about no round ends the stream, and the client may come back."""
    if not isinstance(answer, Refusal):
        raise StreamBroken("the server spoke out of turn")
    if answer.round is None and not answer.final:
        raise TurnedAway(answer.reason)
    log("refused", reason=answer.reason, final=answer.final, round=answer.round)
    if answer.final:
        raise Refused(f"the server refuses: {answer.reason}")


def facts_of(attempts: Attempts, error: Exception, wait: float) -> dict[str, Any]:
    """What is known about an attempt that has failed."""
    without = round(attempts.without, 1)
    return {"server": attempts.address, "reason": reason_of(error), "without_it": without, "again_in": round(wait, 2)}


async def stopped(stop: asyncio.Event, wait: float) -> bool:
    """Wait; whether ``stop`` was set meanwhile."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), wait)
    return stop.is_set()


async def _until(reading: Any, stop: asyncio.Event) -> Any:
    """What is read, None if ``stop`` comes first."""
    tasks = asyncio.ensure_future(reading), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
